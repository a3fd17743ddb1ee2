package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// statement is an SQL statement. Its name is made from its text, so that a name never means two statements, whoever else uses the
// same server connection through a proxy.
type statement struct {
	name, sql string
	// once says that it is not worth preparing.
	once bool
}

func newStatement(sql string) *statement {
	h := sha256.Sum256([]byte(sql))
	return &statement{name: "effectonce_" + hex.EncodeToString(h[:10]), sql: sql}
}

// binaryFormat asks for the binary format of all values.
var binaryFormat = []int16{1}

// query runs a statement and hands each row to row, whose memory is used again afterwards.
func (s *Store) query(ctx context.Context, c *pgxpool.Conn, st *statement, params [][]byte, row func(*scanner) error) error {
	if !st.once && !s.unnamed.Load() {
		err := prepared(ctx, c, st, params, row)
		if !forgotten(err) {
			return err
		}
		// Nothing happened: the server did not know the statement, so a proxy changes the connection behind it.
		s.unnamed.Store(true)
		if c.Conn().PgConn().TxStatus() != 'I' {
			return err
		}
	}
	rows := c.Conn().PgConn().ExecParams(ctx, st.sql, params, nil, binaryFormat, binaryFormat)
	var err error
	for rows.NextRow() {
		err = firstOf(err, row, rows.Values())
	}
	if _, closed := rows.Close(); closed != nil {
		return closed
	}
	return err
}

func prepared(ctx context.Context, c *pgxpool.Conn, st *statement, params [][]byte, row func(*scanner) error) error {
	if _, err := c.Conn().Prepare(ctx, st.name, st.sql); err != nil {
		return err
	}
	rows := c.Conn().PgConn().ExecPrepared(ctx, st.name, params, binaryFormat, binaryFormat)
	var err error
	for rows.NextRow() {
		err = firstOf(err, row, rows.Values())
	}
	if _, closed := rows.Close(); closed != nil {
		return closed
	}
	return err
}

// firstOf reads a row unless an earlier one failed.
func firstOf(err error, row func(*scanner) error, values [][]byte) error {
	if err != nil {
		return err
	}
	r := scanner{row: values}
	err = row(&r)
	if r.err != nil {
		return &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: "a stored row cannot be read", Remedy: "see which program changed it, or restore a backup", Cause: r.err}
	}
	return err
}

// forgotten reports whether the server does not know a statement that it was asked to keep, or knows one by the name already.
func forgotten(err error) bool { return code(err) == "26000" || code(err) == "42P05" }

// plain runs a command without parameters and answer.
func plain(ctx context.Context, c *pgxpool.Conn, sql string) error {
	return c.Conn().PgConn().Exec(ctx, sql).Close()
}

// readTries is how often a read is tried when connections turn out to be dead, as after a restart of the server.
const readTries = 3

// read runs f, which only reads. Readers leave some connections to the writers, however long their queries take.
func (s *Store) read(ctx context.Context, f func(c *pgxpool.Conn) error) error {
	select {
	case s.readers <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.readers }()
	return s.again(ctx, f)
}

// again runs f, which may be done twice.
func (s *Store) again(ctx context.Context, f func(c *pgxpool.Conn) error) error {
	for try := 1; ; try++ {
		err := s.with(ctx, f)
		switch {
		case err == nil || ctx.Err() != nil:
			return err
		case contended(err) && try < contendedTries:
			pause(try)
		case !lost(err) || try >= readTries:
			return err
		}
	}
}

// with runs f on a connection. A connection that was lost takes the idle ones with it, which are probably dead as well.
func (s *Store) with(ctx context.Context, f func(c *pgxpool.Conn) error) error {
	c, err := s.pool.Acquire(ctx)
	if err != nil {
		return unsent{err}
	}
	defer c.Release()
	err = f(c)
	if lost(err) && ctx.Err() == nil {
		s.pool.Reset()
	}
	return err
}
