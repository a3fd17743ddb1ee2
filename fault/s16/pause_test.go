//go:build unix

package s16_test

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// S16.13: stopped before it sends. Its deadline is real, so it has to be over when the worker wakes.
func TestS16_13_PausedBeforeSending(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				const within = 3 * time.Second
				paused := w.agent("stop before call", k.refund("r1", callTimeout(within)))
				paused.struck("stop before call")
				paused.asleep()
				stopped := time.Now()

				w.worker("")
				w.settled()
				w.wantOne(k.settled(false))
				w.wantEffects(k.effects(false))
				sent := w.sends()
				w.until("its deadline is over", func() bool { return time.Since(stopped) > within })

				told := paused.wake()[0]
				if told.State != k.settled(false) {
					t.Errorf("the paused agent was told %+v, want what is stored", told)
				}
				w.wantOne(k.settled(false))
				w.wantEffects(k.effects(false))
				if n := w.sends(); n != sent {
					t.Errorf("the paused worker sent after its deadline")
				}
			})
		}
	})
}

// S16.13, S5.6, S5.8: stopped between the effect and the record.
func TestS16_13_PausedBeforeRecording(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, point := range []string{"stop after call", "stop before apply:attempt_ended"} {
			for _, k := range kinds {
				t.Run(point+" "+string(k), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, on, k, "")
					paused := w.agent(point, k.refund("r1"))
					paused.struck(point)
					paused.asleep()
					w.wantEffects(1)

					w.worker("")
					w.settled()
					before := w.wantOne(k.settled(true))

					told := paused.wake()[0]
					if told.State != effectonce.StateSucceeded {
						t.Errorf("the paused agent was told %+v", told)
					}
					after := w.wantOne(effectonce.StateSucceeded)
					w.wantEffects(1)
					if before.State == effectonce.StateSucceeded && after.Version != before.Version {
						t.Errorf("a refused write moved the operation from version %d to %d", before.Version, after.Version)
					}
					if before.State == effectonce.StateReview && after.Proof != effectonce.ProofLate {
						t.Errorf("its proof is %s, want the late answer", after.Proof)
					}
				})
			}
		}
	})
}

// S16.13: a worker that only reconciles is stopped and wakes up.
func TestS16_13_PausedWhileReconciling(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, c := range []struct {
			kind  kind
			point string
		}{
			{stripe, "stop after lookup"}, {lookUp, "stop after lookup"}, {lookUp, "stop before apply:ruled"},
			{keyed, "stop before apply:attempt_started"}, {keyed, "stop after call"}, {none, "stop before apply:ruled"},
		} {
			t.Run(string(c.kind)+" "+c.point, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, c.kind, "")
				w.agent("crash after call", c.kind.refund("r1")).dead()
				paused := w.worker(c.point)
				w.untilStruck(paused)
				paused.asleep()

				w.worker("")
				w.settled()
				before := w.wantOne(c.kind.settled(true))
				paused.signal(continued)
				// It ends by itself when it is told to, after it has finished what it was doing.
				paused.signal(terminated)
				paused.end()
				after := w.wantOne(c.kind.settled(true))
				if after.Version != before.Version {
					t.Errorf("a refused write moved the operation from version %d to %d", before.Version, after.Version)
				}
				w.wantEffects(1)
			})
		}
	})
}

// S16.13: what happens without a guard: the orchestrator thinks that the paused one is dead.
func TestS16_13_Unguarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, onSQLite, stripe, "")
	paused := w.naive("stop before send:POST")
	paused.struck("stop before send:POST")
	w.naive("").end()
	paused.signal(continued)
	paused.end()
	w.wantEffects(2)
}

// S16.18
func TestS16_18_HeartbeatKeepsTheLease(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		w := newWorld(t, on, none, "refunds#1 hold=4s")
		w.worker("")
		beating := func(t *effectonce.Terms) { t.Heartbeat = 1500 * time.Millisecond }
		if a := w.ask(none.refund("r1", beating)); a.State != effectonce.StateSucceeded {
			t.Errorf("the slow worker was told %+v", a)
		}
		op := w.wantOne(effectonce.StateSucceeded)
		for _, e := range w.events(op.Key) {
			if e.Kind == effectonce.EventTakenOver {
				t.Error("the operation was taken over from a living worker")
			}
		}
		w.wantEffects(1)
	})
}

// S16.18, S5.8: without a heartbeat the success arrives after somebody else looked, and is kept.
func TestS16_18_SuccessArrivesAsLateEvidence(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		for _, k := range kinds {
			t.Run(string(k), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, on, k, "")
				slow := w.agent("stop before apply:attempt_ended", k.refund("r1"))
				slow.struck("stop before apply:attempt_ended")
				slow.asleep()
				// A worker takes over, and is killed before it concludes.
				taker := w.worker("crash after apply:taken_over")
				w.untilDead(taker)
				taken := w.wantOne(effectonce.StateInProgress)

				if told := slow.wake()[0]; told.State != effectonce.StateSucceeded {
					t.Errorf("the slow worker was told %+v", told)
				}
				op := w.wantOne(effectonce.StateSucceeded)
				if op.Proof != effectonce.ProofLate || op.Token != taken.Token {
					t.Errorf("proof %s under token %d, want late evidence under token %d", op.Proof, op.Token, taken.Token)
				}
				w.worker("")
				w.settled()
				w.wantEffects(1)
			})
		}
	})
}

// S16.18, S5.8: the success arrives while somebody else has an attempt open; it is kept, and that attempt's owner is not robbed.
func TestS16_18_SuccessArrivesDuringAnotherAttempt(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, on driver) {
		w := newWorld(t, on, keyed, "")
		slow := w.agent("stop before apply:attempt_ended", keyed.refund("r1"))
		slow.struck("stop before apply:attempt_ended")
		slow.asleep()
		resender := w.worker("crash after call")
		w.untilDead(resender)
		open := w.wantOne(effectonce.StateInProgress)
		if !open.Open || open.Attempt != 2 {
			t.Fatalf("attempt %d, open %v; want a second one that is open", open.Attempt, open.Open)
		}

		if told := slow.wake()[0]; told.Code != effectonce.CodeConflict {
			t.Errorf("the slow worker was told %+v, want that somebody else is at it", told)
		}
		kept := w.wantOne(effectonce.StateInProgress)
		if kept.Evidence == nil || kept.Token != open.Token || !kept.Open {
			t.Errorf("evidence %+v, token %d, open %v; want the success kept and the owner's attempt untouched", kept.Evidence, kept.Token, kept.Open)
		}
		w.worker("")
		w.settled()
		if op := w.wantOne(effectonce.StateSucceeded); op.Proof != effectonce.ProofLate {
			t.Errorf("its proof is %s, want the late answer", op.Proof)
		}
		w.wantEffects(1)
	})
}
