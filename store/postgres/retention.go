package postgres

import (
	"context"
	"time"

	"github.com/effectonce/effectonce"
)

// limitsKept is how long a limit is shown after its period.
const limitsKept = 90 * 24 * time.Hour

// selectPurgeable reads the index of what is to be purged; claims are not in it. Only final operations have a purge_at. PostgreSQL takes
// a comparison with less than all rows to be less rare than a NULL, and so keeps to the index.
var selectPurgeable = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `)
SELECT c.now, c.behind, c.high, ` + selectColumns + `
FROM c LEFT JOIN LATERAL (SELECT * FROM effectonce.operations d WHERE d.purge_at <= c.now AND coalesce(d.purged_at, 0) <= 0
	ORDER BY d.purge_at, d.id LIMIT $3::bigint) o ON true
ORDER BY o.purge_at, o.id`)

// Purgeable implements [effectonce.Retention].
func (s *Store) Purgeable(ctx context.Context, limit int) ([]effectonce.Operation, error) {
	return s.some(ctx, selectPurgeable, [][]byte{int8Bytes(int64(limit))}, limit)
}

var (
	// forgetStatement deletes up to $2 operations whose identity ended by $1, with what belongs to them. It passes over rows that
	// somebody is at. What they spent of limits stays spent.
	forgetStatement = newStatement(`WITH f AS MATERIALIZED (
		SELECT o.id FROM effectonce.operations o
		WHERE o.purge_at <= $1::bigint AND o.forget_at <= $1::bigint AND o.state IN ('succeeded', 'failed', 'abandoned') AND o.alarm IS NULL
		ORDER BY o.purge_at, o.id LIMIT $2::bigint FOR UPDATE SKIP LOCKED
	),
	d AS (DELETE FROM effectonce.operations o WHERE o.id IN (SELECT f.id FROM f) RETURNING o.id),
	a AS (DELETE FROM effectonce.operations o WHERE o.alias_of IN (SELECT f.id FROM f)),
	e AS (DELETE FROM effectonce.events e WHERE e.operation IN (SELECT f.id FROM f)),
	r AS (DELETE FROM effectonce.reservations r WHERE r.operation IN (SELECT f.id FROM f))
	SELECT count(*) FROM d`)
	// endLimits deletes up to $2 limits whose period was over by $1 long ago, unless an operation that may still fail holds them.
	endLimits = newStatement(`WITH l AS MATERIALIZED (
		SELECT l.id FROM effectonce.limits l
		WHERE l.per > 0 AND l.period < $1::bigint AND l.period + l.per < $1::bigint AND NOT EXISTS (
			SELECT FROM effectonce.reservations r JOIN effectonce.operations o ON o.id = r.operation
			WHERE r.limit_id = l.id AND o.state NOT IN ('succeeded', 'failed', 'abandoned'))
		ORDER BY l.period LIMIT $2::bigint FOR UPDATE SKIP LOCKED
	),
	r AS (DELETE FROM effectonce.reservations r WHERE r.limit_id IN (SELECT l.id FROM l)),
	d AS (DELETE FROM effectonce.limits d WHERE d.id IN (SELECT l.id FROM l) RETURNING d.id)
	SELECT count(*) FROM d`)
)

// writesKept is how long a transaction's number is kept; nobody asks for one after some seconds.
const writesKept = time.Hour

var endWrites = newStatement(`DELETE FROM effectonce.writes WHERE id IN (SELECT w.id FROM effectonce.writes w WHERE w.at < $1::bigint ORDER BY w.at LIMIT $2::bigint)`)

// Forget implements [effectonce.Retention].
func (s *Store) Forget(ctx context.Context, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil
	}
	n := int64(0)
	err := s.transaction(ctx, func(ctx context.Context, q queryer) error {
		at, err := s.moment(ctx, q)
		if err != nil {
			return err
		}
		n, _, err = numberOf(ctx, q, forgetStatement, at.micros, int64(limit))
		return err
	})
	if err != nil {
		return 0, err
	}
	return int(n), s.transaction(ctx, func(ctx context.Context, q queryer) error {
		at, err := s.moment(ctx, q)
		if err != nil {
			return err
		}
		if _, _, err = numberOf(ctx, q, endLimits, at.micros-limitsKept.Microseconds(), int64(limit)); err != nil {
			return err
		}
		return q.query(ctx, endWrites, []any{at.micros - writesKept.Microseconds(), int64(limit)}, nothing)
	})
}
