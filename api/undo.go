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
	Complete bool       `json:"complete" doc:"Nothing is left to do: everything that can be undone is undone. What cannot be is counted in counts."`
	Counts   UndoCounts `json:"counts" doc:"How many operations of the run there are of each kind."`
	Steps    []UndoStep `json:"steps" nullable:"false" doc:"The run's operations, those that took effect last first."`
}

// UndoCounts says of how many operations of a run what became. Each is counted once.
type UndoCounts struct {
	Undone         int `json:"undone" doc:"Their compensation succeeded."`
	Left           int `json:"left" doc:"Still to be undone, or to be settled first: undo, stopped, not_reached and unresolved."`
	CannotBeUndone int `json:"cannot_be_undone" doc:"They took effect, or nobody knows whether they did, and they stay: why says why. A person undoes them at the provider, if need be."`
	NothingToUndo  int `json:"nothing_to_undo" doc:"They had no effect."`
}

// UndoStep is one operation of a run that is undone.
type UndoStep struct {
	Step         string     `json:"step,omitempty" doc:"The step."`
	Key          string     `json:"key" doc:"The operation."`
	Tool         string     `json:"tool" doc:"Its tool."`
	IntentID     string     `json:"intent_id" doc:"Its intent in business terms."`
	State        string     `json:"state" doc:"Where it is in its life."`
	Do           string     `json:"do" enum:"undone,undo,stopped,not_reached,nothing_to_undo,cannot_be_undone,unresolved" doc:"undone: its compensation succeeded. undo: it would be undone (dry run). stopped: its compensation did not succeed yet, or failed; nothing before it is undone until it does. not_reached: it comes after what stopped. nothing_to_undo: it had no effect. cannot_be_undone: nobody said how, or it cannot be known. unresolved: it has to be settled before anything more is undone."`
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
			"again goes on from there. Nothing is undone while an operation of the run is not settled. The run takes no further step; a call that has not been sent yet is not sent any more. " +
			"Complete says that nothing is left to do, counts how many operations stay as they are because they cannot be undone.",
		query:   []*huma.Param{waitParam("Wait so long for each outcome that is not certain yet, also of calls that were under way when the run was closed.")},
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
	history, err := run.History(c.ctx)
	if err != nil {
		return reply{}, err
	}
	if !history.Undone() {
		if err := p.resolved(); err != nil {
			return reply{}, err
		}
	}
	// No further step, and no call that is still on its way: first it is recorded, then the operations are listed.
	if err := run.MarkUndone(c.ctx, c.body.Reason, c.body.Person); err != nil {
		return reply{}, err
	}
	p, err = s.undoAll(c.ctx, run, c.body, c.wait)
	return p.reply(c.run, false), err
}

// undoRoundsMax bounds how often the operations of a run are listed again. More than two are needed only where others add to the run
// without reading that it is undone.
const undoRoundsMax = 16

// undoAll undoes what the run did until nothing more appears, or something stops it.
func (s *server) undoAll(ctx context.Context, run *journal.Run, b Undo, wait time.Duration) (p undoPlan, err error) {
	for range undoRoundsMax {
		if p, err = s.planUndo(ctx, run, b); err != nil {
			return p, err
		}
		settled, err := s.settled(ctx, p, wait)
		if err != nil {
			return p, err
		}
		switch {
		case settled:
			continue
		case p.count(undoUnresolved) > 0:
			p.notReached(0)
			return p, nil
		case p.count(undoWould) == 0:
			return p, nil
		}
		if p.carryOut(ctx, s, wait); p.count(undoStopped) > 0 {
			return p, nil
		}
	}
	return p, nil
}

// settled waits for what was under way when the run was closed. It reports whether anything was settled, so that the plan is an old one.
func (s *server) settled(ctx context.Context, p undoPlan, wait time.Duration) (bool, error) {
	changed := false
	for _, step := range p.steps {
		if step.Do != undoUnresolved {
			continue
		}
		o, err := s.guard.Wait(ctx, step.outcome.Operation.Key, wait)
		if err != nil {
			return changed, err
		}
		changed = changed || o.Operation.State.Final()
	}
	return changed, nil
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
		switch {
		case strings.HasPrefix(p.Detail, "is "):
			step.Why = p.Field + " " + p.Detail
		case p.Field != "":
			step.Why = p.Field + ": " + p.Detail
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

// count says of how many operations something is done.
func (p undoPlan) count(do string) int {
	n := 0
	for _, step := range p.steps {
		if step.Do == do {
			n++
		}
	}
	return n
}

// notReached says of what would be undone from the step on that it is not.
func (p undoPlan) notReached(from int) {
	for i := range p.steps[from:] {
		if step := &p.steps[from+i]; step.Do == undoWould {
			step.Do = undoNotReached
		}
	}
}

// carryOut undoes step by step, until a compensation does not succeed.
func (p undoPlan) carryOut(ctx context.Context, s *server, wait time.Duration) {
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
		p.notReached(i + 1)
		return
	}
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
	body := Undone{Run: run, DryRun: dry, Steps: make([]UndoStep, 0, len(p.steps))}
	for _, step := range p.steps {
		body.Steps = append(body.Steps, step.UndoStep)
	}
	c := &body.Counts
	c.Undone, c.CannotBeUndone, c.NothingToUndo = p.count(undoUndone), p.count(undoCannot), p.count(undoNothing)
	c.Left = len(p.steps) - c.Undone - c.CannotBeUndone - c.NothingToUndo
	body.Complete = c.Left == 0
	code := http.StatusOK
	if !body.Complete && !dry {
		code = http.StatusAccepted
	}
	return reply{status: code, body: body}
}
