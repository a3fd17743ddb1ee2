package effectonce

import (
	"context"
	"time"
)

// Clock is the worker's own clock: it bounds the worker's calls and paces its waiting. It decides nothing about leases or
// windows; the store's clock does (S5.4).
type Clock interface {
	// Now returns the time; with a monotonic reading, if there is one.
	Now() time.Time
	// Sleep waits for d, or until ctx is done and returns its error.
	Sleep(ctx context.Context, d time.Duration) error
	// AfterFunc calls f after d in a goroutine of its own, unless stop is called before.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now implements [Clock].
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep implements [Clock].
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AfterFunc implements [Clock].
func (SystemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// stopwatch measures from before a claim, so that what it bounds ends before the lease does.
type stopwatch struct {
	clock Clock
	start time.Time
}

func startWatch(c Clock) stopwatch { return stopwatch{clock: c, start: c.Now()} }

// elapsed is the larger of the monotonic and the wall time elapsed, since a suspended machine stops the first (S5.4).
func (w stopwatch) elapsed() time.Duration {
	now := w.clock.Now()
	return max(now.Sub(w.start), now.Round(0).Sub(w.start.Round(0)))
}
