package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/effectonce/effectonce"
)

const selectOperation = `SELECT ` + identityColumns + `, ` + lifeColumns + ` FROM operations WHERE key = ?`

const selectDue = `SELECT ` + identityColumns + `, ` + lifeColumns + `
	FROM operations INDEXED BY operations_due WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY due_at, id LIMIT ?`

const selectHigh = `SELECT high FROM clock`

// Load implements [effectonce.Store].
func (s *Store) Load(ctx context.Context, key effectonce.Key) (effectonce.Operation, error) {
	var op effectonce.Operation
	err := s.readers.use(ctx, func(c *conn) error {
		var found bool
		var err error
		op, found, err = s.load(c, key)
		if err == nil && !found {
			err = notFound(key)
		}
		return err
	})
	return op, s.mapError(err)
}

// load reads an operation on a reader's connection, as of the store's clock.
func (s *Store) load(c *conn, key effectonce.Key) (op effectonce.Operation, found bool, err error) {
	op, found, err = s.operation(c, key)
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
	high, err := c.high()
	if err != nil {
		return time.Time{}, err
	}
	return effectonce.StoreClock(s.now(), high)
}

func (c *conn) high() (time.Time, error) {
	us, _, err := c.integer(selectHigh)
	if err != nil || us == 0 {
		return time.Time{}, err
	}
	return time.UnixMicro(us).UTC(), nil
}

func (s *Store) operation(c *conn, key effectonce.Key) (op effectonce.Operation, found bool, err error) {
	var terms int64
	err = c.query(context.Background(), selectOperation, func(row []driver.Value) (err error) {
		found = true
		op, terms, err = scanOperation(row)
		return err
	}, key[:])
	if err == nil && found {
		op.Terms, err = s.termsOf(c, terms)
	}
	return op, found, err
}

// existing reads an operation that exists, inside a write transaction.
func (b *batch) existing(key effectonce.Key, now time.Time) (effectonce.Operation, error) {
	op, _, err := b.s.operation(b.conn, key)
	op.AsOf = now
	return op, err
}

func (b *batch) keyOf(id int64) (key effectonce.Key, err error) {
	err = b.query(context.Background(), "SELECT key FROM operations WHERE id = ?", func(row []driver.Value) error {
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
