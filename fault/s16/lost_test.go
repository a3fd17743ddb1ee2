//go:build unix

package s16_test

import (
	"slices"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// S16.4
func TestS16_04_AnswerLostAfterTheEffect(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for name, c := range map[string]struct {
			faults string
			// not are the kinds for which this answer means something else.
			not []kind
			// stuck are those for which only a person can tell.
			stuck []kind
		}{
			"dropped":               {faults: "refunds#1 after-effect drop"},
			"reset":                 {faults: "refunds#1 after-effect reset"},
			"502":                   {faults: "refunds#1 after-effect status=502"},
			"503":                   {faults: "refunds#1 after-effect status=503"},
			"cut in the middle":     {faults: "refunds#1 after-effect cut"},
			"garbled":               {faults: "refunds#1 after-effect garble"},
			"about another refund":  {faults: "refunds#1 after-effect foreign", not: []kind{keyed, none}},
			"stored 500":            {faults: "refunds#1 after-effect status=500", stuck: []kind{keyed}},
			"every answer dropped":  {faults: "refunds#* after-effect drop", stuck: []kind{keyed}},
			"lost, then a 401":      {faults: "refunds#1 after-effect drop; refunds#2 instead status=401"},
			"lost, then a 429":      {faults: "refunds#1 after-effect drop; refunds#2 instead status=429"},
			"lost, then a 503 more": {faults: "refunds#1 after-effect drop; refunds#2 instead status=503"},
		} {
			for _, k := range kinds {
				if slices.Contains(c.not, k) {
					continue
				}
				t.Run(name+" "+string(k), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, on, k, c.faults)
					if a := w.ask(k.refund("r1")); a.Code != effectonce.CodeUnknownOutcome || a.Next != effectonce.AdviceWait {
						t.Errorf("the agent was told %+v, want that the outcome is unknown", a)
					}
					w.wantEffects(1)

					w.worker("")
					w.settled()
					want := k.settled(true)
					if slices.Contains(c.stuck, k) {
						want = effectonce.StateReview
					}
					w.wantOne(want)
					w.wantEffects(1)
				})
			}
		}
	})
}

// S16.4: timed out, with the effect before or after the time-out.
func TestS16_04_TimedOut(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for name, faults := range map[string]string{
			"after the effect":        "refunds#1 after-effect hang=20s",
			"the effect comes later":  "refunds#1 before-effect hold=2500ms",
			"the answer comes slowly": "refunds#1 after-effect slow=2500ms",
		} {
			for _, k := range kinds {
				t.Run(name+" "+string(k), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, on, k, faults)
					a := w.ask(k.refund("r1", callTimeout(2*time.Second)))
					if a.Code != effectonce.CodeUnknownOutcome {
						t.Errorf("the agent was told %+v, want that the outcome is unknown", a)
					}
					w.until("the effect happened", func() bool { return w.ledger().Count == 1 })

					w.worker("")
					w.settled()
					w.wantOne(k.settled(true))
					w.wantEffects(1)
				})
			}
		}
	})
}

func callTimeout(d time.Duration) func(*effectonce.Terms) {
	return func(t *effectonce.Terms) { t.CallTimeout = d }
}

// S16.4: what happens without a guard.
func TestS16_04_Unguarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onSQLite, stripe, "refunds#1 after-effect drop")
	w.naive("").end()
	w.naive("").end()
	w.wantEffects(2)
}

// S16.5
func TestS16_05_KilledDuringReconciliation(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		taking := []string{"crash before apply:taken_over", "crash after apply:taken_over"}
		looking := []string{"crash before lookup", "crash after lookup"}
		ruling := []string{"crash before apply:ruled", "crash after apply:ruled"}
		resending := []string{"crash before apply:attempt_started", "crash after apply:attempt_started", "crash before call", "crash after call", "crash before apply:attempt_ended"}
		for _, c := range []struct {
			kind kind
			// effect says whether the agent was killed after the effect or before.
			effect bool
			points [][]string
		}{
			{keyed, true, [][]string{taking, resending}},
			{keyed, false, [][]string{taking, resending}},
			{stripe, true, [][]string{taking, looking, ruling}},
			{stripe, false, [][]string{taking, looking, resending}},
			{lookUp, true, [][]string{taking, looking, ruling}},
			{lookUp, false, [][]string{taking, looking, ruling, resending}},
			{strict, true, [][]string{looking, ruling}},
			{strict, false, [][]string{looking, ruling}},
			{none, true, [][]string{taking, ruling}},
			{none, false, [][]string{ruling}},
		} {
			if !slices.Contains(kinds, c.kind) {
				continue
			}
			for _, group := range c.points {
				for _, point := range group {
					name, first := " nothing sent", "crash before call"
					if c.effect {
						name, first = " effect", "crash after call"
					}
					t.Run(string(c.kind)+name+" "+point, func(t *testing.T) {
						t.Parallel()
						w := newWorld(t, on, c.kind, "")
						w.agent(first, c.kind.refund("r1")).dead()

						killed := w.worker(point)
						w.untilDead(killed)
						w.worker("")
						w.settled()
						w.wantOne(c.kind.settled(c.effect))
						w.wantEffects(c.kind.effects(c.effect))
					})
				}
			}
		}
	})
}

