package effectonce_test

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectonce/effectonce"
)

// S5.1 I1, S7.3 line 12: with neither key nor look-up an ambiguous end stops for a person.
func TestNobodyCanKnow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, store := newGuard(t)
		b := newBank(false, effectonce.VerdictUnknown)
		_, err := g.Do(t.Context(), ticket, b.provider(), effectonce.WaitFor(time.Hour))
		if !errors.Is(err, effectonce.ErrInReview) || b.calls != 1 {
			t.Fatal(err, b.calls)
		}
		page, _ := store.List(t.Context(), effectonce.Filter{States: []effectonce.State{effectonce.StateReview}})
		op := page.Operations[0]
		confirm := effectonce.Resolved{Version: op.Version - 1, Resolution: effectonce.ResolveConfirmed, Person: "ann", Reason: "seen in the ledger", Reference: "re_1"}
		if _, err := g.Resolve(t.Context(), op.Key, confirm); !errors.Is(err, effectonce.ErrStaleVersion) {
			t.Error("S7.6: a stale view was accepted:", err)
		}
		confirm.Version = op.Version
		if _, err := g.Resolve(t.Context(), op.Key, confirm); err != nil {
			t.Fatal(err)
		}
		out, err := g.Do(t.Context(), ticket, b.provider())
		if err != nil || out.Operation.Proof != effectonce.ProofPerson || b.calls != 1 {
			t.Error(out, err)
		}
	})
}

// S7.6: a permitted resend is one attempt in a new epoch, however many race for it.
func TestPermittedResendIsOneAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		b := newBank(false, effectonce.VerdictUnknown, effectonce.VerdictSucceeded)
		b.refunds["another"] = 0
		out, _ := g.Do(t.Context(), ticket, b.provider(), effectonce.WaitFor(time.Hour))
		op := out.Operation
		first := op.DownstreamKey
		if _, err := g.Resolve(t.Context(), op.Key, effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveAbsentResend, Person: "ann", Reason: "not in the ledger"}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { _, _ = g.Do(t.Context(), ticket, b.provider(), effectonce.WaitFor(time.Minute)) })
		}
		wg.Wait()
		out, err := g.Do(t.Context(), ticket, b.provider())
		if err != nil || b.calls != 2 || out.Operation.Epoch != 1 || out.Operation.DownstreamKey == first || out.Operation.Permission != nil {
			t.Errorf("%v: %d calls, epoch %d", err, b.calls, out.Operation.Epoch)
		}
	})
}

// S7.5: a pending operation that nobody may run expires visibly.
func TestPendingExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, store := newGuard(t)
		in := ticket
		in.Terms.Approval = true
		out, err := g.Do(t.Context(), in, newBank(false).provider())
		if !errors.Is(err, effectonce.ErrHeld) || out.Outcome != effectonce.OutcomeAwaitingApproval {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		due, _ := store.Due(t.Context(), 10)
		op, err := g.Work(t.Context(), due[0])
		if err != nil || op.State != effectonce.StateFailed || op.Failure.Code != "expired" {
			t.Error(op.State, err)
		}
	})
}

// S7.6a: approval lets it run; nobody approves their own.
func TestApproval(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	b := newBank(false)
	in := ticket
	in.Terms.Approval = true
	out, _ := g.Do(t.Context(), in, b.provider())
	approve := effectonce.Resolved{Version: out.Operation.Version, Resolution: effectonce.ResolveApproved, Person: "agent", Reason: "fine"}
	if _, err := g.Resolve(t.Context(), out.Operation.Key, approve); !errors.Is(err, effectonce.ErrForbidden) {
		t.Error(err)
	}
	approve.Person = "ann"
	if _, err := g.Resolve(t.Context(), out.Operation.Key, approve); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Do(t.Context(), in, b.provider()); err != nil || b.count() != 1 {
		t.Error(err, b.count())
	}
}

// S3.7: who may supersede what.
func TestSupersede(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	b := newBank(true, effectonce.VerdictRejected)
	first, _ := g.Do(t.Context(), keyedTicket(), b.provider())
	next := keyedTicket()
	next.Business = json.RawMessage(`{"order_id":"8812","amount":450,"currency":"EUR"}`)
	next.Supersedes = &effectonce.Supersede{Key: first.Operation.Key, Reason: "the card was declined; a smaller amount"}
	second, err := g.Do(t.Context(), next, b.provider())
	if err != nil || second.Operation.Revision != 1 || second.Operation.Supersedes != first.Operation.Key {
		t.Fatal(second.Operation.Revision, err)
	}
	if again, err := g.Do(t.Context(), next, b.provider()); err != nil || !again.Replayed || b.count() != 1 {
		t.Error("the successor is recorded once:", err, b.count())
	}

	third := next
	third.Supersedes = &effectonce.Supersede{Key: second.Operation.Key, Reason: "480 paid, now 450"}
	out, err := g.Do(t.Context(), third, b.provider())
	if !errors.Is(err, effectonce.ErrHeld) || out.Outcome != effectonce.OutcomeAwaitingApproval || b.count() != 1 {
		t.Error("after a success a person approves:", out.Outcome, err)
	}
	fourth := next
	fourth.Supersedes = &effectonce.Supersede{Key: out.Operation.Key, Reason: "again"}
	if _, err := g.Do(t.Context(), fourth, b.provider()); !errors.Is(err, effectonce.ErrSupersede) {
		t.Error("unresolved without force:", err)
	}
	forced := fourth
	forced.Supersedes = &effectonce.Supersede{Key: out.Operation.Key, Reason: "really", Force: true}
	successor, err := g.Do(t.Context(), forced, b.provider())
	if !errors.Is(err, effectonce.ErrHeld) {
		t.Error("a forced successor waits for a person:", err)
	}
	if before, err := g.Wait(t.Context(), out.Operation.Key, 0); err != nil || before.Outcome != effectonce.OutcomeFailed {
		t.Error("what was not sent is cancelled, so that not both can run:", before.Outcome, err)
	}
	forced.Supersedes = &effectonce.Supersede{Key: out.Operation.Key, Reason: "again, after a crash in between"}
	if again, err := g.Do(t.Context(), forced, b.provider()); !errors.Is(err, effectonce.ErrHeld) || again.Operation.Key != successor.Operation.Key || b.count() != 1 {
		t.Error("a cancelled predecessor frees nobody from the person's approval:", err)
	}
	stranger := ticket
	stranger.ID = "another"
	stranger.Supersedes = &effectonce.Supersede{Key: first.Operation.Key, Reason: "x"}
	if _, err := g.Do(t.Context(), stranger, b.provider()); !errors.Is(err, effectonce.ErrSupersede) {
		t.Error("another intent's operation:", err)
	}
}

// S3.8, S16.12: two intents with one body both execute and are marked, or held where the policy says so.
func TestTwins(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	b := newBank(false)
	in := ticket
	in.Terms.Twins, in.Terms.TwinsWithin = effectonce.TwinAllow, time.Hour
	first, err := g.Do(t.Context(), in, b.provider())
	if err != nil {
		t.Fatal(err)
	}
	in.ID = "second"
	second, err := g.Do(t.Context(), in, b.provider())
	if err != nil || second.Operation.TwinOf != first.Operation.Key || b.count() != 2 {
		t.Error(second.Operation.TwinOf, err, b.count())
	}
	in.ID, in.Terms.Twins = "third", effectonce.TwinHold
	if out, err := g.Do(t.Context(), in, b.provider()); !errors.Is(err, effectonce.ErrHeld) || out.Operation.TwinOf.IsZero() || b.count() != 2 {
		t.Error(err, b.count())
	}
}
