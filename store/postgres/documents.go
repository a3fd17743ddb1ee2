package postgres

import (
	"context"
	"crypto/sha256"
	"io"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

var (
	selectDocument = newStatement(`SELECT body FROM effectonce.documents WHERE digest = $1::bytea`)
	insertDocument = newStatement(`INSERT INTO effectonce.documents (digest, body)
		SELECT $1::bytea, $2::bytea WHERE NOT EXISTS (SELECT FROM effectonce.documents WHERE digest = $1::bytea) ON CONFLICT (digest) DO NOTHING`)
	selectSecret = newStatement(`SELECT value FROM effectonce.secret`)
	insertSecret = newStatement(`INSERT INTO effectonce.secret (id, value) VALUES (1, $1::bytea) ON CONFLICT (id) DO NOTHING`)
)

func nothing(*scanner) error { return nil }

// PutDocument implements [effectonce.Store].
func (s *Store) PutDocument(ctx context.Context, doc []byte) (canon.Digest, error) {
	if err := s.enter(ctx); err != nil {
		return canon.Digest{}, err
	}
	defer s.leave()
	digest := canon.Digest(sha256.Sum256(doc))
	err := s.read(ctx, func(c *pgxpool.Conn) error {
		// An empty document is an empty value and not NULL. Doing it twice is doing it once.
		return s.query(ctx, c, insertDocument, [][]byte{digest[:], append([]byte{}, doc...)}, nothing)
	})
	if err != nil {
		return canon.Digest{}, s.place.mapError(err)
	}
	return digest, nil
}

// Document implements [effectonce.Store].
func (s *Store) Document(ctx context.Context, digest canon.Digest) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var doc []byte
	err := s.read(ctx, func(c *pgxpool.Conn) error {
		found := false
		err := s.query(ctx, c, selectDocument, [][]byte{digest[:]}, func(r *scanner) error {
			doc, found = r.blob(), true
			return nil
		})
		if err == nil && !found {
			err = &effectonce.Error{Code: effectonce.CodeNotFound, Detail: "no document has the digest " + digest.String()}
		}
		return err
	})
	return doc, s.place.mapError(err)
}

// Secret implements [effectonce.Store].
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	s.secretMu.Lock()
	defer s.secretMu.Unlock()
	if s.secret != nil {
		return slices.Clone(s.secret), nil
	}
	var secret []byte
	err := s.read(ctx, func(c *pgxpool.Conn) error {
		known := func(r *scanner) error { secret = r.blob(); return nil }
		if err := s.query(ctx, c, selectSecret, nil, known); err != nil || secret != nil {
			return err
		}
		fresh := make([]byte, 32)
		if _, err := io.ReadFull(s.rand, fresh); err != nil {
			return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "no randomness for the installation's secret", Cause: err}
		}
		// Another process may be faster; then its secret is the one.
		if err := s.query(ctx, c, insertSecret, [][]byte{fresh}, nothing); err != nil {
			return err
		}
		return s.query(ctx, c, selectSecret, nil, known)
	})
	if err != nil {
		return nil, s.place.mapError(err)
	}
	s.secret = secret
	return slices.Clone(secret), nil
}
