package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"io"
	"slices"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// PutDocument implements [effectonce.Store].
func (s *Store) PutDocument(ctx context.Context, doc []byte) (canon.Digest, error) {
	digest := canon.Digest(sha256.Sum256(doc))
	exists := false
	err := s.readers.use(ctx, func(c *conn) (err error) {
		_, exists, err = c.integer("SELECT 1 FROM documents WHERE digest = ?", digest[:])
		return err
	})
	if err != nil || exists {
		return digest, s.mapError(err)
	}
	err = s.w.write(ctx, func(b *batch) error {
		// An empty document is an empty blob and not NULL.
		_, err := b.exec("INSERT INTO documents (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING", digest[:], append([]byte{}, doc...))
		b.dirty = true
		return err
	})
	if err != nil {
		return canon.Digest{}, err
	}
	return digest, nil
}

// Document implements [effectonce.Store].
func (s *Store) Document(ctx context.Context, digest canon.Digest) ([]byte, error) {
	var doc []byte
	err := s.readers.use(ctx, func(c *conn) error {
		found := false
		err := c.query(context.Background(), "SELECT body FROM documents WHERE digest = ?", func(row []driver.Value) error {
			r := scanner{row: row}
			doc, found = r.blob(), true
			return r.err
		}, digest[:])
		if err == nil && !found {
			err = &effectonce.Error{Code: effectonce.CodeNotFound, Detail: "no document has the digest " + digest.String()}
		}
		return err
	})
	return doc, s.mapError(err)
}

// Secret implements [effectonce.Store]. It was read, or made, when the store was opened.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	if s.w.isClosed() {
		return nil, s.errClosed()
	}
	if err := ctx.Err(); err != nil {
		return nil, s.mapError(err)
	}
	return slices.Clone(s.secret), nil
}

// makeSecret stores a secret, unless another process was faster; then it returns that one.
func (s *Store) makeSecret(ctx context.Context) ([]byte, error) {
	fresh := make([]byte, 32)
	if _, err := io.ReadFull(s.rand, fresh); err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "no randomness for the installation's secret", Cause: err}
	}
	var secret []byte
	err := s.w.write(ctx, func(b *batch) error {
		if _, err := b.exec("INSERT INTO secret (id, value) VALUES (1, ?) ON CONFLICT DO NOTHING", fresh); err != nil {
			return err
		}
		b.dirty = true
		var err error
		secret, err = secretOf(b)
		return err
	})
	return secret, err
}

func secretOf(q querier) (secret []byte, err error) {
	err = q.query(context.Background(), "SELECT value FROM secret", func(row []driver.Value) error {
		r := scanner{row: row}
		secret = r.blob()
		return r.err
	})
	return secret, err
}
