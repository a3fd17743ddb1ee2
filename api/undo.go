package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/journal"
)

// Undo is the body of POST /v1/runs/{run}/undo.
type Undo struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1024" doc:"Why the run is undone; it goes into the audit."`
	Person string `json:"person" minLength:"1" maxLength:"512" doc:"Who undoes it, for the audit: a name that the caller gives."`
	DryRun bool   `json:"dry_run,omitempty" doc:"Only say what would be done. Nothing is stored and nothing runs."`
}

// Undone is what became of undoing a run.
type Undone struct {
	Run      string     `json:"run" doc:"The run."`
	DryRun   bool       `json:"dry_run" doc:"Nothing was done: this is what would be."`
	Complete bool       `json:"complete" doc:"Everything that can be undone is undone."`
	Steps    []UndoStep `json:"steps" nullable:"false" doc:"The run's operations, those that took effect last first."`
}

// UndoStep is one operation of a run that is undone.
type UndoStep struct {
	Step         string     `json:"step,omitempty" doc:"The step."`
	Key          string     `json:"key" doc:"The operation."`
	Tool         string     `json:"tool" doc:"Its tool."`
	IntentID     string     `json:"intent_id" doc:"Its intent in business terms."`
	State        string     `json:"state" doc:"Where it is in its life."`
	Do           string     `json:"do" enum:"undone,undo,stopped,not_reached,nothing_to_undo,cannot_be_undone,unresolved" doc:"undone: its compensation succeeded. undo: it would be undone (dry run). stopped: its compensation did not succeed yet, or failed; nothing before it is undone until it does. not_reached: it comes after the one that stopped. nothing_to_undo: it had no effect. cannot_be_undone: nobody said how, or it cannot be known. unresolved: it has to be settled before anything is undone."`
	Why          string     `json:"why,omitempty" doc:"Why, for people."`
	Executes     string     `json:"executes,omitempty" enum:"effectonce,caller" doc:"Who has the effect of the undoing."`
	Compensation *Operation `json:"compensation,omitempty" doc:"The operation that undoes it, as it stands."`
}

// What is done about an operation of a run that is undone.
const (
	undoUndone     = "undone"
	undoWould      = "undo"
	undoStopped    = "stopped"
	undoNotReached = "not_reached"
	undoNothing    = "nothing_to_undo"
	undoCannot     = "cannot_be_undone"
	undoUnresolved = "unresolved"
)

func (s *server) routeUndo() {
	undone := reflect.TypeFor[Undone]()
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/runs/{run}/undo", id: "undo", tag: "runs",
		summary: "Undo what a run did, newest first",
		description: "Each operation that the run recorded and that took effect is compensated once, the last one first. The first compensation that does not succeed stops it; the same request " +
			"again goes on from there. Nothing is undone while an operation of the run is not settled. The run takes no further step, and what was decided and has not started is not started any more.",
		query:   []*huma.Param{waitParam("Wait so long for each outcome that is not certain yet.")},
		example: map[string]any{"reason": "the wrong customer", "person": "mara", "dry_run": true},
		answers: []answer{
			{http.StatusOK, undone, "Complete, or a dry run.", nil},
			{http.StatusAccepted, undone, "Stopped: look at the step that says so, and ask again.", nil},
		},
		problems: []effectonce.Code{effectonce.CodeNotFound, effectonce.CodeNotAllowed, effectonce.CodeLimitExceeded},
	}, s.undoRun)
}

func (s *server) undoRun(c call[Undo]) (reply, error) {
	run := s.run(c.run)
	p, err := s.planUndo(c.ctx, run, c.body)
	if err != nil {
		return reply{}, err
	}
	if len(p.steps) == 0 {
		story, err := run.Show(c.ctx)
		if err == nil && !story.Known() {
			err = noRun(c.run)
		}
		if err != nil {
			return reply{}, err
		}
	}
	if c.body.DryRun {
		return p.reply(c.run, true), nil
	}
	if err := p.resolved(); err != nil {
		return reply{}, err
	}
	// No further step: a decided one that has not started is not started any more. A run that has ended stays as it ended.
	end := effectonce.Decision{Step: journal.StepUndone, Finish: true, Note: c.body.Reason, Actor: c.body.Person}
	if _, err := run.Record(c.ctx, end); err != nil && effectonce.CodeOf(err) != effectonce.CodeRunFinished {
		return reply{}, err
	}
	// What started before that is seen now.
	if p, err = s.planUndo(c.ctx, run, c.body); err == nil {
		err = p.resolved()
	}
	if err == nil {
		err = p.carryOut(c.ctx, s, c.wait)
	}
	return p.reply(c.run, false), err
}

// undoPlan is what there is to undo of a run, newest first.
type undoPlan struct{ steps []undoStep }

type undoStep struct {
	UndoStep
	outcome effectonce.Outcome
	// done is the compensation that there is already.
	done effectonce.Outcome
	how  undoing
}

