package metamorphic_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// wrong is the memory store with one thing wrong.
type wrong struct {
	*memory.Store
	fault string
}

func (s wrong) Create(ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	switch s.fault {
	case "aliases are forgotten":
		t.To.Aliases = nil
	case "limits are not reserved":
		t.To.Limits = nil
	case "whoever repeats is told of another time":
		op, created, err := s.Store.Create(ctx, t)
		if err == nil && !created {
			op.AsOf = op.AsOf.Add(time.Microsecond)
		}
		return op, created, err
	}
	return s.Store.Create(ctx, t)
}

func (s wrong) Apply(ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	switch s.fault {
	case "a stored error is forgotten":
		t.To.StoredError = false
	case "evidence loses its reference":
		if t.To.Evidence != nil {
			ev := *t.To.Evidence
			ev.Reference = ""
			t.To.Evidence = &ev
		}
	case "limits are released while unknown":
		if t.To.State == effectonce.StateUnknown && len(t.To.Limits) > 0 {
			// The store is asked for the release that only a failure brings.
			failed := t
			failed.To.State = effectonce.StateFailed
			if op, err := s.Store.Apply(ctx, failed); err != nil {
				return op, err
			}
		}
	case "who comes too late is let in":
		if row, err := s.Load(ctx, t.From.Key); err == nil && row.Version != t.From.Version {
			t.From, t.To.Version, t.Event.Seq = row, row.Version+1, row.Version+1
		}
	}
	return s.Store.Apply(ctx, t)
}

func (s wrong) Decide(ctx context.Context, d effectonce.Decision) (effectonce.Decision, bool, error) {
	stored, first, err := s.Store.Decide(ctx, d)
	if s.fault == "the second decision wins" && err == nil && !first {
		return d, false, nil
	}
	return stored, first, err
}

func (s wrong) Events(ctx context.Context, key effectonce.Key) ([]effectonce.Event, error) {
	events, err := s.Store.Events(ctx, key)
	if s.fault == "audit lines lose their risk" {
		events = slices.Clone(events)
		for i := range events {
			events[i].Risk = false
		}
	}
	return events, err
}

func (s wrong) TakeQueue(ctx context.Context, lease time.Duration, limit int) (effectonce.Queue, []effectonce.Message, error) {
	q, messages, err := s.Store.TakeQueue(ctx, lease, limit)
	if s.fault == "messages overtake each other" {
		slices.Reverse(messages)
	}
	return q, messages, err
}

// A store that is wrong in one thing tells another story.
func TestADifferenceIsFound(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{
		"aliases are forgotten", "limits are not reserved", "whoever repeats is told of another time", "a stored error is forgotten",
		"evidence loses its reference", "limits are released while unknown", "who comes too late is let in", "the second decision wins",
		"audit lines lose their risk", "messages overtake each other",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			open := func(_ *testing.T, now func() time.Time) effectonce.Store {
				return wrong{memory.Open(memory.Options{Now: now, Secret: secret}), fault}
			}
			for seed := range uint64(20) {
				p := randomPlan(seed+1, 600)
				if run(t, "wrong", open, p, reach{}) == "" {
					continue
				}
				p = shorten(p, time.Now().Add(5*time.Second), func(p plan) bool { return run(t, "wrong", open, p, reach{}) != "" })
				t.Logf("workload %d: %s", seed+1, p)
				return
			}
			t.Error("nobody notices")
		})
	}
}
