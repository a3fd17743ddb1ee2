package effectonce

import (
	"context"
	"errors"
	"time"
)

// This file is external execution: the caller has the effect itself, and Effectonce the claim, the fence and the record.

// Task is what the holder of a claim has to do next.
type Task string

// The tasks.
const (
	TaskExecute Task = "execute" // send it, within SendWithin
	TaskLookUp  Task = "look_up" // look before resending, then report with LookedUp
	TaskDone    Task = "done"    // settled; use the outcome
	TaskWait    Task = "wait"    // not settled; ask again after RetryAfter
	TaskReview  Task = "review"  // a person decides
)

// Claim is the answer to [Guard.Claim] and its follow-ups.
type Claim struct {
	Outcome
	Do Task
	// Token is the fencing token that every follow-up must carry. It is 0 where the caller owns nothing.
	Token int64
	// SendWithin is the time within which the last byte must have been sent and the answer read, LeaseFor when the lease ends;
	// both count from before the caller's request, so that no clocks need to agree (S5.4).
	SendWithin, LeaseFor time.Duration
	// DownstreamKey goes to the provider as its idempotency key; Stamp onto what is created.
	DownstreamKey, Stamp string
	// Window is how long the provider certainly still remembers the key; 0 for not, or unknown.
	Window time.Duration
	// LastAttempt is the number of the attempt whose end is not known, for TaskLookUp.
	LastAttempt int
}

// Claim records the intent and leases its operation to the caller, who then executes it and reports how it ended with
// [Guard.Settle]. Where the operation exists, the answer is its outcome, or [ErrConflict] while somebody else holds the lease; an
// unresolved one is given to the caller to look up first (S7.8). Errors are those of [Guard.Do].
func (g *Guard) Claim(ctx context.Context, in Intent, opts ...Option) (Claim, error) {
	done, err := g.running.begin()
	if err != nil {
		return Claim{}, err
	}
	defer done()
	var o callOptions
	for _, f := range opts {
		f(&o)
	}
	in.Terms.Managed = false
	total := startWatch(g.options.Clock)
	op, created, err := g.record(ctx, in, true)
	if err != nil {
		return Claim{Outcome: Outcome{Operation: op}}, err
	}
	for {
		if created && op.State == StateInProgress {
			g.options.Breaker.started(op.circuit())
			return claimOf(op, TaskExecute), nil
		}
		var c Claim
		if c, err = g.takeUp(ctx, op, in.Actor); err == nil || !errors.Is(err, ErrConflict) || total.elapsed() >= o.wait {
			return c, err
		}
		if op, err = g.pause(ctx, c.Operation, o.wait-total.elapsed()); err != nil {
			return Claim{Outcome: Outcome{Operation: op}}, err
		}
	}
}

// takeUp gives an existing operation to a caller who asks for it, if nobody owns it.
func (g *Guard) takeUp(ctx context.Context, op Operation, actor string) (Claim, error) {
	var cause Cause
	task := TaskExecute
	switch {
	case op.State.Final(), op.State == StateReview, op.Hold != HoldNone, op.Terms.Managed:
		// A managed operation is executed here and never handed out.
		return settledClaim(op, true), nil
	case op.State != StateInProgress && !g.due(op):
		return settledClaim(op, true), nil
	case op.State == StatePending:
		if wait := g.options.Breaker.wait(op.circuit()); wait > 0 {
			op, err := g.apply(ctx, op, Parked{After: wait, Reason: heldBack(wait)}, op.AsOf)
			return settledClaim(op, true), err
		}
		g.options.Breaker.started(op.circuit())
		cause = Claimed{Owner: g.options.Owner, Actor: actor}
	default:
		cause, task = TakenOver{Owner: g.options.Owner, Actor: actor}, TaskLookUp
	}
	next, err := g.apply(ctx, op, cause, op.AsOf)
	if err == nil {
		return claimOf(next, task), nil
	}
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotAllowed) {
		if next.State.Final() || next.State == StateReview {
			return settledClaim(next, true), nil
		}
		outcome := OutcomeOf(next, false)
		return Claim{Outcome: outcome}, &Error{Code: CodeConflict, Key: op.Key, Detail: "somebody else is executing it", RetryAfter: outcome.RetryAfter}
	}
	return Claim{Outcome: Outcome{Operation: op}}, err
}

// Settle records how the attempt under token ended (S6). A stale token changes nothing: the error is [ErrStaleToken] and the
// outcome shows the operation as it stands; a success is then kept as evidence (S5.8).
func (g *Guard) Settle(ctx context.Context, key Key, token int64, end End) (Outcome, error) {
	op, err := g.owned(ctx, key)
	if err != nil {
		return Outcome{}, err
	}
	end = end.bounded()
	next, err := g.apply(ctx, op, AttemptEnded{Token: token, End: end}, op.AsOf)
	if err == nil {
		g.options.Breaker.report(op.circuit(), end.Verdict)
	}
	if !errors.Is(err, ErrStaleToken) {
		if errors.Is(err, ErrNotAllowed) {
			err = &Error{Code: CodeNotAllowed, Key: key, Detail: "this token took the operation over and has not sent anything", Remedy: "report the look-up with looked_up first"}
		}
		return OutcomeOf(next, false), err
	}
	return g.lateSettle(ctx, next, token, end, err)
}

