package effectonce

import (
	"context"
	"fmt"
	"time"
)

// This file is S8.3: a total across distinct operations, which no key can enforce.

// LimitValueMax bounds a limit's amount and maximum, so that sums cannot overflow.
const LimitValueMax = 1 << 52

// LimitsMax is how many limits one operation can count against.
const LimitsMax = 8

// Limit is a total that an operation counts against: reserved with its recording in one transaction, released when it fails, kept
// while it is not settled, spent when it succeeded or was abandoned (S8.3).
type Limit struct {
	// Name says what is limited, in business terms: "refunds:payment:pi_1" or "orders:agent:a7". Limits of one tenant with
	// the same Name and Per are one.
	Name string `json:"name"`
	// Amount is what this operation takes: minor units of one currency, or 1 for a count. Max is the most that all may take
	// together; the one given with an operation applies to it.
	Amount int64 `json:"amount"`
	Max    int64 `json:"max"`
	// Per is the length of a period, which starts at whole multiples of it since 1970 UTC by the store's clock; zero is one
	// period without an end. Around a boundary up to two periods' worth can come together.
	Per time.Duration `json:"per,omitempty"`
}

// Period returns the start of the period that now lies in, zero for a limit without periods.
func (l Limit) Period(now time.Time) time.Time {
	if l.Per <= 0 {
		return time.Time{}
	}
	us, per := now.UnixMicro(), l.Per.Microseconds()
	return time.UnixMicro(us - us%per).UTC()
}

// Exceeded is the refusal of an operation that would take more than is left; used is what others hold, holders some of them.
func (l Limit) Exceeded(used int64, holders []Key) error {
	return &Error{
		Code: CodeLimitExceeded, Limit: l.Name, HeldBy: holders,
		Detail: fmt.Sprintf("%s: %d is taken of %d, and this would take %d; nothing was stored and nothing ran", l.Name, used, l.Max, l.Amount),
		Remedy: "see what holds it: effectonce limits",
	}
}

// LimitHoldersMax is how many holders a refusal names.
const LimitHoldersMax = 10

func checkLimits(limits []Limit) error {
	if len(limits) > LimitsMax {
		return invalid("limits", fmt.Sprintf("there are %d, more than %d", len(limits), LimitsMax), "")
	}
	type name struct {
		name string
		per  time.Duration
	}
	seen := map[name]bool{}
	for i, l := range limits {
		field := fmt.Sprintf("limits[%d]", i)
		switch {
		case l.Name == "" || len(l.Name) > IdentifierBytesMax:
			return invalid(field+".name", "is empty or longer than 512 bytes", "name what is limited")
		case l.Amount < 1 || l.Amount > LimitValueMax:
			return invalid(field+".amount", "must be between 1 and 2^52", "give minor units, or 1 to count")
		case l.Max < 0 || l.Max > LimitValueMax:
			return invalid(field+".max", "must be between 0 and 2^52", "")
		case l.Per < 0 || l.Per%time.Second != 0:
			return invalid(field+".per", "must be whole seconds", "leave it out for a total without periods")
		case seen[name{l.Name, l.Per}]:
			return invalid(field+".name", "is there twice", "give each limit once")
		}
		if err := plain(field+".name", l.Name); err != nil {
			return err
		}
		seen[name{l.Name, l.Per}] = true
	}
	return nil
}

// Releases reports whether the transition gives the operation's reservations back: it failed, so that no attempt had an effect.
func (t Transition) Releases() bool {
	return len(t.To.Limits) > 0 && t.To.State == StateFailed && t.From.State != StateFailed
}

// Limits is the port to what limits hold (S8.3). Reserving and releasing are part of [Store.Create] and [Store.Apply].
type Limits interface {
	// Limits returns limits of which something is taken, those of the latest period first, each with the operations that hold it, newest first.
	Limits(ctx context.Context, f LimitFilter) ([]LimitUse, error)
}

// LimitFilter selects limits. Zero fields select all.
type LimitFilter struct {
	Tenant string
	// Name selects one limit, Text any whose name contains it.
	Name, Text string
	// Limit is how many limits are returned: 1 to ListLimitMax, 0 for 50. Holders is how many holders of each; 0 for 20.
	Limit, Holders int
}

// LimitUse is what is taken of a limit in one period.
type LimitUse struct {
	Tenant string        `json:"tenant"`
	Name   string        `json:"name"`
	Per    time.Duration `json:"per,omitempty"`
	// From is the period's start, zero where there are no periods.
	From time.Time `json:"from,omitzero"`
	Used int64     `json:"used"`
	// Max is the one that the last operation was given.
	Max int64 `json:"max"`
	// Holders are the operations that took it, and have not failed.
	Holders []Holder `json:"holders"`
}

// Holder is an operation's part in a limit: reserved while it is not settled, spent for ever when it is.
type Holder struct {
	Key    Key   `json:"key"`
	Amount int64 `json:"amount"`
	State  State `json:"state"`
}
