package sqlite

import (
	"context"
	"time"

	"github.com/effectonce/effectonce"
)

var insertOperation = `INSERT INTO operations (` + lifeColumns + `, ` + identityColumns + `)
	VALUES (` + placeholders(lifeCount+identityCount) + `) ON CONFLICT (key) DO NOTHING`

const selectID = `SELECT id FROM operations WHERE key = ?`

// Create implements [effectonce.Store]. It reads first, so that a replay writes nothing and waits for no lock.
func (s *Store) Create(ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	var op effectonce.Operation
	found := false
	err := s.readers.use(ctx, func(c *conn) error {
		_, exists, err := c.integer(selectID, t.To.Key[:])
		if err != nil || !exists {
			return err
		}
		op, found, err = s.load(c, t.To.Key)
		return err
	})
	if err != nil || found {
		return op, false, s.mapError(err)
	}

	created := false
	err = s.w.write(ctx, func(b *batch) error {
		op, created = effectonce.Operation{}, false
		now, err := b.clock()
		if err != nil {
			return err
		}
		recorded, err := b.consider(t, now)
		if err != nil {
			return err
		}
		if recorded == nil {
			op, err = b.existing(t.To.Key, now)
			return err
		}
		stamped := recorded.Stamp(now)
		created, err = b.insert(stamped)
		if err != nil {
			return err
		}
		if !created {
			op, err = b.existing(t.To.Key, now)
			return err
		}
		op = stamped.To
		return nil
	})
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	return op, created, nil
}

// consider asks what a new operation has to be held or refused for: the transition to store, nil if the key exists, or the
// refusal. Where nothing has to be asked, it asks nothing: the unique constraint answers for the key.
func (b *batch) consider(t effectonce.Transition, now time.Time) (*effectonce.Transition, error) {
	twins := t.To.Terms.Twins != effectonce.TwinOff && !t.To.Twin.IsZero()
	if t.To.Resource == "" && !twins {
		return &t, nil
	}
	if _, exists, err := b.integer(selectID, t.To.Key[:]); err != nil || exists {
		return nil, err
	}
	if t.To.Resource != "" && t.To.Hold == effectonce.HoldNone {
		_, held, err := b.integer(`SELECT operation FROM holds WHERE resource = ? AND tenant = ? LIMIT 1`, t.To.Resource, t.To.Tenant)
		if err != nil {
			return nil, err
		}
		if held {
			t = t.Hold(effectonce.HoldDuplicate)
		}
	}
	if twins {
		of, ok, err := b.twin(&t.To, now)
		if err != nil {
			return nil, err
		}
		if ok {
			if t, err = t.MarkTwin(of); err != nil {
				return nil, err
			}
		}
	}
	return &t, nil
}

const selectTwin = `SELECT id FROM operations INDEXED BY operations_twin
	WHERE twin = ? AND created_at > ? AND tenant = ? AND tool = ? AND state <> 'failed'
	AND NOT (intent_id = ? AND scope = ? AND (scope = 'business' OR ifnull(run, '') = ?) AND (scope <> 'step' OR ifnull(step, '') = ?))
	ORDER BY id DESC LIMIT 1`

// twin finds the latest recent operation that op is a twin of (S3.8). Revisions of one intent are no twins.
func (b *batch) twin(op *effectonce.Operation, now time.Time) (effectonce.Key, bool, error) {
	id, ok, err := b.integer(selectTwin, op.Twin[:], now.Add(-op.Terms.TwinsWithin).UnixMicro(), op.Tenant, op.Tool,
		op.IntentID, string(op.Scope), op.Run, op.Step)
	if err != nil || !ok {
		return effectonce.Key{}, false, err
	}
	key, err := b.keyOf(id)
	return key, err == nil, err
}

// insert stores a new operation with its event; false means that the key exists.
func (b *batch) insert(t effectonce.Transition) (bool, error) {
	terms, err := b.intern(t.To.Terms)
	if err != nil {
		return false, err
	}
	values, err := lifeValues(&t.To)
	if err != nil {
		return false, err
	}
	res, err := b.exec(insertOperation, append(values, identityValues(&t.To, terms)...)...)
	if err != nil {
		return false, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return false, err
	}
	b.dirty = true
	return true, b.event(id, &t.Event)
}