// planUndo says for each operation that the run recorded what can be done about it. It stores nothing.
func (s *server) planUndo(ctx context.Context, run *journal.Run, b Undo) (undoPlan, error) {
	ops, err := run.Operations(ctx)
	if err != nil {
		return undoPlan{}, err
	}
	// What took effect last is undone first.
	slices.SortStableFunc(ops, func(x, y effectonce.Operation) int {
		if c := y.SettledAt.Compare(x.SettledAt); c != 0 {
			return c
		}
		return y.CreatedAt.Compare(x.CreatedAt)
	})
	// A compensation belongs to the run of what it undoes; of several the last one counts.
	done := make(map[effectonce.Key]effectonce.Operation)
	for _, op := range ops {
		if !op.Compensates.IsZero() && op.Revision >= done[op.Compensates].Revision {
			done[op.Compensates] = op
		}
	}
	var p undoPlan
	for _, op := range ops {
		if !op.Compensates.IsZero() {
			continue
		}
		step, err := s.planStep(op, done[op.Key], b)
		if err != nil {
			return undoPlan{}, err
		}
		p.steps = append(p.steps, step)
	}
	return p, nil
}

// planStep says what can be done about an operation. done is what undoes it already; its state is empty where there is nothing.
func (s *server) planStep(op, done effectonce.Operation, b Undo) (undoStep, error) {
	step := undoStep{
		UndoStep: UndoStep{Step: op.Step, Key: text(op.Key), Tool: op.Tool, IntentID: op.IntentID, State: string(op.State)},
		outcome:  effectonce.OutcomeOf(op, true),
	}
	switch {
	case strings.HasPrefix(op.Tool, events.ToolPrefix):
		step.Do, step.Why = undoNothing, "it is the event that the run began with"
		return step, nil
	case !op.State.Final():
		step.Do, step.Why = undoUnresolved, "it is "+string(op.State)+": whether there is something to undo is not known"
		return step, nil
	case op.State == effectonce.StateFailed:
		step.Do, step.Why = undoNothing, "it failed, without an effect"
		return step, nil
	}
	if done.State != "" {
		step.done = effectonce.OutcomeOf(done, done.State.Final())
		v := view(step.done)
		step.Compensation = &v
	}
	if done.State == effectonce.StateSucceeded {
		step.Do = undoUndone
		return step, nil
	}
	var err error
	if step.how, err = s.undoing(op, b.Reason, b.Person); err != nil {
		p, ok := problemOf(err)
		if !ok {
			return step, err
		}
		step.Do, step.Why = undoCannot, p.Detail
		if p.Field != "" {
			step.Why = p.Field + " " + p.Detail
		}
		return step, nil
	}
	step.Do, step.Executes = undoWould, step.how.executes()
	return step, nil
}

// resolved refuses to undo anything while something is not settled.
func (p undoPlan) resolved() error {
	for _, step := range p.steps {
		if step.Do == undoUnresolved {
			return &refused{outcome: step.outcome, err: &effectonce.Error{
				Code: effectonce.CodeNotAllowed, Key: step.outcome.Operation.Key,
				Detail: fmt.Sprintf("an operation of the run is not settled (%s %s is %s); nothing was undone", step.Tool, step.IntentID, step.State),
				Remedy: "wait until it is settled, or resolve it, and undo the run then",
			}}
		}
	}
	return nil
}

// carryOut undoes step by step, until a compensation does not succeed. An error of the first is the answer; later ones stop it.
func (p undoPlan) carryOut(ctx context.Context, s *server, wait time.Duration) error {
	for i := range p.steps {
		step := &p.steps[i]
		if step.Do != undoWould {
			continue
		}
		o, err := step.done, ctx.Err()
		// A successor of a failed compensation is somebody's own undertaking: it is only looked at.
		if err == nil && o.Operation.Revision == 0 {
			o, err = s.undo(ctx, step.how, wait)
		}
		if o.Operation.State != "" {
			v := view(o)
			step.Compensation = &v
		}
		if err == nil && o.Operation.State == effectonce.StateSucceeded && o.Operation.Compensates == step.outcome.Operation.Key {
			step.Do = undoUndone
			continue
		}
		step.Do, step.Why = undoStopped, stoppedBecause(o, err)
		for j := range p.steps[i+1:] {
			if after := &p.steps[i+1+j]; after.Do == undoWould {
				after.Do = undoNotReached
			}
		}
		return nil
	}
	return nil
}

func stoppedBecause(o effectonce.Outcome, err error) string {
	if err != nil {
		p, _ := problemOf(err)
		return p.Detail
	}
	op := o.Operation
	switch {
	case op.State == effectonce.StateFailed:
		return "its compensation failed: try it once more with POST /v1/operations/{key}/compensate and again, or undo it at the provider"
	case op.State == effectonce.StateAbandoned:
		return "its compensation was abandoned: whether it is undone is not known"
	case op.State == effectonce.StateReview, op.Hold != effectonce.HoldNone:
		return "its compensation waits for a person"
	case !op.Terms.Managed:
		return "its compensation is in the caller's hands: claim it with POST /v1/operations/{key}/compensate and claim, and undo the run again then"
	}
	return "its compensation is not settled yet"
}

func (p undoPlan) reply(run string, dry bool) reply {
	body := Undone{Run: run, DryRun: dry, Complete: true, Steps: make([]UndoStep, 0, len(p.steps))}
	for _, step := range p.steps {
		body.Steps = append(body.Steps, step.UndoStep)
		switch step.Do {
		case undoWould, undoStopped, undoNotReached, undoUnresolved:
			body.Complete = false
		}
	}
	code := http.StatusOK
	if !body.Complete && !dry {
		code = http.StatusAccepted
	}
	return reply{status: code, body: body}
}
