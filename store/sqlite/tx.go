package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/effectonce/effectonce"
)

// SQLTx makes a transaction of the caller's a [effectonce.Tx] (S8.1, S9.3). The caller has opened the same file through database/sql, with
// any SQLite driver, and begins with BEGIN IMMEDIATE (_txlock=immediate in the name of the database, for the drivers in use), so that it
// waits for others instead of failing. While the transaction is open nobody else writes to the file, this store included: whoever holds
// it does not call the store's own methods that write, and does not call a provider.
//
// A file that is not the store's is refused with an [effectonce.ErrInvalid]. A file locked by somebody else is an
// [effectonce.ErrStoreUnavailable]; then the transaction is rolled back and begun again.
func (s *Store) SQLTx(tx *sql.Tx) effectonce.Tx { return &callerTx{s: s, tx: tx} }

// callerTx runs on the caller's connection only. It puts nothing into the store's caches, since it does not learn whether the caller
// commits.
type callerTx struct {
	s  *Store
	tx *sql.Tx
	// depth numbers savepoints.
	depth int
	// known says that the file was seen to be the store's.
	known bool
	// broken is why the transaction can only be rolled back.
	broken error
}

var _ effectonce.Tx = (*callerTx)(nil)

// Create implements [effectonce.Tx].
func (x *callerTx) Create(ctx context.Context, t effectonce.Transition) (op effectonce.Operation, created bool, err error) {
	err = x.write(ctx, func(b *batch) (err error) {
		op, created, err = b.create(t)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	return op, created, nil
}

// Apply implements [effectonce.Tx].
func (x *callerTx) Apply(ctx context.Context, t effectonce.Transition) (op effectonce.Operation, err error) {
	err = x.write(ctx, func(b *batch) (err error) {
		op, err = b.apply(t)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, err
	}
	return op, nil
}

// Append implements [effectonce.Tx].
func (x *callerTx) Append(ctx context.Context, messages ...effectonce.Message) error {
	messages, err := checked(messages)
	if err != nil || len(messages) == 0 {
		return err
	}
	return x.write(ctx, func(b *batch) error { return b.append(messages) })
}

// Savepoint implements [effectonce.Tx].
func (x *callerTx) Savepoint(ctx context.Context, f func() error) error {
	if err := x.usable(ctx); err != nil {
		return err
	}
	q := txQuerier{ctx: ctx, tx: x.tx}
	if err := x.stillOpen(q); err != nil {
		return err
	}
	x.depth++
	name := fmt.Sprintf("effectonce_%d", x.depth)
	defer func() { x.depth-- }()
	if _, err := q.exec("SAVEPOINT " + name); err != nil {
		return x.breaks(err)
	}
	err := f()
	if err == nil {
		if _, err := q.exec("RELEASE " + name); err != nil {
			return x.breaks(err)
		}
		return nil
	}
	// Also for a caller who has given up: what is left over must not be committed by mistake.
	q.ctx = context.WithoutCancel(ctx)
	for _, query := range []string{"ROLLBACK TO " + name, "RELEASE " + name} {
		if _, undo := q.exec(query); undo != nil {
			// SQLite has rolled back the whole transaction, or the connection is gone. Nothing may be added to what is left.
			x.broken = x.mapError(undo)
			return errors.Join(err, x.broken)
		}
	}
	return err
}

// write runs one change as a whole: it is there with its event, or not at all.
func (x *callerTx) write(ctx context.Context, do func(b *batch) error) error {
	if err := x.usable(ctx); err != nil {
		return err
	}
	if err := x.sameFile(ctx); err != nil {
		return err
	}
	err := x.Savepoint(ctx, func() error {
		b := &batch{querier: txQuerier{ctx: ctx, tx: x.tx}, s: x.s}
		var err error
		if b.high, err = highMark(b); err != nil {
			return err
		}
		if err := do(b); err != nil {
			return err
		}
		return b.raiseMark()
	})
	if err == nil {
		return nil
	}
	if x.broken != nil {
		return x.broken
	}
	return x.breaks(err)
}

// stillOpen notices that SQLite has rolled the transaction back by itself (a full disk, an ON CONFLICT ROLLBACK) and the caller has gone on:
// then every statement would be committed on its own. BEGIN is refused within a transaction, which changes nothing.
func (x *callerTx) stillOpen(q txQuerier) error {
	if _, err := q.exec("BEGIN"); err != nil {
		return nil
	}
	_, err := q.exec("ROLLBACK")
	x.broken = &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: x.s.path + ": the transaction was rolled back after an error",
		Remedy: "see the error of the statement before, and run the transaction again", Cause: err}
	return x.broken
}

// usable refuses calls that cannot work any more.
func (x *callerTx) usable(ctx context.Context) error {
	switch {
	case x.s.w.isClosed():
		return x.s.errClosed()
	case x.broken != nil:
		return x.broken
	case ctx.Err() != nil:
		return x.s.mapError(ctx.Err())
	}
	if err := x.s.inPlace(); err != nil {
		return x.s.mapError(err)
	}
	return nil
}

// sameFile takes the write lock, before anything is read that could be old by then, and sees once that the transaction is on the store's
// own file.
func (x *callerTx) sameFile(ctx context.Context) error {
	if x.known {
		return nil
	}
	other := func(cause error) error {
		return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "tx", Detail: "the transaction is not on the store's file " + x.s.path,
			Remedy: "begin it on a database that was opened from this file", Cause: cause}
	}
	q := txQuerier{ctx: ctx, tx: x.tx}
	if _, err := q.exec("UPDATE clock SET high = high WHERE id = 0"); err != nil {
		if missingTable(err) {
			return other(err)
		}
		return x.breaks(err)
	}
	secret, err := secretOf(q)
	if err != nil {
		if missingTable(err) {
			return other(err)
		}
		return x.breaks(err)
	}
	if !bytes.Equal(secret, x.s.secret) {
		return other(nil)
	}
	x.known = true
	return nil
}

// breaks maps an error. After anything but a refusal the caller has to roll back.
func (x *callerTx) breaks(err error) error {
	var refusal *effectonce.Error
	if errors.As(err, &refusal) {
		return err
	}
	x.broken = x.mapError(err)
	return x.broken
}

func (x *callerTx) mapError(err error) error {
	switch {
	case busy(err) || saysLocked(err):
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: x.s.path + ": somebody else holds the file's write lock", Cause: err,
			Remedy: "roll back and run the transaction again; begin it with BEGIN IMMEDIATE (_txlock=immediate) and a busy_timeout, so that it waits"}
	case errors.Is(err, sql.ErrTxDone), errors.Is(err, sql.ErrConnDone), errors.Is(err, driver.ErrBadConn):
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "the transaction has ended", Remedy: "run it again", Cause: err}
	}
	return x.s.mapError(err)
}

// saysLocked knows the caller's driver only by what SQLite says.
func saysLocked(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "database is locked") || strings.Contains(err.Error(), "database table is locked"))
}

func missingTable(err error) bool { return strings.Contains(err.Error(), "no such table") }

// txQuerier runs SQL in the caller's transaction.
type txQuerier struct {
	ctx context.Context
	tx  *sql.Tx
}

func (q txQuerier) exec(query string, args ...driver.Value) (driver.Result, error) {
	return q.tx.ExecContext(q.ctx, query, anyArgs(args)...)
}

// query ignores the context that it is given: what is read belongs to the caller's call.
func (q txQuerier) query(_ context.Context, query string, scan func(row []driver.Value) error, args ...driver.Value) (err error) {
	rows, err := q.tx.QueryContext(q.ctx, query, anyArgs(args)...)
	if err != nil {
		return err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	got, into, row := make([]any, len(columns)), make([]any, len(columns)), make([]driver.Value, len(columns))
	for i := range got {
		into[i] = &got[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		for i, v := range got {
			row[i] = v
		}
		if err := scan(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

func anyArgs(args []driver.Value) []any {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a
	}
	return all
}
