package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

func testCreate(t *testing.T, open Open) {
	t.Run("a fresh operation is created", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(intent("a"), true)
		if op.State != effectonce.StateInProgress || op.Version != 1 || op.Token != 1 || !op.AsOf.Equal(f.clock.Now()) {
			t.Errorf("got %s, version %d, token %d, as of %s", op.State, op.Version, op.Token, op.AsOf)
		}
		if got := f.load(op.Key); !same(t, got, op) {
			t.Error("what is loaded is not what create returned")
		}
	})

	// S3.5, S5.3, S5.9: the same key again is an answer, never an error and never a second row.
	t.Run("again returns the row that is there", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		first := f.create(intent("a"), true)
		first = f.apply(first, succeeded(first))
		f.clock.Move(time.Minute)
		other := intent("a")
		other.Actor, other.Business = "agent-2", []byte(`{"amount":450}`)
		got, created, err := f.Create(t.Context(), f.recorded(other, true))
		if err != nil || created {
			t.Fatalf("created %v, %v", created, err)
		}
		if got.Actor != "agent-1" || got.State != effectonce.StateSucceeded || got.Version != first.Version {
			t.Errorf("got %s by %s, version %d", got.State, got.Actor, got.Version)
		}
		if !got.AsOf.Equal(f.clock.Now()) {
			t.Errorf("as of %s, the clock says %s", got.AsOf, f.clock.Now())
		}
		if events, err := f.Events(t.Context(), got.Key); err != nil || len(events) != 2 {
			t.Errorf("%d events, %v; want 2", len(events), err)
		}
	})

	// S5.3, S16.6
	t.Run("of 64 at the same moment one is created", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		var created, failed atomic.Int64
		var winner atomic.Value
		atOnce(64, func(i int) {
			op := intent("race")
			op.Actor = numbered("agent", i)
			tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: op.Actor}, f.clock.Now())
			if err != nil {
				failed.Add(1)
				return
			}
			got, c, err := f.Create(t.Context(), tr)
			switch {
			case err != nil:
				failed.Add(1)
			case c:
				created.Add(1)
				winner.Store(got.Owner)
			}
		})
		if created.Load() != 1 || failed.Load() != 0 {
			t.Fatalf("%d created, %d failed", created.Load(), failed.Load())
		}
		if got := f.load(intent("race").Key); got.Owner != winner.Load() {
			t.Errorf("stored owner %s, winner %v", got.Owner, winner.Load())
		}
	})

	t.Run("many different ones at the same moment are all created", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		atOnce(64, func(i int) {
			op := intent(numbered("many", i))
			op.Terms.Attempts = 1 + i%5
			tr, _ := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "w"}, f.clock.Now())
			if _, c, err := f.Create(t.Context(), tr); err != nil || !c {
				t.Errorf("%d: created %v, %v", i, c, err)
			}
		})
		for i := range 64 {
			if got := f.load(intent(numbered("many", i)).Key); got.Terms.Attempts != 1+i%5 {
				t.Errorf("%d: %d attempts in the terms", i, got.Terms.Attempts)
			}
		}
	})
}

