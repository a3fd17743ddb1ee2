package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/effectonce/effectonce"
)

// The fence is the version (S5.1 I4). The row was found by its key in the same transaction.
var updateOperation = `UPDATE operations SET (` + lifeColumns + `) = (` + placeholders(lifeCount) + `) WHERE id = ? AND version = ?`

const insertEvent = `INSERT INTO events (operation, seq, at, kind, from_state, to_state, token, attempt, epoch, sends, risk, line,
	actor, verdict, found, resolution, reference, reason) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

// Apply implements [effectonce.Store].
func (s *Store) Apply(ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	var op effectonce.Operation
	err := s.w.write(ctx, func(b *batch) (err error) {
		op, err = b.apply(t)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, err
	}
	return op, nil
}

func (b *batch) apply(t effectonce.Transition) (effectonce.Operation, error) {
	now, err := b.clock()
	if err != nil {
		return effectonce.Operation{}, err
	}
	id, err := b.fenced(t)
	if err != nil {
		return effectonce.Operation{}, err
	}
	stamped := t.Stamp(now)
	if err := b.update(id, stamped); err != nil {
		return effectonce.Operation{}, err
	}
	return stamped.To, nil
}

// fenced returns the row's id if the row is still the one that the transition was computed from.
func (b *batch) fenced(t effectonce.Transition) (id int64, err error) {
	fits := false
	err = b.query(context.Background(), `SELECT id, version, due_at FROM operations WHERE key = ?`, func(row []driver.Value) error {
		r := scanner{row: row}
		var version int64
		var due time.Time
		id, version, due = r.integer(), r.integer(), r.at()
		// An owner may have extended its lease after somebody saw it run out; that is no new version.
		fits = version == t.From.Version && (t.To.Token == t.From.Token || due.Equal(effectonce.StoredTime(t.From.DueAt)))
		return r.err
	}, t.From.Key[:])
	if err == nil && !fits {
		err = stale(t.From)
	}
	return id, err
}

func (b *batch) update(id int64, t effectonce.Transition) error {
	values, err := lifeValues(&t.To)
	if err != nil {
		return err
	}
	res, err := b.exec(updateOperation, append(values, id, t.From.Version)...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return fmt.Errorf("a row changed under the write lock: %w", err)
	}
	b.dirty = true
	if err := b.hold(id, &t.From, &t.To); err != nil {
		return err
	}
	if t.Releases() {
		if err := b.release(id); err != nil {
			return err
		}
	}
	if t.From.PurgedAt.IsZero() && !t.To.PurgedAt.IsZero() {
		if err := b.empty(id); err != nil {
			return err
		}
	}
	return b.event(id, &t.Event)
}

// hold starts or ends the hold of the operation's resource with its duplicate alarm (S7.1).
func (b *batch) hold(id int64, from, to *effectonce.Operation) error {
	if to.Resource == "" {
		return nil
	}
	var err error
	was, is := alarmed(from), alarmed(to)
	switch {
	case is && !was:
		_, err = b.exec("INSERT INTO holds (operation, tenant, resource) VALUES (?, ?, ?)", id, to.Tenant, to.Resource)
	case was && !is:
		_, err = b.exec("DELETE FROM holds WHERE operation = ?", id)
	}
	return err
}

func alarmed(op *effectonce.Operation) bool {
	return op.Alarm != "" && op.State == effectonce.StateReview
}

func (b *batch) event(id int64, e *effectonce.Event) error {
	_, err := b.exec(insertEvent, id, e.Seq, e.At.UnixMicro(), string(e.Kind), text(string(e.From)), string(e.To), e.Token,
		int64(e.Attempt), int64(e.Epoch), flag(e.Sends), flag(e.Risk), int64(e.Line), text(e.Actor), text(string(e.Verdict)),
		text(string(e.Found)), text(string(e.Resolution)), text(e.Reference), text(e.Reason))
	return err
}

// Extend implements [effectonce.Store]. It never makes a lease shorter than it is.
func (s *Store) Extend(ctx context.Context, key effectonce.Key, token int64, lease, limit time.Duration) (time.Duration, error) {
	var left time.Duration
	err := s.w.write(ctx, func(b *batch) error {
		now, err := b.clock()
		if err != nil {
			return err
		}
		id, due, from, err := b.leased(key, token, now)
		if err != nil {
			return err
		}
		until := effectonce.StoredTime(now.Add(lease))
		if last := effectonce.StoredTime(from.Add(limit)); last.Before(until) {
			until = last
		}
		if !until.After(due) {
			left = due.Sub(now)
			return nil
		}
		left = until.Sub(now)
		b.dirty = true
		_, err = b.exec("UPDATE operations SET due_at = ? WHERE id = ? AND token = ?", until.UnixMicro(), id, token)
		return err
	})
	return left, err
}

// leased returns the row that the token owns, when its lease ends, and what the lease's limit counts from.
func (b *batch) leased(key effectonce.Key, token int64, now time.Time) (id int64, due, from time.Time, err error) {
	var state effectonce.State
	var holder int64
	found := false
	err = b.query(context.Background(), "SELECT id, state, token, due_at, open, opened_at, taken_at FROM operations WHERE key = ?", func(row []driver.Value) error {
		r := scanner{row: row}
		id, state, holder, due = r.integer(), effectonce.State(r.text()), r.integer(), r.at()
		open, opened, taken := r.flag(), r.at(), r.at()
		from, found = taken, true
		if open {
			from = opened
		}
		return r.err
	}, key[:])
	switch {
	case err != nil:
	case !found:
		err = notFound(key)
	case state != effectonce.StateInProgress || holder != token:
		err = &effectonce.Error{Code: effectonce.CodeStaleToken, Key: key, Detail: fmt.Sprintf("token %d does not hold the lease", token)}
	case !now.Before(due):
		err = &effectonce.Error{Code: effectonce.CodeStaleToken, Key: key, Detail: "the lease ran out"}
	}
	return id, due, from, err
}

func stale(op effectonce.Operation) error {
	return &effectonce.Error{Code: effectonce.CodeStaleVersion, Key: op.Key, Detail: fmt.Sprintf("version %d is not the current one", op.Version), Remedy: "load it and decide again"}
}
