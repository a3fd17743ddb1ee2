//go:build unix

package s16_test

import (
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// S16.14: before the effect.
func TestS16_14_StoreUnavailableBeforeTheEffect(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run("refused "+string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				a := w.agent("error before create", k.refund("r1")).answers()[0]
				if a.Code != effectonce.CodeStoreUnavailable || a.Sent != effectonce.SentNo {
					t.Errorf("told %+v, want that the store is unavailable and nothing was sent", a)
				}
				if n := w.sends(); n != 0 || len(w.operations()) != 0 {
					t.Errorf("%d requests, %d operations, want none", n, len(w.operations()))
				}
				w.ask(k.refund("r1"))
				w.wantOne(effectonce.StateSucceeded)
				w.wantEffects(1)
			})
			t.Run("answer lost "+string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				a := w.agent("error after create", k.refund("r1")).answers()[0]
				if a.Code != effectonce.CodeStoreUnavailable || a.Sent != effectonce.SentNo {
					t.Errorf("told %+v, want that the store is unavailable and nothing was sent", a)
				}
				if n := w.sends(); n != 0 {
					t.Errorf("%d requests, want none", n)
				}
				w.worker("")
				w.settled()
				w.wantOne(k.settled(false))
				w.wantEffects(k.effects(false))
			})
		}
	})
}

// S16.14: after the effect.
func TestS16_14_StoreUnavailableAfterTheEffect(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		brief := func(t *effectonce.Terms) { t.CallTimeout, t.Grace = 3*time.Second, 200*time.Millisecond }
		for _, k := range kinds {
			t.Run("for a moment "+string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				a := w.agent("error before apply:attempt_ended#1-3", k.refund("r1")).answers()[0]
				if a.State != effectonce.StateSucceeded {
					t.Errorf("told %+v, want success: recording is tried again", a)
				}
				w.wantOne(effectonce.StateSucceeded)
				w.wantEffects(1)
			})
			t.Run("recorded, but the answer is lost "+string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				a := w.agent("error after apply:attempt_ended#1", k.refund("r1")).answers()[0]
				if a.State != effectonce.StateSucceeded {
					t.Errorf("told %+v, want the success that is stored", a)
				}
				w.wantOne(effectonce.StateSucceeded)
				w.wantEffects(1)
			})
			t.Run("for longer than the lease "+string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				a := w.agent("error before apply:attempt_ended", k.refund("r1", brief)).answers()[0]
				if a.Code != effectonce.CodeStoreUnavailable || a.Sent != effectonce.SentUnknown {
					t.Errorf("told %+v, want that the store is unavailable and something may have been sent", a)
				}
				w.worker("")
				w.settled()
				w.wantOne(k.settled(true))
				w.wantEffects(1)
			})
		}
	})
}

// S16.21: the file may not grow, before the claim.
func TestS16_21_FileMayNotGrowBeforeTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onSQLite, stripe, "")
	w.ask(stripe.refund("earlier"))
	a := stripe.refund("r1")
	a.DiskFull = true
	told := w.ask(a)
	if told.Code != effectonce.CodeStoreUnavailable || told.Sent != effectonce.SentNo || !strings.Contains(told.Text, "disk") {
		t.Errorf("told %+v, want a clear error", told)
	}
	w.wantEffects(1)
	if n := len(w.operations()); n != 1 {
		t.Errorf("%d operations, want the earlier one and no half of the other", n)
	}
	if told := w.ask(stripe.refund("r1")); told.State != effectonce.StateSucceeded {
		t.Errorf("told %+v once there is room", told)
	}
	w.wantEffects(2)
}

// S16.21: the file may not grow, after the effect.
func TestS16_21_FileMayNotGrowAfterTheEffect(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, onSQLite, k, "")
			a := k.refund("r1", func(t *effectonce.Terms) { t.CallTimeout, t.Grace = 3*time.Second, 200*time.Millisecond })
			a.DiskFullAfter = true
			told := w.ask(a)
			if told.Code != effectonce.CodeStoreUnavailable || told.Sent != effectonce.SentUnknown {
				t.Errorf("told %+v, want that the store is unavailable and something may have been sent", told)
			}
			w.wantEffects(1)
			w.worker("")
			w.settled()
			w.wantOne(k.settled(true))
			w.wantEffects(1)
		})
	}
}

// S6.6: the caller is gone as soon as the request is on its way.
func TestS16_CallerHangsUp(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "refunds#1 hold=200ms")
				a := k.refund("r1")
				a.HangUp = true
				w.ask(a)
				op := w.wantOne(effectonce.StateSucceeded)
				if op.Proof != effectonce.ProofAnswer || op.Attempt != 1 {
					t.Errorf("recorded by %s after %d attempts, want the answer of the first", op.Proof, op.Attempt)
				}
				w.wantEffects(1)
			})
		}
	})
}

// S6.8
func TestS16_ResultTooLarge(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		w := newWorld(t, on, none, "")
		a := none.refund("r1")
		a.Large = true
		if told := w.ask(a); told.State != effectonce.StateSucceeded {
			t.Errorf("told %+v, want success", told)
		}
		op := w.wantOne(effectonce.StateSucceeded)
		if op.ResultOmitted == "" || op.Result != nil || op.ResultDigest.IsZero() || op.Reference != w.ledger().Effects[0].ID {
			t.Errorf("omitted %q, %d bytes, digest %s, reference %q; want a reason, none, a digest and the refund's id", op.ResultOmitted, len(op.Result), op.ResultDigest, op.Reference)
		}
		w.wantEffects(1)
	})
}
