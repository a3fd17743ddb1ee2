package egress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/provider"
)

// The headers of an answer to a write.
const (
	HeaderReplayed  = "Effectonce-Replayed"  // true: this answer was recorded before, and nothing was executed for it
	HeaderOperation = "Effectonce-Operation" // the operation's key
	HeaderOutcome   = "Effectonce-Outcome"   // S7.10
	HeaderNext      = "Effectonce-Next"      // S7.10
	HeaderProof     = "Effectonce-Proof"     // what the outcome rests on, where it is no answer to an attempt
	HeaderReference = "Effectonce-Reference" // the provider's id of what was created
)

// reply is an answer that is there as a whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (p reply) write(w http.ResponseWriter) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	if p.status == http.StatusNoContent || p.status == http.StatusNotModified {
		w.WriteHeader(p.status)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
	w.WriteHeader(p.status)
	_, _ = w.Write(p.body) // the caller may be gone; the answer is on record
}

// write sends a write through the guard. Once it is claimed, nothing depends on ctx (S6.6).
func (r *Route) write(ctx context.Context, op *contract.Operation, in *incoming) (reply, error) {
	began := r.o.Now()
	intent, request, err := r.intent(op, in)
	if err != nil {
		return reply{}, err
	}
	call := r.raw.Of(r.raw.Secrets(op, in.Header))
	if err := r.freeze(call, op, &intent, request); err != nil {
		return reply{}, err
	}
	if !r.raw.Held() {
		ctx = context.WithValue(ctx, callersScope{}, intent.RequestScope)
	}
	var to effectonce.Provider = call
	if intent.Run != "" && r.o.InRun != nil {
		to = r.o.InRun(intent.Run, call)
	}
	outcome, err := r.o.Guard.Do(ctx, intent, to, effectonce.WaitFor(r.o.Wait))
	if refused := Access(ctx, outcome.Operation); refused != nil && !outcome.Operation.Key.IsZero() {
		outcome, err = effectonce.Outcome{}, refused
	}
	r.tell(op, outcome, err, r.o.Now().Sub(began))
	return answerOf(op, outcome, err, call)
}

// callersScope is the scope of a caller that brings its own credential, in a context.
type callersScope struct{}

// Access is for [effectonce.Options] of a route's guard: a caller that brings its own credential may see and go on with operations only that were
// recorded under the same one (S5.12, S15.2). It concerns no other calls. Without it a caller with another credential is told nothing either, but an
// unresolved operation that it names goes to review.
func Access(ctx context.Context, op effectonce.Operation) error {
	if scope, ok := ctx.Value(callersScope{}).(string); ok && scope != op.RequestScope {
		return &effectonce.Error{Code: effectonce.CodeForbidden, Field: "credential", Detail: "this intent was recorded under another credential",
			Remedy: "use the credential of the first call; or name the account in the configuration, if it is the same one"}
	}
	return nil
}

// tell logs what was decided about a write, in one line and without anything that the request or the answer said.
func (r *Route) tell(op *contract.Operation, o effectonce.Outcome, err error, took time.Duration) {
	code := "none"
	if err != nil {
		code = string(effectonce.CodeOf(err))
	}
	r.o.Metrics.write(r.o.Name, o, err)
	r.log.Info("write", "route", r.o.Name, "operation", op.Name, "key", o.Operation.Key.Short(), "outcome", string(o.Outcome), "replayed", o.Replayed, "problem", code,
		"attempts", o.Operation.Attempt, "took", took.Round(time.Microsecond).String())
}

// answerOf is what a caller gets: the provider's answer where there is one that settled the operation, or an error.
func answerOf(op *contract.Operation, o effectonce.Outcome, err error, call *provider.RawCall) (reply, error) {
	stored := o.Operation
	var found provider.Answer
	var ok bool
	switch {
	case err == nil:
		found, ok = success(op, stored, call)
		if !ok {
			return reply{}, &notKept{outcome: o}
		}
	case errors.Is(err, effectonce.ErrFailed) && stored.Failure != nil:
		found, ok = provider.ParseAnswer([]byte(stored.Failure.Answer))
	}
	if !ok {
		return reply{}, &standing{outcome: o, cause: err}
	}
	h := found.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	mark(h, o)
	return reply{status: found.Status, header: h, body: found.Body}, nil
}

// success is the answer of an operation that succeeded; false if it is not kept, or has not the form of an answer.
func success(op *contract.Operation, stored effectonce.Operation, call *provider.RawCall) (provider.Answer, bool) {
	if a, ok := provider.ParseAnswer(stored.Result); ok {
		return a, true
	}
	// The first caller gets an answer that is too large to be kept.
	if a, ok := call.Answer(); ok && stored.ResultOmitted == "too_large" && a.Digest() == stored.ResultDigest {
		return a, true
	}
	// A look-up found the resource. It passes for an answer only if clients find the id in it where answers have it: lists often show a
	// resource without what answers put around it.
	if showsReference(op, stored) {
		return provider.Answer{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: stored.Result}, true
	}
	return provider.Answer{}, false
}

// showsReference reports whether a found resource has the operation's reference where the provider's answers have theirs.
func showsReference(op *contract.Operation, stored effectonce.Operation) bool {
	if op.Answer != "" && op.Answer != contract.FormatJSON || op.Reference == "" || stored.Reference == "" {
		return false
	}
	var resource any
	d := json.NewDecoder(bytes.NewReader(stored.Result))
	d.UseNumber() // ids can be large numbers
	return d.Decode(&resource) == nil && op.Reference.Text(resource) == stored.Reference
}

// mark says in headers what S7.10 asks for.
func mark(h http.Header, o effectonce.Outcome) {
	if o.Operation.Key.IsZero() {
		return
	}
	h.Set(HeaderOperation, o.Operation.Key.String())
	if o.Outcome != "" {
		h.Set(HeaderOutcome, string(o.Outcome))
		h.Set(HeaderNext, string(o.Next))
	}
	if o.Replayed {
		h.Set(HeaderReplayed, "true")
	}
	if p := o.Operation.Proof; p != "" && p != effectonce.ProofAnswer && p != effectonce.ProofRejected {
		h.Set(HeaderProof, string(p))
	}
	if ref := o.Operation.Reference; ref != "" && plainText(ref) {
		h.Set(HeaderReference, ref)
	}
}

// plainText reports whether a text that a provider wrote fits into a header.
func plainText(s string) bool {
	for _, c := range s {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}
