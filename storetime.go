package effectonce

import (
	"fmt"
	"time"
)

// This file is what every store driver needs of S5.4: one clock that never goes back.

// StoreClockTolerance is how far a store's clock may be behind its high-water mark before the store fails closed; within it,
// time stands still.
const StoreClockTolerance = time.Second

// StoreClock decides which time it is for a store: now, or its high-water mark if that is a little later. Further behind it is
// an [ErrClockStepped]: nothing may be decided by a clock of which nobody knows when it was wrong.
func StoreClock(now, high time.Time) (time.Time, error) {
	now = StoredTime(now)
	behind := high.Sub(now)
	switch {
	case high.IsZero(), behind <= 0:
		return now, nil
	case behind <= StoreClockTolerance:
		return high, nil
	}
	return time.Time{}, &Error{
		Code:       CodeClockStepped,
		Detail:     fmt.Sprintf("the clock is %s behind the last time recorded", behind),
		Remedy:     "correct the clock, or wait until it has caught up",
		RetryAfter: behind,
	}
}

// StoredTime is a time as every store keeps it: in UTC and whole microseconds.
func StoredTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
