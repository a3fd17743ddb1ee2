package sim

import (
	"context"
	"errors"
	"time"

	"github.com/effectonce/effectonce"
)

// limitName is the one limit of a setting: every operation takes one of it.
const limitName = "refunds:payment"

func (s Setting) limits() []effectonce.Limit {
	if s.Limit == 0 {
		return nil
	}
	return []effectonce.Limit{{Name: limitName, Amount: 1, Max: int64(s.Limit), Per: ticks(s.Per)}}
}

// taken counts, by period, the operations that have not failed: from the rows, not from what the store keeps of it (S8.3).
func (w *world) taken() map[time.Time]int64 {
	used := map[time.Time]int64{}
	for _, t := range w.tracks {
		if t.row.State != "" && t.row.State != effectonce.StateFailed {
			used[w.setting.limits()[0].Period(t.row.CreatedAt)]++
		}
	}
	return used
}

// checkLimits proves after a commit that no period's sum is over its maximum, and that what the store says is taken is what
// operations that have not failed hold: released on failure, kept while unknown, spent for ever otherwise (S8.3).
func (w *world) checkLimits() {
	if w.setting.Limit == 0 {
		return
	}
	used := w.taken()
	for from, n := range used {
		if n > int64(w.setting.Limit) {
			w.violate("S8.3", "%d of at most %d are taken in the period of %s", n, w.setting.Limit, from.Sub(beginning))
		}
	}
	uses, err := w.store.Limits(context.Background(), effectonce.LimitFilter{Name: limitName, Limit: effectonce.ListLimitMax})
	if err != nil {
		w.violate("S8.3", "the limits cannot be read: %v", err)
	}
	for _, u := range uses {
		if u.Used != used[u.From] {
			w.violate("S8.3", "the store says that %d are taken in the period of %s, and %d are", u.Used, u.From.Sub(beginning), used[u.From])
		}
		delete(used, u.From)
	}
	for from, n := range used {
		w.violate("S8.3", "the store knows nothing of %d that are taken in the period of %s", n, from.Sub(beginning))
	}
}

// noteRefusal proves that an operation is refused by the limit only where there is no room for it.
func (w *world) noteRefusal(t *track, err error) {
	if t == nil || !errors.Is(err, effectonce.ErrLimitExceeded) {
		return
	}
	w.counts.Refused++
	t.refusedAt, t.refused = w.logged, true
	if !w.full() {
		w.violate("S8.3", "operation %d is refused although the limit has room", t.id)
	}
}

// full reports whether the present period has no room.
func (w *world) full() bool {
	return w.setting.Limit > 0 && w.taken()[w.setting.limits()[0].Period(w.now)] >= int64(w.setting.Limit)
}

// shut reports whether an operation that does not exist cannot come to exist any more: the limit is full of what is final, or another
// intent was decided in its place.
func (w *world) shut(t *track) bool {
	if t.row.State != "" {
		return false
	}
	if s := t.step; s != nil {
		return s.run.over() || s.first != nil && s.first.IntentID != t.intentID
	}
	return t.refused && t.refusedAt == w.logged && w.full()
}
