package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// This file records operations that look at more than their key and their resource, each in a transaction of its own, or in the
// caller's: twins (S3.8), aliases (S3.12), limits (S8.3), identities that end (S13.2), compensations (S11.3).

// twins reports whether the operation's terms ask for a twin alert.
func twins(op *effectonce.Operation) bool {
	return op.Terms.Twins != effectonce.TwinOff && !op.Twin.IsZero()
}

// careful reports whether recording the operation takes a transaction.
func careful(op *effectonce.Operation) bool {
	return twins(op) || len(op.Aliases) > 0 || len(op.Limits) > 0 || !op.ForgetAt.IsZero() || !op.Compensates.IsZero() ||
		!op.PurgeAt.IsZero() || !op.PurgedAt.IsZero()
}

// twinLock is what serialises operations that could be each other's twins.
func twinLock(op *effectonce.Operation) effectonce.Key {
	h := sha256.New()
	for _, s := range []string{op.Tenant, op.Tool, string(op.Twin[:])} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(s))))
		h.Write([]byte(s))
	}
	return effectonce.Key(h.Sum(nil))
}

// writeCarefully carries out a write that takes a transaction of its own.
func (s *Store) writeCarefully(batch []*write) {
	if batch[0].t.From.Version != 0 {
		s.settle(batch, false, s.released)
		return
	}
	s.settle(batch, false, s.considered)
}

// considerTries bounds how often the answer of a moment ago may turn out to be wrong.
const considerTries = 10

// considered records one operation in a transaction that first asks what it has to be held or refused for.
func (s *Store) considered(ctx context.Context, batch []*write, doubt bool) error {
	w := batch[0]
	for range considerTries {
		decided := false
		err := s.with(ctx, func(c *pgxpool.Conn) (err error) {
			if err := plain(ctx, c, begin); err != nil {
				return err
			}
			decided, err = s.record(ctx, pooled{s, c}, w, doubt)
			if err == nil && decided {
				return plain(ctx, c, "COMMIT")
			}
			// A connection that is gone has rolled back by itself.
			_ = plain(ctx, c, "ROLLBACK")
			return err
		})
		if err != nil || decided {
			return err
		}
	}
	return withdrawn(w.t.To.Key)
}

func withdrawn(key effectonce.Key) error {
	return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Key: key, Detail: "others recorded and withdrew the same operation again and again", Remedy: "try again"}
}

const begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

// record records one operation in a transaction, or finds it there. decided is false where another one came between the look and
// the insertion: then, and on an error, what was done has to be undone.
func (s *Store) record(ctx context.Context, q queryer, w *write, doubt bool) (decided bool, err error) {
	w.op, w.created, w.err = effectonce.Operation{}, false, nil
	t := w.t
	if twins(&t.To) {
		// Two that begin at the same moment must see each other: the second waits here for the first one's commit. The lock ends
		// with the transaction (S5.7).
		lock := twinLock(&t.To)
		if err := q.query(ctx, lockStatement, []any{int64(binary.BigEndian.Uint64(lock[:]))}, nothing); err != nil {
			return false, err
		}
	}
	seen, err := s.look(ctx, q, &t.To)
	if err != nil {
		return false, err
	}
	if seen.exists {
		return true, s.exists(ctx, q, w, seen.row, seen.at, doubt)
	}
	if err := t.Admit(seen.at.now); err != nil {
		return false, err
	}
	if seen.held && t.To.Hold == effectonce.HoldNone {
		t = t.Hold(effectonce.HoldDuplicate)
	}
	if !seen.twin.IsZero() {
		if t, err = t.MarkTwin(seen.twin); err != nil {
			return false, err
		}
	}
	taken, err := s.reserve(ctx, q, &t.To, seen.at)
	if err != nil {
		return false, err
	}
	id, at, err := s.insertKeys(ctx, q, t, w, seen.at)
	if err != nil || id == 0 {
		return false, err
	}
	if err := hold(ctx, q, id, taken); err != nil {
		return false, err
	}
	// A period or the identity can have ended between the look and the insertion.
	if err := t.Admit(at.now); err != nil {
		return false, err
	}
	for _, l := range t.To.Limits {
		if !l.Period(at.now).Equal(l.Period(seen.at.now)) {
			return false, nil
		}
	}
	w.op, w.created = stamp(t, at.now).To, true
	return true, nil
}

var (
	lockStatement = newStatement(`SELECT pg_advisory_xact_lock($1::bigint)`)
	drawStatement = newStatement(`SELECT nextval('effectonce.operation_ids')`)
	// aliasStatement stores a key of the operation $2: $3 and so on are its revision and terms, tenant, tool, scope, intent id, moment.
	aliasStatement = newStatement(`INSERT INTO effectonce.operations
	(id, alias_of, key, state, changed_at, version, token, revision, terms, epoch, attempt, spent, looks, same, open, exposed, parked, stored_error, tenant, tool, scope, intent_id)
	VALUES (nextval('effectonce.operation_ids'), $2::bigint, $1::bytea, 'alias', $9::bigint, 0, 0, $3::bigint, $4::bigint, 0, 0, 0, 0, 0, false, false, false, false,
		$5::text, $6::text, $7::text, $8::text)
	ON CONFLICT (key) DO NOTHING RETURNING id`)
)

