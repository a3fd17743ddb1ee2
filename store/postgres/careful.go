package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// twinLock is what serialises operations that could be each other's twins.
func twinLock(op *effectonce.Operation) effectonce.Key {
	h := sha256.New()
	for _, s := range []string{op.Tenant, op.Tool, string(op.Twin[:])} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(s))))
		h.Write([]byte(s))
	}
	return effectonce.Key(h.Sum(nil))
}

// createCarefully answers a write whose terms ask for a twin alert.
func (s *Store) createCarefully(batch []*write) {
	s.settle(batch, false, s.considered)
}

// considerTries bounds how often the answer of a moment ago may turn out to be wrong.
const considerTries = 10

// considered records one operation in a transaction that first asks what it has to be held or refused for.
func (s *Store) considered(ctx context.Context, batch []*write, doubt bool) error {
	w := batch[0]
	w.op, w.created, w.err = effectonce.Operation{}, false, nil
	for range considerTries {
		decided := false
		err := s.with(ctx, func(c *pgxpool.Conn) (err error) {
			decided, err = s.considerOnce(ctx, c, w, doubt)
			if err != nil || !decided {
				// A connection that is gone has rolled back by itself.
				_ = plain(ctx, c, "ROLLBACK")
			}
			return err
		})
		if err != nil || decided {
			return err
		}
	}
	return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Key: w.t.To.Key, Detail: "others recorded and withdrew the same operation again and again", Remedy: "try again"}
}

const begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

// considerOnce is one transaction. decided is false where another one came between its look and its insertion.
func (s *Store) considerOnce(ctx context.Context, c *pgxpool.Conn, w *write, doubt bool) (decided bool, err error) {
	if err := plain(ctx, c, begin); err != nil {
		return false, err
	}
	looks := twins(&w.t.To)
	if looks {
		// Two that begin at the same moment must see each other: the second waits here for the first one's commit. The lock ends
		// with the transaction (S5.7).
		lock := twinLock(&w.t.To)
		if err := s.query(ctx, c, lockStatement, [][]byte{lock[:8]}, func(*scanner) error { return nil }); err != nil {
			return false, err
		}
	}
	known := *w
	held, twin, at, err := s.look(ctx, c, w, looks)
	if err != nil {
		return false, err
	}
	if twin.exists {
		if err := s.exists(ctx, c, twin.stored, at, doubt); err != nil {
			return false, err
		}
		return true, plain(ctx, c, "COMMIT")
	}
	if held && known.t.To.Hold == effectonce.HoldNone {
		known.t = known.t.Hold(effectonce.HoldDuplicate)
	}
	if twin.found {
		if known.t, err = known.t.MarkTwin(twin.of); err != nil {
			return false, err
		}
	}
	open, err := s.insert(ctx, c, []*write{&known}, doubt)
	if err != nil || len(open) > 0 {
		return false, err
	}
	if err := plain(ctx, c, "COMMIT"); err != nil {
		return false, err
	}
	w.op, w.created = known.op, known.created
	return true, nil
}

var lockStatement = newStatement(`SELECT pg_advisory_xact_lock($1::bigint)`)

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

// twinFound is what a look found: a twin's key, or the operation itself.
type twinFound struct {
	found bool
	of    effectonce.Key

	exists bool
	stored
}

func (s *Store) look(ctx context.Context, c *pgxpool.Conn, w *write, looks bool) (held bool, twin twinFound, at moment, err error) {
	op := &w.t.To
	var resource, digest []byte
	if op.Resource != "" {
		resource = []byte(storable(op.Resource))
	}
	if looks {
		digest = op.Twin[:]
	}
	params := append(s.clockParams(), op.Key[:], resource, []byte(storable(op.Tenant)), []byte(storable(op.Tool)), digest,
		int8Bytes(op.Terms.TwinsWithin.Microseconds()), []byte(storable(op.IntentID)), []byte(storable(string(op.Scope))),
		[]byte(storable(op.Run)), []byte(storable(op.Step)))
	err = s.query(ctx, c, considerStatement, params, func(r *scanner) error {
		at = scanMoment(r)
		held = r.flag()
		if twin.found = !r.null(); twin.found {
			twin.of = effectonce.Key(r.hash())
		} else {
			r.skip(1)
		}
		if twin.exists = !r.null(); twin.exists {
			twin.w = w
			twin.op, twin.terms, twin.changed = scanOperation(r)
		}
		return nil
	})
	if err == nil {
		err = s.check(at)
	}
	return held, twin, at, err
}
