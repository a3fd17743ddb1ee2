package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
)

// ceilingsKept is how long a ceiling is shown after its period.
const ceilingsKept = 90 * 24 * time.Hour

// Purgeable implements [effectonce.Retention].
func (s *Store) Purgeable(ctx context.Context, limit int) ([]effectonce.Operation, error) {
	return s.longestDue(ctx, limit, func(op effectonce.Operation, now time.Time) (time.Time, bool) {
		return op.PurgeAt, op.State.Final() && op.PurgedAt.IsZero() && !op.PurgeAt.IsZero() && !now.Before(op.PurgeAt)
	})
}

// Forget implements [effectonce.Retention].
func (s *Store) Forget(ctx context.Context, limit int) (int, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return 0, err
	}
	gone := map[effectonce.Key]bool{}
	// Clones share the array.
	s.order = slices.Clone(s.order)
	for key, r := range s.rows {
		if len(gone) == limit {
			break
		}
		op := r.op
		if !op.State.Final() || op.ForgetAt.IsZero() || now.Before(op.ForgetAt) || op.Alarm != "" {
			continue
		}
		gone[key] = true
		delete(s.rows, key)
		delete(s.reserved, key)
		s.order[r.id-1] = effectonce.Key{}
		for _, alias := range op.Aliases {
			delete(s.aliases, alias)
		}
	}
	if len(gone) > 0 {
		s.log = slices.DeleteFunc(slices.Clone(s.log), func(e effectonce.Event) bool { return gone[e.Key] })
	}
	for c := range s.ceilings {
		if c.per > 0 && now.After(c.from.Add(c.per+ceilingsKept)) && !s.unsettled(c) {
			delete(s.ceilings, c)
			for key, rs := range s.reserved {
				s.reserved[key] = slices.DeleteFunc(slices.Clone(rs), func(r reservation) bool { return r.ceiling == c })
			}
		}
	}
	s.high = now
	return len(gone), nil
}

// unsettled reports whether an operation that may still fail holds the ceiling.
func (s *Store) unsettled(c ceiling) bool {
	return slices.ContainsFunc(s.holders(c, len(s.rows)), func(key effectonce.Key) bool { return !s.rows[key].op.State.Final() })
}

// Waiting implements [effectonce.Store].
func (s *Store) Waiting(ctx context.Context, tenant, tool string, limit int) ([]effectonce.Operation, error) {
	return s.longestDue(ctx, limit, func(op effectonce.Operation, now time.Time) (time.Time, bool) {
		if op.Tenant != tenant || op.Tool != tool {
			return time.Time{}, false
		}
		switch op.State {
		case effectonce.StatePending:
			return op.DueAt, op.Hold == effectonce.HoldNone
		case effectonce.StateUnknown:
			return op.DueAt, true
		}
		return op.DueAt, op.LeaseOver(now)
	})
}

// longestDue returns the operations that choose takes, in the order of the time that it gives.
func (s *Store) longestDue(ctx context.Context, limit int, choose func(op effectonce.Operation, now time.Time) (time.Time, bool)) ([]effectonce.Operation, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return nil, err
	}
	type candidate struct {
		at time.Time
		r  *row
	}
	var found []candidate
	for _, r := range s.rows {
		if at, ok := choose(r.op, now); ok {
			found = append(found, candidate{at, r})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.r.id, b.r.id)) })
	var ops []effectonce.Operation
	for _, c := range found[:min(len(found), max(limit, 0))] {
		ops = append(ops, c.r.read(now))
	}
	return ops, nil
}
