package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/storetest"
)

// S5.7: the whole suite behind a proxy that gives each transaction another connection.
func TestConformanceBehindPgBouncer(t *testing.T) {
	t.Parallel()
	through := pgtest.Bouncer(t, pgtest.URL(t), 3)
	storetest.Exercise(t, func(t *testing.T, now func() time.Time) effectonce.Store {
		t.Helper()
		s, err := postgres.Open(t.Context(), pgtest.Via(t, through, pgtest.URL(t)), postgres.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

// S5.7: two stores behind one proxy, whose server connections both use, and the option that keeps from preparing statements.
func TestStoresShareAProxy(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	through := pgtest.Bouncer(t, url, 2)
	stores := []*postgres.Store{open(t, through, postgres.Options{}), open(t, through, postgres.Options{}), open(t, through+"&default_query_exec_mode=exec", postgres.Options{})}
	race(t, stores, 60)
	checkAudit(t, url)
}

// S5.3, S5.7: more callers than connections, in every kind of call.
func TestManyCallersAndFewConnections(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, url, postgres.Options{Connections: 5})
	atOnce(64, func(i int) {
		for j := range 10 {
			op := operation(numbered(numbered("c", i), j))
			if j%3 == 0 {
				op.Terms.Twins, op.Terms.TwinsWithin, op.Twin = effectonce.TwinAllow, time.Hour, canon.Digest{byte(i % 4)}
			}
			if j%3 == 1 {
				op.Resource = numbered("pi", i)
			}
			got, created, err := s.Create(t.Context(), recordedAs(op, "w"))
			if err != nil || !created {
				t.Errorf("create: created %v, %v", created, err)
				return
			}
			if got, err = s.Apply(t.Context(), next(t, got, succeeded(got))); err != nil || got.State != effectonce.StateSucceeded {
				t.Errorf("apply: %s, %v", got.State, err)
				return
			}
			if got, err = s.Load(t.Context(), op.Key); err != nil || got.Version != 2 {
				t.Errorf("load: version %d, %v", got.Version, err)
			}
		}
	})
	checkAudit(t, url)
}

// Batches of several processes that want the same rows in any order neither stop each other nor lose a write (S5.3, S5.1 I4).
func TestBatchesOverTheSameKeysEndWithoutDeadlock(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var stores []*postgres.Store
	for range 4 {
		stores = append(stores, open(t, url, postgres.Options{Connections: 4}))
	}
	for range 5 {
		race(t, stores, 120)
	}
	checkAudit(t, url)
	if n := count(t, plain(t, url), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 0 {
		t.Logf("%d deadlocks were found by the server and resolved", n)
	}
}

var races atomic.Int64

// race lets every store create and then settle the same operations, all at the same moment, each in an order of its own. One of
// them creates an operation, and one settles it.
func race(t *testing.T, stores []*postgres.Store, n int) {
	t.Helper()
	prefix := numbered("race", int(races.Add(1)))
	created := make([]atomic.Int64, n)
	settled := make([]atomic.Int64, n)
	var all sync.WaitGroup
	for k, s := range stores {
		for _, i := range shuffled(n) {
			all.Go(func() {
				op, mine, err := s.Create(t.Context(), recordedAs(operation(numbered(prefix, i)), numbered("w", k)))
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				if mine {
					created[i].Add(1)
				}
				if op.State != effectonce.StateInProgress {
					return
				}
				_, err = s.Apply(t.Context(), next(t, op, succeeded(op)))
				switch {
				case err == nil:
					settled[i].Add(1)
				case effectonce.CodeOf(err) != effectonce.CodeStaleVersion:
					t.Errorf("apply: %v", err)
				}
			})
		}
	}
	all.Wait()
	for i := range n {
		if created[i].Load() != 1 || settled[i].Load() != 1 {
			t.Errorf("operation %d was created %d times and settled %d times", i, created[i].Load(), settled[i].Load())
		}
	}
}

// S5.3: no transaction and no lock is held while a provider is called.
func TestNothingIsOpenWhileAProviderIsCalled(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	guard := effectonce.New(open(t, url, postgres.Options{}), effectonce.Options{})
	look := plain(t, url)
	for _, twins := range []effectonce.TwinPolicy{effectonce.TwinOff, effectonce.TwinAllow} {
		for name, end := range map[string]error{"paid": nil, "refused": effectonce.Rejected(errors.New("no"), false)} {
			terms := effectonce.Terms{Twins: twins, TwinsWithin: time.Hour, Results: time.Hour}
			provider := effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
				n := count(t, look, `SELECT count(*) FROM pg_stat_activity a WHERE datname = current_database() AND pid <> pg_backend_pid()
					AND application_name = 'effectonce' AND (state LIKE 'idle in transaction%' OR EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory'))`)
				if n != 0 {
					t.Errorf("%d connections are in a transaction or hold a lock", n)
				}
				return "paid", end
			})
			in := effectonce.Intent{Tool: "t", ID: name + string(twins), Arguments: effectonce.Arguments(map[string]any{"a": 1}), Terms: terms}
			if twins != effectonce.TwinOff {
				// With everything that takes a transaction.
				in.Limits = []effectonce.Limit{{Name: "a", Amount: 1, Max: 10}}
				in.Formerly = []effectonce.Identity{{Scope: effectonce.ScopeBusiness, IntentID: "old" + in.ID}}
				in.ForgetAt = time.Now().Add(time.Hour)
			}
			out, err := guard.Do(t.Context(), in, provider)
			if end == nil && (err != nil || out.Outcome != effectonce.OutcomeSucceeded) || end != nil && effectonce.CodeOf(err) != effectonce.CodeFailed {
				t.Fatalf("%v, %v", out.Outcome, err)
			}
		}
	}
}
