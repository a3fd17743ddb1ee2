package sim

import (
	"context"
	"errors"
	"time"

	"github.com/effectonce/effectonce"
)

// inboxTool is the tool of incoming events: an event is an operation, and whoever consumes it is its provider (S9.1).
const inboxTool = "inbox.sim"

// event is an incoming one. Its source delivers it until it is accepted, and again whenever it likes.
type event struct {
	id   string
	key  effectonce.Key
	flow *flow
	row  effectonce.Operation
	// accepted says that the source was told that it need not deliver it again.
	accepted bool
	holder   *holder
	// retried is when it was last taken up while everything settles.
	retried time.Time
}

func (w *world) addEvent(f *flow) {
	e := &event{id: "evt-" + f.name, flow: f}
	key, err := effectonce.Identity{Tenant: effectonce.DefaultTenant, Tool: inboxTool, Scope: effectonce.ScopeBusiness, IntentID: e.id}.Key()
	if err != nil {
		panic(err)
	}
	e.key = key
	f.event = e
	w.events = append(w.events, e)
}

func (w *world) event(key effectonce.Key) *event {
	for _, e := range w.events {
		if e.key == key {
			return e
		}
	}
	return nil
}

// arrival is the intent of an event.
func (w *world) arrival(e *event) effectonce.Intent {
	t := w.setting.terms()
	t.Class, t.Managed, t.Twins = effectonce.ClassConvergent, false, effectonce.TwinOff
	t.Keyed, t.LookUp, t.ResendWhenAbsent, t.Retention = false, false, false, 0
	// However often it takes: an event that is given up is lost.
	t.Attempts, t.Within, t.Expiry = 1000, ticks(1000), ticks(10000)
	return effectonce.Intent{
		Tool: inboxTool, ID: e.id, Run: e.flow.name, Actor: "source", Business: effectonce.Arguments(map[string]string{"event_id": e.id}), Terms: t,
	}
}

// receive is one delivery of an event: it is accepted only after the commit.
func (w *worker) receive(ctx context.Context, e *event) {
	if w.world.marking {
		// What must not be: it is marked as seen before it is recorded.
		if w.seen[e] {
			e.accepted = true
			return
		}
		w.seen[e] = true
	}
	if _, err := w.guard.Record(ctx, w.world.arrival(e)); err == nil {
		e.accepted = true
	}
}

// consume takes an event that waits, works on the run that it starts, and reports how that went.
func (w *worker) consume(ctx context.Context) {
	waiting, err := w.storeView().Waiting(ctx, effectonce.DefaultTenant, inboxTool, len(w.world.events))
	if err != nil {
		return
	}
	for _, op := range waiting {
		e := w.world.event(op.Key)
		c, err := w.guard.Claim(ctx, w.world.arrival(e))
		if err == nil && c.Do == effectonce.TaskLookUp {
			c, err = w.guard.LookedUp(ctx, op.Key, c.Token, effectonce.Finding{Found: effectonce.FoundUnavailable})
		}
		if err != nil || c.Do != effectonce.TaskExecute {
			continue
		}
		end := effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: "not_finished"}}
		if w.agent(ctx, e.flow) {
			end = effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: e.flow.name}
		}
		w.settle(ctx, op.Key, c.Token, end)
		return
	}
}

// noteEvent checks what a write did to an event.
func (w *world) noteEvent(e *event, by *worker, committed bool, fresh []effectonce.Event) {
	row, err := w.store.Load(context.Background(), e.key)
	if errors.Is(err, effectonce.ErrNotFound) {
		if e.row.State != "" || committed {
			w.violate("I5", "event %s vanished", e.id)
		}
		return
	}
	before := e.row
	row.AsOf = time.Time{}
	e.row = row
	if !committed {
		if len(fresh) != 0 || row.Version != before.Version {
			w.violate("I4", "event %s: a refused write changed it", e.id)
		}
		return
	}
	if len(fresh) != 1 || fresh[0].Seq != before.Version+1 || fresh[0].Seq != row.Version {
		w.violate("I7", "event %s: a transition left %d audit lines", e.id, len(fresh))
		return
	}
	w.counts.Lines[fresh[0].Line]++
	switch kind := fresh[0].Kind; kind {
	case effectonce.EventClaimed, effectonce.EventTakenOver:
		e.holder = &holder{worker: by, life: by.life, token: row.Token}
	case effectonce.EventAttemptStarted, effectonce.EventAttemptEnded, effectonce.EventRuled, effectonce.EventParked:
		h := e.holder
		if row.State != effectonce.StatePending && (h == nil || h.worker != by || h.life != by.life) {
			w.violate("I4", "event %s: %s was committed by somebody who does not own it", e.id, kind)
		}
	}
	if row.State == effectonce.StateSucceeded {
		w.counts.Consumed++
	}
	if row.State == effectonce.StateSucceeded && before.State != effectonce.StateSucceeded && !e.flow.finished {
		w.violate("S9.1", "event %s is done with, and its run is not", e.id)
	}
}

// takable reports whether somebody may be given the event now.
func (w *world) takable(e *event) bool {
	row := e.row
	switch row.State {
	case "", effectonce.StateSucceeded, effectonce.StateFailed, effectonce.StateAbandoned, effectonce.StateReview:
		return false
	case effectonce.StateInProgress:
		return !w.now.Before(row.DueAt)
	}
	return row.Parked && !w.now.Before(row.RetryAt) || !row.Parked && !w.now.Before(row.DueAt)
}

func (w *world) anyTakable() bool {
	for _, e := range w.events {
		if w.takable(e) {
			return true
		}
	}
	return false
}

// checkEvents proves at the end that no event was lost, and each made its one run (S9.1, S16.7).
func (w *world) checkEvents() {
	for _, e := range w.events {
		if e.accepted && e.row.State == "" {
			w.violate("S9.1", "event %s was accepted and is not stored", e.id)
		}
		if e.row.State != effectonce.StateSucceeded || !e.flow.finished {
			w.violate("S9.1", "event %s is %s in the end, its run finished %v", e.id, e.row.State, e.flow.finished)
		}
	}
}

// Waiting hands over like the other reads.
func (s workerStore) Waiting(ctx context.Context, tenant, tool string, limit int) (ops []effectonce.Operation, err error) {
	err = s.call("waiting", func() (err error) {
		ops, err = s.worker.world.store.Waiting(ctx, tenant, tool, limit)
		for _, op := range ops {
			s.worker.read(op)
		}
		return err
	})
	return ops, err
}
