package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/effectonce/effectonce"
)

var (
	// lockSubject makes a subject, or finds it, and locks its row: whoever appends to it comes one after the other, in the order of
	// commits.
	lockSubject = newStatement(`INSERT INTO effectonce.subjects AS s (tenant, subject, last) VALUES ($1::text, $2::text, 0)
	ON CONFLICT (tenant, subject) DO UPDATE SET last = s.last RETURNING s.id`)
	// insertMessage gives a message the next number of its subject, unless one with its id waits already.
	insertMessage = newStatement(`WITH m AS (
		INSERT INTO effectonce.messages (queue, seq, at, fresh, tenant, id, type, content_type, data)
		SELECT s.id, s.last + 1, $2::bigint, true, $3::text, coalesce($4::text, $5::text || '/' || (s.last + 1)), $6::text, $7::text, $8::bytea
		FROM effectonce.subjects s
		WHERE s.id = $1::bigint AND NOT EXISTS (SELECT FROM effectonce.messages o WHERE o.id = $4::text AND o.tenant = $3::text)
		RETURNING queue
	)
	UPDATE effectonce.subjects s SET last = s.last + 1 FROM m WHERE s.id = m.queue`)
)

var selectSameID = newStatement(`SELECT s.subject, m.type, m.content_type, m.data FROM effectonce.messages m
	JOIN effectonce.subjects s ON s.id = m.queue WHERE m.id = $1::text AND m.tenant = $2::text LIMIT 1`)

// compareWaiting refuses a message under whose id another one waits.
func compareWaiting(ctx context.Context, q queryer, m effectonce.Message) error {
	if m.ID == "" {
		return nil
	}
	var waiting *effectonce.Message
	err := q.query(ctx, selectSameID, []any{storable(m.ID), storable(m.Tenant)}, func(r *scanner) error {
		waiting = &effectonce.Message{Subject: r.text(), Type: r.text(), ContentType: r.text(), Data: r.blob()}
		return nil
	})
	if err != nil || waiting == nil {
		return err
	}
	return m.Repeats(*waiting)
}

// Append implements [effectonce.Outbox].
func (s *Store) Append(ctx context.Context, messages ...effectonce.Message) error {
	checked, err := checkMessages(messages)
	if err != nil || len(checked) == 0 {
		return err
	}
	return s.transaction(ctx, func(ctx context.Context, q queryer) error { return s.appendTo(ctx, q, checked) })
}

func checkMessages(messages []effectonce.Message) ([]effectonce.Message, error) {
	checked := make([]effectonce.Message, len(messages))
	for i, m := range messages {
		var err error
		if checked[i], err = m.Check(); err != nil {
			return nil, err
		}
	}
	return checked, nil
}

// subject is what numbers messages.
type subject struct{ tenant, name string }

// appendTo stores checked messages in a transaction. Subjects are locked in the order of their names, in which everybody does.
func (s *Store) appendTo(ctx context.Context, q queryer, messages []effectonce.Message) error {
	var subjects []subject
	for _, m := range messages {
		subjects = append(subjects, subject{storable(m.Tenant), storable(m.Subject)})
	}
	slices.SortFunc(subjects, func(a, b subject) int { return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.name, b.name)) })
	ids := map[subject]int64{}
	for _, of := range slices.Compact(subjects) {
		id, _, err := numberOf(ctx, q, lockSubject, of.tenant, of.name)
		if err != nil {
			return err
		}
		ids[of] = id
	}
	// The locks may have been waited for.
	at, err := s.moment(ctx, q)
	if err != nil {
		return err
	}
	// All are compared before anything is written, so that a refusal spoils nothing.
	for _, m := range messages {
		if err := compareWaiting(ctx, q, m); err != nil {
			return err
		}
	}
	for _, m := range messages {
		of := subject{storable(m.Tenant), storable(m.Subject)}
		err := q.query(ctx, insertMessage, []any{ids[of], at.micros, of.tenant, orNull(m.ID), of.name, orNull(m.Type), storable(m.ContentType), bytesOrNull(m.Data)}, nothing)
		if err != nil {
			return err
		}
	}
	return nil
}
