package fault

import (
	"context"
	"time"

	"github.com/effectonce/effectonce"
)

// Store decorates a store with the plan's faults at create, apply, extend, load and due. An error is
// [effectonce.ErrStoreUnavailable]; after the point, the write is in the store all the same. It is as safe for concurrent use
// as the store.
func Store(store effectonce.Store, plan Plan, actions Actions) effectonce.Store {
	return &faultyStore{Store: store, strikes: newStrikes(plan, actions)}
}

type faultyStore struct {
	effectonce.Store
	strikes *strikes
}

// Create implements [effectonce.Store].
func (s *faultyStore) Create(ctx context.Context, t effectonce.Transition) (op effectonce.Operation, created bool, err error) {
	err = s.around(PointCreate, "", func() error {
		op, created, err = s.Store.Create(ctx, t)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, false, err
	}
	return op, created, nil
}

// Apply implements [effectonce.Store].
func (s *faultyStore) Apply(ctx context.Context, t effectonce.Transition) (op effectonce.Operation, err error) {
	err = s.around(PointApply, string(t.Event.Kind), func() error {
		op, err = s.Store.Apply(ctx, t)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, err
	}
	return op, nil
}

// Extend implements [effectonce.Store].
func (s *faultyStore) Extend(ctx context.Context, key effectonce.Key, token int64, lease, limit time.Duration) (d time.Duration, err error) {
	err = s.around(PointExtend, "", func() error {
		d, err = s.Store.Extend(ctx, key, token, lease, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	return d, nil
}

// Load implements [effectonce.Store].
func (s *faultyStore) Load(ctx context.Context, key effectonce.Key) (op effectonce.Operation, err error) {
	err = s.around(PointLoad, "", func() error {
		op, err = s.Store.Load(ctx, key)
		return err
	})
	if err != nil {
		return effectonce.Operation{}, err
	}
	return op, nil
}

// Due implements [effectonce.Store].
func (s *faultyStore) Due(ctx context.Context, limit int) (ops []effectonce.Operation, err error) {
	err = s.around(PointDue, "", func() error {
		ops, err = s.Store.Due(ctx, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ops, nil
}

func (s *faultyStore) around(p Point, detail string, do func() error) error {
	if step, ok := s.strikes.at(Before, p, detail); ok {
		return unavailable(step)
	}
	err := do()
	if step, ok := s.strikes.at(After, p, detail); ok {
		return unavailable(step)
	}
	return err
}

func unavailable(step Step) error {
	return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "fault plan: " + step.String()}
}
