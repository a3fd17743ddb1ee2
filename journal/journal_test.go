package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/journal"
	"github.com/effectonce/effectonce/store/memory"
)

// desk is a journal on a memory store whose clock the test moves.
type desk struct {
	t      *testing.T
	store  *memory.Store
	guard  *effectonce.Guard
	offset atomic.Int64
	journal.Journal
	asked atomic.Int64
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t}
	d.store = memory.Open(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(d.offset.Load())) }})
	d.guard = effectonce.New(d.store, effectonce.Options{Owner: "test", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	d.Journal = *journal.New(d.store, d.guard)
	return d
}

// intent is the refund that a run decides.
func intent(run, step string, amount int) effectonce.Intent {
	return effectonce.Intent{Tool: "refund", Run: run, Step: step, ID: "refund:1", Arguments: effectonce.Arguments(map[string]any{"amount": amount})}
}

// model decides a refund, each time in other words and with another amount.
func (d *desk) model(ctx context.Context) (effectonce.Decision, error) {
	n := d.asked.Add(1)
	in := intent("run-1", "refund", int(480-n))
	op, err := d.guard.Preview(ctx, in)
	return effectonce.Decision{Tool: in.Tool, IntentID: in.ID, Arguments: in.Arguments, Operation: op.Key, Note: fmt.Sprintf("for the %d. time", n)}, err
}

func (d *desk) decide(step string) journal.Entry {
	d.t.Helper()
	e, err := d.Run("", "run-1").Decide(d.t.Context(), step, d.model)
	if err != nil {
		d.t.Fatal(err)
	}
	return e
}

func (d *desk) wantDo(want journal.Do) journal.Entry {
	d.t.Helper()
	e, err := d.Run("", "run-1").Step(d.t.Context(), "refund")
	if err != nil {
		d.t.Fatal(err)
	}
	if e.Do != want {
		d.t.Fatalf("do is %q, want %q: %+v", e.Do, want, e.Operation)
	}
	return e
}

// S10.1, S10.2
func TestARecordedStepIsNeverDecidedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.wantDo(journal.DoDecide)
	first := d.decide("refund")
	if !first.First || first.Do != journal.DoExecute || string(first.Decision.Arguments) != `{"amount":479}` {
		t.Errorf("the first answer is %+v", first)
	}
	again := d.decide("refund")
	if again.First || again.Do != journal.DoExecute || string(again.Decision.Arguments) != `{"amount":479}` || d.asked.Load() != 1 {
		t.Errorf("asked %d times, answered %+v", d.asked.Load(), again)
	}
}

// S10.1, S16.11
func TestOfManyDecidersOneWinsAndAllGetItsDecision(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const n = 32
	var all [n]journal.Entry
	var together, done sync.WaitGroup
	together.Add(n)
	for i := range n {
		done.Go(func() {
			e, err := d.Run("", "run-1").Decide(t.Context(), "refund", func(ctx context.Context) (effectonce.Decision, error) {
				together.Done()
				together.Wait() // nobody stores before everybody was asked
				return d.model(ctx)
			})
			if err != nil {
				t.Error(err)
			}
			all[i] = e
		})
	}
	done.Wait()
	firsts := 0
	for _, e := range all {
		if e.First {
			firsts++
		}
		if string(e.Decision.Arguments) != string(all[0].Decision.Arguments) || e.Decision.Note != all[0].Decision.Note {
			t.Errorf("one was told %s, another %s", e.Decision.Arguments, all[0].Decision.Arguments)
		}
	}
	if firsts != 1 || d.asked.Load() != n {
		t.Errorf("%d were first of %d asked", firsts, d.asked.Load())
	}
}

// S10.2: the caller kept no journal, and the effect has started: what the model says now is not recorded beside it.
func TestAStartedCallIsNotDecidedAnyMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if _, err := d.guard.Claim(t.Context(), intent("run-1", "refund", 480)); err != nil {
		t.Fatal(err)
	}
	e := d.decide("refund")
	if e.Decided || e.Do != journal.DoWait || e.RetryAfter <= 0 || !e.Started() {
		t.Errorf("answered %+v", e)
	}
	if all, err := d.store.Decisions(t.Context(), effectonce.DefaultTenant, "run-1"); err != nil || len(all) != 0 {
		t.Errorf("recorded %+v, %v", all, err)
	}
}

