package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// A queue is what relays know of a subject; see migrations. Only they lock its row, each for a short transaction: an appender's may be
// long. So an appender cannot make the queue due: its message says that it is fresh, and the next relay that looks, after the
// appender's commit, makes the queue due, and the message is fresh no more.

// absorbMax bounds the fresh messages that are looked at at once.
const absorbMax = 1000

var (
	// selectDueQueue says whether there is something to do, so that a relay that polls writes nothing.
	selectDueQueue = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `)
	SELECT c.now, c.behind, c.high, EXISTS (SELECT FROM effectonce.messages WHERE fresh) OR EXISTS (SELECT FROM effectonce.queues q WHERE q.due_at <= c.now) FROM c`)
	absorbFresh = newStatement(`WITH f AS MATERIALIZED (
		SELECT m.queue, m.seq, m.at FROM effectonce.messages m WHERE m.fresh ORDER BY m.queue, m.seq LIMIT $1::bigint FOR UPDATE SKIP LOCKED
	),
	m AS (UPDATE effectonce.messages m SET fresh = false FROM f WHERE m.queue = f.queue AND m.seq = f.seq)
	INSERT INTO effectonce.queues AS q (id, delivered, attempts, token, due_at, parked)
	SELECT f.queue, 0, 0, 0, min(f.at), false FROM f GROUP BY f.queue ORDER BY f.queue
	ON CONFLICT (id) DO UPDATE SET due_at = excluded.due_at WHERE q.due_at IS NULL AND NOT q.parked`)
	takeQueue = newStatement(`WITH t AS MATERIALIZED (
		SELECT q.id FROM effectonce.queues q WHERE q.due_at <= $1::bigint ORDER BY q.due_at, q.id LIMIT 1 FOR UPDATE SKIP LOCKED
	)
	UPDATE effectonce.queues q SET token = q.token + 1, due_at = $2::bigint FROM t WHERE q.id = t.id RETURNING q.id`)
	selectMessages = newStatement(`SELECT m.seq, m.at, m.id, m.type, m.content_type, m.data FROM effectonce.messages m
	WHERE m.queue = $1::bigint AND m.seq > $2::bigint ORDER BY m.seq LIMIT $3::bigint`)
	// lockQueue finds a queue that relays know. What is read of it afterwards is of a time after the lock.
	lockQueue = newStatement(`SELECT q.id FROM effectonce.queues q JOIN effectonce.subjects s ON s.id = q.id
	WHERE s.tenant = $1::text AND s.subject = $2::text FOR UPDATE OF q`)
	selectQueue   = newStatement(`SELECT ` + queueColumns + ` FROM ` + queueTables + ` WHERE s.id = $1::bigint`)
	removeHeads   = newStatement(`DELETE FROM effectonce.messages m WHERE m.queue = $1::bigint AND m.seq > $2::bigint AND m.seq <= $3::bigint`)
	returnedQueue = newStatement(`UPDATE effectonce.queues q
	SET delivered = $2::bigint, attempts = $3::bigint, reason = $4::text, parked = $5::boolean, token = q.token + 1,
		due_at = CASE WHEN NOT $5::boolean AND EXISTS (SELECT FROM effectonce.messages m WHERE m.queue = $1::bigint AND m.seq > $2::bigint) THEN $6::bigint END
	WHERE q.id = $1::bigint`)
)

const (
	queueColumns = `s.id, s.tenant, s.subject, s.last, coalesce(q.delivered, 0), coalesce(q.attempts, 0), coalesce(q.token, 0),
	coalesce(q.parked, false), q.reason, h.id, CASE WHEN q.id IS NULL THEN h.at ELSE q.due_at END`
	// queueTables also have subjects that no relay has looked at yet.
	queueTables = `effectonce.subjects s LEFT JOIN effectonce.queues q ON q.id = s.id
	LEFT JOIN effectonce.messages h ON h.queue = s.id AND h.seq = coalesce(q.delivered, 0) + 1`
)

// storedQueue is a queue with its id and how many messages of it are delivered.
type storedQueue struct {
	id, delivered int64
	effectonce.Queue
}

func scanQueue(r *scanner) storedQueue {
	q := storedQueue{id: r.integer()}
	q.Tenant, q.Subject = r.text(), r.text()
	last := r.integer()
	q.delivered = r.integer()
	q.Waiting = last - q.delivered
	q.Attempts, q.Token, q.Parked, q.Reason, q.Head, q.DueAt = r.number(), r.integer(), r.flag(), r.text(), r.text(), r.at()
	return q
}

