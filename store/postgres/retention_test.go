package postgres_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/storetest"
)

// S13.1, S13.3: several programs purge and forget at the same time, while others claim. Each operation is purged once, whatever ended is
// forgotten with all that belongs to it, and nothing else is touched.
func TestPurgeWhileUnderLoad(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	clock := storetest.NewClock()
	var stores []*postgres.Store
	for range 3 {
		stores = append(stores, open(t, url, postgres.Options{Now: clock.Now, Connections: 6}))
	}
	settle := func(s *postgres.Store, id string, forget bool) {
		op := operation(id)
		op.Terms.Results = time.Hour
		op.Limits = []effectonce.Limit{{Name: "a", Amount: 1, Max: 1000}}
		if forget {
			op.ForgetAt = clock.Now().Add(2 * time.Hour)
			op.Aliases = []effectonce.Key{operation("old-" + id).Key}
		}
		op, _, err := s.Create(t.Context(), recordedAs(op, "w"))
		if err == nil {
			_, err = s.Apply(t.Context(), next(t, op, succeeded(op)))
		}
		if err != nil {
			t.Error(err)
		}
	}
	const n = 60
	atOnce(n, func(i int) { settle(stores[i%3], numbered("op", i), i%2 == 0) })
	clock.Move(90 * time.Minute)

	var purged, forgotten atomic.Int64
	atOnce(12, func(i int) {
		s := stores[i%3]
		if i < 6 {
			for j := range 10 {
				settle(s, numbered(numbered("later", i), j), false)
			}
			return
		}
		for {
			ops, err := s.Purgeable(t.Context(), 7)
			if err != nil {
				t.Error(err)
			}
			for _, op := range ops {
				_, err := s.Apply(t.Context(), next(t, op, effectonce.Purged{}))
				switch {
				case err == nil:
					purged.Add(1)
				case effectonce.CodeOf(err) != effectonce.CodeStaleVersion:
					t.Error(err)
				}
			}
			if len(ops) == 0 {
				return
			}
		}
	})
	if purged.Load() != n {
		t.Errorf("%d were purged, want %d", purged.Load(), n)
	}
	op := load(t, stores[0], operation("op-1").Key)
	if op.Result != nil || op.Business != nil || op.Arguments != nil || op.Request != nil || op.ResultOmitted != effectonce.OmittedPurged || op.Reference == "" {
		t.Errorf("a tombstone holds %+v", op)
	}

	clock.Move(time.Hour)
	atOnce(6, func(i int) {
		for {
			n, err := stores[i%3].Forget(t.Context(), 4)
			if err != nil {
				t.Error(err)
			}
			forgotten.Add(int64(n))
			if n == 0 {
				return
			}
		}
	})
	// Rows that another one was at were passed over.
	rest, err := stores[0].Forget(t.Context(), n)
	if err != nil || forgotten.Load()+int64(rest) != n/2 {
		t.Errorf("%d and %d were forgotten, want %d; %v", forgotten.Load(), rest, n/2, err)
	}
	for _, id := range []string{"op-2", "old-op-2"} {
		if _, err := stores[1].Load(t.Context(), operation(id).Key); effectonce.CodeOf(err) != effectonce.CodeNotFound {
			t.Errorf("%s: %v", id, err)
		}
	}
	c := plain(t, url)
	if rows := count(t, c, "SELECT count(*) FROM effectonce.operations"); rows != n/2+60 {
		t.Errorf("%d rows are left, want %d", rows, n/2+60)
	}
	// What was spent stays spent.
	if used := count(t, c, "SELECT used FROM effectonce.limits"); used != n+60 {
		t.Errorf("%d is taken, want %d", used, n+60)
	}
	if orphans := count(t, c, "SELECT count(*) FROM effectonce.reservations r WHERE NOT EXISTS (SELECT FROM effectonce.operations o WHERE o.id = r.operation)"); orphans != 0 {
		t.Errorf("%d reservations are of nobody", orphans)
	}
	checkAudit(t, url)
}
