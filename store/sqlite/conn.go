package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"
	"path/filepath"

	"modernc.org/sqlite"
)

// conn is one connection with its prepared statements, used by one goroutine at a time. It talks to the driver without
// database/sql, whose pool has no place for a writer that owns its connection.
type conn struct {
	raw   driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
	row   []driver.Value
}

// dsn names the file so that no character of its path is taken for a parameter.
func dsn(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return "file:" + (&url.URL{Path: filepath.ToSlash(abs)}).EscapedPath() + "?_txlock=immediate&_error_rc=1&_dqs=0", nil
}

func dial(ctx context.Context, path string, pragmas ...string) (*conn, error) {
	name, err := dsn(path)
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{raw: raw, stmts: map[string]driver.Stmt{}}
	for _, p := range pragmas {
		if err := c.once(ctx, "PRAGMA "+p); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *conn) close() error {
	var err error
	for _, s := range c.stmts {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, c.raw.Close())
}

// stmt returns the prepared statement of a query that is one of a fixed set of texts.
func (c *conn) stmt(query string) (driver.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.raw.Prepare(query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

func (c *conn) named(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, v := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.args
}

// exec runs a prepared statement that returns no rows.
func (c *conn) exec(query string, args ...driver.Value) (driver.Result, error) {
	s, err := c.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.(driver.StmtExecContext).ExecContext(context.Background(), c.named(args))
}

// query runs a prepared statement and hands each row to scan; the row is valid only during the call.
func (c *conn) query(ctx context.Context, query string, scan func(row []driver.Value) error, args ...driver.Value) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(ctx, c.named(args))
	if err != nil {
		return err
	}
	return c.scan(rows, scan)
}

// queryOnce is query for a text that is not worth keeping prepared.
func (c *conn) queryOnce(ctx context.Context, query string, scan func(row []driver.Value) error, args ...driver.Value) error {
	rows, err := c.raw.(driver.QueryerContext).QueryContext(ctx, query, c.named(args))
	if err != nil {
		return err
	}
	return c.scan(rows, scan)
}

func (c *conn) once(ctx context.Context, query string) error {
	return c.queryOnce(ctx, query, func([]driver.Value) error { return nil })
}

func (c *conn) scan(rows driver.Rows, scan func(row []driver.Value) error) (err error) {
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	n := len(rows.Columns())
	if cap(c.row) < n {
		c.row = make([]driver.Value, n)
	}
	row := c.row[:n]
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := scan(row); err != nil {
			return err
		}
	}
}

func (c *conn) integer(query string, args ...driver.Value) (int64, bool, error) {
	return integer(c, query, args...)
}
