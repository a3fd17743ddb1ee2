package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// Create implements [effectonce.Store]. A new operation and a repeat of a stored one take one round trip, which both share with
// other callers; the repeat writes nothing. What looks at more than its key takes a transaction of its own: see careful.go.
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
		w.lock = twinLock(&t.To)
	}
	if careful(&t.To) {
		run = s.careful
	}
	if err := run.do(ctx, w); err != nil {
		return effectonce.Operation{}, false, s.place.mapError(err)
	}
	return w.op, w.created, nil
}

func (s *Store) newWrite(ctx context.Context, t effectonce.Transition) (*write, error) {
	id, err := s.writeID()
	if err != nil {
		return nil, err
	}
	w := &write{t: t, lock: t.To.Key, size: sizeOf(&t.To), id: id}
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
	var found []hit
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
		found = append(found, hit{batch[i], scanOperation(r)})
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
	for _, h := range found {
		if err := s.exists(ctx, pooled{s, c}, h.w, h.row, at, doubt); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// hit is a write whose key is there.
type hit struct {
	w   *write
	row stored
}

// exists answers a create with the operation that is there. After an attempt whose answer was lost it may be the write's own,
// which its number says. If somebody has moved the operation on since, it is theirs.
func (s *Store) exists(ctx context.Context, q queryer, w *write, row stored, at moment, doubt bool) error {
	var err error
	if w.op, err = s.whole(ctx, q, row, at); err != nil {
		return err
	}
	if doubt && w.op.Key == w.t.To.Key && w.op.Version == w.t.To.Version {
		_, w.created, err = s.took(ctx, q, w)
	}
	return err
}

// selectOriginal is the operation of an alias (S3.12).
var selectOriginal = newStatement(`SELECT ` + selectColumns + ` FROM effectonce.operations o WHERE o.id = $1::bigint`)

// whole is the operation of a row that was read at a moment: with its terms, and of an alias its operation.
func (s *Store) whole(ctx context.Context, q queryer, row stored, at moment) (effectonce.Operation, error) {
	if row.aliasOf != 0 {
		alias := row
		row = stored{}
		err := q.query(ctx, selectOriginal, []any{alias.aliasOf}, func(r *scanner) error {
			row = scanOperation(r)
			return nil
		})
		if err == nil && row.terms == 0 {
			err = &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Key: alias.op.Key, Detail: "the operation was forgotten at this moment", Remedy: "try again"}
		}
		if err != nil {
			return effectonce.Operation{}, err
		}
	}
	op := row.op
	var err error
	if op.Terms, err = s.termsOf(ctx, q, row.terms); err != nil {
		return op, err
	}
	op.AsOf, err = s.asOf(at, row.changed)
	return op, err
}

var selectWrite = newStatement(`SELECT e.at FROM effectonce.events e JOIN effectonce.operations o ON e.operation = o.id
	WHERE o.key = $1::bytea AND e.write_id = $2::bigint`)

// took reports whether the write took place, and when.
func (s *Store) took(ctx context.Context, q queryer, w *write) (at int64, ok bool, err error) {
	return numberOf(ctx, q, selectWrite, w.t.To.Key[:], w.id)
}
