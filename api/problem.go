package api

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Problem is a refusal (RFC 9457). A refusal never looks like a failure of the tool: that is an operation whose outcome is
// failed (S7.10).
type Problem struct {
	Type       string     `json:"type" doc:"Where the code is explained, relative to this server." example:"/errors/payload_mismatch"`
	Title      string     `json:"title" doc:"One line about the code."`
	Status     int        `json:"status" doc:"The HTTP status."`
	Code       string     `json:"code" doc:"The stable word that a program decides on."`
	Detail     string     `json:"detail" doc:"What happened, for people."`
	Field      string     `json:"field,omitempty" doc:"The input at fault, as a path: arguments.amount."`
	Fields     []string   `json:"fields,omitempty" doc:"For payload_mismatch: the business arguments that differ."`
	Limit      string     `json:"limit,omitempty" doc:"For limit_exceeded: the limit that would be exceeded."`
	HeldBy     []string   `json:"held_by,omitempty" doc:"For limit_exceeded: keys of operations that hold it, at most ten; those that are not settled may give it back."`
	Remedy     string     `json:"remedy" doc:"What to do about it, for people."`
	Next       string     `json:"next" enum:"use_result,wait,retry_after,stop_and_report,new_intent" doc:"What an agent should do now."`
	RetryAfter string     `json:"retry_after,omitempty" doc:"How long to wait before asking again, like 2s."`
	Sent       string     `json:"sent,omitempty" enum:"no,unknown" doc:"For store_unavailable: whether a request can have reached the provider."`
	Key        string     `json:"key,omitempty" doc:"The operation concerned."`
	Operation  *Operation `json:"operation,omitempty" doc:"The operation as it stands, for conflict, stale_token, stale_version, not_allowed and expired where it is known."`
}

// refused is an error together with the operation that it is about.
type refused struct {
	err     error
	outcome effectonce.Outcome
}

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// status is an error with another HTTP status than its code's: for what HTTP says by status alone.
type status struct {
	cause  *effectonce.Error
	status int
	header http.Header
}

func (s *status) Error() string { return s.cause.Error() }
func (s *status) Unwrap() error { return s.cause }

func invalid(field, detail, remedy string) *effectonce.Error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}

// shows lists the codes whose problem shows the operation as it stands.
var shows = map[effectonce.Code]bool{
	effectonce.CodeConflict: true, effectonce.CodeStaleToken: true, effectonce.CodeStaleVersion: true, effectonce.CodeNotAllowed: true,
	effectonce.CodeExpired: true,
}

// problemOf describes an error. ok is false for an error that is a defect and needs a line in the log.
func problemOf(err error) (p Problem, ok bool) {
	var e *effectonce.Error
	if !errors.As(err, &e) {
		e = &effectonce.Error{Code: effectonce.CodeInternal}
	}
	kind := effectonce.KindOf(e.Code)
	p = Problem{
		Type: "/errors/" + string(kind.Code), Title: kind.Title, Status: kind.Status, Code: string(kind.Code), Detail: e.Detail,
		Field: e.Field, Fields: e.Fields, Remedy: e.Remedy, Next: string(kind.Next), RetryAfter: pause(e.RetryAfter),
		Sent: string(e.Sent), Key: text(e.Key), Limit: e.Limit,
	}
	for _, k := range e.HeldBy {
		p.HeldBy = append(p.HeldBy, text(k))
	}
	var c *canon.Error
	if errors.As(e.Cause, &c) {
		p.Field = pathOf(p.Field, c.Path)
		if p.Detail == "" {
			p.Detail = c.Detail
		}
		if p.Remedy == "" {
			p.Remedy = c.Remedy
		}
	}
	if p.Detail == "" {
		p.Detail = kind.Title
	}
	if p.Remedy == "" {
		p.Remedy = remedies[kind.Code]
	}
	if p.Remedy == "" {
		p.Remedy = kind.Help
	}
	var s *status
	if errors.As(err, &s) {
		p.Status = s.status
	}
	var r *refused
	if !errors.As(err, &r) {
		return p, e.Code != effectonce.CodeInternal
	}
	if p.Key == "" && e.Code != effectonce.CodeForbidden {
		p.Key = text(r.outcome.Operation.Key)
	}
	if shows[e.Code] && r.outcome.Operation.State != "" {
		op := view(r.outcome)
		p.Operation = &op
		if p.RetryAfter == "" && kind.Next == effectonce.AdviceRetry {
			p.RetryAfter = op.RetryAfter
		}
	}
	return p, e.Code != effectonce.CodeInternal
}