// The key of a claim's operation depends on a scope that only the claim says: each is tried.
func TestACallIsFoundByToolAndIntentInEachScope(t *testing.T) {
	t.Parallel()
	for _, scope := range []effectonce.Scope{effectonce.ScopeBusiness, effectonce.ScopeRun, effectonce.ScopeStep} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			run := d.Run("", "run-1")
			choice := effectonce.Decision{Step: "refund", Tool: "refund", IntentID: "refund:1", Arguments: json.RawMessage(`{"amount":1}`)}
			if e, err := run.Record(t.Context(), choice); err != nil || e.Do != journal.DoExecute {
				t.Fatalf("recorded %+v, %v", e, err)
			}
			in := intent("run-1", "refund", 1)
			in.Scope = scope
			if _, err := d.guard.Claim(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			d.wantDo(journal.DoWait)
		})
	}
}

// S10.2: what a restarted agent is told at each point of the operation's life.
func TestWhatToDoFollowsTheOperation(t *testing.T) {
	t.Parallel()
	ok := effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "re_1", Result: []byte(`{"id":"re_1"}`)}
	no := effectonce.End{Verdict: effectonce.VerdictRejected, Failure: effectonce.Failure{Code: "card_declined"}}
	lost := effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: "timeout"}}

	for name, c := range map[string]struct {
		end  *effectonce.End
		then func(d *desk, key effectonce.Key)
		want journal.Do
	}{
		"claimed by somebody":        {nil, nil, journal.DoWait},
		"its holder is gone":         {nil, func(d *desk, _ effectonce.Key) { d.offset.Add(int64(time.Hour)) }, journal.DoExecute},
		"succeeded":                  {&ok, nil, journal.DoUseResult},
		"refused":                    {&no, nil, journal.DoNewStep},
		"unknown, and to be retried": {&lost, func(d *desk, _ effectonce.Key) { d.offset.Add(int64(time.Hour)) }, journal.DoExecute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.decide("refund")
			claim, err := d.guard.Claim(t.Context(), intent("run-1", "refund", 479))
			if err != nil {
				t.Fatal(err)
			}
			key := claim.Operation.Key
			if c.end != nil {
				// An ambiguous end is an outcome, not a failure to record it.
				if _, err := d.guard.Settle(t.Context(), key, claim.Token, *c.end); err != nil {
					t.Fatal(err)
				}
			}
			if c.then != nil {
				c.then(d, key)
			}
			e := d.wantDo(c.want)
			if !e.Started() || !e.Decided || e.Operation.Operation.Key != key {
				t.Errorf("the step is %+v", e)
			}
		})
	}
}

// S7.10: what waits for a person says so.
func TestAHeldOperationStopsTheAgent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.decide("refund")
	in := intent("run-1", "refund", 479)
	in.Terms.Approval = true
	if _, err := d.guard.Record(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	d.wantDo(journal.DoStop)
}

// S4.5: the same intent with other arguments, recorded by another run, is not this run's result.
func TestAnotherRunsOperationIsAskedForAndNotAssumed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	claim, err := d.guard.Claim(t.Context(), intent("run-0", "pay", 480))
	if err == nil {
		_, err = d.guard.Settle(t.Context(), claim.Operation.Key, claim.Token, effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "re_1"})
	}
	if err != nil {
		t.Fatal(err)
	}
	e := d.decide("refund")
	if e.Do != journal.DoExecute || e.Operation.Operation.Key != claim.Operation.Key {
		t.Errorf("answered %+v", e)
	}
	if _, err := d.guard.Claim(t.Context(), intent("run-1", "refund", 479)); !errors.Is(err, effectonce.ErrPayloadMismatch) {
		t.Errorf("the call gets %v", err)
	}
}

func TestAFinishedRunTakesNoFurtherStep(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.Run("", "run-1")
	e, err := run.Record(t.Context(), effectonce.Decision{Step: "ticket", Arguments: json.RawMessage(`{"ticket":"t-1"}`)})
	if err != nil || e.Do != journal.DoUseResult {
		t.Fatalf("a step without an effect: %+v, %v", e, err)
	}
	last := func(context.Context) (effectonce.Decision, error) {
		return effectonce.Decision{Finish: true, Note: "done"}, nil
	}
	if e, err = run.Decide(t.Context(), "end", last); err != nil || e.Do != journal.DoFinished || !e.First {
		t.Fatalf("the last step: %+v, %v", e, err)
	}
	if e, err = run.Decide(t.Context(), "end", last); err != nil || e.Do != journal.DoFinished || e.First {
		t.Errorf("the last step again: %+v, %v", e, err)
	}
	if _, err = run.Decide(t.Context(), "refund", d.model); !errors.Is(err, effectonce.ErrRunFinished) || d.asked.Load() != 0 {
		t.Errorf("a further step: %v, asked %d times", err, d.asked.Load())
	}
	if _, err = run.Record(t.Context(), effectonce.Decision{Step: "refund"}); !errors.Is(err, effectonce.ErrRunFinished) {
		t.Errorf("a further step: %v", err)
	}
	d.wantDo(journal.DoFinished)
}

func TestAnErrorOfTheModelStoresNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	broken := errors.New("the model is not there")
	if _, err := d.Run("", "run-1").Decide(t.Context(), "refund", func(context.Context) (effectonce.Decision, error) { return effectonce.Decision{}, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	d.wantDo(journal.DoDecide)
}

func TestWhatCannotBeRecordedIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, c := range map[string]struct {
		run string
		d   effectonce.Decision
	}{
		"no run":                  {"", effectonce.Decision{Step: "s"}},
		"no step":                 {"r", effectonce.Decision{}},
		"a step nobody sees":      {"r", effectonce.Decision{Step: "s\u200b"}},
		"an intent of no tool":    {"r", effectonce.Decision{Step: "s", IntentID: "x"}},
		"arguments not an object": {"r", effectonce.Decision{Step: "s", Arguments: json.RawMessage(`[1]`)}},
		"a name twice":            {"r", effectonce.Decision{Step: "s", Arguments: json.RawMessage(`{"a":1,"a":2}`)}},
		"a long note":             {"r", effectonce.Decision{Step: "s", Note: string(make([]byte, effectonce.NoteBytesMax+1))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := d.Run("", c.run).Record(t.Context(), c.d)
			if !errors.Is(err, effectonce.ErrInvalid) && !errors.Is(err, effectonce.ErrNotCanonical) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// S10.3
func TestARunIsShownStepByStep(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	run := d.Run("", "run-1")
	if s, err := run.Show(t.Context()); err != nil || s.Known() {
		t.Fatalf("an unknown run: %+v, %v", s, err)
	}
	if _, err := run.Record(t.Context(), effectonce.Decision{Step: "ticket"}); err != nil {
		t.Fatal(err)
	}
	d.decide("refund")
	claim, err := d.guard.Claim(t.Context(), intent("run-1", "refund", 479))
	if err != nil {
		t.Fatal(err)
	}
	mail := intent("run-1", "mail", 1)
	mail.ID = "mail:1"
	if _, err := d.guard.Record(t.Context(), mail); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Record(t.Context(), effectonce.Decision{Step: "end", Finish: true}); err != nil {
		t.Fatal(err)
	}
	s, err := run.Show(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range s.Entries {
		got = append(got, fmt.Sprintf("%s %v %s", e.Step, e.Decided, e.Do))
	}
	want := []string{"ticket true use_result", "refund true wait", "end true finished", "mail false execute"}
	if fmt.Sprint(got) != fmt.Sprint(want) || !s.Finished || s.Entries[1].Operation.Operation.Key != claim.Operation.Key {
		t.Errorf("shown is %q, want %q", got, want)
	}
	page, err := d.Runs(t.Context(), effectonce.RunFilter{Unfinished: true})
	if err != nil || len(page.Runs) != 0 {
		t.Errorf("unfinished runs: %+v, %v", page, err)
	}
}

// S5.12
func TestWhoMayNotSeeTheOperationIsNotToldOfIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.decide("refund")
	if _, err := d.guard.Claim(t.Context(), intent("run-1", "refund", 479)); err != nil {
		t.Fatal(err)
	}
	closed := effectonce.New(d.store, effectonce.Options{Access: func(context.Context, effectonce.Operation) error { return effectonce.ErrForbidden }})
	j := journal.New(d.store, closed)
	if e, err := j.Run("", "run-1").Step(t.Context(), "refund"); !errors.Is(err, effectonce.ErrForbidden) || e.Started() {
		t.Errorf("told %+v, %v", e, err)
	}
	if _, err := j.Run("", "run-1").Show(t.Context()); !errors.Is(err, effectonce.ErrForbidden) {
		t.Errorf("shown: %v", err)
	}
}
