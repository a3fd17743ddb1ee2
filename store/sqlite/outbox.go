package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

const selectQueueDue = `SELECT id FROM queues INDEXED BY queues_due WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY due_at, id LIMIT 1`

// queueColumns ends with the head's id.
const queueColumns = `tenant, subject, waiting, attempts, reason, parked, due_at, token,
	(SELECT m.id FROM messages m WHERE m.queue = queues.id ORDER BY m.seq LIMIT 1)`

const selectMessages = `SELECT id, seq, at, type, content_type, data FROM messages WHERE queue = ? ORDER BY seq LIMIT ?`

// Append implements [effectonce.Outbox].
func (s *Store) Append(ctx context.Context, messages ...effectonce.Message) error {
	messages, err := checked(messages)
	if err != nil || len(messages) == 0 {
		return err
	}
	return s.w.write(ctx, func(b *batch) error { return b.append(messages) })
}

func checked(messages []effectonce.Message) ([]effectonce.Message, error) {
	all := make([]effectonce.Message, len(messages))
	for i, m := range messages {
		var err error
		if all[i], err = m.Check(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// append numbers messages under the write lock, so that the numbers are in the order of the commits (S9.2).
func (b *batch) append(messages []effectonce.Message) error {
	now, err := b.clock()
	if err != nil {
		return err
	}
	// All are compared before anything is written, so that a refusal spoils nothing.
	for _, m := range messages {
		if waiting, ok, err := b.waits(m); err != nil {
			return err
		} else if ok {
			if err := m.Repeats(waiting); err != nil {
				return err
			}
		}
	}
	for _, m := range messages {
		if err := b.appendOne(m, now); err != nil {
			return err
		}
	}
	return nil
}

// waits finds the message that waits under the id of m.
func (b *batch) waits(m effectonce.Message) (waiting effectonce.Message, ok bool, err error) {
	if m.ID == "" {
		return effectonce.Message{}, false, nil
	}
	err = b.query(context.Background(), `SELECT q.subject, m.type, m.content_type, m.data FROM messages m JOIN queues q ON q.id = m.queue
		WHERE m.id = ? AND m.tenant = ? LIMIT 1`, func(row []driver.Value) error {
		r := scanner{row: row}
		ok = true
		waiting = effectonce.Message{Subject: r.text(), Type: r.text(), ContentType: r.text(), Data: r.blob()}
		return r.err
	}, m.ID, m.Tenant)
	return waiting, ok, err
}

func (b *batch) appendOne(m effectonce.Message, now time.Time) error {
	if _, ok, err := b.waits(m); err != nil || ok {
		return err
	}
	var queue, number, waiting int64
	err := b.query(context.Background(), "SELECT id, next, waiting FROM queues WHERE tenant = ? AND subject = ?", func(row []driver.Value) error {
		r := scanner{row: row}
		queue, number, waiting = r.integer(), r.integer(), r.integer()
		return r.err
	}, m.Tenant, m.Subject)
	if err != nil {
		return err
	}
	b.dirty = true
	switch {
	case queue == 0:
		number = 1
		queue, err = inserted(b, `INSERT INTO queues (tenant, subject, next, waiting, attempts, parked, due_at, token) VALUES (?, ?, 2, 1, 0, 0, ?, 0)`,
			m.Tenant, m.Subject, now.UnixMicro())
	case waiting == 0:
		_, err = b.exec("UPDATE queues SET next = next + 1, waiting = 1, due_at = ? WHERE id = ?", now.UnixMicro(), queue)
	default:
		_, err = b.exec("UPDATE queues SET next = next + 1, waiting = waiting + 1 WHERE id = ?", queue)
	}
	if err != nil {
		return err
	}
	m = m.Numbered(number, now)
	_, err = b.exec("INSERT INTO messages (queue, seq, tenant, id, at, type, content_type, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		queue, m.Seq, m.Tenant, m.ID, now.UnixMicro(), text(m.Type), text(m.ContentType), blob(m.Data))
	return err
}

// TakeQueue implements [effectonce.Outbox]. While nothing is due it takes no lock.
func (s *Store) TakeQueue(ctx context.Context, lease time.Duration, limit int) (effectonce.Queue, []effectonce.Message, error) {
	nothing := &effectonce.Error{Code: effectonce.CodeNotFound, Detail: "no queue is due"}
	err := s.readers.use(ctx, func(c *conn) error {
		now, err := s.asOf(c)
		if err != nil {
			return err
		}
		_, due, err := c.integer(selectQueueDue, now.UnixMicro())
		if err == nil && !due {
			err = nothing
		}
		return err
	})
	if err != nil {
		return effectonce.Queue{}, nil, s.mapError(err)
	}
	var queue effectonce.Queue
	var messages []effectonce.Message
	err = s.w.write(ctx, func(b *batch) error {
		now, err := b.clock()
		if err != nil {
			return err
		}
		id, due, err := b.integer(selectQueueDue, now.UnixMicro())
		if err != nil {
			return err
		}
		if !due {
			return nothing
		}
		b.dirty = true
		if _, err := b.exec("UPDATE queues SET due_at = ?, token = token + 1 WHERE id = ?", now.Add(lease).UnixMicro(), id); err != nil {
			return err
		}
		queue, messages, err = b.taken(id, max(limit, 1))
		queue.AsOf = now
		return err
	})
	if err != nil {
		return effectonce.Queue{}, nil, err
	}
	return queue, messages, nil
}

func (b *batch) taken(id int64, limit int) (queue effectonce.Queue, messages []effectonce.Message, err error) {
	err = b.query(context.Background(), "SELECT "+queueColumns+" FROM queues WHERE id = ?", func(row []driver.Value) error {
		r := scanner{row: row}
		queue = scanQueue(&r)
		return r.err
	}, id)
	if err != nil {
		return queue, nil, err
	}
	err = b.query(context.Background(), selectMessages, func(row []driver.Value) error {
		r := scanner{row: row}
		messages = append(messages, effectonce.Message{Tenant: queue.Tenant, Subject: queue.Subject,
			ID: r.text(), Seq: r.integer(), At: r.at(), Type: r.text(), ContentType: r.text(), Data: r.blob()})
		return r.err
	}, id, int64(limit))
	return queue, messages, err
}

func scanQueue(r *scanner) effectonce.Queue {
	return effectonce.Queue{Tenant: r.text(), Subject: r.text(), Waiting: r.integer(), Attempts: int(r.integer()), Reason: r.text(),
		Parked: r.flag(), DueAt: r.at(), Token: r.integer(), Head: r.text()}
}

// ReturnQueue implements [effectonce.Outbox]. The token grows, so that a repeat of a call whose answer was lost removes nothing more.
func (s *Store) ReturnQueue(ctx context.Context, q effectonce.Queue, r effectonce.Relayed) error {
	return s.w.write(ctx, func(b *batch) error {
		now, err := b.clock()
		if err != nil {
			return err
		}
		id, stored, err := b.queueOf(q.Tenant, q.Subject)
		if err != nil {
			return err
		}
		if id == 0 || stored.Token != q.Token || int64(r.Delivered) > stored.Waiting {
			return &effectonce.Error{Code: effectonce.CodeStaleToken, Field: "subject", Detail: fmt.Sprintf("another relay has taken the queue of %q", q.Subject)}
		}
		if r.Delivered > 0 {
			if err := b.remove(id, r.Delivered); err != nil {
				return err
			}
			stored.Waiting -= int64(r.Delivered)
			stored.Attempts, stored.Reason = 0, ""
		}
		stored.DueAt = now
		if r.Reason != "" {
			stored.Attempts++
			stored.Reason, stored.Parked = r.Reason, r.Park
			stored.DueAt = effectonce.StoredTime(now.Add(r.Again))
		}
		return b.putQueue(id, stored)
	})
}

// Unpark implements [effectonce.Outbox].
func (s *Store) Unpark(ctx context.Context, tenant, subject, head string, discard bool) error {
	return s.w.write(ctx, func(b *batch) error {
		now, err := b.clock()
		if err != nil {
			return err
		}
		id, q, err := b.queueOf(tenant, subject)
		switch {
		case err != nil:
			return err
		case id == 0 || q.Waiting == 0:
			return &effectonce.Error{Code: effectonce.CodeNotFound, Field: "subject", Detail: fmt.Sprintf("nothing waits in %q", subject)}
		case !q.Parked:
			return &effectonce.Error{Code: effectonce.CodeNotAllowed, Field: "subject", Detail: fmt.Sprintf("the head of %q is not parked", subject)}
		case q.Head != head:
			return &effectonce.Error{Code: effectonce.CodeStaleVersion, Field: "head", Detail: fmt.Sprintf("the head of %q is %q", subject, q.Head), Remedy: "look at it and decide again"}
		}
		if discard {
			if err := b.remove(id, 1); err != nil {
				return err
			}
			q.Waiting--
		}
		q.Parked, q.Attempts, q.Reason, q.DueAt = false, 0, "", now
		return b.putQueue(id, q)
	})
}

// queueOf returns the queue of a subject; its id is 0 if there is none.
func (b *batch) queueOf(tenant, subject string) (id int64, q effectonce.Queue, err error) {
	err = b.query(context.Background(), "SELECT id, "+queueColumns+" FROM queues WHERE tenant = ? AND subject = ?", func(row []driver.Value) error {
		r := scanner{row: row}
		id = r.integer()
		q = scanQueue(&r)
		return r.err
	}, tenant, subject)
	return id, q, err
}

// remove takes the first n messages out of a queue.
func (b *batch) remove(id int64, n int) error {
	b.dirty = true
	_, err := b.exec("DELETE FROM messages WHERE row IN (SELECT row FROM messages WHERE queue = ? ORDER BY seq LIMIT ?)", id, int64(n))
	return err
}

// putQueue stores what became of a queue, under the next token: whoever had it has it no more.
func (b *batch) putQueue(id int64, q effectonce.Queue) error {
	b.dirty = true
	if q.Parked || q.Waiting == 0 {
		q.DueAt = time.Time{}
	}
	q.Parked = q.Parked && q.Waiting > 0
	_, err := b.exec("UPDATE queues SET waiting = ?, attempts = ?, reason = ?, parked = ?, due_at = ?, token = token + 1 WHERE id = ?",
		q.Waiting, int64(q.Attempts), text(q.Reason), flag(q.Parked), at(q.DueAt), id)
	return err
}

// Queues implements [effectonce.Outbox]. What waits is in one of two narrow indexes, however many subjects there ever were. The errors
// are also [effectonce.ErrInvalid] for a limit or cursor that is none.
func (s *Store) Queues(ctx context.Context, f effectonce.QueueFilter) (effectonce.QueuePage, error) {
	limit, err := pageSize(f.Limit)
	if err != nil {
		return effectonce.QueuePage{}, err
	}
	query, args, err := queuesQuery(f, limit)
	if err != nil {
		return effectonce.QueuePage{}, err
	}
	var page effectonce.QueuePage
	err = s.readers.use(ctx, func(c *conn) error {
		high, err := highMark(c)
		if err != nil {
			return err
		}
		// Like a list of operations, this decides nothing.
		now := effectonce.StoredTime(s.now())
		if now.Before(high) {
			now = high
		}
		return c.queryOnce(ctx, query, func(row []driver.Value) error {
			if n := len(page.Queues); n == limit {
				page.Next = queueCursor(page.Queues[n-1])
				return nil
			}
			r := scanner{row: row}
			q := scanQueue(&r)
			q.AsOf = now
			page.Queues = append(page.Queues, q)
			return r.err
		}, args...)
	})
	if err != nil {
		return effectonce.QueuePage{}, s.mapError(err)
	}
	return page, nil
}

// queuesQuery begins with those that wait: the pluses keep SQLite from walking over the index of all subjects.
func queuesQuery(f effectonce.QueueFilter, limit int) (string, []driver.Value, error) {
	from := "SELECT id FROM queues INDEXED BY queues_parked WHERE parked = 1"
	if !f.Parked {
		from += " UNION ALL SELECT id FROM queues INDEXED BY queues_due WHERE due_at IS NOT NULL"
	}
	where := []string{"id IN (" + from + ")"}
	var args []driver.Value
	for _, e := range [][2]string{{"tenant", f.Tenant}, {"subject", f.Subject}} {
		if e[1] != "" {
			where, args = append(where, "+"+e[0]+" = ?"), append(args, e[1])
		}
	}
	if f.Text != "" {
		where, args = append(where, "instr(lower(subject), lower(?)) > 0"), append(args, f.Text)
	}
	if f.After != "" {
		b, err := base64.RawURLEncoding.DecodeString(f.After)
		tenant, subject, ok := strings.Cut(string(b), "\x00")
		if err != nil || !ok {
			return "", nil, badCursor()
		}
		where, args = append(where, "(+tenant, +subject) > (?, ?)"), append(args, tenant, subject)
	}
	return "SELECT " + queueColumns + " FROM queues WHERE " + strings.Join(where, " AND ") + " ORDER BY +tenant, +subject LIMIT ?", append(args, int64(limit)+1), nil
}

// queueCursor ends a page. Neither a tenant nor a subject has a NUL.
func queueCursor(q effectonce.Queue) string {
	return base64.RawURLEncoding.EncodeToString([]byte(q.Tenant + "\x00" + q.Subject))
}
