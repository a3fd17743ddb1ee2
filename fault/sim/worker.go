package sim

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/effectonce/effectonce"
)

// point is where a worker has handed control over.
type point string

// The points.
const (
	pointIdle   point = ""       // no call is under way
	pointStore  point = "store"  // before a store call
	pointAfter  point = "after"  // after one
	pointCheck  point = "check"  // in the provider, before the last check of the deadline
	pointSend   point = "send"   // checked, before the first byte
	pointAnswer point = "answer" // sent, waiting for the answer
	pointLookUp point = "lookup" // before the provider is looked up
	pointSeen   point = "seen"   // after it, before the answer is used
	pointSleep  point = "sleep"
)

// order is what the schedule wants of a worker that is run on.
type order byte

const (
	orderRun order = iota
	orderFail
	orderLose
	orderReset
	orderFresh
	orderBlind
)

// crashed unwinds a worker's coroutine.
type crashed struct{}

// worker is a process with at most one call under way.
type worker struct {
	id    int
	world *world
	guard *effectonce.Guard

	next  func() (struct{}, bool)
	stop  func()
	hand  func(struct{}) bool
	at    point
	order order
	// nested says that what runs was not started by the coroutine, and cannot hand over.
	nested bool
	cancel context.CancelFunc
	timer  *timer
	closed bool
	// saw is what the call under way has observed, apart from the time, and pending what it is about to write. clock are its
	// readings of the clock, and version is that of the row it has read last. What it does next depends on these alone.
	saw, pending observed
	writes       effectonce.EventKind
	clock        []time.Time
	version      int64

	// calls counts the calls that were begun.
	calls int
	// life counts the processes, so that one that was killed is told from its successor.
	life int
	// checked is when a deadline was last found not to be over; request what was then sent, and deadline when it is given up.
	checked  time.Time
	deadline time.Time
	request  *request
	// success is the effect of the answer that this call was given, and troubled says that its store failed meanwhile.
	success  string
	troubled bool
	// busy is the operation that the call is for, nil for background work.
	busy *track
	// seen is what an inbox that is wrong keeps in memory; see world.marking.
	seen map[*event]bool
}

func newWorker(w *world, id int) *worker {
	wk := &worker{id: id, world: w}
	wk.restart()
	return wk
}

// restart makes a new process: everything that was in memory is gone.
func (w *worker) restart() {
	w.life++
	w.closed = false
	w.timer = nil
	w.seen = map[*event]bool{}
	w.guard = effectonce.New(w.storeView(), effectonce.Options{
		Clock: workerClock{worker: w}, Owner: "worker " + string(rune('0'+w.id)), Logger: discard,
		Providers: func(effectonce.Operation) effectonce.Provider { return workerProvider{worker: w} },
	})
}

var discard = slog.New(slog.DiscardHandler)

// begin starts a call as a coroutine and runs it to where it hands over first.
func (w *worker) begin(t *track, call func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.calls++
	w.saw, w.pending, w.writes, w.clock, w.version = 0, 0, "", w.clock[:0], 0
	w.success, w.troubled, w.busy = "", false, t
	w.next, w.stop = iter.Pull(iter.Seq[struct{}](func(yield func(struct{}) bool) {
		defer func() {
			if p := recover(); p != nil && p != (crashed{}) {
				panic(p)
			}
		}()
		w.hand = yield
		call(ctx)
	}))
	w.run(orderRun)
}

// run lets the call under way go on to where it hands over next, or to its end.
func (w *worker) run(o order) {
	w.order = o
	w.saw.number(int(o))
	if _, more := w.next(); more {
		return
	}
	w.cancel()
	w.idle()
}

func (w *worker) idle() {
	w.at, w.next, w.stop, w.request, w.busy = pointIdle, nil, nil, nil, nil
	w.saw, w.pending, w.writes, w.clock, w.version = 0, 0, "", w.clock[:0], 0
}

