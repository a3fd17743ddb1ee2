package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// read returns the row's operation as of now.
func (r *row) read(now time.Time) effectonce.Operation {
	op := r.op
	op.AsOf = now
	return op
}

// row returns the row that has the key, also as an alias.
func (s *Store) row(key effectonce.Key) (*row, bool) {
	if real, ok := s.aliases[key]; ok {
		key = real
	}
	r, ok := s.rows[key]
	return r, ok
}

// Load implements [effectonce.Store].
func (s *Store) Load(ctx context.Context, key effectonce.Key) (effectonce.Operation, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Operation{}, err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return effectonce.Operation{}, err
	}
	r, ok := s.row(key)
	if !ok {
		return effectonce.Operation{}, notFound(key)
	}
	return r.read(now), nil
}

// Due implements [effectonce.Store].
func (s *Store) Due(ctx context.Context, limit int) ([]effectonce.Operation, error) {
	return s.longestDue(ctx, limit, func(op effectonce.Operation, now time.Time) (time.Time, bool) {
		return op.DueAt, !op.DueAt.IsZero() && !now.Before(op.DueAt)
	})
}

// List implements [effectonce.Store]. The errors are also [effectonce.ErrInvalid] for a limit or cursor that is none.
func (s *Store) List(ctx context.Context, f effectonce.Filter) (effectonce.Page, error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return effectonce.Page{}, err
	}
	if err := s.enter(ctx); err != nil {
		return effectonce.Page{}, err
	}
	defer s.mu.Unlock()
	before, err := pageStart(f.After, len(s.order)+1)
	if err != nil {
		return effectonce.Page{}, err
	}
	now := effectonce.StoredTime(s.now())
	if now.Before(s.high) {
		now = s.high
	}
	var page effectonce.Page
	for id := before - 1; id >= 1; id-- {
		r, ok := s.rows[s.order[id-1]]
		if !ok || !selects(f, r.op) {
			continue
		}
		if len(page.Operations) == limit {
			page.Next = strconv.Itoa(s.rows[page.Operations[limit-1].Key].id)
			break
		}
		page.Operations = append(page.Operations, r.read(now))
	}
	return page, nil
}

// pageLimit is the size of a page, 50 where none is asked for.
func pageLimit(asked int) (int, error) {
	limit := cmp.Or(asked, 50)
	if limit < 1 || limit > effectonce.ListLimitMax {
		return 0, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "limit", Detail: fmt.Sprintf("%d is not between 1 and %d", asked, effectonce.ListLimitMax)}
	}
	return limit, nil
}

// pageStart is the place before which a page begins, end for the first one.
func pageStart(after string, end int) (int, error) {
	if after == "" {
		return end, nil
	}
	n, err := strconv.Atoi(after)
	if err != nil || n < 1 {
		return 0, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "after", Detail: "is not the end of a page", Remedy: "use the next of the page before"}
	}
	return min(n, end), nil
}

func selects(f effectonce.Filter, op effectonce.Operation) bool {
	switch {
	case f.Tenant != "" && f.Tenant != op.Tenant,
		f.Tool != "" && f.Tool != op.Tool,
		f.IntentID != "" && f.IntentID != op.IntentID,
		f.Run != "" && f.Run != op.Run,
		f.Step != "" && f.Step != op.Step,
		len(f.States) > 0 && !slices.Contains(f.States, op.State),
		f.Alarmed && op.Alarm == "":
		return false
	}
	if f.Text == "" {
		return true
	}
	text := lower(f.Text)
	for _, s := range []string{op.Key.String(), op.IntentID, op.Run, op.Step, op.Reference, op.Resource} {
		if strings.Contains(lower(s), text) {
			return true
		}
	}
	return false
}

// lower folds ASCII letters only, as the databases do.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Events implements [effectonce.Store].
func (s *Store) Events(ctx context.Context, key effectonce.Key) ([]effectonce.Event, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, ok := s.row(key)
	if !ok {
		return nil, nil
	}
	return slices.Clone(r.events), nil
}

// Document implements [effectonce.Store].
func (s *Store) Document(ctx context.Context, digest canon.Digest) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	doc, ok := s.docs[digest]
	if !ok {
		return nil, &effectonce.Error{Code: effectonce.CodeNotFound, Detail: "no document has the digest " + digest.String()}
	}
	return slices.Clone(doc), nil
}