// testTwins proves S3.8.
func testTwins(t *testing.T, open Open) {
	twin := func(id string, p effectonce.TwinPolicy) effectonce.Operation {
		op := intent(id)
		op.Terms.Twins, op.Terms.TwinsWithin = p, time.Hour
		op.Twin = canon.Digest{7}
		op.Key = mustKey(op)
		return op
	}

	t.Run("allow marks the twin and runs it", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		a := f.create(twin("a", effectonce.TwinAllow), true)
		b := f.create(twin("b", effectonce.TwinAllow), true)
		if b.TwinOf != a.Key || b.State != effectonce.StateInProgress {
			t.Errorf("twin of %s, %s", b.TwinOf.Short(), b.State)
		}
		if got := f.load(b.Key); got.TwinOf != a.Key {
			t.Error("the mark is not stored")
		}
		events, err := f.Events(t.Context(), b.Key)
		if err != nil || len(events) != 1 || events[0].Reason != "twin of "+a.Key.String() {
			t.Errorf("events %+v, %v", events, err)
		}
	})

	t.Run("hold holds the twin", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		a := f.create(twin("a", effectonce.TwinAllow), true)
		b := f.create(twin("b", effectonce.TwinHold), true)
		if b.TwinOf != a.Key || b.State != effectonce.StatePending || b.Hold != effectonce.HoldTwin || b.Open || b.Token != 0 {
			t.Errorf("twin of %s, %s, hold %q, open %v, token %d", b.TwinOf.Short(), b.State, b.Hold, b.Open, b.Token)
		}
		if got := f.load(b.Key); !same(t, got, b) {
			t.Error("what is loaded is not what create returned")
		}
	})

	t.Run("reject stores nothing", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		a := f.create(twin("a", effectonce.TwinAllow), true)
		b := twin("b", effectonce.TwinReject)
		_, created, err := f.Create(t.Context(), f.recorded(b, true))
		wantCode(t, "a rejected twin", err, effectonce.CodeTwinRejected)
		if e, ok := err.(*effectonce.Error); ok && e.Key != a.Key {
			t.Errorf("the error names %s, want the twin %s", e.Key.Short(), a.Key.Short())
		}
		if created {
			t.Error("created")
		}
		_, err = f.Load(t.Context(), b.Key)
		wantCode(t, "loading it", err, effectonce.CodeNotFound)
		if events, err := f.Events(t.Context(), b.Key); err != nil || len(events) != 0 {
			t.Errorf("%d events, %v", len(events), err)
		}
	})

	t.Run("a repeat of the same intent is no twin, even where twins are rejected", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		a := f.create(twin("a", effectonce.TwinReject), true)
		got, created, err := f.Create(t.Context(), f.recorded(twin("a", effectonce.TwinReject), true))
		if err != nil || created || got.Key != a.Key {
			t.Errorf("created %v, %v", created, err)
		}
	})

	for _, c := range []struct {
		name    string
		prepare func(f fixture)
		change  func(op *effectonce.Operation)
	}{
		{"outside the time", func(f fixture) { f.clock.Move(time.Hour) }, nil},
		{"after a failure", func(f fixture) {
			op := f.load(twin("a", effectonce.TwinAllow).Key)
			f.apply(op, rejected(op))
		}, nil},
		{"of another tenant", nil, func(op *effectonce.Operation) { op.Tenant = "other" }},
		{"of another tool", nil, func(op *effectonce.Operation) { op.Tool = "mail.send" }},
		{"with other content", nil, func(op *effectonce.Operation) { op.Twin = canon.Digest{8} }},
		{"without a digest", nil, func(op *effectonce.Operation) { op.Twin = canon.Digest{} }},
		{"where twins are off", nil, func(op *effectonce.Operation) { op.Terms.Twins = effectonce.TwinOff }},
		{"of the same intent's next revision", nil, func(op *effectonce.Operation) {
			op.IntentID, op.Revision = "a", 1
		}},
	} {
		t.Run("no twin "+c.name, func(t *testing.T) {
			t.Parallel()
			f := start(t, open)
			f.create(twin("a", effectonce.TwinAllow), true)
			if c.prepare != nil {
				c.prepare(f)
			}
			b := twin("b", effectonce.TwinReject)
			if c.change != nil {
				c.change(&b)
				b.Key = mustKey(b)
			}
			if got := f.create(b, true); !got.TwinOf.IsZero() {
				t.Errorf("marked as a twin of %s", got.TwinOf.Short())
			}
		})
	}

	t.Run("just inside the time, and of the latest one", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		f.create(twin("a", effectonce.TwinAllow), true)
		f.clock.Move(30 * time.Minute)
		b := f.create(twin("b", effectonce.TwinAllow), true)
		f.clock.Move(time.Hour - time.Microsecond)
		if c := f.create(twin("c", effectonce.TwinAllow), true); c.TwinOf != b.Key {
			t.Errorf("twin of %s, want %s", c.TwinOf.Short(), b.Key.Short())
		}
	})

	t.Run("two at the same moment see each other", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		var marked atomic.Int64
		atOnce(16, func(i int) {
			tr, _ := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: twin(numbered("t", i), effectonce.TwinAllow)}, f.clock.Now())
			op, created, err := f.Create(t.Context(), tr)
			if err != nil || !created {
				t.Errorf("created %v, %v", created, err)
			}
			if !op.TwinOf.IsZero() {
				marked.Add(1)
			}
		})
		if marked.Load() != 15 {
			t.Errorf("%d of 16 are marked, want all but the first", marked.Load())
		}
	})
}

// testHolds proves S7.1: new operations on a resource with a duplicate alarm are held.
func testHolds(t *testing.T, open Open) {
	on := func(id, tenant, resource string) effectonce.Operation {
		op := intent(id)
		op.Tenant, op.Resource = tenant, resource
		op.Key = mustKey(op)
		return op
	}
	alarm := func(f fixture) effectonce.Operation {
		op := f.create(on("a", "acme", "pi_1"), true)
		op = f.apply(op, unclear(op))
		op = f.apply(op, effectonce.TakenOver{Owner: "w2"})
		op = f.apply(op, effectonce.Ruled{Token: op.Token,
			Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 4, Reason: "found two"}, Finding: effectonce.Finding{Found: effectonce.FoundMany}})
		if op.State != effectonce.StateReview || op.Alarm == "" {
			f.t.Fatalf("%s, alarm %q", op.State, op.Alarm)
		}
		return op
	}

	t.Run("a new operation on the resource is held", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		alarm(f)
		b := f.create(on("b", "acme", "pi_1"), true)
		if b.State != effectonce.StatePending || b.Hold != effectonce.HoldDuplicate || b.Open {
			t.Errorf("%s, hold %q", b.State, b.Hold)
		}
		events, err := f.Events(t.Context(), b.Key)
		if err != nil || len(events) != 1 || events[0].To != effectonce.StatePending || events[0].Sends {
			t.Errorf("events %+v, %v", events, err)
		}
	})

	t.Run("others are not", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		alarm(f)
		for _, op := range []effectonce.Operation{on("b", "acme", "pi_2"), on("c", "other", "pi_1"), on("d", "acme", "")} {
			if got := f.create(op, true); got.Hold != effectonce.HoldNone || got.State != effectonce.StateInProgress {
				t.Errorf("%s of %s: %s, hold %q", got.Resource, got.Tenant, got.State, got.Hold)
			}
		}
	})

	t.Run("until a person resolves the alarm", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := alarm(f)
		f.apply(op, effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveConfirmed, Person: "pat", Reason: "seen", Reference: "re_1"})
		if got := f.create(on("b", "acme", "pi_1"), true); got.Hold != effectonce.HoldNone {
			t.Errorf("hold %q", got.Hold)
		}
	})
}
