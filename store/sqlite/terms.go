package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/json"
	"sync"

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

type internedTerms struct {
	id    int64
	terms effectonce.Terms
}

func (c *termsCache) init() {
	c.byID, c.idsOf = map[int64]effectonce.Terms{}, map[effectonce.Terms]int64{}
}

func (c *termsCache) add(all []internedTerms) {
	if len(all) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range all {
		if len(c.byID) >= termsCacheMax {
			clear(c.byID)
			clear(c.idsOf)
		}
		c.byID[t.id], c.idsOf[t.terms] = t.terms, t.id
	}
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

// intern returns the id of terms, and stores them if they are new. The cache learns it only after the commit.
func (b *batch) intern(t effectonce.Terms) (int64, error) {
	if id, ok := b.s.terms.id(t); ok {
		return id, nil
	}
	body, err := json.Marshal(t)
	if err != nil {
		return 0, &effectonce.Error{Code: effectonce.CodeInternal, Detail: "the terms have no JSON form", Cause: err}
	}
	digest := sha256.Sum256(body)
	id, ok, err := b.integer("SELECT id FROM terms WHERE digest = ?", digest[:])
	if err != nil {
		return 0, err
	}
	if !ok {
		res, err := b.exec("INSERT INTO terms (digest, body) VALUES (?, ?)", digest[:], string(body))
		if err != nil {
			return 0, err
		}
		if id, err = res.LastInsertId(); err != nil {
			return 0, err
		}
		b.dirty = true
	}
	b.learnt = append(b.learnt, internedTerms{id: id, terms: t})
	return id, nil
}

// termsOf returns the terms with the id, by a connection that sees the row that refers to them.
func (s *Store) termsOf(c querier, id int64) (effectonce.Terms, error) {
	if t, ok := s.terms.terms(id); ok {
		return t, nil
	}
	var t effectonce.Terms
	found := false
	err := c.query(context.Background(), "SELECT body FROM terms WHERE id = ?", func(row []driver.Value) error {
		found = true
		body, _ := row[0].(string)
		return json.Unmarshal([]byte(body), &t)
	}, id)
	if err != nil {
		return effectonce.Terms{}, err
	}
	if !found {
		return effectonce.Terms{}, &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: s.path + ": an operation refers to terms that are not there", Remedy: "restore a backup"}
	}
	return t, nil
}
