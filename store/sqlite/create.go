package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
)

var insertOperation = `INSERT INTO operations (` + lifeColumns + `, ` + identityColumns + `)
	VALUES (` + placeholders(lifeCount+identityCount) + `) ON CONFLICT (key) DO NOTHING`

// stateAlias is the state of a row that is only a further key of an operation (S3.12).
const stateAlias = "alias"

// A program that knows no aliases takes one for an operation in a state in which it does nothing.
const insertAlias = `INSERT INTO operations (key, alias_of, state, tenant, tool, scope, intent_id, revision, terms, created_at, version, token,
	epoch, attempt, spent, open, exposed, parked, stored_error, looks, same) VALUES (?, ?, '` + stateAlias + `', ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	ON CONFLICT (key) DO NOTHING`

// Create implements [effectonce.Store]. It reads first, so that a replay writes nothing and waits for no lock.
func (s *Store) Create(ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	var op effectonce.Operation
	found := false
	err := s.readers.use(ctx, func(c *conn) error {
		id, exists, err := recordedAs(c, &t.To)
		if err != nil || !exists {
			return err
		}
		op, found, err = s.load(c, selectByID, id)
		// Else it was forgotten meanwhile, and its id is used again.
		found = found && (answersTo(&op, t.To.Key) || slices.ContainsFunc(t.To.Aliases, func(k effectonce.Key) bool { return answersTo(&op, k) }))
		return err
	})
	if err != nil {
		return effectonce.Operation{}, false, s.mapError(err)
	}
	if found {
		return op, false, nil
	}

	created := false
	err = s.w.write(ctx, func(b *batch) (err error) {
		op, created, err = b.create(t)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	return op, created, nil
}

// recordedAs finds the operation that has one of the keys of op, as a key or as an alias (S3.12).
func recordedAs(q querier, op *effectonce.Operation) (id int64, exists bool, err error) {
	id, exists, err = integer(q, selectID, op.Key[:])
	for i := 0; err == nil && !exists && i < len(op.Aliases); i++ {
		id, exists, err = integer(q, selectID, op.Aliases[i][:])
	}
	return id, exists, err
}

func (b *batch) create(t effectonce.Transition) (op effectonce.Operation, created bool, err error) {
	now, err := b.clock()
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	recorded, totals, id, err := b.consider(t, now)
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	if recorded == nil {
		op, err = b.existing(selectByID, id, now)
		return op, false, err
	}
	stamped := recorded.Stamp(now)
	id, created, err = b.insert(stamped)
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	if !created {
		op, err = b.existing(selectOperation, t.To.Key[:], now)
		return op, false, err
	}
	if err := b.reserve(id, totals); err != nil {
		return effectonce.Operation{}, false, err
	}
	return stamped.To, true, nil
}

// consider asks what a new operation has to be held or refused for: the transition to store with what it takes of its limits, nil and the
// row's id if one of its keys exists, or the refusal. Where nothing has to be asked, it asks nothing: the unique constraint answers for the
// key.
func (b *batch) consider(t effectonce.Transition, now time.Time) (_ *effectonce.Transition, totals []total, id int64, err error) {
	op := &t.To
	twins := op.Terms.Twins != effectonce.TwinOff && !op.Twin.IsZero()
	if op.Resource == "" && !twins && len(op.Aliases) == 0 && len(op.Limits) == 0 && op.ForgetAt.IsZero() {
		return &t, nil, 0, nil
	}
	if id, exists, err := recordedAs(b, op); err != nil || exists {
		return nil, nil, id, err
	}
	if err := t.Admit(now); err != nil {
		return nil, nil, 0, err
	}
	if op.Resource != "" && op.Hold == effectonce.HoldNone {
		_, held, err := b.integer(`SELECT operation FROM holds WHERE resource = ? AND tenant = ? LIMIT 1`, op.Resource, op.Tenant)
		if err != nil {
			return nil, nil, 0, err
		}
		if held {
			t = t.Hold(effectonce.HoldDuplicate)
		}
	}
	if twins {
		of, ok, err := b.twin(&t.To, now)
		if err != nil {
			return nil, nil, 0, err
		}
		if ok {
			if t, err = t.MarkTwin(of); err != nil {
				return nil, nil, 0, err
			}
		}
	}
	totals, err = b.totals(&t.To, now)
	return &t, totals, 0, err
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
	key, err := keyOf(b, id)
	return key, err == nil, err
}

// insert stores a new operation with its event and aliases; false means that the key exists.
func (b *batch) insert(t effectonce.Transition) (id int64, created bool, err error) {
	op := &t.To
	terms, err := b.intern(op.Terms)
	if err != nil {
		return 0, false, err
	}
	values, err := lifeValues(op)
	if err != nil {
		return 0, false, err
	}
	identity, err := identityValues(op, terms)
	if err != nil {
		return 0, false, err
	}
	res, err := b.exec(insertOperation, append(values, identity...)...)
	if err != nil {
		return 0, false, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return 0, false, err
	}
	if id, err = res.LastInsertId(); err != nil {
		return 0, false, err
	}
	b.dirty = true
	for _, alias := range op.Aliases {
		// It is not there: that was asked under the write lock, unless the list names it twice.
		if _, err := b.exec(insertAlias, alias[:], id, op.Tenant, op.Tool, string(op.Scope), op.IntentID, int64(op.Revision), terms, at(op.CreatedAt)); err != nil {
			return 0, false, err
		}
	}
	return id, true, b.event(id, &t.Event)
}
