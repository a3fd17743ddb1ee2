package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// ceiling is a limit in one period.
type ceiling struct {
	tenant, name string
	per          time.Duration
	from         time.Time
}

// taking is what is taken of a ceiling; max is the last one given.
type taking struct{ used, max int64 }

// reservation is an operation's part in a ceiling.
type reservation struct {
	ceiling ceiling
	amount  int64
}

// reserve takes what the operation counts against, or nothing and says what is exceeded (S8.3).
func (s *Store) reserve(op effectonce.Operation, now time.Time) error {
	var taken []reservation
	for _, l := range op.Limits {
		c := ceiling{op.Tenant, l.Name, l.Per, l.Period(now)}
		if used := s.ceilings[c].used; used+l.Amount > l.Max {
			return l.Exceeded(used, s.holders(c, effectonce.LimitHoldersMax))
		}
		taken = append(taken, reservation{c, l.Amount})
	}
	for i, r := range taken {
		s.ceilings[r.ceiling] = taking{s.ceilings[r.ceiling].used + r.amount, op.Limits[i].Max}
	}
	if len(taken) > 0 {
		s.reserved[op.Key] = taken
	}
	return nil
}

// giveBack releases an operation's reservations.
func (s *Store) giveBack(key effectonce.Key) {
	for _, r := range s.reserved[key] {
		t := s.ceilings[r.ceiling]
		t.used -= r.amount
		s.ceilings[r.ceiling] = t
	}
	delete(s.reserved, key)
}

// holders returns the operations that hold a ceiling, newest first.
func (s *Store) holders(c ceiling, limit int) []effectonce.Key {
	var keys []effectonce.Key
	for key, rs := range s.reserved {
		if slices.ContainsFunc(rs, func(r reservation) bool { return r.ceiling == c }) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b effectonce.Key) int { return cmp.Compare(s.rows[b].id, s.rows[a].id) })
	return keys[:min(len(keys), limit)]
}

// Limits implements [effectonce.Limits].
func (s *Store) Limits(ctx context.Context, f effectonce.LimitFilter) ([]effectonce.LimitUse, error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(s.ceilings), func(a, b ceiling) int {
		return cmp.Or(b.from.Compare(a.from), cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.name, b.name), cmp.Compare(a.per, b.per))
	})
	var uses []effectonce.LimitUse
	for _, c := range all {
		if f.Tenant != "" && f.Tenant != c.tenant || f.Name != "" && f.Name != c.name || !strings.Contains(lower(c.name), lower(f.Text)) {
			continue
		}
		t := s.ceilings[c]
		if t.used == 0 {
			continue
		}
		if len(uses) == limit {
			break
		}
		use := effectonce.LimitUse{Tenant: c.tenant, Name: c.name, Per: c.per, From: c.from, Used: t.used, Max: t.max}
		for _, key := range s.holders(c, cmp.Or(f.Holders, 20)) {
			i := slices.IndexFunc(s.reserved[key], func(r reservation) bool { return r.ceiling == c })
			use.Holders = append(use.Holders, effectonce.Holder{Key: key, Amount: s.reserved[key][i].amount, State: s.rows[key].op.State})
		}
		uses = append(uses, use)
	}
	return uses, nil
}
