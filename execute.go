package effectonce

import (
	"context"
	"errors"
	"time"
)

// attempt calls the provider for an attempt that is on record as started, and records its end. watch was started before the
// write that started the attempt.
func (g *Guard) attempt(ctx context.Context, op Operation, p Provider, watch stopwatch) (Operation, error) {
	g.options.Breaker.started(op.circuit())
	end := g.call(ctx, op, p, watch)
	g.options.Breaker.report(op.circuit(), end.Verdict)
	return g.recordEnd(ctx, op, end, watch)
}

// call delivers one attempt within the deadline that was counted from before the claim (S5.4). After the last check nothing
// depends on the caller.
func (g *Guard) call(ctx context.Context, op Operation, p Provider, watch stopwatch) End {
	if ctx.Err() != nil {
		return notSent("caller_gone", "the caller gave up before anything was sent")
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), op.Terms.CallTimeout)
	defer cancel()
	stop := g.heartbeat(cctx, op)
	defer stop()
	left := op.Terms.CallTimeout - watch.elapsed()
	if left <= 0 {
		return notSent("deadline_passed", "the deadline passed before anything was sent")
	}
	dctx, cancelDeadline := context.WithTimeout(cctx, left)
	defer cancelDeadline()
	return p.Call(dctx, op.call(left)).bounded()
}

func notSent(code, message string) End {
	return End{Verdict: VerdictNotSent, Failure: Failure{Code: code, Message: message}}
}

// recordEnd writes an attempt's end, on a context of its own (S6.6), again and again while the lease allows it. A refused
// write is answered with what is stored; a success is then kept as evidence (S5.6, S5.8).
func (g *Guard) recordEnd(ctx context.Context, op Operation, end End, watch stopwatch) (Operation, error) {
	pause := 20 * time.Millisecond
	for {
		next, err := g.writeEnd(ctx, op, end, watch)
		if !storeFailed(err) {
			return next, err
		}
		if watch.elapsed()+pause >= op.Terms.LeaseCap() {
			g.options.Logger.Error("an attempt's end could not be recorded; the operation will be reconciled", "key", op.Key.String(), "attempt", op.Attempt, "verdict", string(end.Verdict), "error", err)
			return op, withSent(err, SentUnknown)
		}
		if err := g.options.Clock.Sleep(context.WithoutCancel(ctx), pause); err != nil {
			return op, withSent(err, SentUnknown)
		}
		pause = min(2*pause, time.Second)
	}
}

// storeFailed reports whether the store could not be used, for whatever reason.
func storeFailed(err error) bool {
	return errors.Is(err, ErrStoreUnavailable) || errors.Is(err, ErrStoreBroken) || errors.Is(err, ErrClockStepped)
}

func (g *Guard) writeEnd(ctx context.Context, op Operation, end End, watch stopwatch) (Operation, error) {
	dctx, cancel := g.detached(ctx)
	defer cancel()
	next, err := g.apply(dctx, op, AttemptEnded{Token: op.Token, End: end}, op.AsOf.Add(watch.elapsed()))
	if !errors.Is(err, ErrStaleToken) && !errors.Is(err, ErrNotAllowed) {
		return next, err
	}
	return g.late(dctx, op, end)
}

// late keeps a success that its worker may no longer write, and returns the operation as it stands.
func (g *Guard) late(ctx context.Context, op Operation, end End) (Operation, error) {
	stored, err := g.load(ctx, op.Key)
	if err != nil || end.Verdict != VerdictSucceeded {
		return stored, err
	}
	settled, err := g.apply(ctx, stored, LateSuccess{Attempt: op.Attempt, Epoch: op.Epoch, End: end, Actor: g.options.Owner}, stored.AsOf)
	if errors.Is(err, ErrNotAllowed) {
		return settled, nil
	}
	return settled, err
}

// heartbeat keeps the lease of a long call (S5.4). A failed beat is tried again; a refused one ends the beating, not the call,
// whose answer then arrives as late evidence.
func (g *Guard) heartbeat(ctx context.Context, op Operation) (stop func()) {
	every := op.Terms.Heartbeat / 3
	if every <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var beat func()
	timers := make(chan func() bool, 1)
	beat = func() {
		if ctx.Err() != nil {
			return
		}
		_, err := g.store.Extend(ctx, op.Key, op.Token, op.Terms.Heartbeat, op.Terms.LeaseCap())
		if errors.Is(err, ErrStaleToken) || errors.Is(err, ErrNotFound) {
			return
		}
		select {
		case <-timers:
			timers <- g.options.Clock.AfterFunc(every, beat)
		case <-ctx.Done():
		}
	}
	timers <- g.options.Clock.AfterFunc(every, beat)
	return func() {
		cancel()
		last := <-timers
		last()
	}
}

// apply persists what a cause does to an operation. If the row changed meanwhile, the cause is judged again by the new row, so
// that a stale actor is refused by the rules and not by chance.
func (g *Guard) apply(ctx context.Context, op Operation, cause Cause, now time.Time) (Operation, error) {
	for {
		next, err := g.persist(ctx, op, cause, now)
		if !errors.Is(err, errChanged) {
			return next, err
		}
		if op, err = g.load(ctx, op.Key); err != nil {
			return op, err
		}
		now = op.AsOf
	}
}

// errChanged says that the row changed between its reading and the write.
var errChanged = errors.New("the operation changed meanwhile")

// persist applies a cause once. The error is errChanged if the row changed since op was read.
func (g *Guard) persist(ctx context.Context, op Operation, cause Cause, now time.Time) (Operation, error) {
	t, err := Next(op, cause, now)
	if err != nil {
		return op, err
	}
	dctx, cancel := g.detached(ctx)
	defer cancel()
	next, err := g.store.Apply(dctx, t)
	switch {
	case err == nil:
		g.waiters.notify(op.Key)
		g.tell(op, next)
		return next, nil
	case errors.Is(err, ErrStaleVersion):
		return op, errChanged
	}
	return op, err
}

// tell logs what people have to know although no caller may be listening. Reasons may quote a provider, so they stay in the store.
func (g *Guard) tell(before, after Operation) {
	switch {
	case after.Alarm != "" && after.Alarm != before.Alarm:
		g.options.Logger.Error("alarm: people must look at this operation", "key", after.Key.String(), "tool", after.Tool, "alarm", after.Alarm)
	case after.State == StateReview && before.State != StateReview:
		g.options.Logger.Warn("an operation needs a person", "key", after.Key.String(), "tool", after.Tool)
	case after.State == StateUnknown && before.Open:
		g.options.Logger.Warn("an attempt's outcome is not known; it will be reconciled", "key", after.Key.String(), "tool", after.Tool, "attempt", after.Attempt)
	}
}

func (g *Guard) load(ctx context.Context, key Key) (Operation, error) {
	dctx, cancel := g.detached(ctx)
	defer cancel()
	return g.store.Load(dctx, key)
}

// detached is a context for one store call that outlives the caller.
func (g *Guard) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.options.StoreTimeout)
}
