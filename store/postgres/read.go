package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

var selectOperation = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `)
SELECT c.now, c.behind, c.high, ` + selectColumns + ` FROM c JOIN effectonce.operations o ON o.key = $3::bytea`)

// Load implements [effectonce.Store].
func (s *Store) Load(ctx context.Context, key effectonce.Key) (effectonce.Operation, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Operation{}, err
	}
	defer s.leave()
	var op effectonce.Operation
	err := s.read(ctx, func(c *pgxpool.Conn) error {
		ops, err := s.operations(ctx, c, selectOperation, append(s.clockParams(), key[:]), false)
		if err == nil && len(ops) == 0 {
			err = notFound(key)
		}
		if err == nil {
			op = ops[0]
		}
		return err
	})
	return op, s.place.mapError(err)
}

// operations reads whole rows behind a moment each. Where the operation's columns are NULL there is only the moment. Rows for
// people are read by any clock.
func (s *Store) operations(ctx context.Context, c *pgxpool.Conn, st *statement, params [][]byte, people bool) ([]effectonce.Operation, error) {
	var rows []stored
	var at moment
	err := s.query(ctx, c, st, params, func(r *scanner) error {
		at = scanMoment(r)
		if r.null() {
			return nil
		}
		rows = append(rows, scanOperation(r))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if at.micros != 0 && !people {
		if err := s.check(at); err != nil {
			return nil, err
		}
		s.advance(at)
	}
	ops := make([]effectonce.Operation, len(rows))
	for i, row := range rows {
		if !people {
			if ops[i], err = s.whole(ctx, pooled{s, c}, row, at); err != nil {
				return nil, err
			}
			continue
		}
		ops[i] = row.op
		ops[i].AsOf = at.now
		if ops[i].Terms, err = s.termsOf(ctx, pooled{s, c}, row.terms); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

// asOf is the moment at which a row was read, which is not earlier than its last transition.
func (s *Store) asOf(at moment, changed int64) (time.Time, error) {
	s.mark.learn(changed)
	ahead := time.Duration(changed-at.micros) * time.Microsecond
	switch {
	case ahead <= 0:
		return at.now, nil
	case ahead > effectonce.StoreClockTolerance:
		return time.Time{}, s.stepped(changed, ahead)
	}
	return time.UnixMicro(changed).UTC(), nil
}

var advanceStatement = newStatement(`UPDATE effectonce.clock SET high = $1::bigint WHERE high < $1::bigint`)

// advance moves the clock's row on where it is more than markStep behind, beside the callers and once per process at a time.
func (s *Store) advance(at moment) {
	if time.Duration(at.micros-at.high)*time.Microsecond < markStep || !s.advancing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.advancing.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), statementPatience)
		defer cancel()
		// Where it fails, the next statement finds the row still behind.
		_ = s.with(ctx, func(c *pgxpool.Conn) error {
			return s.query(ctx, c, advanceStatement, [][]byte{int8Bytes(at.micros)}, func(*scanner) error { return nil })
		})
	}()
}

var selectDue = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `)
SELECT c.now, c.behind, c.high, ` + selectColumns + `
FROM c LEFT JOIN LATERAL (SELECT * FROM effectonce.operations d WHERE d.due_at <= c.now ORDER BY d.due_at, d.id LIMIT $3::bigint) o ON true
ORDER BY o.due_at, o.id`)

// Due implements [effectonce.Store]. It reads only what is due, however many operations are stored.
func (s *Store) Due(ctx context.Context, limit int) ([]effectonce.Operation, error) {
	return s.some(ctx, selectDue, [][]byte{int8Bytes(int64(limit))}, limit)
}

var selectEvents = newStatement(`SELECT o.key, e.at, ` + names(eventColumns, "e.") + `
	FROM effectonce.operations k JOIN effectonce.operations o ON o.id = coalesce(k.alias_of, k.id) JOIN effectonce.events e ON e.operation = o.id
	WHERE k.key = $1::bytea ORDER BY e.seq`)

// Events implements [effectonce.Store].
func (s *Store) Events(ctx context.Context, key effectonce.Key) ([]effectonce.Event, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var events []effectonce.Event
	err := s.read(ctx, func(c *pgxpool.Conn) error {
		events = nil
		return s.query(ctx, c, selectEvents, [][]byte{key[:]}, func(r *scanner) error {
			events = append(events, scanEvent(r))
			return nil
		})
	})
	return events, s.place.mapError(err)
}

var selectWaiting = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `)
SELECT c.now, c.behind, c.high, ` + selectColumns + `
FROM c LEFT JOIN LATERAL (SELECT * FROM effectonce.operations d
	WHERE d.due_at IS NOT NULL AND d.tool = $3::text AND d.tenant = $4::text
	AND (d.state = 'pending' AND d.hold IS NULL OR d.state = 'unknown' OR d.state = 'in_progress' AND d.due_at <= c.now)
	ORDER BY d.due_at, d.id LIMIT $5::bigint) o ON true
ORDER BY o.due_at, o.id`)

// Waiting implements [effectonce.Store]. It walks over what is not settled.
func (s *Store) Waiting(ctx context.Context, tenant, tool string, limit int) ([]effectonce.Operation, error) {
	params := [][]byte{[]byte(storable(tool)), []byte(storable(tenant)), int8Bytes(int64(limit))}
	return s.some(ctx, selectWaiting, params, limit)
}

// some reads the operations that a statement selects, the clock's parameters being its first.
func (s *Store) some(ctx context.Context, st *statement, params [][]byte, limit int) ([]effectonce.Operation, error) {
	if limit <= 0 {
		return nil, nil
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var ops []effectonce.Operation
	err := s.read(ctx, func(c *pgxpool.Conn) (err error) {
		ops, err = s.operations(ctx, c, st, append(s.clockParams(), params...), false)
		return err
	})
	return ops, s.place.mapError(err)
}
