package egress

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// The tools under which observations are recorded: the first request of an intent, and each one that would have been held back.
const (
	ObservedPrefix = "observed."
	HeldBackPrefix = "held_back."
)

// Why a write would have been held back.
const (
	whyRepeat     = "repeat"            // the recorded answer would have been given
	whyInProgress = "in_progress"       // the first request was still under way
	whyMismatch   = "payload_mismatch"  // other arguments under the same intent
	whyNoIntent   = "no_intent"         // refused: it names none
	whyUnreadable = "not_valid"         // refused: the request cannot be read, or lacks what the policy needs
	whyTooLarge   = "too_large"         // refused
	whyStore      = "store_unavailable" // refused: nothing could be recorded, this neither
)

// observation is what is kept of a write that would have been held back.
type observation struct {
	IntentID  string   `json:"intent_id,omitempty"`
	Operation string   `json:"operation"`
	Why       string   `json:"why"`
	Fields    []string `json:"fields,omitempty"`
	Detail    string   `json:"detail,omitempty"`
	// Of is the observed operation that it repeats.
	Of string `json:"of,omitempty"`
}

// observe passes a write as it is, and records what the guard would have done about it (S14.8). Nothing about the observation can hold the write
// back, not even a store that does not answer.
func (r *Route) observe(w http.ResponseWriter, request *http.Request, op *contract.Operation, in *incoming, which kind) {
	done := r.watch(request.Context(), op, in, which)
	seen := &statusWriter{ResponseWriter: w}
	defer func() { done(seen.status) }()
	r.pass(seen, request, in)
}

// watch records a write before it is sent; the function that it returns records that it was.
func (r *Route) watch(ctx context.Context, op *contract.Operation, in *incoming, which kind) (done func(status int)) {
	nothing := func(int) {}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), observeWithin)
	defer cancel()
	name := "undescribed"
	if op != nil {
		name = op.Name
	}
	seen := observation{Operation: name, IntentID: in.ask.id}
	switch which {
	case kindUndescribed:
		seen.Why, seen.Detail = CodeUndescribed, in.Method
		r.heldBack(ctx, r.ToolName(name), seen)
		return nothing
	case kindTooLarge:
		seen.Why = whyTooLarge
		r.heldBack(ctx, r.ToolName(name), seen)
		return nothing
	}
	intent, _, err := r.intent(op, in)
	if err != nil {
		var missing *missingIntent
		seen.Why, seen.Detail = whyUnreadable, detail(err)
		if errors.As(err, &missing) {
			seen.Why, seen.Detail = whyNoIntent, ""
		}
		r.heldBack(ctx, r.ToolName(name), seen)
		return nothing
	}
	tool := intent.Tool
	seen.IntentID = intent.ID
	intent.Tool = ObservedPrefix + tool
	intent.Formerly, intent.Limits, intent.Request, intent.RequestScope, intent.Resource = nil, nil, nil, "", ""
	intent.Terms = effectonce.Terms{Policy: intent.Terms.Policy, Results: intent.Terms.Results}
	claim, err := r.o.Guard.Claim(ctx, intent)
	if !claim.Operation.Key.IsZero() {
		seen.Of = claim.Operation.Key.String()
	}
	var known *effectonce.Error
	switch {
	case err == nil && claim.Do == effectonce.TaskExecute:
		return func(status int) { r.settle(claim, map[string]any{"observed": true, "http_status": status}) }
	case err == nil && claim.Do == effectonce.TaskDone:
		seen.Why = whyRepeat
	case err == nil, errors.Is(err, effectonce.ErrConflict):
		seen.Why = whyInProgress
	case errors.Is(err, effectonce.ErrPayloadMismatch):
		errors.As(err, &known)
		seen.Why, seen.Fields = whyMismatch, known.Fields
	case errors.Is(err, effectonce.ErrStoreUnavailable), errors.Is(err, effectonce.ErrStoreBroken):
		seen.Why = whyStore
	default:
		seen.Why, seen.Detail = whyUnreadable, detail(err)
	}
	r.heldBack(ctx, tool, seen)
	return nothing
}

// observeWithin bounds what an observation may cost a write.
const observeWithin = 5 * time.Second

// heldBack records a write that would not have been sent.
func (r *Route) heldBack(ctx context.Context, tool string, seen observation) {
	r.o.Metrics.heldBack(r.o.Name, seen.Why)
	r.log.Warn("observed: this write would have been held back", "route", r.o.Name, "tool", tool, "operation", seen.Operation, "why", seen.Why, "of", seen.Of)
	if seen.Why == whyStore {
		return
	}
	var b [8]byte
	random := r.o.Random
	if random == nil {
		random = rand.Reader
	}
	if _, err := io.ReadFull(random, b[:]); err != nil {
		r.log.Error("an observation could not be recorded", "route", r.o.Name, "error", err)
		return
	}
	id := seen.IntentID
	if id == "" || len(id) > 400 {
		id = seen.Operation
	}
	business, err := json.Marshal(seen)
	if err != nil {
		return
	}
	claim, err := r.o.Guard.Claim(ctx, effectonce.Intent{Tool: HeldBackPrefix + tool, ID: id + "#" + hex.EncodeToString(b[:]), Business: business})
	if err != nil {
		r.log.Error("an observation could not be recorded", "route", r.o.Name, "code", string(effectonce.CodeOf(err)))
		return
	}
	r.settle(claim, seen)
}

// settle ends an observation: as such it succeeded, whatever became of the write.
func (r *Route) settle(claim effectonce.Claim, result any) {
	b, err := json.Marshal(result)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), observeWithin)
	defer cancel()
	if _, err := r.o.Guard.Settle(ctx, claim.Operation.Key, claim.Token, effectonce.End{Verdict: effectonce.VerdictSucceeded, Result: b}); err != nil {
		r.log.Error("an observation could not be recorded", "route", r.o.Name, "code", string(effectonce.CodeOf(err)))
	}
}

// statusWriter remembers the status that was answered; 0 if none was.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
