package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

func testApply(t *testing.T, open Open) {
	// S5.1 I4
	t.Run("a stale version changes nothing", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(intent("a"), true)
		done := f.apply(op, succeeded(op))
		_, err := f.Apply(t.Context(), f.next(op, rejected(op)))
		wantCode(t, "a second end", err, effectonce.CodeStaleVersion)
		if got := f.load(op.Key); !same(t, got, done) {
			t.Error("the row changed")
		}
		if events, err := f.Events(t.Context(), op.Key); err != nil || len(events) != 2 {
			t.Errorf("%d events, %v; want 2", len(events), err)
		}
	})

	t.Run("an operation that is not there is stale", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		tr := f.recorded(intent("a"), true)
		_, err := f.Apply(t.Context(), f.next(tr.To, succeeded(tr.To)))
		wantCode(t, "apply", err, effectonce.CodeStaleVersion)
		_, err = f.Load(t.Context(), tr.To.Key)
		wantCode(t, "load", err, effectonce.CodeNotFound)
	})

	// S7.4: take-over is a compare-and-swap.
	t.Run("of 64 that take over at the same moment one wins", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(intent("a"), true)
		op = f.apply(op, unclear(op))
		var won, stale atomic.Int64
		atOnce(64, func(i int) {
			tr, err := effectonce.Next(op, effectonce.TakenOver{Owner: numbered("w", i)}, f.clock.Now())
			if err != nil {
				t.Error(err)
				return
			}
			_, err = f.Apply(t.Context(), tr)
			switch effectonce.CodeOf(err) {
			case effectonce.CodeStaleVersion:
				stale.Add(1)
			default:
				if err != nil {
					t.Error(err)
					return
				}
				won.Add(1)
			}
		})
		if won.Load() != 1 || stale.Load() != 63 {
			t.Errorf("%d won, %d stale", won.Load(), stale.Load())
		}
		if got := f.load(op.Key); got.Token != op.Token+1 || got.Version != op.Version+1 {
			t.Errorf("token %d, version %d", got.Token, got.Version)
		}
	})

	t.Run("a refused one spoils no other", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		old := f.create(intent("old"), true)
		f.apply(old, succeeded(old))
		atOnce(48, func(i int) {
			if i%3 == 0 {
				tr, _ := effectonce.Next(old, rejected(old), f.clock.Now())
				_, err := f.Apply(t.Context(), tr)
				wantCode(t, "a stale end", err, effectonce.CodeStaleVersion)
				return
			}
			tr, _ := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: intent(numbered("n", i)), Claim: true, Owner: "w"}, f.clock.Now())
			op, created, err := f.Create(t.Context(), tr)
			if err != nil || !created {
				t.Errorf("created %v, %v", created, err)
				return
			}
			if tr, err = effectonce.Next(op, succeeded(op), f.clock.Now()); err != nil {
				t.Error(err)
				return
			}
			if op, err = f.Apply(t.Context(), tr); err != nil || op.State != effectonce.StateSucceeded {
				t.Errorf("%s, %v", op.State, err)
			}
		})
	})

	// S5.4: an extension is no transition, but whoever saw the lease run out must see that it did not.
	t.Run("a lease that was extended meanwhile cannot be taken over", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(intent("a"), true)
		tr, err := effectonce.Next(op, effectonce.TakenOver{Owner: "w2"}, op.DueAt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Extend(t.Context(), op.Key, op.Token, 2*op.Terms.Lease(), 10*op.Terms.Lease()); err != nil {
			t.Fatal(err)
		}
		_, err = f.Apply(t.Context(), tr)
		wantCode(t, "take-over", err, effectonce.CodeStaleVersion)
		op = f.load(op.Key)
		if op = f.apply(op, succeeded(op)); op.State != effectonce.StateSucceeded {
			t.Errorf("the owner's record: %s", op.State)
		}
	})
}

// testEvents proves S5.1 I7.
func testEvents(t *testing.T, open Open) {
	t.Run("exactly one event per transition, as the state machine made it", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		var want []effectonce.Event
		tr := f.recorded(intent("a"), true)
		op, _, err := f.Create(t.Context(), tr)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, tr.Event)
		for _, step := range []func() effectonce.Cause{
			func() effectonce.Cause { return unclear(op) },
			func() effectonce.Cause { return effectonce.TakenOver{Owner: "w2", Actor: "agent-2"} },
			func() effectonce.Cause {
				return effectonce.Ruled{Token: op.Token, Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 12, Reason: "nobody knows"},
					Finding: effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: "503"}}
			},
			func() effectonce.Cause {
				return effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveAbsentResend, Person: "pat", Reason: "asked them", AcceptRisk: true}
			},
			func() effectonce.Cause { return effectonce.TakenOver{Owner: "w3"} },
			func() effectonce.Cause {
				return effectonce.AttemptStarted{Token: op.Token, DownstreamKey: "second", Line: 5}
			},
			func() effectonce.Cause { return succeeded(op) },
		} {
			f.clock.Move(3 * time.Second)
			tr := f.next(op, step())
			want = append(want, tr.Event)
			if op, err = f.Apply(t.Context(), tr); err != nil {
				t.Fatalf("%s: %v", tr.Event.Kind, err)
			}
		}
		got, err := f.Events(t.Context(), op.Key)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "events", got, want)
		for i, e := range got {
			if e.Seq != int64(i)+1 {
				t.Errorf("event %d has seq %d", i, e.Seq)
			}
		}
		if op.Epoch != 1 || op.DownstreamKey != "second" || op.State != effectonce.StateSucceeded {
			t.Errorf("epoch %d, %s, %s", op.Epoch, op.DownstreamKey, op.State)
		}
	})

	t.Run("an unknown key has none", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		if got, err := f.Events(t.Context(), effectonce.Key{1}); err != nil || len(got) != 0 {
			t.Errorf("%d events, %v", len(got), err)
		}
	})
}
