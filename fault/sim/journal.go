package sim

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/journal"
)

// alternatives is how many intents a model may think of for one step.
const alternatives = 2

// flow is a run of an agent's workflow: its steps one after the other, and a last one that finishes it.
type flow struct {
	id    int
	name  string
	steps []*step
	// finished says that the finishing step is recorded, stopped that an operation of it failed and the agent gave up.
	finished, stopped bool
	// tried is when an agent last went on with it while everything settles.
	tried time.Time
	// event is what starts it, nil where agents start by themselves.
	event *event
}

// over reports whether no step of it will be decided any more.
func (f *flow) over() bool { return f.finished }

// step is a place in a run, with the intents of which the model chooses one.
type step struct {
	run    *flow
	name   string
	tracks []*track
	// first is the decision that was recorded first.
	first   *effectonce.Decision
	effects int
}

// finishStep is the name of the step that ends every run.
const finishStep = "done"

func (w *world) addFlows() {
	s := w.setting
	if s.Steps == 0 {
		return
	}
	next := 0
	for i := range s.runs() {
		f := &flow{id: i + 1, name: "run-" + strconv.Itoa(i+1)}
		for k := range s.Steps {
			st := &step{run: f, name: "step-" + strconv.Itoa(k+1)}
			for range alternatives {
				t := w.tracks[next]
				next++
				t.step = st
				st.tracks = append(st.tracks, t)
			}
			f.steps = append(f.steps, st)
		}
		w.flows = append(w.flows, f)
		if s.Inbox {
			w.addEvent(f)
		}
	}
}

func (w *world) flow(n int) *flow {
	if n < 1 || n > len(w.flows) {
		return nil
	}
	return w.flows[n-1]
}

func (w *world) stepOf(run, name string) *step {
	for _, f := range w.flows {
		for _, s := range f.steps {
			if f.name == run && s.name == name {
				return s
			}
		}
	}
	return nil
}

// agent works on a run from its beginning, as after each restart, and reports whether it is finished. It keeps nothing but what the
// journal gives it; its model thinks of something else each time it is asked (S10.2, S16.11, S16.16).
func (w *worker) agent(ctx context.Context, f *flow) (finished bool) {
	run := journal.New(w.storeView(), w.guard).Run("", f.name)
	for _, s := range f.steps {
		e, err := w.decided(ctx, run, s)
		if err != nil {
			return w.ended(e, err)
		}
		switch e.Do {
		case journal.DoUseResult:
			continue
		case journal.DoExecute:
			t := s.chosen(e.Decision)
			if t == nil {
				w.world.violate("S10.1", "run %d: %s was decided to be %q, which nobody chose", f.id, s.name, e.Decision.IntentID)
				return false
			}
			in := w.world.intent(t, w.wording(), false)
			out, err := w.guard.Do(ctx, in, workerProvider{worker: w})
			w.world.noteAnswer(t, false, out, err)
			if err == nil {
				continue
			}
			if !errors.Is(err, effectonce.ErrFailed) {
				return false
			}
		case journal.DoStop:
			if e.Operation.Operation.State != effectonce.StateAbandoned {
				return false
			}
		case journal.DoNewStep:
		default:
			return false
		}
		// It failed, or a person stopped it: the agent gives up, and the run ends.
		f.stopped = true
		break
	}
	e, err := run.Decide(ctx, finishStep, func(context.Context) (effectonce.Decision, error) {
		return effectonce.Decision{Finish: true, Note: freeText, Actor: "agent"}, nil
	})
	return w.ended(e, err)
}

// ended reports whether the journal says that the run is over.
func (w *worker) ended(e journal.Entry, err error) bool {
	return errors.Is(err, effectonce.ErrRunFinished) || err == nil && e.Do == journal.DoFinished
}

