package effectonce_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// S5.8, I11: a late success of an older epoch, while the worker of the newer one dies: an alarm and a person, not the same decision for ever.
func TestEvidenceOfAnOlderEpochEndsInReview(t *testing.T) {
	t.Parallel()
	now := epochStart
	store := memory.Open(memory.Options{Now: func() time.Time { return now }})
	guard := effectonce.New(store, effectonce.Options{
		Logger: slog.New(slog.DiscardHandler),
		Providers: func(effectonce.Operation) effectonce.Provider {
			return effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
				t.Error("sent although a success of an older epoch is on record")
				return "", nil
			})
		},
	})
	recorded, err := guard.Record(t.Context(), effectonce.Intent{Tool: "refund", ID: "i", Terms: testTerms()})
	if err != nil && effectonce.CodeOf(err) != effectonce.CodePending {
		t.Fatal(err)
	}
	op := recorded.Operation
	apply := func(c effectonce.Cause) {
		t.Helper()
		tr, err := effectonce.Next(op, c, now)
		if err == nil {
			op, err = store.Apply(t.Context(), tr)
		}
		if err != nil {
			t.Fatalf("%T: %v", c, err)
		}
	}
	apply(effectonce.Claimed{Owner: "a"})
	now = now.Add(25 * time.Hour)
	apply(effectonce.TakenOver{Owner: "b"})
	apply(effectonce.Ruled{Token: op.Token, Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 12, Reason: "the window is over"}})
	apply(effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveAbsentResend, Person: "ann", Reason: "not in the bank's list", AcceptRisk: true})
	apply(effectonce.TakenOver{Owner: "b"})
	apply(effectonce.AttemptStarted{Token: op.Token, DownstreamKey: "k2", Line: 5})
	apply(effectonce.LateSuccess{Attempt: 1, Epoch: 0, End: effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "re_1"}, Actor: "a"})
	now = now.Add(2 * time.Minute)
	if op, err = store.Load(t.Context(), op.Key); err != nil {
		t.Fatal(err)
	}
	if op, err = guard.Work(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	if op.State != effectonce.StateReview || op.Alarm == "" || op.Evidence == nil {
		t.Errorf("it is %s, alarm %q, evidence %v", op.State, op.Alarm, op.Evidence)
	}
}
