package sim

import (
	"context"
	"time"
)

// beginning is when every run starts.
var beginning = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// workerClock is a worker's [effectonce.Clock] on the world's one clock.
type workerClock struct{ worker *worker }

func (c workerClock) Now() time.Time {
	now := c.worker.world.now
	c.worker.looked(now)
	return now
}

// Sleep hands control over and returns when the schedule says so; the schedule may wake a sleeper early, as a notification does.
// The context is not looked at: what ends it is a crash.
func (c workerClock) Sleep(context.Context, time.Duration) error {
	c.worker.yield(pointSleep)
	return nil
}

// AfterFunc keeps f until the schedule lets it fire.
func (c workerClock) AfterFunc(d time.Duration, f func()) func() bool {
	w := c.worker
	t := &timer{due: w.world.now.Add(d), fire: f}
	w.timer = t
	return func() bool {
		if w.timer != t {
			return false
		}
		w.timer = nil
		return true
	}
}

// timer is the one thing a worker lets happen later: its heartbeat.
type timer struct {
	due  time.Time
	fire func()
}

// ceil is the first whole tick at or after at.
func ceil(at time.Time) time.Time {
	d := at.Sub(beginning)
	n := d / Tick
	if d%Tick > 0 {
		n++
	}
	return beginning.Add(n * Tick)
}