// looked notes a reading of the clock.
func (w *worker) looked(now time.Time) {
	if n := len(w.clock); n == 0 || w.clock[n-1] != now {
		w.clock = append(w.clock, now)
	}
}

// read notes a row that was read.
func (w *worker) read(op effectonce.Operation) {
	w.saw.operation(op)
	w.version = op.Version
}

// crash kills the process where it stands.
func (w *worker) crash() {
	if w.next != nil {
		w.stop()
		w.cancel()
		w.idle()
	}
	w.restart()
}

// yield hands control over; it returns when the schedule runs this worker on, with the schedule's order.
func (w *worker) yield(at point) order {
	if w.nested {
		return orderRun
	}
	w.at = at
	w.saw.text(string(at))
	if !w.hand(struct{}{}) {
		panic(crashed{})
	}
	return w.order
}

// beat fires the heartbeat, beside the call.
func (w *worker) beat() {
	t := w.timer
	w.timer = nil
	w.nested = true
	t.fire()
	w.nested = false
}

// workerStore is the store as one worker sees it: it hands over before each call and after it, fails on order, and reports what was
// committed to the world. What it does not list hands nothing over.
type workerStore struct {
	effectonce.Store
	worker *worker
}

func (w *worker) storeView() workerStore { return workerStore{Store: w.world.store, worker: w} }

func unavailable(detail string) error {
	return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: detail}
}

// call makes one store call.
func (s workerStore) call(name string, do func() error) error {
	w := s.worker
	w.saw.text(name)
	o := w.yield(pointStore)
	if o == orderFail {
		w.troubled = true
		return unavailable("the store failed before the commit")
	}
	err := do()
	w.pending, w.writes = 0, ""
	w.saw.err(err)
	if o == orderLose {
		w.troubled = true
		return unavailable("the store's answer was lost")
	}
	if w.world.afterCalls {
		w.yield(pointAfter)
	}
	return err
}

func (s workerStore) Create(ctx context.Context, t effectonce.Transition) (op effectonce.Operation, created bool, err error) {
	s.worker.writes = effectonce.EventRecorded
	err = s.call("create", func() (err error) {
		op, created, err = s.worker.world.create(s.worker, ctx, t)
		s.worker.saw.bit(created)
		s.worker.read(op)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	return op, created, nil
}

func (s workerStore) Apply(ctx context.Context, t effectonce.Transition) (op effectonce.Operation, err error) {
	s.worker.pending.transition(t)
	s.worker.writes = t.Event.Kind
	err = s.call("apply", func() (err error) {
		op, err = s.worker.world.apply(s.worker, ctx, t)
		if err == nil {
			s.worker.read(op)
		}
		return err
	})
	if err != nil {
		return effectonce.Operation{}, err
	}
	return op, nil
}

func (s workerStore) Extend(ctx context.Context, key effectonce.Key, token int64, lease, limit time.Duration) (left time.Duration, err error) {
	err = s.call("extend", func() (err error) {
		left, err = s.worker.world.extend(ctx, key, token, lease, limit)
		return err
	})
	return left, err
}

func (s workerStore) Load(ctx context.Context, key effectonce.Key) (op effectonce.Operation, err error) {
	err = s.call("load", func() (err error) {
		op, err = s.worker.world.store.Load(ctx, key)
		s.worker.read(op)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, err
	}
	return op, nil
}

func (s workerStore) Due(ctx context.Context, limit int) (ops []effectonce.Operation, err error) {
	err = s.call("due", func() (err error) {
		ops, err = s.worker.world.store.Due(ctx, limit)
		for _, op := range ops {
			s.worker.read(op)
		}
		return err
	})
	return ops, err
}

func (s workerStore) Events(ctx context.Context, key effectonce.Key) (events []effectonce.Event, err error) {
	err = s.call("events", func() (err error) {
		events, err = s.worker.world.store.Events(ctx, key)
		for _, e := range events {
			s.worker.saw.text(string(e.Kind))
		}
		return err
	})
	return events, err
}

func (s workerStore) Close() error { return nil }
