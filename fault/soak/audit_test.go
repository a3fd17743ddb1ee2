//go:build unix

package soak_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
)

// audit compares the store with the provider's ledger and with what clients were told, when everything is over.
type audit struct {
	t      *testing.T
	store  effectonce.Store
	ledger func() twin.Ledger
	crowd  *crowd
	events *triggers

	operations, effects, reviews, failed, takenOver, resends, limited, decided int
}

func (a audit) String() string {
	return fmt.Sprintf("%d operations (%d failed, %d in review), %d effects, %d take-overs, %d resends, %d refused by limits, %d decided by models", a.operations, a.failed, a.reviews, a.effects, a.takenOver, a.resends, a.limited, a.decided)
}

func (a *audit) run() {
	a.t.Helper()
	for _, s := range a.crowd.stuck {
		a.t.Errorf("nobody could be told anything final: %s", s)
	}
	// S5.1 I11: nothing stays unsettled; the background workers of both daemons go on.
	var ops []effectonce.Operation
	deadline, end := time.Now().Add(patience), time.Now().Add(15*time.Minute)
	for {
		ops = a.all()
		open := 0
		for _, op := range ops {
			if op.State.Final() || op.State == effectonce.StateReview {
				continue
			}
			open++
			// An event whose consumers failed again and again waits for minutes before it is handed out anew; that is no standstill.
			next := op.DueAt
			if op.Parked {
				next = op.RetryAt
			}
			if again := next.Add(patience / 2); again.After(deadline) {
				deadline = again
			}
		}
		if open == 0 {
			break
		}
		if now := time.Now(); now.After(deadline) || now.After(end) {
			for _, op := range ops {
				if !op.State.Final() && op.State != effectonce.StateReview {
					a.t.Errorf("%s stays %s: %s", op.IntentID, op.State, op.Reason)
				}
			}
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	// A request can still be at the provider when its operation is settled already.
	var before int
	until(a.t, "the provider is quiet", func() bool {
		n := a.ledger().Count
		quiet := n == before
		before = n
		if !quiet {
			<-time.After(time.Second)
		}
		return quiet
	})
	a.compare(ops)
}

// all reads every operation, whole.
func (a *audit) all() (ops []effectonce.Operation) {
	a.t.Helper()
	f := effectonce.Filter{Limit: effectonce.ListLimitMax}
	for {
		page, err := a.store.List(a.t.Context(), f)
		if err != nil {
			a.t.Fatal(err)
		}
		ops = append(ops, page.Operations...)
		if f.After = page.Next; f.After == "" {
			return ops
		}
	}
}

func (a *audit) compare(ops []effectonce.Operation) {
	a.t.Helper()
	byStamp := map[string][]twin.Refund{}
	for _, e := range a.ledger().Effects {
		byStamp[e.Stamp] = append(byStamp[e.Stamp], e)
		a.effects++
	}
	runs, taken := map[string]string{}, map[string]int64{}
	a.inbox(ops)
	ops = slices.DeleteFunc(ops, func(op effectonce.Operation) bool { return op.Tool == inboxTool })
	for _, listed := range ops {
		op, err := a.store.Load(a.t.Context(), listed.Key)
		if err != nil {
			a.t.Fatal(err)
		}
		a.operations++
		a.one(op, byStamp[op.Stamp])
		delete(byStamp, op.Stamp)
		// S10.1: one operation of each decided step.
		if op.Run != "" {
			a.decided++
			if other := runs[op.Run]; other != "" {
				a.t.Errorf("%s has two operations of one step: %s and %s", op.Run, other, op.IntentID)
			}
			runs[op.Run] = op.IntentID
		}
		for _, l := range op.Limits {
			if op.State != effectonce.StateFailed {
				taken[l.Name] += l.Amount
			}
		}
	}
	for stamp, effects := range byStamp {
		a.t.Errorf("%d effects with the stamp %q of no operation", len(effects), stamp)
	}
	a.limits(taken)
	a.answers(ops)
}

// one compares one operation with its effects.
func (a *audit) one(op effectonce.Operation, effects []twin.Refund) {
	a.t.Helper()
	want := 0
	switch op.State {
	case effectonce.StateSucceeded:
		want = 1
		if len(effects) == 1 && effects[0].ID != op.Reference {
			a.t.Errorf("%s names %q, and its effect is %q", op.IntentID, op.Reference, effects[0].ID)
		}
	case effectonce.StateFailed:
		a.failed++
		if op.Proof != effectonce.ProofRejected {
			a.t.Errorf("%s failed by %s: %s", op.IntentID, op.Proof, op.Reason)
		}
	case effectonce.StateReview:
		a.reviews++
		want = min(len(effects), 1)
		a.t.Logf("%s is in review: %s; it has %d effects", op.IntentID, op.Reason, len(effects))
	}
	events, err := a.store.Events(a.t.Context(), op.Key)
	if err != nil {
		a.t.Fatal(err)
	}
	var story strings.Builder
	for i, e := range events {
		fmt.Fprintf(&story, "\n  %d %s %s %s -> %s token %d attempt %d %s%s line %d %s", e.Seq, e.At.Format("15:04:05.000"), e.Kind, e.From, e.To, e.Token, e.Attempt, e.Verdict, e.Found, e.Line, e.Reason)
		// S5.1 I7
		if e.Seq != int64(i+1) || i > 0 && e.From != events[i-1].To {
			a.t.Errorf("%s: audit line %d does not follow the one before", op.IntentID, e.Seq)
		}
		if e.Kind == effectonce.EventTakenOver {
			a.takenOver++
		}
		if e.Kind == effectonce.EventAttemptStarted {
			a.resends++
		}
	}
	if int64(len(events)) != op.Version {
		a.t.Errorf("%s has version %d and %d audit lines", op.IntentID, op.Version, len(events))
	}
	if len(effects) != want {
		a.t.Errorf("%s is %s and has %d effects:%s", op.IntentID, op.State, len(effects), story.String())
	}
	if op.Alarm != "" {
		a.t.Errorf("%s has an alarm: %s%s", op.IntentID, op.Alarm, story.String())
	}
}

const inboxTool = "inbox." + source

// inbox proves that every accepted event is stored once and done with (S9.1, S16.7).
func (a *audit) inbox(ops []effectonce.Operation) {
	a.t.Helper()
	stored := map[string]effectonce.Operation{}
	for _, op := range ops {
		if op.Tool == inboxTool {
			if _, twice := stored[op.IntentID]; twice {
				a.t.Errorf("event %s is stored twice", op.IntentID)
			}
			stored[op.IntentID] = op
		}
	}
	a.events.mu.Lock()
	defer a.events.mu.Unlock()
	for n := range a.events.accepted {
		if op := stored[strconv.FormatInt(n, 10)]; op.State != effectonce.StateSucceeded {
			a.t.Errorf("event %d was accepted and is %q: %s", n, op.State, op.Reason)
		}
	}
}

// limits compares what is taken of each limit with the operations that have not failed (S8.3).
func (a *audit) limits(taken map[string]int64) {
	a.t.Helper()
	for name, n := range taken {
		if n > limitPerCustomer {
			a.t.Errorf("%d are taken of %s, which allows %d", n, name, limitPerCustomer)
		}
		uses, err := a.store.Limits(a.t.Context(), effectonce.LimitFilter{Name: name})
		if err != nil || len(uses) != 1 || uses[0].Used != n {
			a.t.Errorf("%d are taken of %s, and the store says %+v, %v", n, name, uses, err)
		}
	}
}

// answers compares what clients were told with what is stored.
func (a *audit) answers(ops []effectonce.Operation) {
	a.t.Helper()
	stored := map[string]effectonce.Operation{}
	for _, op := range ops {
		order := strings.Split(op.IntentID, ":")[1]
		if other, twice := stored[order]; twice {
			a.t.Errorf("%s and %s are of one order", other.IntentID, op.IntentID)
		}
		stored[order] = op
	}
	for n, t := range a.crowd.tolds {
		op := stored[fmt.Sprintf("O-%d", n)]
		if t.limited {
			a.limited++
		}
		for state := range t.states {
			if state != op.State && !(state == effectonce.StateReview && op.State.Final()) {
				a.t.Errorf("%s: somebody was told %s, and it is %s", op.IntentID, state, op.State)
			}
		}
		for reference := range t.references {
			if reference != op.Reference {
				a.t.Errorf("%s: somebody was told %q, and it is %q", op.IntentID, reference, op.Reference)
			}
		}
	}
}
