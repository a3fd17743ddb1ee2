package storetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// alsoKnownAs gives an operation the keys that other intents would have.
func alsoKnownAs(op effectonce.Operation, ids ...string) effectonce.Operation {
	for _, id := range ids {
		op.Aliases = append(op.Aliases, intent(id).Key)
	}
	return op
}

// testAliases proves S3.12: an operation has several keys under one constraint.
func testAliases(t *testing.T, open Open) {
	t.Run("every key leads to the one operation", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(alsoKnownAs(intent("new"), "old", "older"), true)
		for _, again := range []effectonce.Operation{
			intent("new"), intent("old"), intent("older"),
			alsoKnownAs(intent("old"), "new"),
			alsoKnownAs(intent("newest"), "new"),
			alsoKnownAs(intent("newest"), "unheard", "older"),
		} {
			got, created, err := f.Create(t.Context(), f.recorded(again, true))
			if err != nil || created || !same(t, got, op) {
				t.Errorf("create %s: created %v, %s, %v", again.IntentID, created, got.IntentID, err)
			}
		}
		for _, id := range []string{"new", "old", "older"} {
			if got := f.load(intent(id).Key); !same(t, got, op) {
				t.Errorf("load by %s: not the operation", id)
			}
			events, err := f.Events(t.Context(), intent(id).Key)
			if err != nil || len(events) != 1 || events[0].Key != op.Key {
				t.Errorf("events by %s: %+v, %v", id, events, err)
			}
		}
		for _, id := range []string{"newest", "unheard"} {
			_, err := f.Load(t.Context(), intent(id).Key)
			wantCode(t, "load "+id, err, effectonce.CodeNotFound)
		}
	})

	t.Run("an operation recorded before its key had an alias is found by it", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		old := f.create(intent("old"), true)
		got, created, err := f.Create(t.Context(), f.recorded(alsoKnownAs(intent("new"), "old"), true))
		if err != nil || created || got.Key != old.Key {
			t.Errorf("created %v, %s, %v", created, got.IntentID, err)
		}
	})

	t.Run("what happens to it is seen by every key, and only one of them is shown", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(alsoKnownAs(intent("new"), "old"), true)
		f.clock.Move(time.Hour)
		if due, err := f.Due(t.Context(), 10); err != nil || len(due) != 1 || due[0].Key != op.Key {
			t.Errorf("due %v, %v", intentIDs(due), err)
		}
		op = f.apply(op, succeeded(op))
		if got := f.load(intent("old").Key); !same(t, got, op) {
			t.Error("the alias shows another state")
		}
		for _, filter := range []effectonce.Filter{{}, {Tenant: "acme"}, {Text: "new"}, {States: effectonce.States}, {Limit: 1}} {
			page, err := f.List(t.Context(), filter)
			if err != nil || len(page.Operations) != 1 || page.Operations[0].Key != op.Key || page.Next != "" {
				t.Errorf("list %+v: %v, next %q, %v", filter, intentIDs(page.Operations), page.Next, err)
			}
		}
		_, err := f.Extend(t.Context(), intent("old").Key, 1, time.Minute, time.Hour)
		if err == nil {
			t.Error("an alias was extended")
		}
	})

	t.Run("what is refused leaves no alias", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := alsoKnownAs(intent("new"), "old")
		op.Limits = []effectonce.Limit{{Name: "n", Amount: 2, Max: 1}}
		_, created, err := f.Create(t.Context(), f.recorded(op, true))
		wantCode(t, "over the limit", err, effectonce.CodeLimitExceeded)
		if created {
			t.Error("created")
		}
		f.create(intent("old"), true)
	})

	t.Run("of 32 with the same keys in other roles one is created", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		ids := []string{"a", "b", "c", "d", "e"}
		for round := range 4 {
			var created atomic.Int64
			var keys [32]effectonce.Key
			atOnce(len(keys), func(i int) {
				var mine []string
				for j := range ids {
					mine = append(mine, numbered(ids[(i+j)%len(ids)], round))
				}
				tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: alsoKnownAs(intent(mine[0]), mine[1:]...), Claim: true, Owner: "w"}, f.clock.Now())
				if err != nil {
					t.Error(err)
					return
				}
				op, c, err := f.Create(t.Context(), tr)
				if err != nil {
					t.Error(err)
					return
				}
				if c {
					created.Add(1)
				}
				keys[i] = op.Key
			})
			for _, key := range keys {
				if key != keys[0] {
					t.Errorf("round %d: %s and %s", round, key.Short(), keys[0].Short())
				}
			}
			if created.Load() != 1 {
				t.Errorf("round %d: %d created", round, created.Load())
			}
		}
	})

	t.Run("a caller who knows only the old key meets those who know both", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		var created atomic.Int64
		atOnce(32, func(i int) {
			op := intent("old")
			if i%2 == 0 {
				op = alsoKnownAs(intent("new"), "old")
			}
			tr, _ := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "w"}, f.clock.Now())
			_, c, err := f.Create(t.Context(), tr)
			if err != nil {
				t.Error(err)
			}
			if c {
				created.Add(1)
			}
		})
		if created.Load() != 1 {
			t.Errorf("%d created", created.Load())
		}
	})
}
