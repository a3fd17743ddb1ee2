package idempotency

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// plain runs the handler under a claim.
func (x *exchange) plain() {
	p := &handlerProvider{x: x}
	outcome, err := x.m.guard.Do(x.r.Context(), x.intent, p)
	if x.m.options.Wait > 0 && !x.ran() {
		outcome, err = x.wait(p, outcome, err)
	}
	switch {
	case x.panicked != nil:
		panic(x.panicked)
	case !x.ran():
		x.tell(outcome, err)
	case p.notSent:
		x.deliver(false)
	case err == nil && outcome.Operation.ResultDigest == p.digest:
		x.deliver(true)
	case x.recorder.streaming:
		// Another answer is on record, or none: nobody may take this one for whole (S5.6).
		x.cut()
	default:
		x.tell(outcome, err)
	}
}

// askAgain is when to look again at a request that is under way: it usually ends long before its lease does.
const askAgain = time.Second

// wait lets a duplicate wait for the outcome of the request that is under way, and takes the steps that become due.
func (x *exchange) wait(p *handlerProvider, outcome effectonce.Outcome, err error) (effectonce.Outcome, error) {
	ctx, cancel := context.WithTimeout(x.r.Context(), x.m.options.Wait)
	defer cancel()
	for !x.ran() && ctx.Err() == nil {
		if !errors.Is(err, effectonce.ErrConflict) && !errors.Is(err, effectonce.ErrUnknownOutcome) && !errors.Is(err, effectonce.ErrPending) {
			break
		}
		// The error says how it stands after the pause; the next step says it again.
		_, _ = x.m.guard.Wait(ctx, outcome.Operation.Key, min(max(outcome.RetryAfter, 10*time.Millisecond), askAgain))
		if ctx.Err() == nil {
			outcome, err = x.m.guard.Do(x.r.Context(), x.intent, p)
		}
	}
	return outcome, err
}

// handlerProvider is the handler as the guard sees it: the provider of one request.
type handlerProvider struct {
	x       *exchange
	notSent bool
	digest  canon.Digest
}

// Call implements [effectonce.Provider].
func (p *handlerProvider) Call(ctx context.Context, call effectonce.Call) effectonce.End {
	h := &handling{call: call, hasCall: true}
	answer, ok := p.x.handle(ctx, h)
	switch {
	case !ok:
		return effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: "panic", Message: "the handler panicked"}}
	case h.notSent.Load():
		p.notSent = true
		return effectonce.End{
			Verdict: effectonce.VerdictNotSent,
			Failure: effectonce.Failure{Code: "not_sent", Message: "the handler said that it had no effect", Status: answer.Status},
		}
	}
	end := endOf(answer)
	p.digest = sha256.Sum256(end.Result)
	return end
}

// endOf is the end of a handler that answered. Whatever the status is: that it ran to its end is what is on record, and what a repeat
// gets.
func endOf(answer stored) effectonce.End {
	return effectonce.End{Verdict: effectonce.VerdictSucceeded, Result: answer.encode(), Reference: answer.EffectReference()}
}

// LookUp implements [effectonce.Provider].
func (p *handlerProvider) LookUp(ctx context.Context, call effectonce.Call) (f effectonce.Finding) {
	defer func() {
		if recover() != nil {
			f = effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: "the look-up panicked"}
		}
	}()
	m := p.x.m
	a, found, err := m.options.LookUp(ctx, Query{Key: p.x.key, Request: again(ctx, p.x.r, p.x.body), Call: call})
	switch {
	case err != nil:
		return effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: err.Error()}
	case !found:
		return effectonce.Finding{Found: effectonce.FoundAbsent}
	}
	answer := m.storedOf(a)
	return effectonce.Finding{Found: effectonce.FoundOne, Result: answer.encode(), Reference: answer.EffectReference()}
}

// Scope implements [effectonce.Provider].
func (*handlerProvider) Scope() string { return "" }
