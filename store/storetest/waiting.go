package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

func testWaiting(t *testing.T, open Open) {
	t.Run("those that somebody could take up, the longest due first", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		w := f.Store
		held := f.next(effectonce.Operation{}, effectonce.Recorded{Operation: intent("held"), Hold: effectonce.HoldApproval})
		if _, _, err := f.Create(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		foreign, other := alsoKnownAs(intent("foreign"), "alias"), intent("other tool")
		foreign.Tenant, other.Tool = "other", "mail.send"
		foreign.Key, other.Key = mustKey(foreign), mustKey(other)
		f.create(foreign, false)
		f.create(other, false)
		f.create(intent("leased long"), true)
		for id, end := range map[string]func(effectonce.Operation) effectonce.AttemptEnded{"done": succeeded, "failed": rejected} {
			op := f.create(intent(id), true)
			f.apply(op, end(op))
		}
		review := f.create(intent("review"), true)
		review = f.apply(review, unclear(review))
		review = f.apply(review, effectonce.TakenOver{Owner: "w"})
		f.apply(review, effectonce.Ruled{Token: review.Token, Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 12}})

		ask := func(limit int) []string {
			t.Helper()
			ops, err := w.Waiting(t.Context(), "acme", "stripe.refund", limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range ops {
				if !op.AsOf.Equal(f.clock.Now()) || !same(t, op, f.load(op.Key)) {
					t.Errorf("%s is not the whole operation", op.IntentID)
				}
			}
			return intentIDs(ops)
		}
		if got := ask(10); len(got) != 0 {
			t.Errorf("waiting are %v", got)
		}

		short := intent("lease over")
		short.Terms.CallTimeout, short.Terms.Grace = time.Second, time.Second
		f.create(short, true)
		managed := intent("managed")
		managed.Terms.Managed = true
		f.clock.Move(5 * time.Second)
		f.create(alsoKnownAs(managed, "formerly"), false)
		f.clock.Move(time.Second)
		unknown := f.create(intent("unknown"), true)
		f.apply(unknown, unclear(unknown))
		f.create(intent("of the caller"), false)
		f.clock.Move(10 * time.Second)
		if got := ask(10); !slices.Equal(got, []string{"lease over", "managed", "unknown", "of the caller"}) {
			t.Errorf("waiting are %v", got)
		}
		if got := ask(2); !slices.Equal(got, []string{"lease over", "managed"}) {
			t.Errorf("the first two are %v", got)
		}
	})
}