// lateSettle answers a report under a token that is not current. The same report again, after its answer was lost, is no error;
// the success of a holder that was taken over is kept, if the token really was given for an attempt.
func (g *Guard) lateSettle(ctx context.Context, op Operation, token int64, end End, stale error) (Outcome, error) {
	dctx, cancel := g.detached(ctx)
	defer cancel()
	events, err := g.store.Events(dctx, op.Key)
	if err != nil {
		return Outcome{Operation: op}, err
	}
	for _, e := range events {
		if e.Token == token && e.Kind == EventAttemptEnded && e.Verdict == end.Verdict && e.Reference == end.Reference {
			return OutcomeOf(op, true), nil
		}
	}
	for _, e := range events {
		if !e.Sends || e.Token != token || end.Verdict != VerdictSucceeded {
			continue
		}
		late, err := g.late(ctx, Operation{Key: op.Key, Attempt: e.Attempt, Epoch: e.Epoch}, end)
		if err != nil {
			return Outcome{Operation: op}, err
		}
		if late.State == StateSucceeded && late.Reference == end.Reference && late.ResultDigest == end.Digest {
			// The same report again, or evidence that settled the operation: either way it is on record.
			return OutcomeOf(late, true), nil
		}
		return OutcomeOf(late, true), stale
	}
	return OutcomeOf(op, true), stale
}

// LookedUp records what the holder of a take-over found, and says what to do now (S7.3): execute again, wait, or nothing more.
func (g *Guard) LookedUp(ctx context.Context, key Key, token int64, f Finding) (Claim, error) {
	switch f.Found {
	case FoundOne, FoundMany, FoundAbsent, FoundUnavailable:
	default:
		return Claim{}, invalid("found", "is not an answer of a look-up", "use one, many, absent or unavailable")
	}
	end := End{Result: f.Result, Digest: f.Digest, Omitted: f.Omitted}.bounded()
	f.Result, f.Digest, f.Omitted = end.Result, end.Digest, end.Omitted
	op, err := g.owned(ctx, key)
	if err != nil {
		return Claim{}, err
	}
	op.Token = token
	op, ruling, _, err := g.decide(ctx, op, f, op.RequestScope)
	switch {
	case err != nil:
		return Claim{Outcome: OutcomeOf(op, false)}, err
	case ruling.Do == "":
		return Claim{Outcome: OutcomeOf(op, true)}, &Error{Code: CodeStaleToken, Key: key, Detail: "somebody else took the operation over, or it is settled"}
	case ruling.Do == DoSend:
		return claimOf(op, TaskExecute), nil
	}
	return settledClaim(op, false), nil
}

// Heartbeat extends the lease under token and returns how long it now is; [ErrStaleToken] means stop: the operation is
// somebody else's, or settled (S5.4). It never extends beyond the terms' cap.
func (g *Guard) Heartbeat(ctx context.Context, key Key, token int64) (time.Duration, error) {
	op, err := g.owned(ctx, key)
	if err != nil {
		return 0, err
	}
	dctx, cancel := g.detached(ctx)
	defer cancel()
	// The key may have been an alias (S3.12).
	return g.store.Extend(dctx, op.Key, token, op.Terms.Lease(), op.Terms.LeaseCap())
}

// Resolve carries out a person's decision on an operation in review, or held (S7.6). Errors: [ErrInvalid], [ErrStaleVersion],
// [ErrNotAllowed], [ErrForbidden], [ErrNotFound].
func (g *Guard) Resolve(ctx context.Context, key Key, r Resolved) (Outcome, error) {
	op, err := g.owned(ctx, key)
	if err != nil {
		return Outcome{}, err
	}
	if len(r.Reason) > ReasonBytesMax {
		return Outcome{}, invalid("reason", "is longer than 2048 bytes", "shorten it")
	}
	op, err = g.apply(ctx, op, r, op.AsOf)
	return OutcomeOf(op, false), err
}

// Record stores an intent without executing it (S3.5): a worker, or whoever claims it, does later.
func (g *Guard) Record(ctx context.Context, in Intent) (Outcome, error) {
	op, created, err := g.record(ctx, in, false)
	return OutcomeOf(op, !created), err
}

// Preview computes the operation of an intent, with key, fingerprint, stamp and downstream key, and stores nothing.
func (g *Guard) Preview(ctx context.Context, in Intent) (Operation, error) {
	in, err := in.normalise()
	if err != nil {
		return Operation{}, err
	}
	op, hold, err := g.compose(ctx, in)
	op.Hold = hold
	return op, err
}

func (g *Guard) owned(ctx context.Context, key Key) (Operation, error) {
	op, err := g.load(ctx, key)
	if err != nil {
		return op, err
	}
	return op, g.access(ctx, op)
}

func claimOf(op Operation, task Task) Claim {
	c := Claim{
		Outcome: OutcomeOf(op, false), Do: task, Token: op.Token, LeaseFor: op.Terms.Lease(), SendWithin: op.Terms.CallTimeout,
		DownstreamKey: op.DownstreamKey, Stamp: op.Stamp, LastAttempt: op.Attempt,
	}
	if end, forever, ok := op.WindowEnd(); ok && !forever {
		c.Window = max(end.Sub(op.AsOf), 0)
	} else if ok {
		c.Window = op.Terms.Retention
	}
	return c
}

func settledClaim(op Operation, replayed bool) Claim {
	c := Claim{Outcome: OutcomeOf(op, replayed && op.State.Final()), Do: TaskWait}
	switch {
	case op.State.Final():
		c.Do = TaskDone
	case op.State == StateReview, op.Hold != HoldNone:
		c.Do = TaskReview
	}
	return c
}
