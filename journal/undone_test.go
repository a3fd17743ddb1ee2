package journal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/journal"
)

// S11.3: once a run is undone nothing is sent for what it recorded; what others recorded, and what undoes it, goes on.
func TestNothingIsSentForAnUndoneRun(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	sent := 0
	bank := effectonce.Func(func(context.Context, effectonce.Call) (string, error) { sent++; return "re_1", nil })
	run, other := d.Run("", "run-1"), d.Run("", "run-2")
	named := func(run, id string) effectonce.Intent {
		in := intent(run, "refund", 480)
		in.ID, in.Terms.Managed = id, true
		return in
	}
	first, err := d.guard.Do(t.Context(), named("run-1", "first"), run.Provider(bank))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.guard.Record(t.Context(), named("run-2", "others")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again is harmless
		if err := run.MarkUndone(t.Context(), "the wrong customer", "mara"); err != nil {
			t.Fatal(err)
		}
	}
	h, err := run.History(t.Context())
	if err != nil || !h.Undone() || h.Last() != journal.StepUndone {
		t.Errorf("the history is %+v, %v", h, err)
	}
	o, err := d.guard.Do(t.Context(), named("run-1", "late"), run.Provider(bank))
	if !errors.Is(err, effectonce.ErrFailed) || o.Operation.Failure.Code != journal.FailureUndone || sent != 1 {
		t.Errorf("a late call: %v, sent %d times", err, sent)
	}
	// The operation of another run, although this one asks for it.
	if _, err := d.guard.Do(t.Context(), named("run-1", "others"), run.Provider(bank)); err != nil || sent != 2 {
		t.Errorf("another run's operation: %v, sent %d times", err, sent)
	}
	if _, err := d.guard.Do(t.Context(), named("run-2", "more"), other.Provider(bank)); err != nil || sent != 3 {
		t.Errorf("another run: %v, sent %d times", err, sent)
	}
	undo := named("run-1", effectonce.CompensationID(first.Operation.Key))
	undo.Compensates = first.Operation.Key
	if _, err := d.guard.Do(t.Context(), undo, run.Provider(bank)); err != nil || sent != 4 {
		t.Errorf("what undoes it: %v, sent %d times", err, sent)
	}
	page, err := d.Runs(t.Context(), effectonce.RunFilter{})
	if err != nil || len(page.Runs) != 1 || page.Runs[0].Run != "run-1" {
		t.Errorf("listed are %+v, %v", page.Runs, err)
	}
}

// S11.3: what may have been sent before the run was undone is settled as ever, and undone then; a run that had ended is undone as well.
func TestWhatMayHaveBeenSentIsNotStopped(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.Run("", "run-1")
	if _, err := run.Record(t.Context(), effectonce.Decision{Step: "end", Finish: true}); err != nil {
		t.Fatal(err)
	}
	claim, err := d.guard.Claim(t.Context(), intent("run-1", "refund", 480))
	if err != nil {
		t.Fatal(err)
	}
	// Later by the store's clock, which tells what the undoing has seen.
	d.offset.Add(int64(time.Millisecond))
	if err := run.MarkUndone(t.Context(), "x", "mara"); err != nil {
		t.Fatal(err)
	}
	if h, err := run.History(t.Context()); err != nil || !h.Undone() || h.Last() != "end" {
		t.Errorf("the history is %+v, %v", h, err)
	}
	stops := func(want bool) {
		t.Helper()
		op, err := d.store.Load(t.Context(), claim.Operation.Key)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Stops(t.Context(), op); err != nil || got != want {
			t.Errorf("an operation that is %s and exposed %v is stopped: %v, %v", op.State, op.Exposed, got, err)
		}
	}
	stops(true)
	lost := effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: "timeout"}}
	if _, err := d.guard.Settle(t.Context(), claim.Operation.Key, claim.Token, lost); err != nil {
		t.Fatal(err)
	}
	stops(false)
}