// remedies say what to do where an error does not say it itself.
var remedies = map[effectonce.Code]string{
	effectonce.CodeInvalid:          "correct the named field; the OpenAPI document at /openapi.json has the types and ranges",
	effectonce.CodeNotCanonical:     "send each name once, whole UTF-8, and numbers that a double can carry (larger ones as text)",
	effectonce.CodeIntentIncomplete: "give the named argument; POST /v1/explain shows what the intent id is made of",
	effectonce.CodeUnknownTool:      "add the tool to the configuration, or use POST /v1/claims",
	effectonce.CodeTooLarge:         "send less, or a reference to what is large",
	effectonce.CodeNotFound:         "check the key; effectonce ops ls, or GET /v1/operations, shows recent ones",
	effectonce.CodeForbidden:        "ask somebody who may see or do this",
	effectonce.CodePayloadMismatch:  "repeat it with the recorded arguments, or record a successor with a reason (supersedes)",
	effectonce.CodePolicyGone:       "ask an installation that has the policy version of the first claim, or bring it back into the configuration",
	effectonce.CodeConflict:         "ask again with the same intent after retry_after, or wait with ?wait=30s; do not execute it yourself",
	effectonce.CodeStaleToken:       "discard your own result and use the operation as it stands; a success that you reported is kept as evidence",
	effectonce.CodeStaleVersion:     "read the operation again (effectonce ops show), and decide again with its version",
	effectonce.CodeNotAllowed:       "read the operation as it stands; effectonce ops show says what can be decided about it",
	effectonce.CodeTwinRejected:     "look at the operation named by key; if both are wanted, a person changes the policy's twins",
	effectonce.CodeSupersede:        "wait until the predecessor is final, or supersede it with force and a reason; a person then approves",
	effectonce.CodeExpired:          "use the reference; the effect is at the provider, and nothing executes again",
	effectonce.CodeLimitExceeded:    "GET /v1/limits?name=… shows what holds the limit; a person resolves what is not settled, or raises the limit",
	effectonce.CodeRunFinished:      "begin another run",
	effectonce.CodeShuttingDown:     "ask again with the same intent in a moment; nothing was sent",
	effectonce.CodeStoreUnavailable: "ask again with the same intent; what can have been sent is reconciled first",
	effectonce.CodeStoreBroken:      "the daemon's log has the cause; free the disk, correct the permissions, or restore the store",
	effectonce.CodeClockStepped:     "correct the clock of the machine, and ask again when it has caught up",
	effectonce.CodeInternal:         "this is a defect; the daemon's log has the details",
}

// fieldRunesMax bounds how much of a name that strangers chose comes back.
const fieldRunesMax = 200

// pathOf appends an RFC 6901 pointer to a field's name, in the dotted form of [effectonce.Error].
func pathOf(field, pointer string) string {
	for _, name := range strings.Split(pointer, "/")[1:] {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		if field != "" {
			field += "."
		}
		field += name
	}
	if r := []rune(field); len(r) > fieldRunesMax {
		field = string(r[:fieldRunesMax]) + "..."
	}
	return field
}

// refuse writes an error as a problem document.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, ok := problemOf(err)
	if !ok || p.Code == string(effectonce.CodeStoreBroken) {
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "code", p.Code, "error", err)
	}
	var st *status
	if errors.As(err, &st) {
		for name, values := range st.header {
			w.Header()[name] = values
		}
	}
	setRetryAfter(w.Header(), p.RetryAfter)
	if p.Operation != nil && p.Operation.Replayed {
		w.Header().Set("Effectonce-Replayed", "true")
	}
	s.metrics.problem(p.Code)
	w.Header().Set("Content-Type", "application/problem+json")
	s.encode(w, p.Status, p)
}

// setRetryAfter sets the header, in whole seconds as HTTP has it, from a duration's text.
func setRetryAfter(h http.Header, d string) {
	if v, err := time.ParseDuration(d); err == nil && v > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(v.Seconds()))))
	}
}

// encode writes a JSON body. Characters are left as they are: the body is not HTML.
func (s *server) encode(w http.ResponseWriter, code int, body any) {
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil {
		s.log.Debug("an answer could not be written", "error", err)
	}
}
