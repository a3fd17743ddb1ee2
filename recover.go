package effectonce

import (
	"context"
	"errors"
)

// reconcile finds out what an unresolved operation did, before anything is sent again: take over, look, decide (S7).
func (g *Guard) reconcile(ctx context.Context, op Operation, p Provider) (Operation, error) {
	op, err := g.apply(ctx, op, TakenOver{Owner: g.options.Owner}, op.AsOf)
	if err != nil {
		return op, err
	}
	finding := g.lookUp(ctx, op, p)
	op, ruling, watch, err := g.decide(ctx, op, finding, p.Scope())
	if err != nil || ruling.Do != DoSend {
		return op, err
	}
	return g.attempt(ctx, op, p, watch)
}

// decideMax bounds how often a decision is made again because the operation changed meanwhile.
const decideMax = 100

// decide rules on an operation that its owner has looked up, and writes the ruling: the start of an attempt, which watch was started
// before, or the end of the ownership. Without a ruling, somebody else owns the operation now, or it is settled.
func (g *Guard) decide(ctx context.Context, op Operation, f Finding, scope string) (_ Operation, r Ruling, watch stopwatch, err error) {
	token := op.Token
	var refused int64
	for range decideMax {
		watch = startWatch(g.options.Clock)
		// Read again: the decision needs the store's present time, and evidence that came meanwhile (S5.8).
		if op, err = g.load(ctx, op.Key); err != nil {
			return op, Ruling{}, watch, err
		}
		if op.State != StateInProgress || op.Token != token {
			return op, Ruling{}, watch, nil
		}
		r = Rule(op, f.Found, scope, op.TakenAt, op.AsOf)
		if op.Version == refused {
			// Nothing has changed since the last ruling could not be written: a person, rather than the same again.
			r = Ruling{Do: DoReview, Line: 12, Reason: "the decision to " + string(r.Do) + " could not be carried out"}
		}
		refused = op.Version
		if r.Do == DoSend {
			op, err = g.startAttempt(ctx, op, r)
		} else {
			op, err = g.persist(ctx, op, Ruled{Token: token, Ruling: r, Finding: f}, op.AsOf)
		}
		if !errors.Is(err, errChanged) && !errors.Is(err, ErrStaleVersion) {
			return op, r, watch, err
		}
	}
	return op, Ruling{}, watch, &Error{Code: CodeConflict, Key: op.Key, Detail: "it keeps changing", RetryAfter: op.Terms.Backoff}
}

// startAttempt writes the attempt's row before a resend (S5.10); with a permission it opens a new epoch of the downstream key.
func (g *Guard) startAttempt(ctx context.Context, op Operation, r Ruling) (Operation, error) {
	cause := AttemptStarted{Token: op.Token, Line: r.Line}
	if op.Permission != nil {
		secret, err := g.installationSecret(ctx)
		if err != nil {
			return op, err
		}
		cause.DownstreamKey = DownstreamKey(secret, op.Key, op.Epoch+1, op.Terms.KeyForm)
	}
	return g.persist(ctx, op, cause, op.AsOf)
}

// lookUp asks the provider what the operation did. In another scope it would conclude nothing, so it is not asked (S3.10).
func (g *Guard) lookUp(ctx context.Context, op Operation, p Provider) Finding {
	if !op.Terms.LookUp || p.Scope() != op.RequestScope {
		return Finding{}
	}
	// It must leave time for a decision under the lease of the take-over.
	within := min(op.Terms.CallTimeout, op.Terms.Lease()/2)
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	f := p.LookUp(cctx, op.call(within))
	end := End{Result: f.Result, Omitted: f.Omitted, Digest: f.Digest}.bounded()
	f.Result, f.Omitted, f.Digest = end.Result, end.Omitted, end.Digest
	switch f.Found {
	case FoundOne, FoundMany, FoundAbsent, FoundUnavailable:
		return f
	}
	return Finding{Found: FoundUnavailable, Detail: "the look-up gave no answer"}
}

// Work takes the step that is due for an operation without its caller (S7.5): it expires, executes or reconciles it, and parks
// what only the caller can do. It is for background workers; op comes from [Store.Due]. Losing a race is no error.
func (g *Guard) Work(ctx context.Context, op Operation) (Operation, error) {
	done, err := g.running.begin()
	if err != nil {
		return op, err
	}
	defer done()
	p := g.providerOf(op)
	switch {
	case op.State == StatePending && !op.AsOf.Before(op.expiresAt()):
		op, err = g.apply(ctx, op, Expired{}, op.AsOf)
	case op.State == StatePending && op.Hold != HoldNone:
		return op, nil
	case op.State == StatePending && p == nil:
		op, err = g.apply(ctx, op, Parked{}, op.AsOf)
	case p == nil && (op.State == StateUnknown || op.LeaseOver(op.AsOf)):
		op, err = g.park(ctx, op)
	default:
		return g.advance(ctx, op, p)
	}
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotAllowed) || errors.Is(err, errChanged) {
		return g.load(ctx, op.Key)
	}
	return op, err
}

func (g *Guard) providerOf(op Operation) Provider {
	if g.options.Providers == nil || !op.Terms.Managed {
		return nil
	}
	return g.options.Providers(op)
}

// park reconciles as far as is possible without the provider: evidence completes the operation, an open window or settle time
// leaves it to its caller, and after that a person decides (S3.10).
func (g *Guard) park(ctx context.Context, op Operation) (Operation, error) {
	op, err := g.apply(ctx, op, TakenOver{Owner: g.options.Owner}, op.AsOf)
	if err != nil {
		return op, err
	}
	r := Rule(op, FoundNone, op.RequestScope, op.TakenAt, op.AsOf)
	switch {
	case r.Do == DoComplete, r.Do == DoFail:
	case op.AsOf.Before(op.waitsForCaller()):
		return g.persist(ctx, op, Parked{Token: op.Token}, op.AsOf)
	case r.Do != DoReview:
		r = Ruling{Do: DoReview, Line: 12, Reason: "the caller, who holds the effect, did not come back in time"}
	}
	return g.persist(ctx, op, Ruled{Token: op.Token, Ruling: r}, op.AsOf)
}
