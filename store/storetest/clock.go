package storetest

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// testClock proves S5.4: one clock, the store's, which never goes back.
func testClock(t *testing.T, open Open) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		t.Run("a caller's clock off by "+skew.String()+" does not matter", func(t *testing.T) {
			t.Parallel()
			f := start(t, open)
			now := f.clock.Now()
			tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: intent("a"), Claim: true, Owner: "w"}, now.Add(skew))
			if err != nil {
				t.Fatal(err)
			}
			op, _, err := f.Create(t.Context(), tr)
			if err != nil {
				t.Fatal(err)
			}
			for what, at := range map[string]time.Time{"created": op.CreatedAt, "opened": op.OpenedAt, "started": op.StartedAt, "as of": op.AsOf} {
				if !at.Equal(now) {
					t.Errorf("%s at %s, the store's clock says %s", what, at, now)
				}
			}
			if want := now.Add(op.Terms.Lease()); !op.DueAt.Equal(want) {
				t.Errorf("the lease ends at %s, want %s", op.DueAt, want)
			}
			f.clock.Move(time.Second)
			if tr, err = effectonce.Next(op, unclear(op), now.Add(skew)); err != nil {
				t.Fatal(err)
			}
			pause := tr.To.DueAt.Sub(tr.At)
			if op, err = f.Apply(t.Context(), tr); err != nil {
				t.Fatal(err)
			}
			if !op.FirstSentAt.Equal(now) || !op.DueAt.Equal(f.clock.Now().Add(pause).Truncate(time.Microsecond)) {
				t.Errorf("first sent at %s, due at %s", op.FirstSentAt, op.DueAt)
			}
			if got := f.load(op.Key); !same(t, got, op) {
				t.Error("what is loaded is not what apply returned")
			}
			events, err := f.Events(t.Context(), op.Key)
			if err != nil || len(events) != 2 || !events[0].At.Equal(now) || !events[1].At.Equal(now.Add(time.Second)) {
				t.Errorf("events %+v, %v", events, err)
			}
		})
	}

	t.Run("times come back in UTC and in whole microseconds", func(t *testing.T) {
		t.Parallel()
		zone := time.FixedZone("east", 3*3600)
		s := open(t, func() time.Time { return epoch.Add(1234567891).In(zone) })
		defer func() { _ = s.Close() }()
		tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: intent("a"), Claim: true}, epoch)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Create(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		op, err := s.Load(t.Context(), tr.To.Key)
		if err != nil {
			t.Fatal(err)
		}
		if want := epoch.Add(1234567 * time.Microsecond); op.CreatedAt != want || op.OpenedAt != want {
			t.Errorf("created at %s, opened at %s, want %s", op.CreatedAt, op.OpenedAt, want)
		}
	})

	t.Run("a little back, and time stands still", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		high := f.clock.Now()
		op := f.create(intent("a"), true)
		f.clock.Move(-time.Second)
		if got := f.load(op.Key); !got.AsOf.Equal(high) {
			t.Errorf("as of %s, want %s", got.AsOf, high)
		}
		if op = f.apply(op, succeeded(op)); !op.SettledAt.Equal(high) {
			t.Errorf("settled at %s, want %s", op.SettledAt, high)
		}
	})

	t.Run("further back, and the store decides nothing", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(intent("a"), true)
		f.clock.Move(-time.Second - time.Microsecond)
		_, _, err := f.Create(t.Context(), f.recorded(intent("b"), true))
		wantCode(t, "create", err, effectonce.CodeClockStepped)
		_, _, err = f.Create(t.Context(), f.recorded(intent("a"), true))
		wantCode(t, "create again", err, effectonce.CodeClockStepped)
		_, err = f.Apply(t.Context(), f.next(op, succeeded(op)))
		wantCode(t, "apply", err, effectonce.CodeClockStepped)
		_, err = f.Extend(t.Context(), op.Key, op.Token, time.Minute, time.Hour)
		wantCode(t, "extend", err, effectonce.CodeClockStepped)
		_, err = f.Load(t.Context(), op.Key)
		wantCode(t, "load", err, effectonce.CodeClockStepped)
		_, err = f.Due(t.Context(), 10)
		wantCode(t, "due", err, effectonce.CodeClockStepped)
		for name, call := range deciders(f) {
			wantCode(t, name, call(t.Context()), effectonce.CodeClockStepped)
		}
		if page, err := f.List(t.Context(), effectonce.Filter{}); err != nil || len(page.Operations) != 1 {
			t.Errorf("a list is for people and decides nothing: %d, %v", len(page.Operations), err)
		}
		f.clock.Move(time.Second)
		if got := f.load(op.Key); got.Version != 1 {
			t.Errorf("version %d", got.Version)
		}
	})
}

// testExtend proves the heartbeat of S5.4.
func testExtend(t *testing.T, open Open) {
	const lease, limit = 10 * time.Second, 25 * time.Second
	beating := func(id string) effectonce.Operation {
		op := intent(id)
		op.Terms.Heartbeat = lease
		return op
	}

	t.Run("the owner keeps its lease up to the limit, and the version stays", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(beating("a"), true)
		for _, step := range []struct{ move, want time.Duration }{{0, 10 * time.Second}, {8 * time.Second, 10 * time.Second}, {8 * time.Second, 9 * time.Second}, {8 * time.Second, time.Second}} {
			f.clock.Move(step.move)
			left, err := f.Extend(t.Context(), op.Key, op.Token, lease, limit)
			if err != nil || left != step.want {
				t.Fatalf("%s, %v; want %s", left, err, step.want)
			}
		}
		got := f.load(op.Key)
		if got.Version != op.Version || got.Token != op.Token || !got.DueAt.Equal(op.OpenedAt.Add(limit)) {
			t.Errorf("version %d, token %d, due at %s", got.Version, got.Token, got.DueAt)
		}
		if events, err := f.Events(t.Context(), op.Key); err != nil || len(events) != 1 {
			t.Errorf("%d events, %v", len(events), err)
		}
	})

	t.Run("not after it ran out", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(beating("a"), true)
		f.clock.Move(lease)
		_, err := f.Extend(t.Context(), op.Key, op.Token, lease, limit)
		wantCode(t, "extend", err, effectonce.CodeStaleToken)
		if got := f.load(op.Key); !got.DueAt.Equal(op.DueAt) {
			t.Error("the lease changed")
		}
	})

	// A worker's name is not its standing: the same worker's stalled attempt holds an older token.
	t.Run("not by an older token of the same worker", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(beating("a"), true)
		f.clock.Move(lease)
		taken := f.apply(f.load(op.Key), effectonce.TakenOver{Owner: op.Owner})
		_, err := f.Extend(t.Context(), op.Key, op.Token, lease, limit)
		wantCode(t, "extend", err, effectonce.CodeStaleToken)
		if got := f.load(op.Key); !got.DueAt.Equal(taken.DueAt) {
			t.Error("the lease changed")
		}
		f.clock.Move(lease / 2)
		if left, err := f.Extend(t.Context(), op.Key, taken.Token, lease, limit); err != nil || left != lease {
			t.Errorf("the present owner: %s, %v", left, err)
		}
	})

	t.Run("not where nobody owns it", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(beating("a"), true)
		op = f.apply(op, succeeded(op))
		_, err := f.Extend(t.Context(), op.Key, op.Token, lease, limit)
		wantCode(t, "a final operation", err, effectonce.CodeStaleToken)
		_, err = f.Extend(t.Context(), effectonce.Key{1}, 1, lease, limit)
		wantCode(t, "an unknown key", err, effectonce.CodeNotFound)
	})
}