// TakeQueue implements [effectonce.Outbox]. If the answer to the commit is lost for good, the queue is due again when the lease ends.
func (s *Store) TakeQueue(ctx context.Context, lease time.Duration, limit int) (effectonce.Queue, []effectonce.Message, error) {
	none := &effectonce.Error{Code: effectonce.CodeNotFound, Detail: "no queue is due"}
	due, err := s.queueDue(ctx)
	if err != nil {
		return effectonce.Queue{}, nil, err
	}
	if !due {
		return effectonce.Queue{}, nil, none
	}
	var taken storedQueue
	var messages []effectonce.Message
	err = s.transaction(ctx, func(ctx context.Context, q queryer) error {
		taken, messages = storedQueue{}, nil
		at, err := s.moment(ctx, q)
		if err != nil {
			return err
		}
		if err := q.query(ctx, absorbFresh, []any{int64(absorbMax)}, nothing); err != nil {
			return err
		}
		until := effectonce.StoredTime(at.now.Add(lease)).UnixMicro()
		id, ok, err := numberOf(ctx, q, takeQueue, at.micros, until)
		if err != nil || !ok {
			return err
		}
		if taken, err = readQueue(ctx, q, id); err != nil {
			return err
		}
		taken.AsOf = at.now
		return q.query(ctx, selectMessages, []any{id, taken.delivered, int64(limit)}, func(r *scanner) error {
			m := effectonce.Message{Tenant: taken.Tenant, Subject: taken.Subject, Seq: r.integer(), At: r.at(), ID: r.text(), Type: r.text(), ContentType: r.text(), Data: r.blob()}
			messages = append(messages, m)
			return nil
		})
	})
	switch {
	case err != nil:
		return effectonce.Queue{}, nil, err
	case taken.id == 0:
		return effectonce.Queue{}, nil, none
	}
	return taken.Queue, messages, nil
}

func (s *Store) queueDue(ctx context.Context) (due bool, err error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.leave()
	err = s.read(ctx, func(c *pgxpool.Conn) error {
		var at moment
		err := pooled{s, c}.query(ctx, selectDueQueue, s.clockArgs(), func(r *scanner) error {
			at, due = scanMoment(r), r.flag()
			return nil
		})
		if err == nil {
			err = s.check(at)
		}
		return err
	})
	return due, s.place.mapError(err)
}

func readQueue(ctx context.Context, q queryer, id int64) (found storedQueue, err error) {
	err = q.query(ctx, selectQueue, []any{id}, func(r *scanner) error {
		found = scanQueue(r)
		return nil
	})
	return found, err
}

// change locks a queue and hands it to f as it is then.
func (s *Store) change(ctx context.Context, tenant, name string, f func(ctx context.Context, q queryer, queue storedQueue, at moment) error) error {
	return s.transaction(ctx, func(ctx context.Context, q queryer) error {
		id, ok, err := numberOf(ctx, q, lockQueue, storable(tenant), storable(name))
		if err != nil {
			return err
		}
		var queue storedQueue
		if ok {
			if queue, err = readQueue(ctx, q, id); err != nil {
				return err
			}
		}
		at, err := s.moment(ctx, q)
		if err != nil {
			return err
		}
		return f(ctx, q, queue, at)
	})
}

// ReturnQueue implements [effectonce.Outbox]. Whoever was late finds another token.
func (s *Store) ReturnQueue(ctx context.Context, taken effectonce.Queue, r effectonce.Relayed) error {
	return s.change(ctx, taken.Tenant, taken.Subject, func(ctx context.Context, q queryer, queue storedQueue, at moment) error {
		if queue.id == 0 || queue.Token != taken.Token || int64(r.Delivered) > queue.Waiting {
			return &effectonce.Error{Code: effectonce.CodeStaleToken, Detail: fmt.Sprintf("another relay has taken the queue of %q", taken.Subject)}
		}
		delivered := queue.delivered + int64(r.Delivered)
		if r.Delivered > 0 {
			queue.Attempts, queue.Reason = 0, ""
			if err := q.query(ctx, removeHeads, []any{queue.id, queue.delivered, delivered}, nothing); err != nil {
				return err
			}
		}
		due := at.now
		if r.Reason != "" {
			queue.Attempts++
			queue.Reason = r.Reason
			queue.Parked = r.Park
			due = effectonce.StoredTime(at.now.Add(r.Again))
		}
		return store(ctx, q, queue, delivered, due)
	})
}

