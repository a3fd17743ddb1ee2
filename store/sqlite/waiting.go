package sqlite

import (
	"context"

	"github.com/effectonce/effectonce"
)

// The index holds what is not settled only.
const selectWaiting = `SELECT ` + identityColumns + `, ` + lifeColumns + ` FROM operations INDEXED BY operations_due
	WHERE due_at IS NOT NULL AND tenant = ? AND tool = ? AND (
		(state = 'pending' AND hold IS NULL) OR state = 'unknown' OR (state = 'in_progress' AND due_at <= ?))
	ORDER BY due_at, id LIMIT ?`

// Waiting returns up to limit operations of a tool that somebody could take up now: pending ones without a hold, unknown ones, and those
// whose lease ran out; the longest due first.
func (s *Store) Waiting(ctx context.Context, tenant, tool string, limit int) ([]effectonce.Operation, error) {
	if limit <= 0 {
		return nil, nil
	}
	var ops []effectonce.Operation
	err := s.readers.use(ctx, func(c *conn) error {
		now, err := s.asOf(c)
		if err != nil {
			return err
		}
		ops, err = s.operations(ctx, c, now, selectWaiting, tenant, tool, now.UnixMicro(), int64(limit))
		return err
	})
	return ops, s.mapError(err)
}
