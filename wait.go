package effectonce

import (
	"context"
	"sync"
	"time"
)

// pollMax is the longest pause between two reads of a waiting caller: another process may have settled the operation.
const pollMax = 500 * time.Millisecond

// Wait returns the operation's outcome, after at most d if it is not settled before. It executes nothing. The error is
// [ErrNotFound], [ErrForbidden] or the store's; how the operation stands is in the Outcome.
func (g *Guard) Wait(ctx context.Context, key Key, d time.Duration) (Outcome, error) {
	watch := startWatch(g.options.Clock)
	op, err := g.load(ctx, key)
	if err == nil {
		err = g.access(ctx, op)
	}
	for err == nil && g.worthWaiting(op) && watch.elapsed() < d {
		op, err = g.pause(ctx, op, d-watch.elapsed())
	}
	if err != nil {
		return Outcome{}, err
	}
	return OutcomeOf(op, op.State.Final()), nil
}

// worthWaiting reports whether the operation can settle without a person.
func (g *Guard) worthWaiting(op Operation) bool {
	return !op.State.Final() && op.State != StateReview && op.Hold == HoldNone
}

// pause waits until the operation may have changed, at most d, and reads it again. It holds nothing meanwhile (S5.7).
func (g *Guard) pause(ctx context.Context, op Operation, d time.Duration) (Operation, error) {
	changed, cancel := g.waiters.subscribe(op.Key)
	defer cancel()
	// What changed between the caller's read and the subscription is seen by this read.
	now, err := g.load(ctx, op.Key)
	if err != nil || now.Version != op.Version {
		return now, err
	}
	d = min(d, pollMax)
	if left := now.nextStep().Sub(now.AsOf); left > 0 {
		d = min(d, left)
	}
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-changed:
			stop()
		case <-wctx.Done():
		}
	}()
	_ = g.options.Clock.Sleep(wctx, d)
	if err := ctx.Err(); err != nil {
		return now, outcomeOfWait(now, err)
	}
	return g.load(ctx, op.Key)
}

// outcomeOfWait is the error of a caller that stopped waiting: how the operation stood, and why the waiting ended.
func outcomeOfWait(op Operation, cause error) error {
	o := OutcomeOf(op, false)
	err, ok := o.Err().(*Error)
	if !ok {
		return cause
	}
	err.Cause = cause
	return err
}

// waiters wakes callers in this process that wait for an operation; others poll.
type waiters struct {
	mu   sync.Mutex
	keys map[Key]map[chan struct{}]bool
}

func (w *waiters) subscribe(key Key) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil {
		w.keys = make(map[Key]map[chan struct{}]bool)
	}
	if w.keys[key] == nil {
		w.keys[key] = make(map[chan struct{}]bool)
	}
	w.keys[key][ch] = true
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.keys[key], ch)
		if len(w.keys[key]) == 0 {
			delete(w.keys, key)
		}
	}
}

func (w *waiters) notify(key Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.keys[key] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// running counts the work under way, so that a shutdown can wait for it.
type running struct {
	mu     sync.Mutex
	closed bool
	n      int
	idle   chan struct{}
}

func (r *running) begin() (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, &Error{Code: CodeShuttingDown, Detail: "nothing was sent", RetryAfter: time.Second}
	}
	r.n++
	return r.end, nil
}

func (r *running) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n--
	if r.n == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

func (r *running) drain(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	if r.n == 0 {
		r.mu.Unlock()
		return nil
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
