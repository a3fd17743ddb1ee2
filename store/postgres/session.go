package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// queryer runs statements with plain parameters: on a connection of the store's, or in a transaction of the caller's. What is rare
// is written once, over this.
type queryer interface {
	// query hands each row to row, whose memory is used again afterwards. Arguments are int64, bool, string, []byte or nil, and so
	// are the columns of rows.
	query(ctx context.Context, st *statement, args []any, row func(*scanner) error) error
}

// pooled is a connection of the store's.
type pooled struct {
	s *Store
	c *pgxpool.Conn
}

func (p pooled) query(ctx context.Context, st *statement, args []any, row func(*scanner) error) error {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = binaryOf(a)
	}
	return p.s.query(ctx, p.c, st, params, row)
}

// binaryOf is a plain value in PostgreSQL's binary format.
func binaryOf(v any) []byte {
	switch v := v.(type) {
	case int64:
		return int8Bytes(v)
	case bool:
		if v {
			return []byte{1}
		}
		return []byte{0}
	case string:
		return append([]byte{}, v...)
	case []byte:
		return v
	}
	return nil
}

// orNull is text as an argument, NULL where it is empty.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return storable(s)
}

func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// numberOf reads a number from the only row; ok is false where there is none, or it is NULL.
func numberOf(ctx context.Context, q queryer, st *statement, args ...any) (n int64, ok bool, err error) {
	err = q.query(ctx, st, args, func(r *scanner) error {
		ok = !r.null()
		n = r.integer()
		return nil
	})
	return n, ok, err
}
