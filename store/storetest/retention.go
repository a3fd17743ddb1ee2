package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

func kept(id string, results, forget time.Duration) effectonce.Operation {
	op := intent(id)
	op.Terms.Results = results
	if forget > 0 {
		op.ForgetAt = epoch.Add(forget)
	}
	return op
}

func purgeable(f fixture, limit int) []effectonce.Operation {
	f.t.Helper()
	ops, err := f.Purgeable(f.t.Context(), limit)
	if err != nil {
		f.t.Fatalf("purgeable: %v", err)
	}
	return ops
}

func forget(f fixture, limit int) int {
	f.t.Helper()
	n, err := f.Forget(f.t.Context(), limit)
	if err != nil {
		f.t.Fatalf("forget: %v", err)
	}
	return n
}

func (f fixture) gone(key effectonce.Key) {
	f.t.Helper()
	_, err := f.Load(f.t.Context(), key)
	wantCode(f.t, "load", err, effectonce.CodeNotFound)
	if events, err := f.Events(f.t.Context(), key); err != nil || len(events) != 0 {
		f.t.Errorf("%d events, %v", len(events), err)
	}
}

func testRetention(t *testing.T, open Open) {
	// S13.1
	t.Run("a purge leaves a tombstone that still answers", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := kept("a", time.Hour, 0)
		op.Arguments, op.Request = []byte(`{"amount":480,"reason":"x"}`), []byte("POST /refunds")
		op = f.create(op, true)
		f.clock.Move(time.Second)
		op = f.apply(op, succeeded(op))
		if !op.PurgeAt.Equal(f.clock.Now().Add(time.Hour)) {
			t.Fatalf("purged at %s", op.PurgeAt)
		}
		f.clock.Move(time.Hour - time.Microsecond)
		if got := purgeable(f, 10); len(got) != 0 {
			t.Fatalf("%d too early", len(got))
		}
		f.clock.Move(time.Microsecond)
		got := purgeable(f, 10)
		if len(got) != 1 || !same(t, got[0], f.load(op.Key)) || !got[0].AsOf.Equal(f.clock.Now()) {
			t.Fatalf("%d are purgeable", len(got))
		}
		op = f.apply(got[0], effectonce.Purged{})
		if loaded := f.load(op.Key); !same(t, loaded, op) {
			t.Error("what is loaded is not what was purged")
		}
		if len(op.Business)+len(op.Arguments)+len(op.Request)+len(op.Result) != 0 || op.ResultOmitted != effectonce.OmittedPurged || op.Reference != "re_1" ||
			!op.PurgedAt.Equal(f.clock.Now()) || op.State != effectonce.StateSucceeded {
			t.Errorf("%+v", op)
		}
		if got := purgeable(f, 10); len(got) != 0 {
			t.Errorf("purgeable again")
		}
		if again, created, err := f.Create(t.Context(), f.recorded(intent("a"), true)); err != nil || created || !same(t, again, op) {
			t.Errorf("created %v, %v", created, err)
		}
		events, err := f.Events(t.Context(), op.Key)
		if err != nil || len(events) != 3 || events[2].Kind != effectonce.EventPurged {
			t.Errorf("%+v, %v", events, err)
		}
		f.clock.Move(10000 * time.Hour)
		if n := forget(f, 10); n != 0 {
			t.Errorf("%d forgotten of an identity that is kept for ever", n)
		}
		f.load(op.Key)
	})

	t.Run("those longest due first, no more than asked for, and nothing that is not final", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for i := range 5 {
			op := f.create(kept(numbered("p", i), time.Duration(10-i)*time.Minute, 0), true)
			f.apply(op, []func(effectonce.Operation) effectonce.AttemptEnded{succeeded, rejected}[i%2](op))
		}
		open := f.create(kept("unclear", time.Second, time.Second), true)
		f.apply(open, unclear(open))
		f.clock.Move(time.Hour)
		if got := intentIDs(purgeable(f, 10)); !slices.Equal(got, []string{"p-4", "p-3", "p-2", "p-1", "p-0"}) {
			t.Errorf("got %v", got)
		}
		if got := intentIDs(purgeable(f, 2)); !slices.Equal(got, []string{"p-4", "p-3"}) {
			t.Errorf("the first two are %v", got)
		}
		if n := forget(f, 10); n != 0 {
			t.Errorf("%d forgotten", n)
		}
	})

	// S13.2
	t.Run("an identity that has ended is forgotten with all that belongs to it", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := kept("a", 0, 2*time.Hour)
		op = alsoKnownAs(op, "old")
		op.Limits = []effectonce.Limit{{Name: "n", Amount: 2, Max: 3}}
		op = f.create(op, true)
		op = f.apply(op, succeeded(op))
		other := f.create(kept("b", 0, 3*time.Hour), true)
		other = f.apply(other, succeeded(other))
		f.clock.Move(2*time.Hour - time.Microsecond)
		if n := forget(f, 10); n != 0 {
			t.Fatalf("%d forgotten too early", n)
		}
		f.clock.Move(time.Microsecond)
		if n := forget(f, 10); n != 1 {
			t.Fatalf("%d forgotten", n)
		}
		f.gone(op.Key)
		f.gone(op.Aliases[0])
		if got := f.load(other.Key); !same(t, got, other) {
			t.Error("another one was changed")
		}
		for _, u := range uses(f, effectonce.LimitFilter{Name: "n"}) {
			if u.Used != 2 || len(u.Holders) != 0 {
				t.Errorf("what was spent stays spent, and nobody is named: %+v", u)
			}
		}
		// Nothing ever executes because a record is gone.
		_, created, err := f.Create(t.Context(), f.recorded(kept("a", 0, 2*time.Hour), true))
		wantCode(t, "recording it again", err, effectonce.CodeExpired)
		if created {
			t.Error("created")
		}
		f.gone(op.Key)
		// A key that is free is free for another operation.
		f.create(intent("old"), true)
	})

	t.Run("nothing is recorded once its identity has ended, by the store's clock at the commit", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		late := f.recorded(kept("late", 0, time.Hour), true)
		there := f.create(kept("there", 0, time.Hour), true)
		f.clock.Move(time.Hour - time.Microsecond)
		f.create(kept("just", 0, time.Hour), true)
		f.clock.Move(time.Microsecond)
		_, _, err := f.Create(t.Context(), late)
		wantCode(t, "recording", err, effectonce.CodeExpired)
		f.gone(late.To.Key)
		got, created, err := f.Create(t.Context(), f.recorded(kept("there", 0, time.Hour), true))
		if err != nil || created || got.Key != there.Key {
			t.Errorf("what is there still answers: created %v, %v", created, err)
		}
	})

	t.Run("forgetting waits for what is unresolved or has an alarm", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		pending := f.create(kept("pending", 0, time.Hour), false)
		unknown := f.create(kept("unknown", 0, time.Hour), true)
		unknown = f.apply(unknown, unclear(unknown))
		alarmed := f.create(kept("alarmed", 0, time.Hour), true)
		alarmed = f.apply(alarmed, unclear(alarmed))
		alarmed = f.apply(alarmed, effectonce.TakenOver{Owner: "w"})
		alarmed = f.apply(alarmed, effectonce.Ruled{Token: alarmed.Token, Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 4}, Finding: effectonce.Finding{Found: effectonce.FoundMany}})
		alarmed = f.apply(alarmed, effectonce.Resolved{Version: alarmed.Version, Resolution: effectonce.ResolveConfirmed, Person: "pat", Reason: "seen", Reference: "re_1"})
		f.clock.Move(2 * time.Hour)
		if n := forget(f, 10); n != 0 || alarmed.Alarm == "" {
			t.Fatalf("%d forgotten, alarm %q", n, alarmed.Alarm)
		}
		for _, op := range []effectonce.Operation{pending, unknown, alarmed} {
			f.load(op.Key)
		}
		unknown = f.apply(unknown, effectonce.TakenOver{Owner: "w"})
		f.apply(unknown, effectonce.Ruled{Token: unknown.Token, Ruling: effectonce.Ruling{Do: effectonce.DoComplete}, Finding: effectonce.Finding{Found: effectonce.FoundOne, Reference: "re_1"}})
		if n := forget(f, 10); n != 1 {
			t.Errorf("%d forgotten after it was settled", n)
		}
	})

	// S13.3
	t.Run("in pieces", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for i := range 5 {
			op := f.create(kept(numbered("f", i), time.Minute, time.Hour), true)
			f.apply(op, succeeded(op))
		}
		f.clock.Move(time.Minute)
		for _, op := range purgeable(f, 3) {
			f.apply(op, effectonce.Purged{})
		}
		f.clock.Move(time.Hour)
		for i, want := range []int{2, 2, 1, 0} {
			if n := forget(f, 2); n != want {
				t.Errorf("call %d: %d forgotten, want %d", i, n, want)
			}
		}
		if page, err := f.List(t.Context(), effectonce.Filter{}); err != nil || len(page.Operations) != 0 {
			t.Errorf("%d left, %v", len(page.Operations), err)
		}
	})

	t.Run("limits of a period long over go, unless something unresolved holds them", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		l := effectonce.Limit{Name: "n", Amount: 1, Max: 5, Per: time.Hour}
		done := f.create(limited("done", l), true)
		f.apply(done, succeeded(done))
		held := f.create(limited("held", effectonce.Limit{Name: "m", Amount: 1, Max: 5, Per: time.Hour}), true)
		held = f.apply(held, unclear(held))
		f.create(limited("ever", effectonce.Limit{Name: "ever", Amount: 1, Max: 5}), true)
		f.clock.Move(90 * 24 * time.Hour)
		forget(f, 10)
		if used(f, "n") != 1 {
			t.Error("gone too early")
		}
		f.clock.Move(2 * time.Hour)
		forget(f, 10)
		if len(uses(f, effectonce.LimitFilter{Name: "n"})) != 0 || used(f, "m") != 1 || used(f, "ever") != 1 {
			t.Errorf("n %+v, m %d, ever %d", uses(f, effectonce.LimitFilter{Name: "n"}), used(f, "m"), used(f, "ever"))
		}
		f.apply(held, effectonce.TakenOver{Owner: "w"})
		held = f.load(held.Key)
		f.apply(held, effectonce.Ruled{Token: held.Token, Ruling: effectonce.Ruling{Do: effectonce.DoComplete}, Finding: effectonce.Finding{Found: effectonce.FoundOne, Reference: "re_1"}})
		forget(f, 10)
		if got := uses(f, effectonce.LimitFilter{Name: "m"}); len(got) != 0 {
			t.Errorf("%+v", got)
		}
		if got := f.load(done.Key); got.State != effectonce.StateSucceeded {
			t.Error("an operation was touched")
		}
	})
}
