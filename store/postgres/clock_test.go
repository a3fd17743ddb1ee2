package postgres_test

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/storetest"
)

// S5.4: the database's clock decides, whatever the clocks of the machines say.
func TestWorkersWithClocksAnHourApart(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	s := open(t, at, postgres.Options{})
	for i, skew := range []time.Duration{-time.Hour, time.Hour} {
		var before, after time.Time
		c := plain(t, at)
		if err := c.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&before); err != nil {
			t.Fatal(err)
		}
		tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: operation(numbered("op", i)), Claim: true, Owner: "w"}, time.Now().Add(skew))
		if err != nil {
			t.Fatal(err)
		}
		op, _, err := s.Create(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&after); err != nil {
			t.Fatal(err)
		}
		if op.CreatedAt.Before(before) || op.CreatedAt.After(after) || !op.DueAt.Equal(op.CreatedAt.Add(op.Terms.Lease())) {
			t.Errorf("a clock off by %s: created at %s, due at %s; it was between %s and %s", skew, op.CreatedAt, op.DueAt, before, after)
		}
		if got := load(t, s, op.Key); !got.CreatedAt.Equal(op.CreatedAt) || !got.DueAt.Equal(op.DueAt) || !got.OpenedAt.Equal(op.OpenedAt) {
			t.Errorf("stored %s, %s; answered %s, %s", got.CreatedAt, got.DueAt, op.CreatedAt, op.DueAt)
		}
	}
}

// S5.4: the clock steps back, as when another server takes over whose clock is behind.
func TestClockOfAnotherServer(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	clock := storetest.NewClock()
	first := open(t, at, postgres.Options{Now: clock.Now})
	op, _, err := first.Create(t.Context(), recorded("a"))
	if err != nil {
		t.Fatal(err)
	}
	look := plain(t, at)
	eventually(t, "advance of the clock's row", func() bool {
		return count(t, look, "SELECT count(*) FROM effectonce.clock WHERE high > 0") == 1
	})
	// A little later, without reaching the step of the clock's row: only the operation's row knows.
	clock.Move(900 * time.Millisecond)
	if op, err = first.Apply(t.Context(), next(t, op, succeeded(op))); err != nil {
		t.Fatal(err)
	}

	// A process that knows nothing: the clock's row tells it.
	clock.Move(-3 * time.Second)
	second := open(t, at, postgres.Options{Now: clock.Now})
	_, _, err = second.Create(t.Context(), recorded("b"))
	wantError(t, err, effectonce.CodeClockStepped, "behind")
	_, err = second.Due(t.Context(), 1)
	wantError(t, err, effectonce.CodeClockStepped, "behind")

	// Between the two marks: the row that it reads tells it, and time stands still from then on.
	clock.Move(2500 * time.Millisecond)
	third := open(t, at, postgres.Options{Now: clock.Now})
	if got := load(t, third, op.Key); got.AsOf.Before(op.SettledAt) {
		t.Errorf("as of %s, before the last transition at %s", got.AsOf, op.SettledAt)
	}
	if got, _, err := third.Create(t.Context(), recorded("c")); err != nil || got.CreatedAt.Before(op.SettledAt) {
		t.Errorf("created at %s, after something at %s was seen; %v", got.CreatedAt, op.SettledAt, err)
	}
}