// decided asks the journal, and the model where the journal says so.
func (w *worker) decided(ctx context.Context, run *journal.Run, s *step) (journal.Entry, error) {
	known := s.first != nil || s.begun()
	return run.Decide(ctx, s.name, func(context.Context) (effectonce.Decision, error) {
		if known {
			w.world.violate("S10.2", "run %d: the model is asked again for %s", s.run.id, s.name)
		}
		w.world.counts.Asked++
		t := s.tracks[(w.id+w.life+w.calls)%len(s.tracks)]
		return effectonce.Decision{Tool: tool, IntentID: t.intentID, Arguments: business, Note: fmt.Sprint(freeText, w.wording()), Actor: "agent"}, nil
	})
}

// begun reports whether an operation of the step is recorded.
func (s *step) begun() bool {
	for _, t := range s.tracks {
		if t.row.State != "" {
			return true
		}
	}
	return false
}

func (s *step) chosen(d effectonce.Decision) *track {
	for _, t := range s.tracks {
		if t.intentID == d.IntentID {
			return t
		}
	}
	return nil
}

// noteDecision proves that the first decision of a step is everybody's (S10.1, S5.1 I9).
func (w *world) noteDecision(d, stored effectonce.Decision, first bool, err error) {
	if err != nil {
		return
	}
	if d.Step == finishStep {
		for _, f := range w.flows {
			f.finished = f.finished || f.name == d.Run
		}
		return
	}
	s := w.stepOf(d.Run, d.Step)
	switch {
	case s == nil:
		w.violate("S10.1", "a decision of a step that is none was stored: %s, %s", d.Run, d.Step)
	case s.first == nil:
		if !first {
			w.violate("S10.1", "run %d: %s is said to be decided already, and is not", s.run.id, s.name)
		}
		s.first = &stored
		w.counts.Decided++
	case first || !reflect.DeepEqual(*s.first, stored):
		w.violate("I9", "run %d: somebody was given another decision of %s than the first", s.run.id, s.name)
	default:
		w.counts.Lost++
	}
}

// noteSeen proves that a decision that is read is the first one.
func (w *world) noteSeen(d effectonce.Decision, err error) {
	if err != nil {
		return
	}
	if s := w.stepOf(d.Run, d.Step); s != nil && (s.first == nil || !reflect.DeepEqual(*s.first, d)) {
		w.violate("I9", "run %d: the decision of %s is not the one that was recorded first", s.run.id, s.name)
	}
}

// checkStep proves that what is recorded is what was decided, and nothing beside it.
func (w *world) checkStep(t *track) {
	s := t.step
	if s == nil || t.row.State == "" {
		return
	}
	if s.first == nil || s.first.IntentID != t.intentID {
		w.violate("S10.1", "run %d: operation %d is recorded, which was not decided for %s", s.run.id, t.id, s.name)
	}
}

// Decide implements [effectonce.Journal].
func (s workerStore) Decide(ctx context.Context, d effectonce.Decision) (stored effectonce.Decision, first bool, err error) {
	w := s.worker
	err = s.call("decide", func() (err error) {
		stored, first, err = w.world.store.Decide(ctx, d)
		if w.world.overwriting && err == nil && !first {
			// The second writer's replaces the first one's.
			stored = d
		}
		w.world.noteDecision(d, stored, first, err)
		w.saw.text(stored.IntentID)
		w.saw.bit(first)
		return err
	})
	if err != nil {
		return effectonce.Decision{}, false, err
	}
	return stored, first, nil
}

// Decision implements [effectonce.Journal].
func (s workerStore) Decision(ctx context.Context, tenant, run, step string) (d effectonce.Decision, err error) {
	w := s.worker
	err = s.call("decision", func() (err error) {
		d, err = w.world.store.Decision(ctx, tenant, run, step)
		w.world.noteSeen(d, err)
		w.saw.text(d.IntentID)
		return err
	})
	return d, err
}

// Decisions implements [effectonce.Journal].
func (s workerStore) Decisions(ctx context.Context, tenant, run string) (all []effectonce.Decision, err error) {
	w := s.worker
	err = s.call("decisions", func() (err error) {
		all, err = w.world.store.Decisions(ctx, tenant, run)
		for _, d := range all {
			w.world.noteSeen(d, err)
			w.saw.text(d.IntentID)
		}
		return err
	})
	return all, err
}
