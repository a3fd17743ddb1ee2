package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/journal"
)

// Choice is the body of POST /v1/runs/{run}/steps/{step}/decision: what a model chose.
type Choice struct {
	Tool      string            `json:"tool,omitempty" maxLength:"512" doc:"The tool of the call that was chosen; left out for a step without an effect."`
	IntentID  string            `json:"intent_id,omitempty" maxLength:"512" doc:"The intent in business terms, made by the orchestration layer. Only for a tool whose policy has no template for it."`
	Arguments json.RawMessage   `json:"arguments,omitempty" doc:"The tool's arguments, a JSON object; for a step without an effect its content."`
	Context   map[string]string `json:"context,omitempty" doc:"Call metadata that the policy's templates may use; the same as in the call itself."`
	Finish    bool              `json:"finish,omitempty" doc:"The run ends with this step: no further step is recorded."`
	Note      string            `json:"note,omitempty" maxLength:"16384" doc:"Free text for people, like the model's reason. Neither compared nor sent."`
	Actor     string            `json:"actor,omitempty" maxLength:"512" doc:"Who decided, for the audit: a name that the caller gives."`
}

// Decision is a recorded choice, which never changes (S10.1).
type Decision struct {
	Seq       int64           `json:"seq" doc:"The step's place in the run, from 1 in the order of recording."`
	At        time.Time       `json:"at" doc:"When it was recorded, by the store's clock."`
	Tool      string          `json:"tool,omitempty" doc:"The tool of the call; absent for a step without an effect."`
	IntentID  string          `json:"intent_id,omitempty" doc:"The intent id where the caller, not a policy, gave it."`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"The arguments, as they were chosen; for a step without an effect its content."`
	Finish    bool            `json:"finish,omitempty" doc:"The run ended with this step."`
	Note      string          `json:"note,omitempty" doc:"Free text for people."`
	Actor     string          `json:"actor,omitempty" doc:"Who decided."`
	Operation string          `json:"operation,omitempty" doc:"Key of the operation that the call is, where a policy says so."`
}

// Step is a step of a run: what was decided, and what became of it (S10.3).
type Step struct {
	Run        string     `json:"run" doc:"The run."`
	Step       string     `json:"step" doc:"The step."`
	Do         string     `json:"do" enum:"decide,execute,wait,use_result,new_step,stop,finished" doc:"What to do now. decide: nothing is recorded; ask the model and record its decision. execute: make the recorded call, with this run and step; harmless to repeat. wait: ask again after retry_after. use_result: go on with the operation's result, or, without an effect, with the decision's arguments. new_step: it failed without an effect; the model may decide a new step. stop: a person decides, or nothing is left to use; report it. finished: the run has ended."`
	First      bool       `json:"first" doc:"This request recorded the decision; otherwise it is somebody's from before."`
	Decision   *Decision  `json:"decision,omitempty" doc:"The recorded decision. Absent with an operation: the effect was started without one, and is not decided any more."`
	Operation  *Operation `json:"operation,omitempty" doc:"The operation that the call became, as it stands."`
	RetryAfter string     `json:"retry_after,omitempty" doc:"For wait: how long to wait before asking again, like 2s."`
}

// RunStory is a run with all its steps.
type RunStory struct {
	Run      string `json:"run" doc:"The run."`
	Tenant   string `json:"tenant" doc:"The isolation boundary."`
	Finished bool   `json:"finished" doc:"A step was recorded as the last one."`
	Steps    []Step `json:"steps" nullable:"false" doc:"The decided steps in their order, then operations of the run that no decision names, oldest first."`
}

// RunSummary is a line of a list of runs.
type RunSummary struct {
	Run      string    `json:"run" doc:"The run."`
	Tenant   string    `json:"tenant" doc:"The isolation boundary."`
	Steps    int       `json:"steps" doc:"How many decisions are recorded."`
	Finished bool      `json:"finished" doc:"A step was recorded as the last one."`
	BeganAt  time.Time `json:"began_at" doc:"When the first decision was recorded."`
	LastAt   time.Time `json:"last_at" doc:"When the last decision was recorded."`
}

// RunList is a page of runs.
type RunList struct {
	Runs []RunSummary `json:"runs" nullable:"false" doc:"The page: runs with recorded decisions, those that began last first."`
	Next string       `json:"next,omitempty" doc:"Give it as after for the following page; absent at the end."`
}

var stepExample = map[string]any{
	"run": "run-71", "step": "refund", "do": "execute", "first": true,
	"decision": map[string]any{"seq": 1, "at": "2026-11-30T10:00:00Z", "tool": "stripe.refund", "arguments": map[string]any{"order_id": "o-8812", "amount": 480}, "note": "arrived broken", "operation": exampleKey},
}

func (s *server) routeRuns() {
	step := reflect.TypeFor[Step]()
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/runs/{run}/steps/{step}/decision", id: "decide", tag: "runs",
		summary: "Record what was decided for a step, or learn what was",
		description: "The first decision of a step is the step's: whoever comes later gets that one, whatever they send. Nothing is executed. A call that cannot be made is refused, " +
			"and nothing is recorded, so that the model can be asked again.",
		example: map[string]any{"tool": "crm.refund", "intent_id": "refund:order-8812:ticket-5521", "arguments": map[string]any{"amount": 480, "currency": "EUR"}, "note": "arrived broken"},
		answers: []answer{
			{http.StatusCreated, step, "Recorded: it is this one.", stepExample},
			{http.StatusOK, step, "Recorded before, or started without a decision: this is what counts.", nil},
		},
		problems: []effectonce.Code{effectonce.CodeNotCanonical, effectonce.CodeIntentIncomplete, effectonce.CodeRunFinished},
	}, s.decide)
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/runs/{run}/steps/{step}", id: "step", tag: "runs",
		summary: "Show a step, and what to do", description: "For whoever comes back after a restart. A step of which nothing is known is no error: do is then decide.",
		answers: []answer{{http.StatusOK, step, "The step as it stands.", stepExample}},
	}, func(c call[none]) (reply, error) {
		e, err := s.run(c.run).Step(c.ctx, c.step)
		return reply{status: http.StatusOK, body: stepView(e)}, err
	})
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/runs/{run}", id: "run", tag: "runs",
		summary: "Show a run", description: "Each step, its decision, its operation, its state.",
		answers:  []answer{{http.StatusOK, reflect.TypeFor[RunStory](), "The run.", nil}},
		problems: []effectonce.Code{effectonce.CodeNotFound},
	}, s.showRun)
	str := &huma.Schema{Type: huma.TypeString}
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/runs", id: "runs", tag: "runs",
		summary: "List runs, those that began last first", description: "Runs with recorded decisions. Operations of others are found with GET /v1/operations?run=.",
		query: []*huma.Param{
			{Name: "q", In: "query", Description: "Only runs with this text in their name.", Schema: str},
			{Name: "unfinished", In: "query", Description: "true: only runs that have not ended.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
			{Name: "after", In: "query", Description: "The next of the page before.", Schema: str},
			{Name: "limit", In: "query", Description: fmt.Sprintf("Size of the page, 1 to %d; 50 if left out.", effectonce.ListLimitMax), Schema: &huma.Schema{Type: huma.TypeInteger}},
		},
		answers: []answer{{http.StatusOK, reflect.TypeFor[RunList](), "A page.", nil}},
	}, s.listRuns)
}

// run gives access to a run.
func (s *server) run(name string) *journal.Run { return s.journal.Run("", name) }

func (s *server) decide(c call[Choice]) (reply, error) {
	if c.step == journal.StepUndone {
		return reply{}, invalid("step", "is the one that ends a run when it is undone", "give the step another name, or undo the run with POST /v1/runs/{run}/undo")
	}
	// What is stored counts, whatever this request looks like.
	e, err := s.run(c.run).Decide(c.ctx, c.step, func(ctx context.Context) (effectonce.Decision, error) {
		b := c.body
		d := effectonce.Decision{Run: c.run, Step: c.step, Tool: b.Tool, IntentID: b.IntentID, Arguments: b.Arguments, Finish: b.Finish, Note: b.Note, Actor: b.Actor}
		var err error
		d.Operation, err = s.chosen(ctx, d, b.Context)
		return d, err
	})
	if err != nil {
		return reply{}, err
	}
	code := http.StatusOK
	if e.First {
		code = http.StatusCreated
	}
	return reply{status: code, body: stepView(e)}, nil
}

// chosen computes the operation that a chosen call is, and refuses a call that cannot be made. The key is zero for a step without an
// effect, and where only the call itself says which operation it is.
func (s *server) chosen(ctx context.Context, d effectonce.Decision, meta map[string]string) (effectonce.Key, error) {
	if err := d.Check(); err != nil || d.Tool == "" {
		if err == nil && len(meta) > 0 {
			err = invalid("context", "belongs to a tool", "name the tool, or leave it out for a step without an effect")
		}
		return effectonce.Key{}, err
	}
	tool, configured := s.tool(d.Tool)
	in, err := s.intent(tool, submissionOf(d, meta))
	if err != nil {
		return effectonce.Key{}, err
	}
	op, err := s.guard.Preview(ctx, in)
	if err != nil || !configured || op.Terms.Class == effectonce.ClassReadOnly {
		return effectonce.Key{}, err
	}
	return op.Key, nil
}

// submissionOf is a decision as the call that carries it out.
func submissionOf(d effectonce.Decision, meta map[string]string) Submission {
	b := Submission{Tool: d.Tool, Run: d.Run, Step: d.Step, IntentID: d.IntentID, Arguments: d.Arguments, Context: meta, Actor: d.Actor}
	if b.Arguments == nil {
		b.Arguments = json.RawMessage("{}")
	}
	return b
}

// journalTimeout bounds the look at what was decided, like the guard's own reads.
const journalTimeout = 10 * time.Second

// asDecided refuses a call that is not the one that was decided for its step (S5.1 I9), and one of a run that was undone. In a run with
// decisions each call names its step, and the call of a step without a decision is recorded as its decision, so that the step is never
// prompted again (S10.2). in is the call as it was read.
func (s *server) asDecided(ctx context.Context, tool Tool, in effectonce.Intent, b Submission) error {
	if b.Run == "" || b.Step == "" && in.Terms.Class == effectonce.ClassReadOnly {
		return nil
	}
	// Like the recording that follows, it does not depend on a caller who may be gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTimeout)
	defer cancel()
	run := s.run(b.Run)
	history, err := run.History(ctx)
	if err != nil || !history.Begun() {
		return err
	}
	in.Supersedes = nil
	asked, err := s.guard.Preview(ctx, in)
	if err != nil {
		return err
	}
	d, ok := history.Decided(b.Step)
	if !ok || b.Step == "" || history.Undone() {
		_, err := s.guard.Wait(ctx, asked.Key, 0)
		started := err == nil
		switch {
		case !started && !errors.Is(err, effectonce.ErrNotFound):
			return err
		case !started && history.Undone():
			return runUndone(b.Run)
		case started && !ok:
			// It had its effect, or has it, without a decision: that is told, and not decided any more.
			return nil
		case b.Step == "" && history.Finished():
			return effectonce.RunFinished(b.Run, history.Last())
		case b.Step == "":
			return invalid("step", "is missing: the run has decisions, and each of its calls is a step", "name the step of the call; what was not decided before is decided by its call")
		case !ok:
			// The run keeps a journal: its call is the decision, and is stored before anything runs.
			d = effectonce.Decision{Step: b.Step, Tool: in.Tool, IntentID: b.IntentID, Arguments: b.Arguments, Note: "recorded with its call", Operation: asked.Key}
			e, err := run.Record(ctx, d)
			if err != nil || !e.Decided {
				return err
			}
			d = e.Decision
		}
	}
	other := func(field string, fields ...string) error {
		return &effectonce.Error{
			Code: effectonce.CodePayloadMismatch, Key: d.Operation, Field: field, Fields: fields,
			Detail: fmt.Sprintf("step %q of run %q was decided otherwise; nothing was executed", b.Step, b.Run),
			Remedy: "make the call as it was decided: GET /v1/runs/{run}/steps/{step} has it; a changed mind is a new step",
		}
	}
	if d.Tool != in.Tool {
		return other("tool")
	}
	if d.IntentID != "" && d.IntentID != in.ID {
		return other("intent_id")
	}
	then := submissionOf(d, b.Context)
	then.Actor = cmp.Or(d.Actor, b.Actor)
	if d.IntentID == "" {
		then.IntentID = b.IntentID
	}
	// What cannot be read any more with the context of this call is another call.
	want, err := s.intent(tool, then)
	if err != nil {
		return other("arguments")
	}
	decided, err := s.guard.Preview(ctx, want)
	if err != nil {
		return other("arguments")
	}
	if decided.Fingerprint != asked.Fingerprint {
		return other("arguments", differing(decided.Business, asked.Business)...)
	}
	if !d.Operation.IsZero() && asked.Key != d.Operation && !slices.Contains(asked.Aliases, d.Operation) {
		return other("arguments")
	}
	return nil
}

// differing names the members in which two JSON objects in canonical form differ.
func differing(a, b []byte) []string {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return nil
	}
	var names []string
	for name, v := range x {
		if w, ok := y[name]; !ok || !bytes.Equal(v, w) {
			names = append(names, name)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *server) showRun(c call[none]) (reply, error) {
	story, err := s.run(c.run).Show(c.ctx)
	if err != nil {
		return reply{}, err
	}
	if !story.Known() {
		return reply{}, noRun(c.run)
	}
	body := RunStory{Run: story.Run, Tenant: story.Tenant, Finished: story.Finished, Steps: make([]Step, 0, len(story.Entries))}
	for _, e := range story.Entries {
		body.Steps = append(body.Steps, stepView(e))
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func noRun(name string) error {
	return &effectonce.Error{Code: effectonce.CodeNotFound, Field: "run", Detail: fmt.Sprintf("nothing is recorded of a run %.80q", name), Remedy: "check its name; effectonce runs ls, or GET /v1/runs, shows recent ones"}
}

func (s *server) listRuns(c call[none]) (reply, error) {
	f := effectonce.RunFilter{Text: c.query.Get("q"), After: c.query.Get("after")}
	var err error
	if f.Limit, err = pageSize(c.query.Get("limit")); err != nil {
		return reply{}, err
	}
	switch c.query.Get("unfinished") {
	case "", "false":
	case "true":
		f.Unfinished = true
	default:
		return reply{}, invalid("query.unfinished", "is neither true nor false", "use true, or leave it out")
	}
	page, err := s.journal.Runs(c.ctx, f)
	if err != nil {
		return reply{}, err
	}
	body := RunList{Runs: make([]RunSummary, 0, len(page.Runs)), Next: page.Next}
	for _, r := range page.Runs {
		body.Runs = append(body.Runs, RunSummary{Run: r.Run, Tenant: r.Tenant, Steps: r.Steps, Finished: r.Finished, BeganAt: r.BeganAt.UTC(), LastAt: r.LastAt.UTC()})
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func stepView(e journal.Entry) Step {
	v := Step{Run: e.Run, Step: e.Step, Do: string(e.Do), First: e.First, RetryAfter: pause(e.RetryAfter)}
	if e.Decided {
		d := e.Decision
		v.Decision = &Decision{
			Seq: d.Seq, At: d.At.UTC(), Tool: d.Tool, IntentID: d.IntentID, Arguments: d.Arguments, Finish: d.Finish, Note: d.Note, Actor: d.Actor,
			Operation: text(d.Operation),
		}
	}
	if e.Started() {
		o := e.Operation
		o.Replayed = o.Operation.State.Final()
		op := view(o)
		v.Operation = &op
	}
	return v
}
