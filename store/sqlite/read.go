package sqlite

import (
	"context"
	"database/sql/driver"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
)

// An alias leads to its operation (S3.12).
const (
	selectOperation = `SELECT ` + identityColumns + `, ` + lifeColumns + `, alias_of FROM operations WHERE key = ?`
	selectByID      = `SELECT ` + identityColumns + `, ` + lifeColumns + `, alias_of FROM operations WHERE id = ?`
	selectID        = `SELECT ifnull(alias_of, id) FROM operations WHERE key = ?`
)

const selectDue = `SELECT ` + identityColumns + `, ` + lifeColumns + `
	FROM operations INDEXED BY operations_due WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY due_at, id LIMIT ?`

const selectHigh = `SELECT high FROM clock`

// Load implements [effectonce.Store].
func (s *Store) Load(ctx context.Context, key effectonce.Key) (effectonce.Operation, error) {
	var op effectonce.Operation
	err := s.readers.use(ctx, func(c *conn) error {
		var found bool
		var err error
		op, found, err = s.load(c, selectOperation, key[:])
		if err == nil && !found {
			err = notFound(key)
		}
		return err
	})
	return op, s.mapError(err)
}

// load reads an operation on a reader's connection, as of the store's clock.
func (s *Store) load(c *conn, query string, by driver.Value) (op effectonce.Operation, found bool, err error) {
	op, found, err = s.operation(c, query, by)
	if err != nil || !found {
		return effectonce.Operation{}, false, err
	}
	if op.AsOf, err = s.asOf(c); err != nil {
		return effectonce.Operation{}, false, err
	}
	return op, true, nil
}

// asOf is the store's clock for a reader. The mark is read after the row, so that it is not earlier than what the row holds.
func (s *Store) asOf(c *conn) (time.Time, error) {
	high, err := highMark(c)
	if err != nil {
		return time.Time{}, err
	}
	return effectonce.StoreClock(s.now(), high)
}

func highMark(q querier) (time.Time, error) {
	us, _, err := integer(q, selectHigh)
	if err != nil || us == 0 {
		return time.Time{}, err
	}
	return time.UnixMicro(us).UTC(), nil
}

// operation reads one operation by selectOperation or selectByID.
func (s *Store) operation(q querier, query string, by driver.Value) (op effectonce.Operation, found bool, err error) {
	var terms int64
	var aliasOf driver.Value
	err = q.query(context.Background(), query, func(row []driver.Value) (err error) {
		if aliasOf = row[len(row)-1]; aliasOf != nil {
			return nil
		}
		found = true
		op, terms, err = scanOperation(row)
		return err
	}, by)
	if err == nil && aliasOf != nil {
		op, found, err = s.operation(q, selectByID, aliasOf)
		// A reader may have been between two transactions, of which one has forgotten the operation and another one uses its id again.
		key, _ := by.([]byte)
		return op, found && answersTo(&op, effectonce.Key(key)), err
	}
	if err == nil && found {
		op.Terms, err = s.termsOf(q, terms)
	}
	return op, found, err
}

// answersTo reports whether a key is one of the operation's (S3.12).
func answersTo(op *effectonce.Operation, key effectonce.Key) bool {
	return op.Key == key || slices.Contains(op.Aliases, key)
}

// existing reads an operation that exists, inside a write transaction.
func (b *batch) existing(query string, by driver.Value, now time.Time) (effectonce.Operation, error) {
	op, _, err := b.s.operation(b, query, by)
	op.AsOf = now
	return op, err
}

func keyOf(q querier, id int64) (key effectonce.Key, err error) {
	err = q.query(context.Background(), "SELECT key FROM operations WHERE id = ?", func(row []driver.Value) error {
		r := scanner{row: row}
		key = effectonce.Key(r.hash())
		return r.err
	}, id)
	return key, err
}

// Due implements [effectonce.Store]. It reads only what is due, however many operations are stored.
func (s *Store) Due(ctx context.Context, limit int) ([]effectonce.Operation, error) {
	var ops []effectonce.Operation
	if limit <= 0 {
		return nil, nil
	}
	err := s.readers.use(ctx, func(c *conn) error {
		now, err := s.asOf(c)
		if err != nil {
			return err
		}
		ops, err = s.operations(ctx, c, now, selectDue, now.UnixMicro(), int64(limit))
		return err
	})
	return ops, s.mapError(err)
}

// operations reads whole rows.
func (s *Store) operations(ctx context.Context, c *conn, now time.Time, query string, args ...driver.Value) ([]effectonce.Operation, error) {
	var ops []effectonce.Operation
	var terms []int64
	err := c.queryOnce(ctx, query, func(row []driver.Value) error {
		op, t, err := scanOperation(row)
		op.AsOf = now
		ops, terms = append(ops, op), append(terms, t)
		return err
	}, args...)
	for i := range ops {
		if err == nil {
			ops[i].Terms, err = s.termsOf(c, terms[i])
		}
	}
	return ops, err
}

// Events implements [effectonce.Store].
func (s *Store) Events(ctx context.Context, key effectonce.Key) ([]effectonce.Event, error) {
	var events []effectonce.Event
	err := s.readers.use(ctx, func(c *conn) error {
		id, ok, err := c.integer(selectID, key[:])
		if err != nil || !ok {
			return err
		}
		if key, err = keyOf(c, id); err != nil {
			return err
		}
		return c.query(ctx, `SELECT seq, at, kind, from_state, to_state, token, attempt, epoch, sends, risk, line, actor, verdict, found,
			resolution, reference, reason FROM events WHERE operation = ? ORDER BY seq`, func(row []driver.Value) error {
			r := scanner{row: row}
			e := effectonce.Event{Key: key}
			e.Seq, e.At, e.Kind = r.integer(), r.at(), effectonce.EventKind(r.text())
			e.From, e.To = effectonce.State(r.text()), effectonce.State(r.text())
			e.Token, e.Attempt, e.Epoch = r.integer(), int(r.integer()), int(r.integer())
			e.Sends, e.Risk, e.Line = r.flag(), r.flag(), int(r.integer())
			e.Actor, e.Verdict, e.Found = r.text(), effectonce.Verdict(r.text()), effectonce.Found(r.text())
			e.Resolution, e.Reference, e.Reason = effectonce.Resolution(r.text()), r.text(), r.text()
			events = append(events, e)
			return r.err
		}, id)
	})
	return events, s.mapError(err)
}
