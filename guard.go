package effectonce

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"
)

// Guard stands between an intent and its effect: it runs the protocol of the specification (S3 to S7) over a store and
// providers. A Guard is safe for concurrent use; any number of guards in any number of processes may share a store.
type Guard struct {
	store   Store
	options Options
	waiters waiters
	running running

	secretOnce sync.Mutex
	secret     []byte
}

// Options configure a Guard. The zero value works.
type Options struct {
	// Clock is the worker's clock; nil means [SystemClock].
	Clock Clock
	// Owner names this worker in leases and the audit, for people; empty means host, process and a random part.
	Owner string
	// Providers finds the provider of a managed operation for background work; nil, or a nil Provider, leaves the operation to its
	// caller (S3.10).
	Providers func(op Operation) Provider
	// Access is asked before anything about an existing operation is compared or told (S5.12); nil allows all.
	Access func(ctx context.Context, op Operation) error
	// Breaker holds new calls back from a provider whose outcomes are suddenly unknown (S7.9); nil: never.
	Breaker *Breaker
	// Logger gets what has no caller to tell it to; nil means slog.Default. It is never given arguments, results or secrets.
	Logger *slog.Logger
	// StoreTimeout bounds one store call; 0 means ten seconds.
	StoreTimeout time.Duration
}

// New makes a guard over a store.
func New(store Store, o Options) *Guard {
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	if o.Owner == "" {
		o.Owner = ownerName()
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.StoreTimeout == 0 {
		o.StoreTimeout = 10 * time.Second
	}
	return &Guard{store: store, options: o}
}

func ownerName() string {
	host, _ := os.Hostname()
	var b [4]byte
	// rand.Read never fails on supported systems; the name is for people only.
	_, _ = rand.Read(b[:])
	return host + "-" + strconv.Itoa(os.Getpid()) + "-" + hex.EncodeToString(b[:])
}

// Option adjusts one call of [Guard.Do] or [Guard.Claim].
type Option func(*callOptions)

type callOptions struct{ wait time.Duration }

// WaitFor lets a call wait up to d for the outcome, instead of returning at once when the operation is under way elsewhere,
// backing off or waiting to be reconciled. Waiting holds no connection and executes nothing that is not due (S5.5, S5.7).
func WaitFor(d time.Duration) Option { return func(o *callOptions) { o.wait = d } }

// Do makes the intent take effect once, with p as the provider, and returns the outcome. Whoever calls it again with the same
// intent, at the same time or later, gets the recorded outcome and causes nothing.
//
// The error is nil only if the operation succeeded; otherwise it says how the operation stands: [ErrFailed] (no effect),
// [ErrUnknownOutcome] (call again later with the same intent, it is reconciled first), [ErrConflict] (somebody else is at it),
// [ErrInReview], [ErrHeld], [ErrPending], [ErrAbandoned]; or why nothing was done: [ErrInvalid], [ErrNotCanonical],
// [ErrPayloadMismatch], [ErrTwinRejected], [ErrSupersede], [ErrStoreUnavailable]. The Outcome is filled in wherever the operation
// is known.
//
// Once the claim is stored, ctx only stops what has not been sent: the call is bounded by the terms, and its end is recorded
// whatever became of the caller (S6.6).
func (g *Guard) Do(ctx context.Context, in Intent, p Provider, opts ...Option) (Outcome, error) {
	if p == nil {
		return Outcome{}, invalid("provider", "is missing", "give the provider that has the effect")
	}
	if in.Terms.Class == ClassReadOnly {
		return g.pass(ctx, in, p)
	}
	done, err := g.running.begin()
	if err != nil {
		return Outcome{}, err
	}
	defer done()

	var o callOptions
	for _, f := range opts {
		f(&o)
	}
	if in.RequestScope == "" {
		in.RequestScope = p.Scope()
	}
	total := startWatch(g.options.Clock)

	// Record and claim in one statement, measuring from before it (S5.4).
	op, created, err := g.record(ctx, in, true)
	if err != nil {
		return Outcome{Operation: op}, err
	}
	replayed := !created && op.State.Final()
	if created && op.State == StateInProgress {
		op, err = g.attempt(ctx, op, p, total)
	} else {
		op, err = g.advance(ctx, op, p)
	}
	for err == nil && g.worthWaiting(op) && total.elapsed() < o.wait {
		if op, err = g.pause(ctx, op, o.wait-total.elapsed()); err != nil {
			break
		}
		replayed = op.State.Final()
		if !replayed {
			op, err = g.advance(ctx, op, p)
		}
	}
	if err != nil {
		return Outcome{Operation: op}, err
	}
	outcome := OutcomeOf(op, replayed)
	return outcome, outcome.Err()
}

// pass calls a read-only tool: nothing is stored, nothing is guarded (S11.2).
func (g *Guard) pass(ctx context.Context, in Intent, p Provider) (Outcome, error) {
	in, err := in.normalise()
	if err != nil {
		return Outcome{}, err
	}
	business, _, err := canonical("arguments", in.Business)
	if err != nil {
		return Outcome{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, in.Terms.CallTimeout)
	defer cancel()
	request := in.Request
	if request == nil {
		request = business
	}
	end := p.Call(ctx, Call{Tenant: in.Tenant, Tool: in.Tool, Attempt: 1, Arguments: business, Request: request, SendWithin: in.Terms.CallTimeout}).bounded()
	op := Operation{Tenant: in.Tenant, Tool: in.Tool, Result: end.Result, ResultOmitted: end.Omitted, Reference: end.Reference, Failure: &end.Failure}
	if end.Verdict != VerdictSucceeded {
		op.State = StateFailed
		outcome := OutcomeOf(op, false)
		return outcome, outcome.Err()
	}
	op.State, op.Failure = StateSucceeded, nil
	return OutcomeOf(op, false), nil
}

// advance takes the one step that is due, if any: claim and execute a pending operation, or take over and reconcile an
// unresolved one. It never executes what somebody else owns; losing a race for the step is no error.
func (g *Guard) advance(ctx context.Context, op Operation, p Provider) (Operation, error) {
	var err error
	switch {
	case op.State == StatePending && op.Hold == HoldNone && g.due(op):
		op, err = g.start(ctx, op, p)
	case op.State == StateUnknown && g.due(op), op.LeaseOver(op.AsOf):
		op, err = g.reconcile(ctx, op, p)
	}
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotAllowed) || errors.Is(err, ErrStaleVersion) {
		return g.load(ctx, op.Key)
	}
	return op, err
}

// due reports whether the next step may be taken now. A parked operation waits for just this caller, who has to keep to the
// back-off like everybody else (S7.7).
func (g *Guard) due(op Operation) bool { return !op.AsOf.Before(op.nextStep()) }

// start claims a pending operation and executes it.
func (g *Guard) start(ctx context.Context, op Operation, p Provider) (Operation, error) {
	if wait := g.options.Breaker.wait(op.circuit()); wait > 0 {
		return g.apply(ctx, op, Parked{After: wait, Reason: heldBack(wait)}, op.AsOf)
	}
	watch := startWatch(g.options.Clock)
	op, err := g.apply(ctx, op, Claimed{Owner: g.options.Owner}, op.AsOf)
	if err != nil {
		return op, err
	}
	return g.attempt(ctx, op, p, watch)
}

// Drain stops new work with [ErrShuttingDown] and waits until what is under way has ended, or ctx is done. What is cut off
// then is left recoverable: its lease runs out and it is reconciled.
func (g *Guard) Drain(ctx context.Context) error { return g.running.drain(ctx) }
