package sim

import (
	"context"
	"errors"

	"github.com/effectonce/effectonce"
)

// decide is a person's decision on an operation in review (S7.6). The person looks at the provider's ledger and tells the
// truth about it; whether the moment is too early is for the guard to say.
func (w *world) decide(v Verb, t *track) {
	r := effectonce.Resolved{Version: t.row.Version, Person: "ada", Reason: "looked at the provider's ledger"}
	switch v {
	case verbConfirm:
		r.Resolution, r.Reference = effectonce.ResolveConfirmed, t.effect
	case verbAbsent:
		r.Resolution = effectonce.ResolveAbsentFail
	case verbResend:
		r.Resolution = effectonce.ResolveAbsentResend
	case verbAbandon:
		r.Resolution = effectonce.ResolveAbandoned
	case verbStale:
		r.Resolution, r.Version = effectonce.ResolveAbandoned, r.Version-1
	}
	before := t.row
	_, err := w.person.Resolve(context.Background(), t.key, r)
	switch {
	case v == verbStale && !errors.Is(err, effectonce.ErrStaleVersion):
		w.violate("S7.6", "operation %d: a decision by an old version was answered %v", t.id, err)
	case (v == verbConfirm || v == verbAbandon) && err != nil:
		w.violate("S7.6", "operation %d: a decision was refused: %v", t.id, err)
	case err != nil && before.Version != t.row.Version:
		w.violate("I4", "operation %d: a refused decision changed it", t.id)
	}
	if err == nil {
		w.counts.Decisions++
	}
}
