package idempotency

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/effectonce/effectonce"
)

// Problem is the body of a refusal (RFC 9457). It never looks like an answer of the handler (S7.10).
type Problem struct {
	// Type is Options.Docs with the code as fragment, or a URN.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	// Code is the stable word that a program decides on: one of this package's, or of [effectonce.Registry].
	Code string `json:"code"`
	// Next is what an agent should do, Remedy the same for people.
	Next   effectonce.Advice `json:"next"`
	Remedy string            `json:"remedy,omitempty"`
	// Outcome says how the operation stands, where there is one, and Operation names it.
	Outcome   effectonce.Status `json:"outcome,omitempty"`
	Operation string            `json:"operation,omitempty"`
	// Fields are the parts of the request that differ from the first one.
	Fields []string `json:"fields,omitempty"`
	// RetryAfter is how long to wait before asking again, like 2s; the header has it in whole seconds.
	RetryAfter string `json:"retry_after,omitempty"`
	// Sent says, where the store failed, whether the handler can have run.
	Sent effectonce.Sent `json:"sent,omitempty"`
	// Reference names what the first request created, AnsweredStatus, AnsweredBytes and AnsweredSHA256 describe its answer, where that itself
	// is not kept.
	Reference      string `json:"reference,omitempty"`
	AnsweredStatus int    `json:"answered_status,omitempty"`
	AnsweredBytes  int64  `json:"answered_bytes,omitempty"`
	AnsweredSHA256 string `json:"answered_sha256,omitempty"`
}

// The codes of this package, besides those of [effectonce.Registry].
const (
	CodeKeyMissing    = "idempotency_key_missing"
	CodeKeyMalformed  = "idempotency_key_malformed"
	CodeKeyTooLong    = "idempotency_key_too_long"
	CodeBodyCut       = "body_incomplete"
	CodeBusy          = "busy"
	CodeAnswerNotKept = "answer_not_kept"
)

// own are the problems that no operation is needed for.
func own(code string, detail string) Problem {
	p := Problem{Code: code, Detail: detail, Status: http.StatusBadRequest, Next: effectonce.AdviceStop}
	switch code {
	case CodeKeyMissing:
		p.Title, p.Remedy = "Idempotency-Key is missing", "send a key that is new for each new request and the same for each repeat"
	case CodeKeyMalformed, CodeKeyTooLong:
		p.Title, p.Remedy = "Idempotency-Key is not valid", `send a quoted string like "8e03978e-40d5-43e8-bc93-6894a57f9324"`
	case CodeBodyCut:
		p.Title, p.Remedy, p.Next = "The request was not received whole", "send it again with the same key; nothing ran", effectonce.AdviceRetry
	case CodeBusy:
		p.Title, p.Remedy, p.Status, p.Next = "Too many large requests at once", "send it again with the same key; nothing ran", http.StatusServiceUnavailable, effectonce.AdviceRetry
		p.RetryAfter = time.Second.String()
	case CodeAnswerNotKept:
		p.Title, p.Status = "The request took effect; its answer is not kept", http.StatusGone
		p.Remedy = "do not send it again under another key; read what it created"
	}
	return p
}

// titles are those of the draft, where it has one.
var titles = map[effectonce.Code]string{
	effectonce.CodePayloadMismatch: "Idempotency-Key is already used",
	effectonce.CodeConflict:        "A request is outstanding for this Idempotency-Key",
	effectonce.CodePending:         "A request is outstanding for this Idempotency-Key",
	effectonce.CodeUnknownOutcome:  "The outcome of the first request is not known",
	effectonce.CodeInReview:        "The outcome of the first request is not known; a person decides",
	effectonce.CodeFailed:          "The first request had no effect, and the key is used up",
}

// details say what happened to a client, who knows keys and requests and no operations.
var details = map[effectonce.Code]string{
	effectonce.CodePayloadMismatch: "another request was sent under this key; nothing ran for this one",
	effectonce.CodeConflict:        "a request with this key is being processed; nothing ran for this one",
	effectonce.CodePending:         "a request with this key did nothing yet and may be sent again in a moment",
	effectonce.CodeUnknownOutcome:  "the first request under this key may have taken effect; it does not run again until that is known",
	effectonce.CodeInReview:        "the first request under this key may have taken effect; a person decides what happened",
	effectonce.CodeHeld:            "the request is recorded and waits for a person",
	effectonce.CodeFailed:          "it certainly had no effect, and does not run again under this key",
	effectonce.CodeAbandoned:       "whether it had an effect is not known, and stays so; it does not run again",
	effectonce.CodeExpired:         "it took effect, and its answer is not kept any longer; it does not run again",
	effectonce.CodeForbidden:       "you may not see what was recorded under this key",
}

// problemOf describes an error of the guard. ok is false for a defect, which belongs into the log and not to a client.
func problemOf(outcome effectonce.Outcome, err error) (p Problem, ok bool) {
	var e *effectonce.Error
	if !errors.As(err, &e) {
		e = &effectonce.Error{Code: effectonce.CodeInternal}
	}
	switch e.Code {
	case effectonce.CodeInvalid, effectonce.CodeNotCanonical, effectonce.CodeIntentIncomplete, effectonce.CodePolicyGone, effectonce.CodeStoreBroken:
		// What a client can do wrong has been checked already.
		e = &effectonce.Error{Code: effectonce.CodeInternal}
	}
	kind := effectonce.KindOf(e.Code)
	p = Problem{Title: kind.Title, Status: kind.Status, Code: string(kind.Code), Detail: details[e.Code], Next: kind.Next, Fields: e.Fields, Sent: e.Sent}
	if t := titles[e.Code]; t != "" {
		p.Title = t
	}
	if p.Detail == "" {
		p.Detail = kind.Help
	}
	if p.Status < 300 {
		p.Status = http.StatusConflict
	}
	after := max(e.RetryAfter, outcome.RetryAfter)
	if e.Code == effectonce.CodeConflict {
		after = min(max(after, 100*time.Millisecond), askAgain)
	}
	if after > 0 {
		p.RetryAfter = after.Round(time.Millisecond).String()
	} else if p.Status == http.StatusServiceUnavailable {
		p.RetryAfter = time.Second.String()
	}
	if e.Code == effectonce.CodePending {
		// The client itself has the request, so it is for the client to send it again.
		p.Next = effectonce.AdviceRetry
	}
	if e.Code != effectonce.CodeForbidden && e.Code != effectonce.CodeInternal {
		p.Outcome = outcome.Outcome
		if e.Code != effectonce.CodePayloadMismatch {
			// Whoever asks for something else is not told what there is.
			p.Reference = outcome.Operation.Reference
		}
		if key := outcome.Operation.Key; !key.IsZero() {
			p.Operation = key.String()
		}
	}
	return p, e.Code != effectonce.CodeInternal
}

// refuse writes a problem.
func (m *Middleware) refuse(w http.ResponseWriter, p Problem) {
	p.Type = "urn:effectonce:problem:" + p.Code
	h := w.Header()
	if m.options.Docs != "" {
		p.Type = m.options.Docs + "#" + p.Code
		h.Add("Link", fmt.Sprintf(`<%s>; rel="describedby"; type="text/html"`, m.options.Docs))
	}
	if d, err := time.ParseDuration(p.RetryAfter); err == nil {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Language", "en")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	// The caller may be gone; there is nobody else to tell.
	_ = enc.Encode(p)
}
