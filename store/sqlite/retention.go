package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/effectonce/effectonce"
)

// limitsKept is how long the row of a limit's period stays after the period's end.
const limitsKept = 90 * 24 * time.Hour

const (
	selectPurgeable = `SELECT ` + identityColumns + `, ` + lifeColumns + ` FROM operations INDEXED BY operations_purge
	WHERE purge_at IS NOT NULL AND purge_at <= ? AND purged_at IS NULL AND state IN ('succeeded', 'failed', 'abandoned') ORDER BY purge_at, id LIMIT ?`

	// What has an alarm stays until people have seen to it.
	selectForgettable = `SELECT id, aliases FROM operations INDEXED BY operations_purge
	WHERE purge_at IS NOT NULL AND purge_at <= ? AND forget_at <= ? AND alarm IS NULL AND state IN ('succeeded', 'failed', 'abandoned')
	ORDER BY purge_at, id LIMIT ?`

	// A row that still has a reservation by an operation that is not final has work for nobody, once the others are gone.
	selectOldLimits = `SELECT id FROM limits INDEXED BY limits_period WHERE period > 0 AND period < ? AND period + per < ? AND (
		NOT EXISTS (SELECT 1 FROM reservations r WHERE r.limit_id = limits.id)
		OR EXISTS (SELECT 1 FROM reservations r JOIN operations o ON o.id = r.operation
			WHERE r.limit_id = limits.id AND o.state IN ('succeeded', 'failed', 'abandoned')))
	ORDER BY period LIMIT ?`
	deleteOldReservations = `DELETE FROM reservations WHERE limit_id = ? AND operation IN (
		SELECT r.operation FROM reservations r JOIN operations o ON o.id = r.operation
		WHERE r.limit_id = ? AND o.state IN ('succeeded', 'failed', 'abandoned') LIMIT ?)`
	deleteOldLimit = `DELETE FROM limits WHERE id = ? AND NOT EXISTS (SELECT 1 FROM reservations r WHERE r.limit_id = limits.id)`
)

// Purgeable implements [effectonce.Retention].
func (s *Store) Purgeable(ctx context.Context, limit int) ([]effectonce.Operation, error) {
	if limit <= 0 {
		return nil, nil
	}
	var ops []effectonce.Operation
	err := s.readers.use(ctx, func(c *conn) error {
		now, err := s.asOf(c)
		if err != nil {
			return err
		}
		ops, err = s.operations(ctx, c, now, selectPurgeable, now.UnixMicro(), int64(limit))
		return err
	})
	return ops, s.mapError(err)
}

// empty removes what a tombstone does not need (S13.1); the rest of the purge is in the life that [batch.update] wrote.
func (b *batch) empty(id int64) error {
	_, err := b.exec("UPDATE operations SET business = NULL, arguments = NULL, request = NULL, same = 0 WHERE id = ?", id)
	return err
}

// Forget implements [effectonce.Retention].
func (s *Store) Forget(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	// Mostly there is nothing to do, and looking needs no lock.
	idle := false
	err := s.readers.use(ctx, func(c *conn) error {
		now, err := s.asOf(c)
		if err != nil {
			return err
		}
		old, err := forgettable(c, now, 1)
		if err != nil {
			return err
		}
		limits, err := oldLimits(c, now, 1)
		idle = len(old)+len(limits) == 0
		return err
	})
	if err != nil || idle {
		return 0, s.mapError(err)
	}

	forgotten := 0
	err = s.w.write(ctx, func(b *batch) error {
		forgotten = 0
		now, err := b.clock()
		if err != nil {
			return err
		}
		old, err := forgettable(b, now, limit)
		if err != nil {
			return err
		}
		for _, row := range old {
			if err := b.forget(row); err != nil {
				return err
			}
			forgotten++
		}
		return b.forgetLimits(now, limit)
	})
	if err != nil {
		return 0, err
	}
	return forgotten, nil
}

// forgottenRow is an operation whose identity has ended, with its aliases.
type forgottenRow struct {
	id      int64
	aliases []effectonce.Key
}

func forgettable(q querier, now time.Time, limit int) ([]forgottenRow, error) {
	var all []forgottenRow
	err := q.query(context.Background(), selectForgettable, func(row []driver.Value) error {
		r := scanner{row: row}
		all = append(all, forgottenRow{id: r.integer(), aliases: r.keys()})
		return r.err
	}, now.UnixMicro(), now.UnixMicro(), int64(limit))
	return all, err
}

// forget deletes an operation. What it spent of limits stays spent.
func (b *batch) forget(row forgottenRow) error {
	b.dirty = true
	for _, alias := range row.aliases {
		if _, err := b.exec("DELETE FROM operations WHERE key = ? AND alias_of = ?", alias[:], row.id); err != nil {
			return err
		}
	}
	for _, query := range []string{deleteReservations, "DELETE FROM events WHERE operation = ?", "DELETE FROM holds WHERE operation = ?", "DELETE FROM operations WHERE id = ?"} {
		if _, err := b.exec(query, row.id); err != nil {
			return err
		}
	}
	return nil
}

func oldLimits(q querier, now time.Time, limit int) ([]int64, error) {
	var ids []int64
	before := now.Add(-limitsKept).UnixMicro()
	err := q.query(context.Background(), selectOldLimits, func(row []driver.Value) error {
		r := scanner{row: row}
		ids = append(ids, r.integer())
		return r.err
	}, before, before, int64(limit))
	return ids, err
}

// forgetLimits deletes what is left of periods that are long over, in pieces.
func (b *batch) forgetLimits(now time.Time, limit int) error {
	ids, err := oldLimits(b, now, limit)
	if err != nil {
		return err
	}
	left := int64(limit)
	for _, id := range ids {
		b.dirty = true
		n, err := changed(b, deleteOldReservations, id, id, left)
		if err != nil {
			return err
		}
		if _, err := b.exec(deleteOldLimit, id); err != nil {
			return err
		}
		if left -= n; left <= 0 {
			return nil
		}
	}
	return nil
}
