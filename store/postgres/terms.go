package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// termsCacheMax bounds the cache of terms; a store has as many as it has versions of policies, unless callers invent some.
const termsCacheMax = 1024

// termsCache remembers which row holds which terms. Rows of terms never change and are never deleted.
type termsCache struct {
	mu    sync.RWMutex
	byID  map[int64]effectonce.Terms
	idsOf map[effectonce.Terms]int64
}

func (c *termsCache) init() {
	c.byID, c.idsOf = map[int64]effectonce.Terms{}, map[effectonce.Terms]int64{}
}

func (c *termsCache) add(id int64, t effectonce.Terms) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) >= termsCacheMax {
		clear(c.byID)
		clear(c.idsOf)
	}
	c.byID[id], c.idsOf[t] = t, id
}

func (c *termsCache) id(t effectonce.Terms) (int64, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id, ok := c.idsOf[t]
	return id, ok
}

func (c *termsCache) terms(id int64) (effectonce.Terms, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	t, ok := c.byID[id]
	return t, ok
}

var (
	selectTermsID = newStatement(`SELECT id FROM effectonce.terms WHERE digest = $1::bytea`)
	insertTerms   = newStatement(`INSERT INTO effectonce.terms (digest, body) VALUES ($1::bytea, $2::text) ON CONFLICT (digest) DO NOTHING`)
	selectTerms   = newStatement(`SELECT body FROM effectonce.terms WHERE id = $1::bigint`)
)

// intern returns the id of terms, and stores them if they are new: before the operation that refers to them, in a statement of
// their own, which may be done twice.
func (s *Store) intern(ctx context.Context, t effectonce.Terms) (int64, error) {
	if id, ok := s.terms.id(t); ok {
		return id, nil
	}
	body, err := json.Marshal(t)
	if err != nil {
		return 0, &effectonce.Error{Code: effectonce.CodeInternal, Detail: "the terms have no JSON form", Cause: err}
	}
	digest := sha256.Sum256(body)
	var id int64
	err = s.again(ctx, func(c *pgxpool.Conn) error {
		known := func(r *scanner) error { id = r.integer(); return nil }
		if err := s.query(ctx, c, selectTermsID, [][]byte{digest[:]}, known); err != nil || id != 0 {
			return err
		}
		if err := s.query(ctx, c, insertTerms, [][]byte{digest[:], []byte(storable(string(body)))}, known); err != nil {
			return err
		}
		return s.query(ctx, c, selectTermsID, [][]byte{digest[:]}, known)
	})
	if err != nil {
		return 0, s.place.mapError(err)
	}
	s.terms.add(id, t)
	return id, nil
}

// termsOf returns the terms with the id.
func (s *Store) termsOf(ctx context.Context, q queryer, id int64) (effectonce.Terms, error) {
	if t, ok := s.terms.terms(id); ok {
		return t, nil
	}
	var t effectonce.Terms
	found := false
	err := q.query(ctx, selectTerms, []any{id}, func(r *scanner) error {
		found = true
		return json.Unmarshal([]byte(r.text()), &t)
	})
	if err != nil {
		return effectonce.Terms{}, err
	}
	if !found {
		return effectonce.Terms{}, &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: s.place.name + ": an operation refers to terms that are not there", Remedy: "restore a backup"}
	}
	s.terms.add(id, t)
	return t, nil
}
