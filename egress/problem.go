package egress

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Problem is the body of an answer that is not the provider's (RFC 9457). It never looks like one of its successes or failures (S7.10).
type Problem struct {
	// Type is where the daemon explains the code, or a URN.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Code is the stable word that a program decides on: of [effectonce.Registry], or one of this package's.
	Code       string            `json:"code"`
	Detail     string            `json:"detail"`
	Field      string            `json:"field,omitempty"`
	Fields     []string          `json:"fields,omitempty"`
	Remedy     string            `json:"remedy"`
	Next       effectonce.Advice `json:"next"`
	Outcome    effectonce.Status `json:"outcome,omitempty"`
	Operation  string            `json:"operation,omitempty"`
	Reference  string            `json:"reference,omitempty"`
	Limit      string            `json:"limit,omitempty"`
	HeldBy     []string          `json:"held_by,omitempty"`
	RetryAfter string            `json:"retry_after,omitempty"`
	Sent       effectonce.Sent   `json:"sent,omitempty"`
	// Error is the same in the form in which many providers' clients look for it, so that their messages say it.
	Error ProblemError `json:"error"`

	again   bool
	outcome effectonce.Outcome
}

// ProblemError is the code and detail of a problem.
type ProblemError struct {
	Type    string `json:"type"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The problems of this package that have no operation.
const (
	CodeUpgrade        = "upgrade_refused"
	CodeUpstream       = "provider_unreachable"
	CodeAnswerNotKept  = "answer_not_kept"
	CodeNoRoute        = "no_route"
	CodeBodyIncomplete = "body_incomplete"
	CodeNotAProxy      = "not_a_proxy"
)

// standing is how an operation stands that did not end with an answer of the provider's.
type standing struct {
	outcome effectonce.Outcome
	cause   error
}

func (e *standing) Error() string { return e.cause.Error() }
func (e *standing) Unwrap() error { return e.cause }

// notKept is a success of which no answer is there to be given back.
type notKept struct{ outcome effectonce.Outcome }

func (e *notKept) Error() string { return "the operation took effect, and its answer is not kept" }

// undescribed is a write that the contract does not describe.
type undescribed struct{ contract, method, path string }

func (e *undescribed) Error() string {
	return "contract " + e.contract + " describes no such request"
}

// misdirected is a request that no route can take.
type misdirected struct{ code, detail, remedy string }

func (e *misdirected) Error() string { return e.detail }

// statuses are the statuses where the API's would be wrong here. A client that was made for a provider takes 2xx for its success, and repeats 408,
// 429 and 5xx (and 409, in some) by itself. What only a person, or another request, can change is therefore none of these. 409 is what waiting
// changes: a repeat is the same intent, and waits again. See docs/egress.md.
var statuses = map[effectonce.Code]int{
	effectonce.CodeConflict:       http.StatusConflict,
	effectonce.CodePending:        http.StatusConflict,
	effectonce.CodeUnknownOutcome: http.StatusConflict,
	effectonce.CodeInReview:       http.StatusLocked,
	effectonce.CodeHeld:           http.StatusLocked,
	effectonce.CodeAbandoned:      http.StatusGone,
	effectonce.CodeExpired:        http.StatusGone,
	effectonce.CodeFailed:         http.StatusFailedDependency,
	effectonce.CodeLimitExceeded:  http.StatusForbidden,
	effectonce.CodeTwinRejected:   http.StatusForbidden,
	effectonce.CodeRunFinished:    http.StatusForbidden,
	effectonce.CodePolicyGone:     http.StatusUnprocessableEntity,
	effectonce.CodeStaleVersion:   http.StatusConflict,
}

// problemOf describes an error; ok is false for a defect.
func problemOf(err error) (p Problem, ok bool) {
	var (
		missing *missingIntent
		unknown *undescribed
		kept    *notKept
		astray  *misdirected
		gone    *unreachable
		body    *bodyError
		known   *effectonce.Error
	)
	p.Next = effectonce.AdviceStop
	switch {
	case errors.As(err, &missing):
		p.Status, p.Code, p.Title = http.StatusBadRequest, CodeIntentMissing, "The write names no intent"
		p.Detail = "operation " + missing.operation + " has an effect; nothing was sent"
		p.Remedy = "send " + HeaderIntent + " with the business id of what is to happen, like refund:order-8812:ticket-5521, the same on every repeat; or give the operation a tool with intent_id, and the route intents: derive"
	case errors.As(err, &unknown):
		p.Status, p.Code, p.Title = http.StatusForbidden, CodeUndescribed, "Nobody described this write"
		p.Detail = "contract " + unknown.contract + " has no operation for this " + unknown.method + ", so that nothing is known about repeats of it; nothing was sent"
		p.Remedy = "add the operation to a contract of your own (docs/contracts.md); or say undescribed: pass on the route, and it passes unguarded"
	case errors.As(err, &kept):
		p.Status, p.Code, p.Title = http.StatusGone, CodeAnswerNotKept, "It took effect; its answer is not kept"
		p.Detail, p.Remedy = "the operation succeeded, and there is no answer in the provider's form to give back", "do not repeat it; read what it created by its reference, or as effectonce ops show has it"
		p.about(kept.outcome)
		return p.finished(), true
	case errors.As(err, &astray):
		p.Status, p.Code, p.Title, p.Detail, p.Remedy = http.StatusBadRequest, astray.code, "This is no request for a route", astray.detail, astray.remedy
		if astray.code == CodeNoRoute {
			p.Status = http.StatusNotFound
		}
	case errors.Is(err, errUpgrade):
		p.Status, p.Code, p.Title = http.StatusBadRequest, CodeUpgrade, "Other protocols are refused"
		p.Detail, p.Remedy = "the request asks for another protocol, in which writes could not be told from reads", "use the provider's HTTP API"
	case errors.As(err, &gone):
		p.Status, p.Code, p.Title, p.Next, p.again = http.StatusBadGateway, CodeUpstream, "The provider gave no answer", effectonce.AdviceRetry, true
		if gone.timeout {
			p.Status = http.StatusGatewayTimeout
		}
		p.Detail, p.Remedy = "a request that passes the proxy got no answer", "ask again"
	case errors.As(err, &body):
		p.Status, p.Code, p.Title, p.Next, p.again = http.StatusBadRequest, CodeBodyIncomplete, "The request was not received whole", effectonce.AdviceRetry, true
		p.Detail, p.Remedy = "the body ended early or came too slowly; nothing was sent", "send it again"
	default:
		if !errors.As(err, &known) {
			known = &effectonce.Error{Code: effectonce.CodeInternal}
		}
		p.known(known, err)
		return p.finished(), known.Code != effectonce.CodeInternal && known.Code != effectonce.CodeStoreBroken
	}
	return p.finished(), true
}

// known describes an error of the registry.
func (p *Problem) known(e *effectonce.Error, err error) {
	kind := effectonce.KindOf(e.Code)
	p.Status, p.Code, p.Title, p.Detail, p.Remedy, p.Next = kind.Status, string(kind.Code), kind.Title, e.Detail, e.Remedy, kind.Next
	if status, ok := statuses[kind.Code]; ok {
		p.Status = status
	}
	p.Field, p.Fields, p.Sent, p.Limit = e.Field, e.Fields, e.Sent, e.Limit
	for _, k := range e.HeldBy {
		p.HeldBy = append(p.HeldBy, k.String())
	}
	if e.RetryAfter > 0 {
		p.RetryAfter = e.RetryAfter.Round(time.Millisecond).String()
	}
	if !e.Key.IsZero() {
		p.Operation = e.Key.String()
	}
	var form *canon.Error
	if errors.As(e.Cause, &form) {
		p.Detail = strings.TrimPrefix(p.Detail+": "+form.Detail, ": ")
		if p.Remedy == "" {
			p.Remedy = form.Remedy
		}
	}
	var s *standing
	if errors.As(err, &s) {
		p.about(s.outcome)
	}
	if p.Next == effectonce.AdviceRetry || p.Next == effectonce.AdviceWait {
		p.again = true
		if p.RetryAfter == "" {
			p.RetryAfter = time.Second.String()
		}
	}
	if p.Detail == "" {
		p.Detail = kind.Help
	}
	if p.Remedy == "" {
		p.Remedy = kind.Help
	}
}

// about names the operation.
func (p *Problem) about(o effectonce.Outcome) {
	if o.Operation.Key.IsZero() {
		return
	}
	p.outcome = o
	p.Operation, p.Reference = o.Operation.Key.String(), o.Operation.Reference
	if o.Outcome != "" {
		p.Outcome, p.Next = o.Outcome, o.Next
	}
}

func (p Problem) finished() Problem {
	p.Type = "urn:effectonce:problem:" + p.Code
	if slices.ContainsFunc(effectonce.Registry, func(k effectonce.ErrorKind) bool { return string(k.Code) == p.Code }) {
		p.Type = "/errors/" + p.Code
	}
	p.Error = ProblemError{Type: "effectonce", Code: p.Code, Message: "effectonce: " + p.Title + ": " + p.Detail}
	return p
}

// reply is the problem as an answer.
func (p Problem) reply() reply {
	h := http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"}}
	if d, err := time.ParseDuration(p.RetryAfter); err == nil {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
	}
	if !p.again {
		// What some clients ask for before they repeat by themselves.
		h.Set("Stripe-Should-Retry", "false")
		h.Set("X-Should-Retry", "false")
	}
	mark(h, p.outcome)
	h.Set(HeaderNext, string(p.Next))
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(p) // texts and numbers only
	return reply{status: p.Status, header: h, body: []byte(b.String())}
}

// refuse answers with a problem.
func (r *Route) refuse(w http.ResponseWriter, err error) { r.problem(err).reply().write(w) }

// problem describes an error, counts it, and logs a defect.
func (r *Route) problem(err error) Problem {
	p, ok := problemOf(err)
	if !ok {
		r.log.Error("a request failed", "route", r.o.Name, "code", p.Code, "error", causeText(err))
	}
	r.o.Metrics.problem(r.o.Name, p.Code)
	return p
}

// causeText is an error without what a transport's error says about addresses.
func causeText(err error) string {
	var known *effectonce.Error
	if errors.As(err, &known) {
		return known.Error()
	}
	return err.Error()
}
