package sim

import (
	"context"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
)

// roundsMax bounds a quiescence; whatever is not settled by then stays unsettled for ever.
const roundsMax = 2000

// quiesce ends all faults and lets everything run until it is settled: what is on the way arrives, who is paused goes on, agents
// call again, the background works, the clock moves, and a truthful person decides what waits for one. Then I11 and the
// final counts must hold.
func (w *world) quiesce() {
	for _, t := range w.tracks {
		t.waiting = t.row.State == effectonce.StatePending && t.row.Hold == effectonce.HoldNone && !w.setting.External &&
			w.now.Add(5*Tick).Before(t.row.CreatedAt.Add(t.row.Terms.Expiry))
	}
	for range roundsMax {
		if w.violation != nil || w.settled() {
			break
		}
		if w.settleWorkers() || w.settleRequests() || w.settlePeople() || w.settleWork() {
			continue
		}
		w.now = w.later()
		w.wake()
	}
	if w.violation == nil {
		w.checkEnd()
	}
}

func (w *world) settled() bool {
	for _, wk := range w.workers {
		if wk.next != nil {
			return false
		}
	}
	for _, r := range w.requests {
		if r.stage != over {
			return false
		}
	}
	for _, t := range w.tracks {
		if !t.row.State.Final() && !w.shut(t) {
			return false
		}
	}
	for _, f := range w.flows {
		if !f.finished {
			return false
		}
	}
	for _, e := range w.events {
		if !e.row.State.Final() {
			return false
		}
	}
	return true
}

// settleWorkers runs on whoever can go on without the clock.
func (w *world) settleWorkers() (moved bool) {
	for _, wk := range w.workers {
		if wk.closed && wk.at == pointIdle {
			wk.crash()
		}
		if wk.at != pointSleep {
			moved = w.take(Choice{Verb: verbRun, A: wk.id}) || moved
		}
	}
	return moved
}

// wake runs on whoever sleeps.
func (w *world) wake() {
	for _, wk := range w.workers {
		if wk.at == pointSleep {
			w.take(Choice{Verb: verbRun, A: wk.id})
		}
	}
}

// idle is a worker without a call, nil if there is none.
func (w *world) idle() *worker {
	for _, wk := range w.workers {
		if wk.at == pointIdle {
			return wk
		}
	}
	return nil
}

// settleRequests lets everything that is on the way arrive, and everything that is processed take effect.
func (w *world) settleRequests() (moved bool) {
	for _, r := range w.requests {
		switch {
		case r.stage == processing:
			w.finish(r, twin.Take)
		case r.deliverable(w.setting):
			w.deliver(r)
		case r.stage == onTheWay:
			r.stage = over
		default:
			continue
		}
		moved = true
	}
	return moved
}

// settlePeople lets the person decide what the guard lets them.
func (w *world) settlePeople() (moved bool) {
	for _, t := range w.tracks {
		if t.row.State != effectonce.StateReview {
			continue
		}
		verb := verbAbsent
		if t.effects > 0 {
			verb = verbConfirm
		}
		before := t.row.Version
		w.decide(verb, t)
		moved = moved || t.row.Version != before
	}
	return moved
}

// settleWork starts whatever somebody would do: the agents of unsettled intents call again, and the background takes what is due.
func (w *world) settleWork() bool {
	wk := w.idle()
	if wk == nil {
		return false
	}
	for _, f := range w.flows {
		if c, ok := w.next(wk, f); ok {
			return w.take(c)
		}
	}
	for _, t := range w.tracks {
		switch {
		case w.shut(t), t.step != nil:
		case t.row.State == "" && !w.setting.External:
			return w.take(Choice{Verb: verbDo, A: wk.id, B: t.id})
		case w.setting.External && !t.row.State.Final() && (t.row.Parked || t.row.State == "" || w.due(t)) && !t.waited.Equal(w.now):
			t.waited = w.now
			return w.take(Choice{Verb: verbClaim, A: wk.id, B: t.id})
		}
	}
	before := w.logged
	w.take(Choice{Verb: verbWork, A: wk.id})
	for wk.next != nil && w.take(Choice{Verb: verbRun, A: wk.id}) {
	}
	return w.logged != before
}

// next is what somebody would do about a run now: its source delivers its event until it is accepted, a consumer takes it, or an agent
// goes on.
func (w *world) next(wk *worker, f *flow) (Choice, bool) {
	e := f.event
	switch {
	case e == nil:
		if f.finished || f.tried.Equal(w.now) {
			return Choice{}, false
		}
		f.tried = w.now
		return Choice{Verb: verbAgent, A: wk.id, B: f.id}, true
	case !e.accepted:
		return Choice{Verb: verbEvent, A: wk.id, B: f.id}, true
	case w.takable(e) && !e.retried.Equal(w.now):
		e.retried = w.now
		return Choice{Verb: verbConsume, A: wk.id}, true
	}
	return Choice{}, false
}

func (w *world) due(t *track) bool {
	return !t.row.DueAt.IsZero() && !w.now.Before(t.row.DueAt)
}

// later is when something is due next, or a tick later.
func (w *world) later() time.Time {
	next := time.Time{}
	for _, t := range w.tracks {
		if at := ceil(t.row.DueAt); !t.row.DueAt.IsZero() && at.After(w.now) && !t.row.Parked && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, e := range w.events {
		at := e.row.DueAt
		if e.row.Parked {
			at = e.row.RetryAt
		}
		if at = ceil(at); !e.row.State.Final() && e.row.State != "" && at.After(w.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, wk := range w.workers {
		if at := ceil(wk.deadline); wk.at == pointAnswer && at.After(w.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		next = w.now.Add(Tick)
	}
	return next
}

// checkEnd proves what must hold when everything is over.
func (w *world) checkEnd() {
	w.checkEvents()
	for _, f := range w.flows {
		if !f.finished {
			w.violate("S10.2", "run %d does not come to its end", f.id)
		}
	}
	for _, t := range w.tracks {
		events, err := w.store.Events(context.Background(), t.key)
		if err != nil || int64(len(events)) != t.row.Version {
			w.violate("I7", "operation %d has %d events and version %d", t.id, len(events), t.row.Version)
		}
		for i, e := range events {
			if e.Seq != int64(i+1) || i > 0 && e.From != events[i-1].To {
				w.violate("I7", "operation %d: event %d does not follow the one before", t.id, e.Seq)
			}
		}
		if f := t.row.Failure; t.waiting && f != nil && f.Code == "expired" {
			w.violate("S7.5", "operation %d expired although somebody worked on what was due", t.id)
		}
		switch {
		case w.shut(t):
		case !t.row.State.Final():
			w.violate("I11", "operation %d stays %s: %s", t.id, t.row.State, t.row.Reason)
		case t.row.State == effectonce.StateSucceeded && t.effects != 1, t.row.State == effectonce.StateFailed && t.effects != 0, t.effects > 1:
			w.violate("I1", "operation %d is %s and has %d effects", t.id, t.row.State, t.effects)
		}
	}
	want := len(w.events)
	for _, t := range w.tracks {
		if t.row.State != "" {
			want++
		}
	}
	if n := len(w.store.Operations()); n != want {
		w.violate("I5", "there are %d operations, want %d", n, want)
	}
}
