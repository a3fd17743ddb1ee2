//go:build unix

package s16_test

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// S16.9
func TestS16_09_ClockPastTheProvidersWindow(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for name, c := range map[string]struct {
			crash   string
			after   time.Duration
			kind    kind
			want    effectonce.State
			effects int
			sends   int
		}{
			"effect, 25 hours later":                 {"crash after call", 25 * time.Hour, keyed, effectonce.StateReview, 1, 1},
			"nothing sent, 25 hours later":           {"crash before call", 25 * time.Hour, keyed, effectonce.StateReview, 0, 0},
			"effect, 23 hours later":                 {"crash after call", 23 * time.Hour, keyed, effectonce.StateSucceeded, 1, 2},
			"effect, within the margin":              {"crash after call", 24*time.Hour - 2*time.Minute, keyed, effectonce.StateReview, 1, 1},
			"nothing sent, within the margin":        {"crash before call", 24*time.Hour - 2*time.Minute, keyed, effectonce.StateReview, 0, 0},
			"effect, found 25 hours later":           {"crash after call", 25 * time.Hour, stripe, effectonce.StateSucceeded, 1, 1},
			"nothing sent, looked at 25 hours after": {"crash before call", 25 * time.Hour, stripe, effectonce.StateReview, 0, 0},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, c.kind, "")
				w.agent(c.crash, c.kind.refund("r1")).dead()
				w.advance(c.after)

				w.worker("")
				w.settled()
				w.wantOne(c.want)
				w.wantEffects(c.effects)
				if n := w.sends(); n != c.sends {
					t.Errorf("%d requests, want %d", n, c.sends)
				}
				// Whoever asks again is told so, and nothing is sent.
				if a := w.ask(c.kind.refund("r1")); a.State != c.want {
					t.Errorf("the agent was told %+v, want %s", a, c.want)
				}
				w.wantEffects(c.effects)
			})
		}
	})
}

// S16.9: what happens without a guard, although it uses the same key.
func TestS16_09_Unguarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onSQLite, stripe, "")
	w.naiveKeyed("crash after send:POST").dead()
	w.advance(25 * time.Hour)
	w.naiveKeyed("").end()
	w.wantEffects(2)
}

// S16.10
func TestS16_10_ClockPastRetention(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				first := w.ask(k.refund("r1"))
				w.worker("")
				for _, years := range []time.Duration{1, 9} {
					w.advance(years * 365 * 24 * time.Hour)
					a := w.ask(k.refund("r1"))
					if a.State != effectonce.StateSucceeded || !a.Replayed || a.Reference != first.Reference {
						t.Errorf("after %d more years it was told %+v, want the recorded %+v", years, a, first)
					}
				}
				w.wantEffects(1)
				if n := w.sends(); n != 1 {
					t.Errorf("%d requests, want one", n)
				}
			})
		}
	})
}

// S16.10: an operation that nobody resolved.
func TestS16_10_UnresolvedForYears(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				w.agent("crash after call", k.refund("r1")).dead()
				w.advance(2 * 365 * 24 * time.Hour)
				w.worker("")
				w.settled()
				want := k.settled(true)
				if k == keyed {
					want = effectonce.StateReview
				}
				w.wantOne(want)
				w.wantEffects(1)
			})
		}
	})
}

// S16.10, S13.1: the result was purged, also where whoever purged was killed at it.
func TestS16_10_PastResultRetention(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, plan := range []string{"", "crash before apply:purged", "crash after apply:purged"} {
			t.Run(plan, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, none, "")
				a := none.refund("r1", func(t *effectonce.Terms) { t.Results = time.Hour })
				first := w.ask(a)
				w.advance(2 * time.Hour)
				if plan != "" {
					w.untilDead(w.worker(plan))
				}
				w.worker("")
				w.until("the result is purged", func() bool { return !w.one().PurgedAt.IsZero() })

				again := w.ask(a)
				if again.State != effectonce.StateSucceeded || !again.Replayed || again.Reference != first.Reference {
					t.Errorf("it was told %+v, want the recorded reference %q", again, first.Reference)
				}
				op := w.wantOne(effectonce.StateSucceeded)
				if len(op.Result) > 0 || len(op.Arguments) > 0 || op.ResultOmitted != effectonce.OmittedPurged {
					t.Errorf("%d bytes of result and %d of arguments are left, omitted %q", len(op.Result), len(op.Arguments), op.ResultOmitted)
				}
				w.wantEffects(1)
				if n := w.sends(); n != 1 {
					t.Errorf("%d requests, want one", n)
				}
			})
		}
	})
}

// S16.10, S13.2: nothing of the operation is left, and its period is over.
func TestS16_10_PastIdentityRetention(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		w := newWorld(t, on, none, "")
		a := none.refund("r1")
		a.ForgetAt = time.Now().Add(time.Hour).Truncate(time.Second)
		w.ask(a)
		w.advance(2 * time.Hour)
		w.worker("")
		w.until("the operation is forgotten", func() bool { return len(w.operations()) == 0 })
		if told := w.ask(a); told.Code != effectonce.CodeExpired {
			t.Errorf("told %+v, want that its period is over", told)
		}
		w.wantEffects(1)
		if n := w.sends(); n != 1 {
			t.Errorf("%d requests, want one", n)
		}
	})
}

// S16.19
func TestS16_19_KilledThenTheWindowClosesAndTheLookUpIsDown(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for name, faults := range map[string]string{"503": "lookup#* status=503", "dropped": "lookup#* drop", "nonsense": "lookup#* garble"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, stripe, faults)
				w.agent("crash after call", stripe.refund("r1")).dead()
				w.advance(25 * time.Hour)

				w.worker("")
				if a := w.ask(stripe.refund("r1")); a.State == effectonce.StateSucceeded || a.State == effectonce.StateFailed {
					t.Errorf("the retry was told %+v, which nobody can know", a)
				}
				w.settled()
				w.wantOne(effectonce.StateReview)
				w.wantEffects(1)
				if n := w.sends(); n != 1 {
					t.Errorf("%d requests, want one", n)
				}
			})
		}
	})
}
