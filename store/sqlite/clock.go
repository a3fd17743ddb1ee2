package sqlite

import (
	"fmt"
	"time"

	"github.com/effectonce/effectonce"
)

// clockTolerance is how far the clock may be behind its high-water mark before the store fails closed; within it, time stands
// still (S5.4).
const clockTolerance = time.Second

// clock decides which time it is: now, or the high-water mark if that is a little later. All times of the store are UTC in
// whole microseconds.
func clock(now, high time.Time) (time.Time, error) {
	now = micro(now)
	behind := high.Sub(now)
	switch {
	case high.IsZero(), behind <= 0:
		return now, nil
	case behind <= clockTolerance:
		return high, nil
	}
	return time.Time{}, &effectonce.Error{
		Code:       effectonce.CodeClockStepped,
		Detail:     fmt.Sprintf("the clock is %s behind the last time recorded", behind),
		Remedy:     "correct the clock, or wait until it has caught up",
		RetryAfter: behind,
	}
}

func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// stamp moves a transition to now and keeps its times in microseconds, as they are stored.
func stamp(t effectonce.Transition, now time.Time) effectonce.Transition {
	t = t.Stamp(now)
	for _, at := range []*time.Time{
		&t.To.DueAt, &t.To.OpenedAt, &t.To.StartedAt, &t.To.FirstSentAt, &t.To.LastSentAt, &t.To.TakenAt,
		&t.To.InFlightUntil, &t.To.CreatedAt, &t.To.SettledAt,
	} {
		*at = micro(*at)
	}
	return t
}
