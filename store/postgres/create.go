package postgres

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// Create implements [effectonce.Store]. A new operation and a repeat of a stored one take one round trip, which both share with
// other callers; the repeat writes nothing. Looking for twins takes a transaction of its own (S3.8).
func (s *Store) Create(ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Operation{}, false, err
	}
	defer s.leave()
	w, err := s.newWrite(ctx, t)
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	run := s.creates
	if twins(&t.To) {
		run, w.lock = s.careful, twinLock(&t.To)
	}
	if err := run.do(ctx, w); err != nil {
		return effectonce.Operation{}, false, s.place.mapError(err)
	}
	return w.op, w.created, nil
}

// twins reports whether the operation's terms ask for a twin alert.
func twins(op *effectonce.Operation) bool {
	return op.Terms.Twins != effectonce.TwinOff && !op.Twin.IsZero()
}

func (s *Store) newWrite(ctx context.Context, t effectonce.Transition) (*write, error) {
	w := &write{t: t, lock: t.To.Key, size: sizeOf(&t.To)}
	var id [8]byte
	if _, err := io.ReadFull(s.rand, id[:]); err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "no randomness for a write's number", Cause: err}
	}
	w.id = int64(binary.BigEndian.Uint64(id[:]))
	var err error
	if t.From.Version == 0 {
		w.terms, err = s.intern(ctx, t.To.Terms)
	}
	return w, err
}

// sizeOf is about what an operation adds to a statement.
func sizeOf(op *effectonce.Operation) int {
	return 512 + len(op.Business) + len(op.Arguments) + len(op.Request) + len(op.Result)
}

// createBatch answers writes that ask for nothing but their key and a hold of their resource.
func (s *Store) createBatch(batch []*write) {
	s.settle(batch, false, s.createOnce)
}

// createOnce runs the statement. Which writes it left open is decided one by one.
func (s *Store) createOnce(ctx context.Context, batch []*write, doubt bool) error {
	var open []*write
	err := s.with(ctx, func(c *pgxpool.Conn) (err error) {
		open, err = s.insert(ctx, c, batch, doubt)
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range open {
		s.settle([]*write{w}, doubt, s.considered)
	}
	return nil
}

// insert runs createStatement and answers the writes that it decided; the others are returned. An error decides none.
func (s *Store) insert(ctx context.Context, c *pgxpool.Conn, batch []*write, doubt bool) (open []*write, err error) {
	rows := newArrays(insertColumns, len(batch))
	for _, w := range batch {
		w.op, w.created, w.err = effectonce.Operation{}, false, nil
		rows.identity(&w.t.To, w.terms)
		if err := rows.life(&w.t.To); err != nil {
			return nil, err
		}
		rows.moments(w.t)
		rows.event(&w.t.Event, w.id)
		rows.endRow()
	}
	var at moment
	var created []*write
	var found []stored
	decided := make([]bool, len(batch))
	err = s.query(ctx, c, createStatement, append(s.clockParams(), rows.params()...), func(r *scanner) error {
		clock := scanMoment(r)
		if r.null() {
			at = clock
			return nil
		}
		i := r.integer() - 1
		decided[i] = true
		if r.flag() {
			created = append(created, batch[i])
			return nil
		}
		row := stored{w: batch[i]}
		row.op, row.terms, row.changed = scanOperation(r)
		found = append(found, row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.check(at); err != nil {
		return nil, err
	}
	s.advance(at)
	for _, w := range created {
		w.op, w.created = stamp(w.t, at.now).To, true
	}
	for i, w := range batch {
		if !decided[i] {
			open = append(open, w)
		}
	}
	for _, row := range found {
		if err := s.exists(ctx, c, row, at, doubt); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// stored is an operation that a write found, as it was read.
type stored struct {
	w       *write
	op      effectonce.Operation
	terms   int64
	changed int64
}

// exists answers a create with the operation that is there. After an attempt whose answer was lost it may be the write's own,
// which its number says. If somebody has moved the operation on since, it is theirs.
func (s *Store) exists(ctx context.Context, c *pgxpool.Conn, row stored, at moment, doubt bool) error {
	op := row.op
	var err error
	if op.Terms, err = s.termsOf(ctx, c, row.terms); err != nil {
		return err
	}
	if op.AsOf, err = s.asOf(at, row.changed); err != nil {
		return err
	}
	row.w.op = op
	if doubt && op.Version == row.w.t.To.Version {
		_, row.w.created, err = s.took(ctx, c, row.w)
	}
	return err
}

var selectWrite = newStatement(`SELECT e.at FROM effectonce.events e JOIN effectonce.operations o ON e.operation = o.id
	WHERE o.key = $1::bytea AND e.write_id = $2::bigint`)

// took reports whether the write took place, and when.
func (s *Store) took(ctx context.Context, c *pgxpool.Conn, w *write) (at int64, ok bool, err error) {
	err = s.query(ctx, c, selectWrite, [][]byte{w.t.To.Key[:], int8Bytes(w.id)}, func(r *scanner) error {
		at, ok = r.integer(), true
		return nil
	})
	return at, ok, err
}
