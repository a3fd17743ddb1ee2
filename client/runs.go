package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/effectonce/effectonce"
)

// Do is what whoever works on a step does now.
type Do string

// What to do.
const (
	DoDecide    Do = "decide"     // nothing is recorded: ask the model, and record what it says with [Client.Decide]
	DoExecute   Do = "execute"    // make the recorded call, with its run and step; harmless to repeat
	DoWait      Do = "wait"       // ask again after RetryAfter
	DoUseResult Do = "use_result" // go on with the operation's result, or, without an effect, with the decision's arguments
	DoNewStep   Do = "new_step"   // it failed without an effect: the model may decide a new step
	DoStop      Do = "stop"       // a person decides, or nothing is left to use: report it
	DoFinished  Do = "finished"   // the run has ended
)

// Step is a step of a run: what was decided, and what became of it (S10.3).
type Step struct {
	Run  string
	Step string
	Do   Do
	// First says that this call recorded the decision.
	First bool
	// Decision is nil where none is recorded. Operation is nil where there is none.
	Decision  *effectonce.Decision
	Operation *effectonce.Outcome
	// RetryAfter is how long to wait, for DoWait.
	RetryAfter time.Duration
}

type step struct {
	Run        string       `json:"run"`
	Step       string       `json:"step"`
	Do         Do           `json:"do"`
	First      bool         `json:"first"`
	Decision   *decision    `json:"decision"`
	Operation  *operation   `json:"operation"`
	RetryAfter wireDuration `json:"retry_after"`
}

type decision struct {
	Seq       int64           `json:"seq"`
	At        time.Time       `json:"at"`
	Tool      string          `json:"tool"`
	IntentID  string          `json:"intent_id"`
	Arguments json.RawMessage `json:"arguments"`
	Finish    bool            `json:"finish"`
	Note      string          `json:"note"`
	Actor     string          `json:"actor"`
	Operation effectonce.Key  `json:"operation"`
}

func (s step) step() Step {
	v := Step{Run: s.Run, Step: s.Step, Do: s.Do, First: s.First, RetryAfter: time.Duration(s.RetryAfter)}
	if d := s.Decision; d != nil {
		v.Decision = &effectonce.Decision{
			Run: s.Run, Step: s.Step, Tool: d.Tool, IntentID: d.IntentID, Arguments: d.Arguments, Finish: d.Finish, Note: d.Note, Actor: d.Actor,
			Operation: d.Operation, Seq: d.Seq, At: d.At,
		}
	}
	if s.Operation != nil {
		o := s.Operation.outcome()
		v.Operation = &o
	}
	return v
}

// Decide records what was decided for a step, and returns the step with the decision that counts: the first one recorded (S10.1). Of d
// the run, step, tool, intent id, arguments, finish, note and actor are sent; meta is the call's context, for the policy's
// templates. A call that cannot be made is refused, and nothing is recorded. Errors are [effectonce.ErrRunFinished],
// [effectonce.ErrIntentIncomplete], [effectonce.ErrInvalid], [effectonce.ErrNotCanonical]. If the answer is lost, call it again.
func (c *Client) Decide(ctx context.Context, d effectonce.Decision, meta map[string]string) (Step, error) {
	b := struct {
		Tool      string            `json:"tool,omitempty"`
		IntentID  string            `json:"intent_id,omitempty"`
		Arguments json.RawMessage   `json:"arguments,omitempty"`
		Context   map[string]string `json:"context,omitempty"`
		Finish    bool              `json:"finish,omitempty"`
		Note      string            `json:"note,omitempty"`
		Actor     string            `json:"actor,omitempty"`
	}{d.Tool, d.IntentID, d.Arguments, meta, d.Finish, d.Note, d.Actor}
	if b.Actor == "" {
		b.Actor = c.actor
	}
	var v step
	err := c.post(ctx, stepPath(d.Run, d.Step)+"/decision", nil, b, &v)
	return v.step(), err
}

// Step returns how a step stands, and what to do. A step of which nothing is known is to be decided.
func (c *Client) Step(ctx context.Context, run, name string) (Step, error) {
	var v step
	err := c.get(ctx, stepPath(run, name), nil, &v)
	return v.step(), err
}

// Run returns the steps of a run, and whether it has ended; [effectonce.ErrNotFound] for a run of which nothing is known.
func (c *Client) Run(ctx context.Context, run string) (steps []Step, finished bool, err error) {
	var v struct {
		Finished bool   `json:"finished"`
		Steps    []step `json:"steps"`
	}
	if err := c.get(ctx, runPath(run), nil, &v); err != nil {
		return nil, false, err
	}
	for _, s := range v.Steps {
		steps = append(steps, s.step())
	}
	return steps, v.Finished, nil
}