// insertKeys stores an operation and its aliases in the order of their keys, in which everybody does. The id is 0 where one of them
// is there.
func (s *Store) insertKeys(ctx context.Context, q queryer, t effectonce.Transition, w *write, seen moment) (id int64, at moment, err error) {
	op := &t.To
	if len(op.Aliases) == 0 {
		return s.insertOne(ctx, q, t, w, 0)
	}
	if id, _, err = numberOf(ctx, q, drawStatement); err != nil {
		return 0, at, err
	}
	keys := append([]effectonce.Key{op.Key}, op.Aliases...)
	slices.SortFunc(keys, func(a, b effectonce.Key) int { return bytes.Compare(a[:], b[:]) })
	for _, key := range keys {
		ok := false
		if key == op.Key {
			var stored int64
			stored, at, err = s.insertOne(ctx, q, t, w, id)
			ok = stored != 0
		} else {
			_, ok, err = numberOf(ctx, q, aliasStatement, key[:], id, int64(op.Revision), w.terms, storable(op.Tenant), storable(op.Tool),
				storable(string(op.Scope)), storable(op.IntentID), seen.micros)
		}
		if err != nil || !ok {
			return 0, at, err
		}
	}
	return id, at, nil
}

// insertOne stores an operation under an id, 0 for any.
func (s *Store) insertOne(ctx context.Context, q queryer, t effectonce.Transition, w *write, as int64) (id int64, at moment, err error) {
	row := newArrays(recordColumns, 1)
	if as == 0 {
		row.null1()
	} else {
		row.integer(as)
	}
	row.identity(&t.To, w.terms)
	if err := row.life(&t.To); err != nil {
		return 0, at, err
	}
	kept := row.moments(t)
	row.event(&t.Event, w.id)
	if err := row.rare(&t.To); err != nil {
		return 0, at, err
	}
	for _, us := range kept {
		row.maybe(us)
	}
	row.endRow()
	err = q.query(ctx, recordStatement, append(s.clockArgs(), row.plain()...), func(r *scanner) error {
		at, id = scanMoment(r), r.integer()
		return nil
	})
	if err == nil {
		err = s.check(at)
	}
	if err != nil {
		return 0, at, err
	}
	s.advance(at)
	return id, at, nil
}

// considerStatement is what has to be known before an operation is recorded: whether its resource is held, its twin, and the
// operation itself where it exists. Revisions of one intent are no twins. $3 is the key, $4 to $12 are resource, tenant, tool,
// twin (NULL: not looked for), how long a twin is recent, intent id, scope, run, step.
var considerStatement = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `)
SELECT c.now, c.behind, c.high,
	EXISTS (SELECT FROM effectonce.holds h WHERE h.resource = $4::text AND h.tenant = $5::text),
	(SELECT t.key FROM effectonce.operations t
		WHERE t.twin = $7::bytea AND t.created_at > c.now - $8::bigint AND t.tenant = $5::text AND t.tool = $6::text AND t.state <> 'failed'
		AND NOT (t.intent_id = $9::text AND t.scope = $10::text AND (t.scope = 'business' OR coalesce(t.run, '') = $11::text)
			AND (t.scope <> 'step' OR coalesce(t.step, '') = $12::text))
		ORDER BY t.id DESC LIMIT 1),
	` + selectColumns + `
FROM c LEFT JOIN effectonce.operations o ON o.key = $3::bytea`)

// seen is what a look found at a moment: whether the resource is held, a twin's key, or the operation itself.
type seen struct {
	at     moment
	held   bool
	twin   effectonce.Key
	exists bool
	row    stored
}

func (s *Store) look(ctx context.Context, q queryer, op *effectonce.Operation) (seen, error) {
	var found seen
	var digest any
	if twins(op) {
		digest = op.Twin[:]
	}
	args := append(s.clockArgs(), op.Key[:], orNull(op.Resource), storable(op.Tenant), storable(op.Tool), digest,
		op.Terms.TwinsWithin.Microseconds(), storable(op.IntentID), storable(string(op.Scope)), storable(op.Run), storable(op.Step))
	err := q.query(ctx, considerStatement, args, func(r *scanner) error {
		found.at, found.held, found.twin = scanMoment(r), r.flag(), effectonce.Key(r.hash())
		if found.exists = !r.null(); found.exists {
			found.row = scanOperation(r)
		}
		return nil
	})
	if err == nil {
		err = s.check(found.at)
	}
	for _, alias := range op.Aliases {
		if err != nil || found.exists {
			break
		}
		err = q.query(ctx, selectOperation, append(s.clockArgs(), alias[:]), func(r *scanner) error {
			found.at, found.exists, found.row = scanMoment(r), true, scanOperation(r)
			return nil
		})
	}
	return found, err
}
