//go:build unix

package s16_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// S16.6
func TestS16_06_TwoAgentsOneTicket(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "refunds#* hold=100ms")
				a := k.refund("r1")
				a.Wait = patience
				first, second := w.agent("", a), w.agent("", a)
				one, two := first.answers()[0], second.answers()[0]
				if one.State != effectonce.StateSucceeded || two.State != effectonce.StateSucceeded || one.Reference != two.Reference {
					t.Errorf("they were told %+v and %+v, want the same success", one, two)
				}
				if one.Replayed == two.Replayed {
					t.Errorf("replayed: %v and %v, want one of them", one.Replayed, two.Replayed)
				}
				w.wantOne(effectonce.StateSucceeded)
				w.wantEffects(1)
				if n := w.sends(); n != 1 {
					t.Errorf("%d requests, want one: nothing was ambiguous", n)
				}
			})
		}
	})
}

// S5.5: who does not wait is told to come back.
func TestS16_06_LoserThatDoesNotWait(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		w := newWorld(t, on, none, "")
		winner := w.agent("stop before call", none.refund("r1"))
		winner.struck("stop before call")
		if a := w.ask(none.refund("r1")); a.Code != effectonce.CodeConflict || a.Next != effectonce.AdviceRetry {
			t.Errorf("the loser was told %+v, want a conflict and when to ask again", a)
		}
		if a := winner.wake()[0]; a.State != effectonce.StateSucceeded {
			t.Errorf("the winner was told %+v", a)
		}
		if a := w.ask(none.refund("r1")); a.State != effectonce.StateSucceeded || !a.Replayed {
			t.Errorf("the loser was told %+v afterwards, want the recorded outcome", a)
		}
		w.wantEffects(1)
	})
}

// S16.6: fifty first requests from four processes.
func TestS16_06_FiftyFirstRequests(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		w := newWorld(t, on, none, "refunds#* hold=100ms")
		var agents []*process
		for _, times := range []int{13, 13, 12, 12} {
			a := none.refund("r1")
			a.Wait, a.Times = patience, times
			agents = append(agents, w.agent("", a))
		}
		total, fresh := 0, 0
		reference := ""
		for _, agent := range agents {
			for _, a := range agent.answers() {
				total++
				if !a.Replayed {
					fresh++
				}
				if a.State != effectonce.StateSucceeded || a.Code != "" {
					t.Errorf("somebody was told %+v", a)
				}
				if reference != "" && reference != a.Reference {
					t.Errorf("references %q and %q", reference, a.Reference)
				}
				reference = a.Reference
			}
		}
		if total != 50 || fresh != 1 {
			t.Errorf("%d answers, %d of them not replayed; want 50 and 1", total, fresh)
		}
		w.wantEffects(1)
		w.wantOne(effectonce.StateSucceeded)
	})
}

// S16.6: what happens without a guard.
func TestS16_06_Unguarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onSQLite, stripe, "refunds#* hold=100ms")
	first, second := w.naive(""), w.naive("")
	first.end()
	second.end()
	w.wantEffects(2)
}

// S16.8
func TestS16_08_PayloadModifiedUnderOneKey(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		more := func(k kind) ask {
			a := k.refund("r1")
			a.Arguments = json.RawMessage(`{"payment_intent":"pi_1","amount":480000}`)
			return a
		}
		for name, plan := range map[string]string{"after the success": "", "while the outcome is unknown": "crash after call"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, stripe, "")
				w.agent(plan, stripe.refund("r1")).end()
				before := w.one()
				a := w.ask(more(stripe))
				if a.Code != effectonce.CodePayloadMismatch || !slices.Equal(a.Fields, []string{"amount"}) {
					t.Errorf("told %+v, want a payload mismatch that names amount", a)
				}
				if after := w.one(); after.Version != before.Version {
					t.Errorf("the refused request moved the operation from version %d to %d", before.Version, after.Version)
				}
				w.wantEffects(1)
				if n := w.sends(); n != 1 {
					t.Errorf("%d requests, want one", n)
				}
			})
		}
	})
}

// S16.11
func TestS16_11_ModelDecidesAgainInOtherWords(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		w := newWorld(t, on, none, "")
		for i, c := range []struct{ arguments, business string }{
			{`{"payment_intent":"pi_1","amount":48000,"reason":"The customer never got the parcel."}`, `{"payment_intent":"pi_1","amount":48000}`},
			{`{"reason":"Parcel lost in transit, refunding","amount":48000,"payment_intent":"pi_1"}`, `{"amount":48000,"payment_intent":"pi_1"}`},
			{`{"payment_intent":"pi_1","amount":4.8e4,"reason":""}`, `{"payment_intent":"pi_1","amount":4.8e4}`},
			{`{"payment_intent":"pi_1","amount":48000.0}`, `{"payment_intent":"pi_1","amount":48000.0}`},
		} {
			a := none.refund("r1")
			a.Arguments, a.Business = json.RawMessage(c.arguments), json.RawMessage(c.business)
			got := w.ask(a)
			if got.State != effectonce.StateSucceeded || got.Replayed != (i > 0) {
				t.Errorf("wording %d was told %+v", i+1, got)
			}
		}
		w.wantEffects(1)
		log, err := w.twin.Requests(t.Context())
		if err != nil || log.Total != 1 {
			t.Fatalf("%d requests (%v), want one", log.Total, err)
		}
		// S5.1 I6
		for _, word := range []string{"parcel", "Parcel", "reason"} {
			if strings.Contains(log.Requests[0].Body, word) {
				t.Errorf("free text reached the provider: %q", log.Requests[0].Body)
			}
		}
	})
}

// S16.12
func TestS16_12_TwoIntentsWithIdenticalPayload(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		marked := func(t *effectonce.Terms) { t.Twins, t.TwinsWithin = effectonce.TwinAllow, 24*time.Hour }
		w := newWorld(t, on, stripe, "")
		for _, id := range []string{"ticket-1", "ticket-2"} {
			if a := w.ask(stripe.refund(id, marked)); a.State != effectonce.StateSucceeded || a.Replayed {
				t.Errorf("%s was told %+v", id, a)
			}
		}
		w.wantEffects(2)
		ops := w.operations()
		if len(ops) != 2 || ops[1].TwinOf != ops[0].Key || !ops[0].TwinOf.IsZero() {
			t.Errorf("the second is not marked as the first one's twin: %+v", ops)
		}
	})
}

// S16.20: the half that needs no inbox.
func TestS16_20_RedeliveredTriggerMakesNewIDs(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		hold := func(t *effectonce.Terms) { t.Twins, t.TwinsWithin = effectonce.TwinHold, 24*time.Hour }
		w := newWorld(t, on, stripe, "")
		w.worker("")
		if a := w.ask(stripe.refund("run-1:refund", hold)); a.State != effectonce.StateSucceeded {
			t.Errorf("the first run was told %+v", a)
		}
		a := w.ask(stripe.refund("run-2:refund", hold))
		if a.Code != effectonce.CodeHeld || a.Next != effectonce.AdviceStop {
			t.Errorf("the second run was told %+v, want that it is held", a)
		}
		w.advance(time.Hour)
		ops := w.operations()
		if len(ops) != 2 || ops[1].TwinOf != ops[0].Key || ops[1].Hold != effectonce.HoldTwin {
			t.Errorf("the second operation is not held as a twin: %+v", ops)
		}
		w.wantEffects(1)
	})
}

// S16.12, S16.20: what happens without a guard.
func TestS16_20_Unguarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onSQLite, stripe, "")
	w.naive("").end()
	w.naive("").end()
	w.wantEffects(2)
}
