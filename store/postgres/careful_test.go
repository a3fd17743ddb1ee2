package postgres_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// S3.12, S5.3, S5.9: programs with the policy of before, the present one, and the one that an edit goes back to record the same intents
// at the same moment. Each is one operation, and nobody meets an error.
func TestOneOperationUnderAllIdentities(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var stores []*postgres.Store
	for range 3 {
		stores = append(stores, open(t, url, postgres.Options{Connections: 5}))
	}
	const intents = 40
	created := make([]atomic.Int64, intents)
	atOnce(len(stores)*intents, func(n int) {
		who, i := n/intents, n%intents
		old, present := operation(numbered("old", i)), operation(numbered("new", i))
		op := old
		switch who {
		case 1:
			op = present
			op.Aliases = []effectonce.Key{old.Key}
		case 2:
			op.Aliases = []effectonce.Key{present.Key}
		}
		_, mine, err := stores[who].Create(t.Context(), recordedAs(op, numbered("w", who)))
		if err != nil {
			t.Errorf("intent %d by %d: %v", i, who, err)
			return
		}
		if mine {
			created[i].Add(1)
		}
	})
	for i := range intents {
		if created[i].Load() != 1 {
			t.Errorf("intent %d was created %d times", i, created[i].Load())
		}
		a := load(t, stores[0], operation(numbered("old", i)).Key)
		if b, err := stores[1].Load(t.Context(), operation(numbered("new", i)).Key); err == nil && a.Key != b.Key {
			t.Errorf("intent %d is %s and %s", i, a.Key.Short(), b.Key.Short())
		}
	}
	checkAudit(t, url)
	c := plain(t, url)
	if n := count(t, c, "SELECT count(*) FROM effectonce.operations WHERE alias_of IS NULL"); n != intents {
		t.Errorf("%d operations, want %d", n, intents)
	}
	if n := count(t, c, "SELECT count(*) FROM effectonce.operations a WHERE a.alias_of IS NOT NULL AND NOT EXISTS (SELECT FROM effectonce.operations o WHERE o.id = a.alias_of)"); n != 0 {
		t.Errorf("%d aliases lead to nothing", n)
	}
}

// S8.3, S5.9: many at once, in several programs, take of the same limits in any order, fail or succeed. Never is more taken than
// allowed, and in the end what is taken is what is held.
func TestLimitsUnderLoad(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	stores := []*postgres.Store{open(t, url, postgres.Options{Connections: 6}), open(t, url, postgres.Options{Connections: 6})}
	var admitted, refused, failed atomic.Int64
	atOnce(32, func(i int) {
		s := stores[i%2]
		for j := range 8 {
			op := operation(numbered(numbered("op", i), j))
			op.Limits = []effectonce.Limit{{Name: "b", Amount: 1, Max: 1000}, {Name: "a", Amount: 2, Max: 60}}
			if i%3 == 0 {
				op.Limits[0], op.Limits[1] = op.Limits[1], op.Limits[0]
			}
			op, _, err := s.Create(t.Context(), recordedAs(op, "w"))
			if effectonce.CodeOf(err) == effectonce.CodeLimitExceeded && err != nil {
				refused.Add(1)
				continue
			}
			if err != nil {
				t.Errorf("create: %v", err)
				return
			}
			admitted.Add(1)
			var end effectonce.Cause = succeeded(op)
			if j%2 == 0 {
				failed.Add(1)
				end = effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictRejected, Failure: effectonce.Failure{Code: "no"}}}
			}
			if _, err := s.Apply(t.Context(), next(t, op, end)); err != nil {
				t.Errorf("apply: %v", err)
			}
		}
	})
	kept := admitted.Load() - failed.Load()
	if kept > 30 || refused.Load() == 0 {
		t.Errorf("%d kept, %d refused", kept, refused.Load())
	}
	c := plain(t, url)
	for name, want := range map[string]int64{"a": 2 * kept, "b": kept} {
		if n := count(t, c, "SELECT used FROM effectonce.limits WHERE name = $1", name); int64(n) != want {
			t.Errorf("%s: %d is taken, want %d", name, n, want)
		}
	}
	if n := count(t, c, "SELECT count(*) FROM effectonce.limits l WHERE l.used <> (SELECT coalesce(sum(r.amount), 0) FROM effectonce.reservations r WHERE r.limit_id = l.id)"); n != 0 {
		t.Errorf("%d limits are not what is held of them", n)
	}
	checkAudit(t, url)
	t.Logf("%d deadlocks", count(t, c, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
}

// S5.4, S8.3, S13.2: the database's clock decides in which period a limit lies and whether an identity has ended, whatever the clocks of
// the machines say.
func TestPeriodsAreOfTheDatabasesClock(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	s := open(t, at, postgres.Options{})
	for i, skew := range []time.Duration{-time.Hour, time.Hour, 0} {
		op := operation(numbered("op", i))
		op.Limits = []effectonce.Limit{{Name: "a", Amount: 1, Max: 2, Per: 100 * 365 * 24 * time.Hour}, {Name: "b", Amount: 1, Max: 9, Per: 10 * time.Minute}}
		op.ForgetAt = time.Now().Add(30 * time.Minute)
		tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "w"}, time.Now().Add(skew))
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := s.Create(t.Context(), tr)
		if i == 2 {
			wantError(t, err, effectonce.CodeLimitExceeded, "2 is taken of 2")
			continue
		}
		if err != nil || !got.ForgetAt.Equal(effectonce.StoredTime(op.ForgetAt)) {
			t.Fatalf("a clock off by %s: %v", skew, err)
		}
		uses, err := s.Limits(t.Context(), effectonce.LimitFilter{Name: "b"})
		if err != nil || len(uses) == 0 || !uses[0].From.Equal(op.Limits[1].Period(got.CreatedAt)) {
			t.Errorf("a clock off by %s: %+v, created at %s, %v", skew, uses, got.CreatedAt, err)
		}
		ended := operation(numbered("ended", i))
		ended.ForgetAt = time.Now().Add(-time.Minute)
		if tr, err = effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: ended}, time.Now().Add(skew)); err != nil {
			t.Fatal(err)
		}
		_, _, err = s.Create(t.Context(), tr)
		wantError(t, err, effectonce.CodeExpired, "over")
	}
}