// Runs returns a page of runs, those that began last first. The filter's Tenant is not sent.
func (c *Client) Runs(ctx context.Context, f effectonce.RunFilter) (effectonce.RunPage, error) {
	q := url.Values{}
	if f.Text != "" {
		q.Set("q", f.Text)
	}
	if f.Unfinished {
		q.Set("unfinished", "true")
	}
	if f.After != "" {
		q.Set("after", f.After)
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var v struct {
		Runs []effectonce.Run `json:"runs"`
		Next string           `json:"next"`
	}
	err := c.get(ctx, "/v1/runs", q, &v)
	return effectonce.RunPage{Runs: v.Runs, Next: v.Next}, err
}

// Compensation says why an operation is undone, and by whom.
type Compensation struct {
	Reason string `json:"reason"`
	Person string `json:"person,omitempty"`
	// Again records a successor of a compensation that failed.
	Again bool `json:"again,omitempty"`
	// Claim claims a compensation that is in the caller's hands.
	Claim bool `json:"claim,omitempty"`
}

// Compensate undoes an operation that took effect, as the configuration of its tool says (S11.3). There is one compensation for each
// operation: a second call gets it. The answer is a claim for the caller only where Claim asks for it. An error says why nothing was
// done; how the compensation stands is in the Outcome.
func (c *Client) Compensate(ctx context.Context, key effectonce.Key, why Compensation, opts ...Option) (effectonce.Claim, error) {
	return c.claim(ctx, one(key)+"/compensate", query(opts), why)
}

// Undone is what became of undoing a run.
type Undone struct {
	// Complete says that nothing is left to do; what cannot be undone is counted.
	Complete bool       `json:"complete"`
	Counts   UndoCounts `json:"counts"`
	Steps    []UndoStep `json:"steps"`
}

// UndoCounts says of how many operations of the run what became: undone, still left to do, not to be undone although they took effect
// or may have, without an effect. Each is counted once.
type UndoCounts struct {
	Undone         int `json:"undone"`
	Left           int `json:"left"`
	CannotBeUndone int `json:"cannot_be_undone"`
	NothingToUndo  int `json:"nothing_to_undo"`
}

// UndoStep is one operation of a run that is undone. Do is undone, undo (in a dry run), stopped, not_reached, nothing_to_undo,
// cannot_be_undone or unresolved.
type UndoStep struct {
	Step     string           `json:"step"`
	Key      effectonce.Key   `json:"key"`
	Tool     string           `json:"tool"`
	IntentID string           `json:"intent_id"`
	State    effectonce.State `json:"state"`
	Do       string           `json:"do"`
	Why      string           `json:"why"`
}

// Undo undoes what a run did, newest first and each step once, until a compensation does not succeed (S11.3); call it again to go on.
// With dry only what would be done is told. The error is [effectonce.ErrNotAllowed] while an operation of the run is not settled.
func (c *Client) Undo(ctx context.Context, run, reason, person string, dry bool, opts ...Option) (Undone, error) {
	var v Undone
	_, err := split(c.post(ctx, runPath(run)+"/undo", query(opts), map[string]any{"reason": reason, "person": person, "dry_run": dry}, &v))
	return v, err
}

// Limits returns limits in use, with what holds them (S8.3). Of the filter Name, Text and Limit are sent.
func (c *Client) Limits(ctx context.Context, f effectonce.LimitFilter) ([]effectonce.LimitUse, error) {
	q := url.Values{}
	if f.Name != "" {
		q.Set("name", f.Name)
	}
	if f.Text != "" {
		q.Set("q", f.Text)
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	var v struct {
		Limits []struct {
			effectonce.LimitUse
			Per wireDuration `json:"per"`
		} `json:"limits"`
	}
	if err := c.send(ctx, http.MethodGet, "/v1/limits", q, nil, &v); err != nil {
		return nil, err
	}
	all := make([]effectonce.LimitUse, 0, len(v.Limits))
	for _, l := range v.Limits {
		l.LimitUse.Per = time.Duration(l.Per)
		all = append(all, l.LimitUse)
	}
	return all, nil
}

func runPath(run string) string { return "/v1/runs/" + segment(run) }

func stepPath(run, step string) string { return runPath(run) + "/steps/" + segment(step) }

// segment makes a name a segment of a path. Dots are escaped too, so that no name is a way up.
func segment(name string) string {
	escaped := url.PathEscape(name)
	if name == "." || name == ".." {
		escaped = "%2E" + escaped[1:]
	}
	return escaped
}