// store writes what became of a queue. It is due where something waits and it is not parked.
func store(ctx context.Context, q queryer, queue storedQueue, delivered int64, due time.Time) error {
	return q.query(ctx, returnedQueue, []any{queue.id, delivered, int64(queue.Attempts), orNull(queue.Reason), queue.Parked, due.UnixMicro()}, nothing)
}

// Unpark implements [effectonce.Outbox].
func (s *Store) Unpark(ctx context.Context, tenant, subject, head string, discard bool) error {
	return s.change(ctx, tenant, subject, func(ctx context.Context, q queryer, queue storedQueue, at moment) error {
		switch {
		case queue.id == 0 || queue.Waiting == 0:
			return s.absent(ctx, q, tenant, subject)
		case !queue.Parked:
			return notParked(subject)
		case queue.Head != head:
			return &effectonce.Error{Code: effectonce.CodeStaleVersion, Field: "head", Detail: fmt.Sprintf("the head of %q is %q", subject, queue.Head), Remedy: "look at it and decide again"}
		}
		delivered := queue.delivered
		if discard {
			delivered++
			if err := q.query(ctx, removeHeads, []any{queue.id, queue.delivered, delivered}, nothing); err != nil {
				return err
			}
		}
		queue.Attempts, queue.Reason, queue.Parked = 0, "", false
		return store(ctx, q, queue, delivered, at.now)
	})
}

func notParked(subject string) error {
	return &effectonce.Error{Code: effectonce.CodeNotAllowed, Field: "subject", Detail: fmt.Sprintf("the head of %q is not parked", subject)}
}

var selectWaitingMessage = newStatement(`SELECT m.seq FROM effectonce.subjects s JOIN effectonce.messages m ON m.queue = s.id
	WHERE s.tenant = $1::text AND s.subject = $2::text LIMIT 1`)

// absent answers for a subject of which relays know nothing: what waits there is not parked.
func (s *Store) absent(ctx context.Context, q queryer, tenant, subject string) error {
	_, waits, err := numberOf(ctx, q, selectWaitingMessage, storable(tenant), storable(subject))
	switch {
	case err != nil:
		return err
	case waits:
		return notParked(subject)
	}
	return &effectonce.Error{Code: effectonce.CodeNotFound, Field: "subject", Detail: fmt.Sprintf("nothing waits in %q", subject)}
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
	defer s.leave()
	where := filter{all: []string{"h.id IS NOT NULL"}}
	where.equal("s.tenant", f.Tenant)
	where.equal("s.subject", f.Subject)
	where.contains("s.subject", f.Text)
	if f.Parked {
		where.all = append(where.all, "q.parked")
	}
	if f.After != "" {
		tenant, name, ok := strings.Cut(f.After, "\x00")
		if !ok {
			return effectonce.QueuePage{}, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "after", Detail: "is not the end of a page", Remedy: "use the next of the page before"}
		}
		where.all = append(where.all, "(s.tenant, s.subject) > ("+where.param(storable(tenant))+"::text, "+where.param(storable(name))+"::text)")
	}
	st := &statement{once: true, sql: `SELECT ` + queueColumns + ` FROM ` + queueTables + where.sql() + ` ORDER BY s.tenant, s.subject LIMIT ` + strconv.Itoa(limit+1)}
	var page effectonce.QueuePage
	err = s.read(ctx, func(c *pgxpool.Conn) error {
		page = effectonce.QueuePage{}
		// A list decides nothing: a clock that stepped back does not take it away from people.
		var at moment
		err := pooled{s, c}.query(ctx, clockStatement, s.clockArgs(), func(r *scanner) error {
			at = scanMoment(r)
			return nil
		})
		if err != nil {
			return err
		}
		return pooled{s, c}.query(ctx, st, where.args, func(r *scanner) error {
			if len(page.Queues) == limit {
				last := page.Queues[limit-1]
				page.Next = last.Tenant + "\x00" + last.Subject
				return nil
			}
			queue := scanQueue(r).Queue
			queue.AsOf = at.now
			page.Queues = append(page.Queues, queue)
			return nil
		})
	})
	return page, s.place.mapError(err)
}
