package memory

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Create implements [effectonce.Store].
func (s *Store) Create(ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Operation{}, false, err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	for _, key := range append([]effectonce.Key{t.To.Key}, t.To.Aliases...) {
		if r, ok := s.row(key); ok {
			return r.read(now), false, nil
		}
	}
	if err := t.Admit(now); err != nil {
		return effectonce.Operation{}, false, err
	}
	if t.To.Hold == effectonce.HoldNone && s.held(t.To.Tenant, t.To.Resource) {
		t = t.Hold(effectonce.HoldDuplicate)
	}
	if of, ok := s.twin(t.To, now); ok {
		if t, err = t.MarkTwin(of); err != nil {
			return effectonce.Operation{}, false, err
		}
	}
	if err := s.reserve(t.To, now); err != nil {
		return effectonce.Operation{}, false, err
	}
	t = t.Stamp(now)
	s.high = now
	s.order = append(s.order, t.To.Key)
	for _, alias := range t.To.Aliases {
		s.aliases[alias] = t.To.Key
	}
	s.put(&row{id: len(s.order)}, t)
	return t.To, true, nil
}

// Apply implements [effectonce.Store].
func (s *Store) Apply(ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Operation{}, err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return effectonce.Operation{}, err
	}
	r, ok := s.rows[t.From.Key]
	if !ok || r.op.Version != t.From.Version {
		return effectonce.Operation{}, stale(t.From)
	}
	// An owner may have extended its lease after somebody saw it run out; that is no new version.
	if t.To.Token != t.From.Token && !r.op.DueAt.Equal(effectonce.StoredTime(t.From.DueAt)) {
		return effectonce.Operation{}, stale(t.From)
	}
	t = t.Stamp(now)
	s.high = now
	if t.Releases() {
		s.giveBack(t.To.Key)
	}
	s.put(r, t)
	return t.To, nil
}

// put persists a transition with its event.
func (s *Store) put(r *row, t effectonce.Transition) {
	next := &row{id: r.id, op: t.To, events: append(r.events[:len(r.events):len(r.events)], t.Event)}
	next.op.AsOf = time.Time{}
	s.rows[t.To.Key] = next
	s.log = append(s.log, t.Event)
	if t.To.Alarm != "" && t.To.State == effectonce.StateReview {
		s.alarmed[t.To.Key] = struct{}{}
	} else {
		delete(s.alarmed, t.To.Key)
	}
}

// Extend implements [effectonce.Store].
func (s *Store) Extend(ctx context.Context, key effectonce.Key, token int64, lease, limit time.Duration) (time.Duration, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return 0, err
	}
	r, ok := s.rows[key]
	switch {
	case !ok:
		return 0, notFound(key)
	case r.op.State != effectonce.StateInProgress || r.op.Token != token:
		return 0, &effectonce.Error{Code: effectonce.CodeStaleToken, Key: key, Detail: fmt.Sprintf("token %d does not hold the lease", token)}
	case !now.Before(r.op.DueAt):
		return 0, &effectonce.Error{Code: effectonce.CodeStaleToken, Key: key, Detail: "the lease ran out"}
	}
	from := r.op.TakenAt
	if r.op.Open {
		from = r.op.OpenedAt
	}
	due := effectonce.StoredTime(now.Add(lease))
	if last := effectonce.StoredTime(from.Add(limit)); last.Before(due) {
		due = last
	}
	s.high = now
	if due.After(r.op.DueAt) {
		next := *r
		next.op.DueAt = due
		s.rows[key] = &next
		return due.Sub(now), nil
	}
	return r.op.DueAt.Sub(now), nil
}

// held reports whether the resource has a duplicate alarm that a person has not resolved (S7.1).
func (s *Store) held(tenant, resource string) bool {
	if resource == "" {
		return false
	}
	for key := range s.alarmed {
		if op := s.rows[key].op; op.Resource == resource && op.Tenant == tenant {
			return true
		}
	}
	return false
}

// twin finds the latest recent operation that op is a twin of (S3.8). An operation without a twin digest pays nothing.
func (s *Store) twin(op effectonce.Operation, now time.Time) (effectonce.Key, bool) {
	if op.Terms.Twins == effectonce.TwinOff || op.Twin.IsZero() {
		return effectonce.Key{}, false
	}
	since := now.Add(-op.Terms.TwinsWithin)
	for _, key := range slices.Backward(s.order) {
		r, ok := s.rows[key]
		if !ok {
			continue
		}
		o := r.op
		if !o.CreatedAt.After(since) {
			break
		}
		if o.Twin == op.Twin && o.Tenant == op.Tenant && o.Tool == op.Tool && o.State != effectonce.StateFailed && !sameIntent(o, op) {
			return key, true
		}
	}
	return effectonce.Key{}, false
}

// sameIntent reports whether two operations are revisions of one intent.
func sameIntent(a, b effectonce.Operation) bool {
	return a.IntentID == b.IntentID && a.Scope == b.Scope &&
		(a.Scope == effectonce.ScopeBusiness || a.Run == b.Run) &&
		(a.Scope != effectonce.ScopeStep || a.Step == b.Step)
}

// PutDocument implements [effectonce.Store].
func (s *Store) PutDocument(ctx context.Context, doc []byte) (canon.Digest, error) {
	if err := s.enter(ctx); err != nil {
		return canon.Digest{}, err
	}
	defer s.mu.Unlock()
	d := canon.Digest(sha256.Sum256(doc))
	if _, ok := s.docs[d]; !ok {
		s.docs[d] = slices.Clone(doc)
	}
	return d, nil
}

// Secret implements [effectonce.Store].
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if s.secret == nil {
		b := make([]byte, 32)
		if _, err := io.ReadFull(s.rand, b); err != nil {
			return nil, &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "no randomness for the installation's secret", Cause: err}
		}
		s.secret = b
	}
	return slices.Clone(s.secret), nil
}

func stale(op effectonce.Operation) error {
	return &effectonce.Error{Code: effectonce.CodeStaleVersion, Key: op.Key, Detail: fmt.Sprintf("version %d is not the current one", op.Version), Remedy: "load it and decide again"}
}

func notFound(key effectonce.Key) error {
	return &effectonce.Error{Code: effectonce.CodeNotFound, Key: key, Detail: "no operation has this key"}
}
