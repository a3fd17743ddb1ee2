// Package worker runs the background loops that act without being asked (S7.5): it reconciles unknown operations and those
// whose lease ran out, executes pending ones that are due, expires those that nobody ran, and purges what was kept long enough
// (S13.3). It calls the same guard as everybody else; any number of workers may share a store.
//
// The package is not part of the project's API promise.
package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
)

// Options configure a Worker. Zero fields take their defaults.
type Options struct {
	// Every is the pause between two looks at the store when nothing is due; half a second.
	Every time.Duration
	// Parallel is how many operations are worked at the same time; 8.
	Parallel int
	// PurgeEvery is the pause between two looks at what is to be purged; a minute.
	PurgeEvery time.Duration
	Logger     *slog.Logger
	Clock      effectonce.Clock
}

// Worker works what is due.
type Worker struct {
	guard   *effectonce.Guard
	store   effectonce.Store
	options Options

	mu   sync.Mutex
	busy map[effectonce.Key]bool
}

// New makes a worker over a guard and its store.
func New(guard *effectonce.Guard, store effectonce.Store, o Options) *Worker {
	if o.Every == 0 {
		o.Every = 500 * time.Millisecond
	}
	if o.Parallel == 0 {
		o.Parallel = 8
	}
	if o.PurgeEvery == 0 {
		o.PurgeEvery = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = effectonce.SystemClock{}
	}
	return &Worker{guard: guard, store: store, options: o, busy: make(map[effectonce.Key]bool)}
}

// Run works until ctx is done, then waits for what it has begun and returns nil. What outlives the wait of the guard's Drain
// is left recoverable: its lease runs out. Errors of the store are logged and tried again.
func (w *Worker) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { w.purge(ctx) })
	slots := make(chan struct{}, w.options.Parallel)
	failures := 0
	for ctx.Err() == nil {
		began, err := w.round(ctx, slots, &running)
		pause := w.options.Every
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			pause = min(w.options.Every<<min(failures, 6), 30*time.Second)
			w.options.Logger.Warn("the store cannot say what is due", "error", err, "again_in", pause.String())
		case err == nil:
			failures = 0
			if began > 0 {
				pause = w.options.Every / 10
			}
		}
		if err := w.options.Clock.Sleep(ctx, pause); err != nil {
			return nil
		}
	}
	return nil
}

// round begins the work on what is due, as far as there are slots, and returns how much it began.
func (w *Worker) round(ctx context.Context, slots chan struct{}, running *sync.WaitGroup) (int, error) {
	// Twice the slots, so that operations already being worked here do not hide others.
	due, err := w.store.Due(ctx, 2*cap(slots))
	if err != nil {
		return 0, err
	}
	began := 0
	for _, op := range due {
		if !w.take(op.Key) {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			w.release(op.Key)
			return began, nil
		}
		began++
		running.Go(func() {
			defer func() { <-slots }()
			defer w.release(op.Key)
			w.work(ctx, op)
		})
	}
	return began, nil
}

func (w *Worker) work(ctx context.Context, op effectonce.Operation) {
	// Detached: a shutdown lets a running call end and be recorded (S6.6).
	after, err := w.guard.Work(context.WithoutCancel(ctx), op)
	log := w.options.Logger.With("key", op.Key.String(), "tool", op.Tool, "from", string(op.State))
	switch {
	case errors.Is(err, effectonce.ErrShuttingDown):
	case err != nil:
		log.Warn("an operation could not be worked; it will be tried again", "error", err)
	case after.Version != op.Version:
		log.Info("worked", "to", string(after.State), "attempt", after.Attempt)
	}
}

func (w *Worker) take(key effectonce.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[key] {
		return false
	}
	w.busy[key] = true
	return true
}

func (w *Worker) release(key effectonce.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.busy, key)
}
