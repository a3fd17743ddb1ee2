package effectonce_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// S5.6, S5.8, S16.13: a worker that lost its lease may not write, and its success is not lost.
func TestLateSuccessSettles(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	claim, err := g.Claim(t.Context(), ticket)
	if err != nil || claim.Do != effectonce.TaskExecute {
		t.Fatal(claim, err)
	}
	key := claim.Operation.Key
	if _, err := g.Settle(t.Context(), key, claim.Token+7, effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "forged"}); !errors.Is(err, effectonce.ErrStaleToken) {
		t.Error("S5.1 I4: a token that was never given was accepted:", err)
	}
	for range 2 {
		// The second report is the first one again, its answer lost.
		if out, err := g.Settle(t.Context(), key, claim.Token, effectonce.End{Verdict: effectonce.VerdictUnknown}); err != nil || out.Operation.State != effectonce.StateUnknown {
			t.Fatal(out.Operation.State, err)
		}
	}
	if _, err := g.Settle(t.Context(), key, claim.Token, effectonce.End{Verdict: effectonce.VerdictRejected}); !errors.Is(err, effectonce.ErrStaleToken) {
		t.Error("another report than the recorded one is stale:", err)
	}
	out, err := g.Settle(t.Context(), key, claim.Token, effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "re_1"})
	if err != nil || out.Operation.State != effectonce.StateSucceeded || out.Operation.Proof != effectonce.ProofLate {
		t.Error(out.Operation.State, err)
	}
}

// S7.5, S7.8, S3.10: a claim whose holder died waits for its caller, who looks up first; in the end a person decides.
func TestAbandonedClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, store := newGuard(t)
		claim, err := g.Claim(t.Context(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		key := claim.Operation.Key
		work := func() effectonce.Operation {
			due, err := store.Due(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range due {
				if _, err := g.Work(t.Context(), op); err != nil {
					t.Error(err)
				}
			}
			op, _ := store.Load(t.Context(), key)
			return op
		}
		time.Sleep(2 * time.Minute)
		if op := work(); op.State != effectonce.StateUnknown || !op.Parked {
			t.Fatal(op.State)
		}
		again, err := g.Claim(t.Context(), ticket)
		if err != nil || again.Do != effectonce.TaskLookUp || again.Token == claim.Token {
			t.Fatal(again.Do, err)
		}
		looked, err := g.LookedUp(t.Context(), key, again.Token, effectonce.Finding{Found: effectonce.FoundAbsent})
		if err != nil || looked.Do != effectonce.TaskWait {
			t.Fatal(looked.Do, err)
		}
		time.Sleep(time.Hour)
		if op := work(); op.State != effectonce.StateReview {
			t.Error(op.State, op.Reason)
		}
	})
}

// S7.7: whoever holds the effect keeps to the provider's pause, instead of spending all attempts at once.
func TestClaimantKeepsToTheBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		claim, err := g.Claim(t.Context(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		out, err := g.Settle(t.Context(), claim.Operation.Key, claim.Token, effectonce.End{Verdict: effectonce.VerdictThrottled, RetryAfter: 2 * time.Minute})
		if err != nil || out.Outcome != effectonce.OutcomePending || out.RetryAfter != 30*time.Second {
			t.Fatal(out.Outcome, out.RetryAfter, err)
		}
		for range 5 {
			if early, err := g.Claim(t.Context(), ticket); err != nil || early.Do != effectonce.TaskWait || early.Token != 0 {
				t.Fatal(early.Do, err)
			}
		}
		time.Sleep(2 * time.Minute)
		if again, err := g.Claim(t.Context(), ticket); err != nil || again.Do != effectonce.TaskExecute || again.Operation.Attempt != 2 {
			t.Error(again.Do, again.Operation.Attempt, err)
		}
	})
}

// S5.8, S11.1, I11: a convergent operation whose late success is on record is completed by it, not sent for ever.
func TestEvidenceEndsAConvergentOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{Logger: slog.New(slog.DiscardHandler)})
		in := effectonce.Intent{Tool: "consume", ID: "evt_1", Terms: effectonce.Terms{Class: effectonce.ClassConvergent, CallTimeout: time.Second, Grace: time.Second}}
		claim := func() effectonce.Claim {
			t.Helper()
			c, err := guard.Claim(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := claim()
		time.Sleep(3 * time.Second)
		// A second consumer takes over, looks, and is about to execute when the first one reports its success.
		second := claim()
		key := first.Operation.Key
		again, err := guard.LookedUp(t.Context(), key, second.Token, effectonce.Finding{Found: effectonce.FoundUnavailable})
		if err != nil || again.Do != effectonce.TaskExecute {
			t.Fatalf("%+v, %v", again, err)
		}
		if _, err := guard.Settle(t.Context(), key, first.Token, effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "done"}); !errors.Is(err, effectonce.ErrStaleToken) {
			t.Fatal(err)
		}
		// The second one dies; whoever comes next finds the evidence.
		time.Sleep(3 * time.Second)
		third := claim()
		settled, err := guard.LookedUp(t.Context(), key, third.Token, effectonce.Finding{Found: effectonce.FoundUnavailable})
		if err != nil || settled.Do != effectonce.TaskDone || settled.Operation.State != effectonce.StateSucceeded || settled.Operation.Reference != "done" {
			t.Fatalf("%+v, %v", settled, err)
		}
	})
}
