package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
)

// querier runs SQL on one connection: one of the store's own, or the caller's within its transaction. Queries are of a fixed set of
// texts.
type querier interface {
	// exec runs a statement that returns no rows.
	exec(query string, args ...driver.Value) (driver.Result, error)
	// query hands each row to scan; the row is valid only during the call. Within scan nothing else is asked.
	query(ctx context.Context, query string, scan func(row []driver.Value) error, args ...driver.Value) error
}

// integer returns the first column of the first row of a query, and whether there is a row.
func integer(q querier, query string, args ...driver.Value) (n int64, ok bool, err error) {
	err = q.query(context.Background(), query, func(row []driver.Value) error {
		n, ok = row[0].(int64)
		if !ok {
			return fmt.Errorf("no integer but %T", row[0])
		}
		return nil
	}, args...)
	return n, ok, err
}

// changed runs a statement and returns how many rows it changed.
func changed(q querier, query string, args ...driver.Value) (int64, error) {
	res, err := q.exec(query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// inserted runs a statement that inserts a row, and returns its id.
func inserted(q querier, query string, args ...driver.Value) (int64, error) {
	res, err := q.exec(query, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}
