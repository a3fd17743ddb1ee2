//go:build unix

package s16_test

import (
	"testing"

	"github.com/effectonce/effectonce"
)

// S16.1
func TestS16_01_KilledBeforeTheClaimCommits(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				w.agent("crash before create", k.refund("r1")).dead()
				if n := w.sends(); n != 0 || len(w.operations()) != 0 {
					t.Errorf("%d requests and %d operations after the kill, want none", n, len(w.operations()))
				}

				if a := w.ask(k.refund("r1")); a.State != effectonce.StateSucceeded {
					t.Errorf("the retry was told %+v", a)
				}
				w.wantEffects(1)
				w.wantOne(effectonce.StateSucceeded)
			})
		}
	})
}

// S16.2
func TestS16_02_KilledAfterTheClaimBeforeSending(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, point := range []string{"crash after create", "crash before call"} {
			for _, k := range kinds {
				t.Run(point+" "+string(k), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, on, k, "")
					w.agent(point, k.refund("r1")).dead()
					if n := w.sends(); n != 0 {
						t.Errorf("%d requests arrived before the kill", n)
					}
					w.wantOne(effectonce.StateInProgress)

					w.worker("")
					w.settled()
					w.wantOne(k.settled(false))
					w.wantEffects(k.effects(false))
				})
			}
		}
	})
}

// S16.3
func TestS16_03_KilledAfterEffectBeforeRecording(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, point := range []string{"crash after call", "crash before apply:attempt_ended"} {
			for _, k := range kinds {
				t.Run(point+" "+string(k), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, on, k, "")
					w.agent(point, k.refund("r1")).dead()
					w.wantEffects(1)
					w.wantOne(effectonce.StateInProgress)

					w.worker("")
					w.settled()
					op := w.wantOne(k.settled(true))
					w.wantEffects(1)
					if op.State == effectonce.StateSucceeded && op.Reference != w.ledger().Effects[0].ID {
						t.Errorf("recorded %q, but the effect is %q", op.Reference, w.ledger().Effects[0].ID)
					}
				})
			}
		}
	})
}

// S16.3: killed while the provider is working on the request.
func TestS16_03_KilledWhileTheProviderWorks(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "refunds#1 hold=200ms")
				agent := w.agent("", k.refund("r1"))
				w.until("the request is at the provider", func() bool { return w.sends() == 1 })
				agent.kill()
				w.until("the effect follows", func() bool { return w.ledger().Count == 1 })

				w.worker("")
				w.settled()
				w.wantOne(k.settled(true))
				w.wantEffects(1)
			})
		}
	})
}

// S16.3: what happens without a guard.
func TestS16_03_Unguarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onSQLite, stripe, "")
	w.naive("crash after send:POST").dead()
	w.naive("").end()
	w.wantEffects(2)
}
