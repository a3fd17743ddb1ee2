package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// Apply implements [effectonce.Store]: one round trip, shared with other callers. Giving reservations back takes a transaction of its
// own (S8.3).
func (s *Store) Apply(ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Operation{}, err
	}
	defer s.leave()
	w, err := s.newWrite(ctx, t)
	if err != nil {
		return effectonce.Operation{}, err
	}
	run := s.applies
	if t.Releases() {
		run = s.careful
	}
	if err := run.do(ctx, w); err != nil {
		return effectonce.Operation{}, s.place.mapError(err)
	}
	return w.op, nil
}

func (s *Store) applyBatch(batch []*write) {
	s.settle(batch, false, s.applyOnce)
}

func (s *Store) applyOnce(ctx context.Context, batch []*write, doubt bool) error {
	alarms, keeps := 0, 0
	for _, w := range batch {
		w.op, w.err = effectonce.Operation{}, nil
		if alarmChange(&w.t) != 0 {
			alarms = 1
		}
		if keepsOtherwise(&w.t) {
			keeps = 1
		}
	}
	cols := updateColumns
	if keeps == 1 {
		cols = keptUpdateColumns
	}
	rows := newArrays(cols, len(batch))
	for _, w := range batch {
		kept, err := rows.fenced(w)
		if err != nil {
			return err
		}
		if keeps == 1 {
			rows.kept(&w.t, kept)
		}
		rows.endRow()
	}
	statement := applyStatements[alarms][keeps]
	return s.with(ctx, func(c *pgxpool.Conn) error {
		var at moment
		fitted := make([]bool, len(batch))
		err := s.query(ctx, c, statement, append(s.clockParams(), rows.params()...), func(r *scanner) error {
			at = scanMoment(r)
			if !r.null() {
				fitted[r.integer()-1] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := s.check(at); err != nil {
			return err
		}
		s.advance(at)
		for i, w := range batch {
			if fitted[i] {
				w.op = stamp(w.t, at.now).To
				continue
			}
			if err := s.refused(ctx, pooled{s, c}, w, doubt); err != nil {
				return err
			}
		}
		return nil
	})
}

// refused answers a write that did not fit: it is stale, unless an earlier try of its own took place.
func (s *Store) refused(ctx context.Context, q queryer, w *write, doubt bool) error {
	w.err = stale(w.t.From)
	if !doubt {
		return nil
	}
	us, ok, err := s.took(ctx, q, w)
	if err != nil || !ok {
		return err
	}
	w.op, w.err = stamp(w.t, time.UnixMicro(us).UTC()).To, nil
	return nil
}

// fenced writes updateColumns and returns the moments of retention.
func (a *arrays) fenced(w *write) (kept [timesCount - momentsCount]*int64, err error) {
	from, to := &w.t.From, &w.t.To
	a.blob(from.Key[:])
	a.integer(from.Version)
	a.maybe(micros(from.DueAt))
	a.flag(to.Token != from.Token)
	a.integer(alarmChange(&w.t))
	if err := a.life(to); err != nil {
		return kept, err
	}
	kept = a.moments(w.t)
	a.event(&w.t.Event, w.id)
	return kept, nil
}

// kept writes what keptUpdateColumns have more.
func (a *arrays) kept(t *effectonce.Transition, at [timesCount - momentsCount]*int64) {
	for _, us := range at {
		a.maybe(us)
	}
	a.flag(purges(t))
}

// keepsOtherwise says that the transition changes how long something is kept, or purges it (S13.1).
func keepsOtherwise(t *effectonce.Transition) bool {
	return !t.From.PurgeAt.Equal(t.To.PurgeAt) || purges(t)
}

func purges(t *effectonce.Transition) bool {
	return t.From.PurgedAt.IsZero() && !t.To.PurgedAt.IsZero()
}

// alarmChange says that the transition starts (1) or ends (-1) the hold of the operation's resource with its duplicate alarm
// (S7.1).
func alarmChange(t *effectonce.Transition) int64 {
	was, is := alarmed(&t.From), alarmed(&t.To)
	switch {
	case t.To.Resource == "" || was == is:
		return 0
	case is:
		return 1
	}
	return -1
}

func alarmed(op *effectonce.Operation) bool {
	return op.Alarm != "" && op.State == effectonce.StateReview
}

// extendStatement never makes a lease shorter than it is. $3 is the key, $4 the token, $5 and $6 lease and limit.
var extendStatement = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `),
u AS (
	UPDATE effectonce.operations o
	SET due_at = greatest(o.due_at, least(c.now + $5::bigint, coalesce(CASE WHEN o.open THEN o.opened_at ELSE o.taken_at END, 0) + $6::bigint))
	FROM c
	WHERE o.key = $3::bytea AND o.state = 'in_progress' AND o.token = $4::bigint AND o.due_at > c.now AND c.behind <= ` + toleranceMicros + `
	RETURNING o.due_at
)
SELECT c.now, c.behind, c.high, u.due_at, o.state, o.token, o.due_at
FROM c LEFT JOIN u ON true LEFT JOIN effectonce.operations o ON o.key = $3::bytea AND o.alias_of IS NULL`)

// Extend implements [effectonce.Store]. It may be tried again after a lost answer: the same lease is given twice.
func (s *Store) Extend(ctx context.Context, key effectonce.Key, token int64, lease, limit time.Duration) (time.Duration, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	var left time.Duration
	err := s.again(ctx, func(c *pgxpool.Conn) error {
		var at moment
		var until, due time.Time
		var state effectonce.State
		var holder int64
		exists := false
		params := append(s.clockParams(), key[:], int8Bytes(token), int8Bytes(lease.Microseconds()), int8Bytes(limit.Microseconds()))
		err := s.query(ctx, c, extendStatement, params, func(r *scanner) error {
			at, until = scanMoment(r), r.at()
			exists = !r.null()
			state, holder, due = effectonce.State(r.text()), r.integer(), r.at()
			return nil
		})
		if err == nil {
			err = s.check(at)
		}
		switch {
		case err != nil:
			return err
		case !until.IsZero():
			left = until.Sub(at.now)
			return nil
		case !exists:
			return notFound(key)
		case state == effectonce.StateInProgress && holder == token && !at.now.Before(due):
			return &effectonce.Error{Code: effectonce.CodeStaleToken, Key: key, Detail: "the lease ran out"}
		}
		return &effectonce.Error{Code: effectonce.CodeStaleToken, Key: key, Detail: fmt.Sprintf("token %d does not hold the lease", token)}
	})
	if err != nil {
		return 0, s.place.mapError(err)
	}
	return left, nil
}

func stale(op effectonce.Operation) error {
	return &effectonce.Error{Code: effectonce.CodeStaleVersion, Key: op.Key, Detail: fmt.Sprintf("version %d is not the current one", op.Version), Remedy: "load it and decide again"}
}
