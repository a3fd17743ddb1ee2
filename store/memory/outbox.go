package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

type queueID struct{ tenant, subject string }

// queue is a subject with what waits in it. It stays when it is empty: its numbers go on.
type queue struct {
	state    effectonce.Queue
	seq      int64
	messages []effectonce.Message
}

func (q queue) read(now time.Time) effectonce.Queue {
	state := q.state
	state.Waiting, state.AsOf = int64(len(q.messages)), now
	state.Head = ""
	if len(q.messages) > 0 {
		state.Head = q.messages[0].ID
	}
	return state
}

// Append implements [effectonce.Outbox].
func (s *Store) Append(ctx context.Context, messages ...effectonce.Message) error {
	checked := make([]effectonce.Message, len(messages))
	for i, m := range messages {
		var err error
		if checked[i], err = m.Check(); err != nil {
			return err
		}
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return err
	}
	for _, m := range checked {
		if waiting, ok := s.waits(m); ok {
			if err := m.Repeats(waiting); err != nil {
				return err
			}
		}
	}
	for _, m := range checked {
		if _, ok := s.waits(m); ok {
			continue
		}
		id := queueID{m.Tenant, m.Subject}
		q := s.queues[id]
		q.seq++
		m.Data = slices.Clone(m.Data)
		q.messages = append(q.messages[:len(q.messages):len(q.messages)], m.Numbered(q.seq, now))
		q.state.Tenant, q.state.Subject = m.Tenant, m.Subject
		if len(q.messages) == 1 {
			q.state.DueAt = now
		}
		s.queues[id] = q
	}
	s.high = now
	return nil
}

// waits finds the message that waits under the id of m.
func (s *Store) waits(m effectonce.Message) (effectonce.Message, bool) {
	if m.ID == "" {
		return effectonce.Message{}, false
	}
	for id, q := range s.queues {
		i := slices.IndexFunc(q.messages, func(waiting effectonce.Message) bool { return waiting.ID == m.ID })
		if id.tenant == m.Tenant && i >= 0 {
			return q.messages[i], true
		}
	}
	return effectonce.Message{}, false
}

// TakeQueue implements [effectonce.Outbox].
func (s *Store) TakeQueue(ctx context.Context, lease time.Duration, limit int) (effectonce.Queue, []effectonce.Message, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Queue{}, nil, err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return effectonce.Queue{}, nil, err
	}
	var longest queueID
	found := false
	for id, q := range s.queues {
		at := q.state.DueAt
		if at.IsZero() || now.Before(at) {
			continue
		}
		best := s.queues[longest].state.DueAt
		if !found || at.Before(best) || at.Equal(best) && cmp.Or(cmp.Compare(id.tenant, longest.tenant), cmp.Compare(id.subject, longest.subject)) < 0 {
			longest, found = id, true
		}
	}
	if !found {
		return effectonce.Queue{}, nil, &effectonce.Error{Code: effectonce.CodeNotFound, Detail: "no queue is due"}
	}
	q := s.queues[longest]
	q.state.Token++
	q.state.DueAt = effectonce.StoredTime(now.Add(lease))
	s.queues[longest] = q
	s.high = now
	return q.read(now), slices.Clone(q.messages[:min(limit, len(q.messages))]), nil
}

// ReturnQueue implements [effectonce.Outbox].
func (s *Store) ReturnQueue(ctx context.Context, taken effectonce.Queue, r effectonce.Relayed) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return err
	}
	id := queueID{taken.Tenant, taken.Subject}
	q, ok := s.queues[id]
	if !ok || q.state.Token != taken.Token || r.Delivered > len(q.messages) {
		return &effectonce.Error{Code: effectonce.CodeStaleToken, Detail: fmt.Sprintf("another relay has taken the queue of %q", taken.Subject)}
	}
	q.messages = q.messages[r.Delivered:]
	if r.Delivered > 0 {
		q.state.Attempts, q.state.Reason = 0, ""
	}
	q.state.DueAt = now
	if r.Reason != "" {
		q.state.Attempts++
		q.state.Reason = r.Reason
		q.state.DueAt = effectonce.StoredTime(now.Add(r.Again))
		q.state.Parked = r.Park
	}
	if len(q.messages) == 0 || q.state.Parked {
		q.state.DueAt = time.Time{}
	}
	// A relay that was late finds another token.
	q.state.Token++
	s.queues[id] = q
	s.high = now
	return nil
}

// Queues implements [effectonce.Outbox].
func (s *Store) Queues(ctx context.Context, f effectonce.QueueFilter) (effectonce.QueuePage, error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return effectonce.QueuePage{}, err
	}
	if err := s.enter(ctx); err != nil {
		return effectonce.QueuePage{}, err
	}
	defer s.mu.Unlock()
	now := effectonce.StoredTime(s.now())
	if now.Before(s.high) {
		now = s.high
	}
	var page effectonce.QueuePage
	for _, id := range slices.SortedFunc(maps.Keys(s.queues), func(a, b queueID) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.subject, b.subject))
	}) {
		q := s.queues[id].read(now)
		after := id.tenant + "\x00" + id.subject
		if q.Waiting == 0 || f.Tenant != "" && f.Tenant != id.tenant || f.Subject != "" && f.Subject != id.subject || f.Parked && !q.Parked ||
			!strings.Contains(lower(id.subject), lower(f.Text)) || after <= f.After {
			continue
		}
		if len(page.Queues) == limit {
			last := page.Queues[limit-1]
			page.Next = last.Tenant + "\x00" + last.Subject
			break
		}
		page.Queues = append(page.Queues, q)
	}
	return page, nil
}

// Unpark implements [effectonce.Outbox].
func (s *Store) Unpark(ctx context.Context, tenant, subject, head string, discard bool) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return err
	}
	id := queueID{tenant, subject}
	q, ok := s.queues[id]
	switch {
	case !ok || len(q.messages) == 0:
		return &effectonce.Error{Code: effectonce.CodeNotFound, Field: "subject", Detail: fmt.Sprintf("nothing waits in %q", subject)}
	case !q.state.Parked:
		return &effectonce.Error{Code: effectonce.CodeNotAllowed, Field: "subject", Detail: fmt.Sprintf("the head of %q is not parked", subject)}
	case q.messages[0].ID != head:
		return &effectonce.Error{Code: effectonce.CodeStaleVersion, Field: "head", Detail: fmt.Sprintf("the head of %q is %q", subject, q.messages[0].ID), Remedy: "look at it and decide again"}
	}
	if discard {
		q.messages = q.messages[1:]
	}
	q.state.Parked, q.state.Attempts, q.state.Reason, q.state.DueAt = false, 0, "", now
	if len(q.messages) == 0 {
		q.state.DueAt = time.Time{}
	}
	q.state.Token++
	s.queues[id] = q
	s.high = now
	return nil
}