// S16.15
func TestS16_15_LookUpUnavailableLaggingOrWrong(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for name, c := range map[string]struct {
			faults string
			lag    time.Duration
			want   effectonce.State
		}{
			"down for a while":                 {faults: "lookup#1-3 status=503", want: effectonce.StateSucceeded},
			"down for ever":                    {faults: "lookup#* status=503", want: effectonce.StateReview},
			"dropped for ever":                 {faults: "lookup#* drop", want: effectonce.StateReview},
			"refused for ever":                 {faults: "lookup#* status=401", want: effectonce.StateReview},
			"a 404 is not absence":             {faults: "lookup#* status=404", want: effectonce.StateReview},
			"garbled, then well":               {faults: "lookup#1-2 garble", want: effectonce.StateSucceeded},
			"cut, then well":                   {faults: "lookup#1-2 cut", want: effectonce.StateSucceeded},
			"lagging as promised":              {lag: lag - time.Second, want: effectonce.StateSucceeded},
			"shows another's refund at first":  {faults: "lookup#1 foreign", want: effectonce.StateSucceeded},
			"lagging, and down in between":     {faults: "lookup#2-3 reset", lag: lag - time.Second, want: effectonce.StateSucceeded},
			"the first look is before the lag": {lag: 3 * time.Minute, want: effectonce.StateSucceeded},
		} {
			for _, k := range []kind{lookUp, strict} {
				t.Run(name+" "+string(k), func(t *testing.T) {
					t.Parallel()
					rules := k.rules()
					rules.LookupLag = c.lag
					w := newWorldWith(t, on, k, rules, c.faults)
					// Long enough for absence to count, and not for many more looks.
					within := func(t *effectonce.Terms) { t.Within = 8 * time.Minute }
					w.agent("crash after call", k.refund("r1", within)).dead()

					w.worker("")
					w.settled()
					w.wantOne(c.want)
					w.wantEffects(1)
				})
			}
		}
	})
}

// S16.15: a list that is further behind than its provider promises, under a policy that leaves absence to a person.
func TestS16_15_LaggingBeyondThePromise(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		rules := strict.rules()
		rules.LookupLag = 10 * time.Hour
		w := newWorldWith(t, on, strict, rules, "")
		w.agent("crash after call", strict.refund("r1")).dead()
		w.worker("")
		w.settled()
		w.wantOne(effectonce.StateReview)
		w.wantEffects(1)
	})
}

// S16.17
func TestS16_17_ProviderStillAtIt(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range []kind{keyed, stripe} {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "refunds#1 hold=5s")
				soon := func(t *effectonce.Terms) {
					t.CallTimeout = 1500 * time.Millisecond
					t.Backoff, t.BackoffMax = 50*time.Millisecond, 200*time.Millisecond
				}
				w.worker("")
				a := w.ask(k.refund("r1", soon))
				if a.Code != effectonce.CodeUnknownOutcome {
					t.Errorf("the agent was told %+v, want that the outcome is unknown", a)
				}
				w.until("it settles", func() bool { return w.one().State.Final() || w.one().State == effectonce.StateReview })
				op := w.wantOne(effectonce.StateSucceeded)
				w.wantEffects(1)
				inFlight := 0
				for _, e := range w.events(op.Key) {
					if e.Verdict == effectonce.VerdictInFlight {
						inFlight++
					}
				}
				if inFlight == 0 || op.Spent > op.Terms.Attempts {
					t.Errorf("%d answers said that it is in flight, %d attempts spent", inFlight, op.Spent)
				}
			})
		}
	})
}
