package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce"
)

// This file is S8.1: recording inside a transaction of the caller's, on the store's database.

// PgxTx wraps a transaction of pgx for [effectonce.Guard.DoTx] and the like. It may be on any connection to the store's database, also
// through a proxy that pools by transaction; isolation level read committed is the one that never has to run again. It is for one
// goroutine, as the transaction is.
func (s *Store) PgxTx(tx pgx.Tx) effectonce.Tx { return &callersTx{store: s, in: pgxSession{tx}} }

// SQLTx wraps a transaction of database/sql, with pgx's driver or another one for PostgreSQL. See [Store.PgxTx].
func (s *Store) SQLTx(tx *sql.Tx) effectonce.Tx { return &callersTx{store: s, in: sqlSession{tx}} }

// session is a transaction of the caller's, by one driver or another. Values are plain in both directions: see queryer.
type session interface {
	query(ctx context.Context, sql string, args []any, row func(values []any) error) error
	command(ctx context.Context, sql string) error
}

type pgxSession struct{ tx pgx.Tx }

func (p pgxSession) query(ctx context.Context, sql string, args []any, row func([]any) error) error {
	rows, err := p.tx.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (p pgxSession) command(ctx context.Context, sql string) error {
	_, err := p.tx.Exec(ctx, sql)
	return err
}

type sqlSession struct{ tx *sql.Tx }

func (q sqlSession) query(ctx context.Context, sql string, args []any, row func([]any) error) error {
	rows, err := q.tx.QueryContext(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, targets := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (q sqlSession) command(ctx context.Context, sql string) error {
	_, err := q.tx.ExecContext(ctx, sql)
	return err
}

// callersTx implements [effectonce.Tx]. What it needs that is not of the transaction (terms, the clock's row) is written on
// connections of the store's: it is true whatever becomes of the transaction, and the rows that all callers share are not locked for
// as long as one of them likes.
type callersTx struct {
	store *Store
	in    session
	// known says that the transaction is on the store's database.
	known bool
	// savepoints counts those that are open.
	savepoints int
}

// query implements queryer.
func (t *callersTx) query(ctx context.Context, st *statement, args []any, row func(*scanner) error) error {
	return t.in.query(ctx, st.sql, args, func(values []any) error {
		raw := make([][]byte, len(values))
		for i, v := range values {
			switch v.(type) {
			case nil, int64, bool, string, []byte:
				raw[i] = binaryOf(v)
			default:
				return fmt.Errorf("column %d is a %T", i+1, v)
			}
		}
		return firstOf(nil, row, raw)
	})
}

// Create implements [effectonce.Tx]. A concurrent duplicate waits inside its insertion for the other transaction's end. After an
// [effectonce.ErrStoreUnavailable] the transaction has to be run again.
func (t *callersTx) Create(ctx context.Context, tr effectonce.Transition) (op effectonce.Operation, created bool, err error) {
	err = t.do(ctx, func() error {
		w, err := t.store.newWrite(ctx, tr)
		if err != nil {
			return err
		}
		for range considerTries {
			var decided bool
			if decided, err = t.record(ctx, w); err != nil || decided {
				op, created = w.op, w.created
				return err
			}
		}
		return withdrawn(tr.To.Key)
	})
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	return op, created, nil
}

// errUndecided undoes what was done for an answer that turned out to be wrong.
var errUndecided = errors.New("another one was faster")

func (t *callersTx) record(ctx context.Context, w *write) (decided bool, err error) {
	if !careful(&w.t.To) {
		// It is the insertion or nothing.
		return t.store.record(ctx, t, w, false)
	}
	err = t.Savepoint(ctx, func() error {
		decided, err := t.store.record(ctx, t, w, false)
		if err == nil && !decided {
			err = errUndecided
		}
		return err
	})
	if errors.Is(err, errUndecided) {
		return false, nil
	}
	return err == nil, err
}

// Apply implements [effectonce.Tx].
func (t *callersTx) Apply(ctx context.Context, tr effectonce.Transition) (op effectonce.Operation, err error) {
	err = t.do(ctx, func() error {
		w, err := t.store.newWrite(ctx, tr)
		if err != nil {
			return err
		}
		if err := t.store.applyOne(ctx, t, w, false); err != nil {
			return err
		}
		op = w.op
		return w.err
	})
	return op, err
}

// Append implements [effectonce.Tx].
func (t *callersTx) Append(ctx context.Context, messages ...effectonce.Message) error {
	checked, err := checkMessages(messages)
	if err != nil || len(checked) == 0 {
		return err
	}
	return t.do(ctx, func() error { return t.store.appendTo(ctx, t, checked) })
}

// Savepoint implements [effectonce.Tx].
func (t *callersTx) Savepoint(ctx context.Context, f func() error) error {
	t.savepoints++
	defer func() { t.savepoints-- }()
	name := fmt.Sprintf("effectonce_%d", t.savepoints)
	if err := t.in.command(ctx, "SAVEPOINT "+name); err != nil {
		return t.mapError(err)
	}
	whole := false
	// Also where f panics: the caller may commit.
	defer func() {
		if !whole {
			// Where it fails, the transaction is over, or nothing in it counts any more.
			_ = t.in.command(context.WithoutCancel(ctx), "ROLLBACK TO SAVEPOINT "+name)
			_ = t.in.command(context.WithoutCancel(ctx), "RELEASE SAVEPOINT "+name)
		}
	}()
	if err := f(); err != nil {
		return err
	}
	if err := t.in.command(ctx, "RELEASE SAVEPOINT "+name); err != nil {
		return t.mapError(err)
	}
	whole = true
	return nil
}

// do runs a method's work where the transaction is on the store's database.
func (t *callersTx) do(ctx context.Context, f func() error) error {
	if err := t.store.enter(ctx); err != nil {
		return err
	}
	defer t.store.leave()
	if err := t.check(ctx); err != nil {
		return t.mapError(err)
	}
	return t.mapError(f())
}

// check compares the installation's secret, once.
func (t *callersTx) check(ctx context.Context) error {
	if t.known {
		return nil
	}
	secret, err := t.store.Secret(ctx)
	if err != nil {
		return err
	}
	var there []byte
	err = t.query(ctx, selectSecret, nil, func(r *scanner) error {
		there = r.blob()
		return nil
	})
	if c := code(err); c != "42P01" && c != "3F000" && err != nil {
		return err
	}
	if !bytes.Equal(secret, there) {
		return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "tx", Detail: "the transaction is on another database than the store, " + t.store.place.name,
			Remedy: "begin it on the store's database"}
	}
	t.known = true
	return nil
}

// mapError is the store's, for a transaction that the caller can run again.
func (t *callersTx) mapError(err error) error {
	switch {
	case err == nil, ours(err):
		return err
	case errors.Is(err, pgx.ErrTxClosed), errors.Is(err, sql.ErrTxDone):
		return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "tx", Detail: "the transaction is over", Remedy: "use it before its end", Cause: err}
	case contended(err), code(err) == "25P02":
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: t.store.place.name + ": others are at the same rows, or an earlier statement failed",
			Remedy: "roll back, and run the transaction again", Cause: t.store.place.clean(err)}
	}
	return t.store.place.mapError(err)
}
