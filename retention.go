package effectonce

import (
	"context"
	"errors"
	"sync"
	"time"
)

// This file is S13: results and identities are kept apart, and nothing ever executes because something was purged.

// OmittedPurged is why a result is no longer there (S13.1).
const OmittedPurged = "purged"

// Purged removes what a final operation holds besides its identity, when its result was kept long enough (S13.1): a tombstone stays.
type Purged struct{}

func (m *move) purged() error {
	op := m.t.From
	switch {
	case !op.State.Final():
		return notAllowed(op, "purging")
	case !op.PurgedAt.IsZero():
		return &Error{Code: CodeNotAllowed, Key: op.Key, Detail: "it is purged already"}
	case op.PurgeAt.IsZero() || m.now.Before(op.PurgeAt):
		return &Error{Code: CodeNotAllowed, Key: op.Key, Detail: "its result has to be kept longer"}
	}
	m.t.Event.Actor = "effectonce"
	m.to.Business, m.to.Arguments, m.to.Request = nil, nil, nil
	if len(op.Result) > 0 {
		m.to.Result, m.to.ResultOmitted = nil, OmittedPurged
	}
	if ev := op.Evidence; ev != nil && len(ev.Result) > 0 {
		kept := *ev
		kept.Result, kept.Omitted = nil, OmittedPurged
		m.to.Evidence = &kept
	}
	if f := op.Failure; f != nil && f.Answer != "" {
		kept := *f
		kept.Answer = ""
		m.to.Failure = &kept
	}
	m.to.PurgedAt = m.now
	m.to.PurgeAt = op.ForgetAt
	return nil
}

// purgeAt is when an operation that settles now is purged or forgotten, zero for never.
func (m *move) purgeAt() time.Time {
	var at time.Time
	if results := m.to.Terms.Results; results > 0 {
		at = m.now.Add(results)
	}
	if end := m.to.ForgetAt; !end.IsZero() && (at.IsZero() || end.Before(at)) {
		at = end
	}
	if !at.IsZero() && at.Before(m.now) {
		at = m.now
	}
	return at
}

// gone reports whether nothing is left by which an effect could be shown: its result was purged, and it has no reference (S13.1).
func (op Operation) gone() bool {
	return op.ResultOmitted == OmittedPurged && op.Reference == ""
}

// Admit refuses to record an intent whose identity has ended, at the moment of the commit by the store's clock: an operation of it
// may have been forgotten (S13.2). The error is [ErrExpired].
func (t Transition) Admit(now time.Time) error {
	if end := t.To.ForgetAt; !end.IsZero() && !now.Before(end) {
		return &Error{
			Code: CodeExpired, Key: t.To.Key, Field: "intent_id",
			Detail: "the period of this intent is over; identities of it were kept until " + end.UTC().Format(time.RFC3339),
			Remedy: "a request of that age is not executed any more; a person decides what to do about it",
		}
	}
	return nil
}

// Retention is the port to purging (S13.3). Both methods do a bounded piece of work and hold no lock longer than that.
type Retention interface {
	// Purgeable returns up to limit final operations that are to be purged now ([Purged]), those longest due first.
	Purgeable(ctx context.Context, limit int) ([]Operation, error)
	// Forget deletes up to limit final operations whose identity has ended, with their events, aliases and reservations, unless
	// they have an alarm, and what is left of limits whose period is long over. It returns how many operations it deleted.
	Forget(ctx context.Context, limit int) (int, error)
}

// purgeParallel is how many results are purged at the same time, so that they share the store's commits and leave room for others.
const purgeParallel = 8

// Purge does a bounded piece of the work that retention leaves: at most limit results are purged and limit identities forgotten
// (S13.3). It returns how many were; as long as one of them is limit, there may be more. It is for background workers; any number
// may do it at the same time.
func (g *Guard) Purge(ctx context.Context, limit int) (purged, forgotten int, err error) {
	done, err := g.running.begin()
	if err != nil {
		return 0, 0, err
	}
	defer done()
	due, err := g.store.Purgeable(ctx, limit)
	if err != nil {
		return 0, 0, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, purgeParallel)
	for _, op := range due {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			_, failure := g.persist(ctx, op, Purged{}, op.AsOf)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failure == nil:
				purged++
			case !errors.Is(failure, errChanged) && !errors.Is(failure, ErrNotAllowed):
				// Somebody else may have been faster; anything else is the store's.
				err = failure
			}
		})
	}
	all.Wait()
	if err != nil {
		return purged, 0, err
	}
	forgotten, err = g.store.Forget(ctx, limit)
	return purged, forgotten, err
}
