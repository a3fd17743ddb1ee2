package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
)

// Submission is the body of POST /v1/operations.
type Submission struct {
	Tool       string            `json:"tool" minLength:"1" maxLength:"512" doc:"The tool's name, like stripe.refund."`
	Run        string            `json:"run,omitempty" maxLength:"512" doc:"The run of the agent's workflow."`
	Step       string            `json:"step,omitempty" maxLength:"512" doc:"The step in the run."`
	IntentID   string            `json:"intent_id,omitempty" maxLength:"512" doc:"The intent in business terms, like refund:order-8812:ticket-5521, made by the orchestration layer and never by a model. Only for tools whose policy has no template for it."`
	Arguments  json.RawMessage   `json:"arguments" doc:"The tool's arguments, a JSON object."`
	Context    map[string]string `json:"context,omitempty" doc:"Call metadata that the policy's templates may use; it comes from the orchestration layer."`
	Actor      string            `json:"actor,omitempty" maxLength:"512" doc:"Who asks, for the audit: a name that the caller gives. Who has this name cannot approve the operation; while there are no tokens that is advice, not access control."`
	Supersedes *Supersedes       `json:"supersedes,omitempty" doc:"Makes this the successor of an earlier operation of the same tool and intent id: after failed it runs at once, after any other final state a person approves, while it is unresolved it takes force."`
}

// Supersedes names a predecessor (S3.7).
type Supersedes struct {
	Key    string `json:"key" minLength:"64" maxLength:"64" doc:"Key of the predecessor."`
	Reason string `json:"reason" minLength:"1" maxLength:"2048" doc:"Why the mind was changed; it goes into the audit."`
	Force  bool   `json:"force,omitempty" doc:"Supersede although the predecessor is unresolved. A pending one is cancelled; the successor waits for a person's approval in any case."`
}

func (s *server) routeOperations() {
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/operations", id: "submit", tag: "managed execution",
		summary: "Make an intent take effect once",
		description: "Effectonce calls the tool's provider itself. The same intent sent again, at the same time or later, gets the recorded outcome and causes nothing. " +
			"Hanging up changes nothing about what happens; ask again with the same body.",
		query: []*huma.Param{
			waitParam("Wait so long for the outcome if it is under way elsewhere, or not certain yet."),
			{Name: "execute", In: "query", Description: "false records the intent only; a worker executes it later.", Schema: &huma.Schema{Type: huma.TypeBoolean, Default: true}},
		},
		example: map[string]any{"tool": "stripe.refund", "run": "run-71", "step": "refund", "arguments": map[string]any{"order_id": "order-8812", "ticket_id": "ticket-5521", "amount": 480, "currency": "EUR"}},
		answers: []answer{
			{http.StatusOK, reflect.TypeFor[Operation](), "Final: succeeded, failed or abandoned.", succeededExample},
			{http.StatusAccepted, reflect.TypeFor[Operation](), "Not final. Location is where to ask again, Retry-After when.", unknownExample},
		},
		problems: []effectonce.Code{
			effectonce.CodeNotCanonical, effectonce.CodeIntentIncomplete, effectonce.CodeUnknownTool, effectonce.CodePayloadMismatch, effectonce.CodePolicyGone,
			effectonce.CodeConflict, effectonce.CodeTwinRejected, effectonce.CodeSupersede, effectonce.CodeNotFound, effectonce.CodeExpired,
			effectonce.CodeLimitExceeded, effectonce.CodeRunFinished,
		},
	}, s.submit)
}

func (s *server) submit(c call[Submission]) (reply, error) {
	execute := true
	switch c.query.Get("execute") {
	case "", "true":
	case "false":
		execute = false
	default:
		return reply{}, invalid("query.execute", "is neither true nor false", "leave it out to execute")
	}
	tool, ok := s.tool(c.body.Tool)
	var provider effectonce.Provider
	if ok {
		provider = tool.Provider()
	}
	if provider == nil {
		detail := "the tool is not configured"
		if ok {
			detail = "the tool has no provider: its effect is in the caller's hands"
		}
		return reply{}, &effectonce.Error{Code: effectonce.CodeUnknownTool, Field: "tool", Detail: detail,
			Remedy: "add the tool with a provider to the configuration, or have the effect yourself with POST /v1/claims"}
	}
	in, err := s.intent(tool, c.body)
	if err != nil {
		return reply{}, err
	}
	if err := s.asDecided(c.ctx, tool, in, c.body); err != nil {
		return reply{}, err
	}
	in.Actor = c.body.Actor
	in.Terms.Managed = true
	if execute {
		if in.Run != "" && in.Terms.Class != effectonce.ClassReadOnly {
			provider = s.run(in.Run).Provider(provider)
		}
		o, err := s.guard.Do(c.ctx, in, provider, effectonce.WaitFor(c.wait))
		if stopped := s.closed(c.ctx, in.Run, o); stopped != nil {
			return reply{}, stopped
		}
		return s.outcome(c.ctx)(o, err)
	}
	if in.Terms.Class == effectonce.ClassReadOnly {
		return reply{}, invalid("query.execute", "a read-only tool is never recorded", "call it without execute=false")
	}
	if in.RequestScope == "" {
		in.RequestScope = provider.Scope()
	}
	o, err := s.guard.Record(c.ctx, in)
	if stopped := s.closed(c.ctx, in.Run, o); stopped != nil {
		return reply{}, stopped
	}
	return s.outcome(c.ctx)(o, err)
}

func (s *server) tool(name string) (Tool, bool) {
	if s.tools == nil {
		return nil, false
	}
	tool, ok := s.tools.Tool(name)
	if !ok {
		return nil, false
	}
	return tool, true
}

// intent makes the intent of a submission for a configured tool, or, with a nil tool, for one that nobody described.
func (s *server) intent(tool Tool, b Submission) (effectonce.Intent, error) {
	in := effectonce.Intent{Tool: b.Tool, Arguments: b.Arguments}
	if strings.HasPrefix(b.Tool, events.ToolPrefix) {
		return in, invalid("tool", "tools that begin with "+events.ToolPrefix+" are incoming events", "deliver the event to /v1/inbox, or claim one there")
	}
	if tool != nil {
		meta, err := metaOf(b)
		if err != nil {
			return in, err
		}
		if in, err = tool.Intent(b.Arguments, meta); err != nil {
			return in, err
		}
		in.Tool = b.Tool
	}
	in.Run, in.Step = b.Run, b.Step
	switch {
	case b.IntentID == "":
	case in.ID != "":
		return in, invalid("intent_id", "the tool's policy builds it from the arguments", "leave it out")
	case strings.HasPrefix(b.IntentID, compensationPrefix):
		return in, invalid("intent_id", "begins like that of a compensation", "undo an operation with POST /v1/operations/{key}/compensate")
	default:
		in.ID = b.IntentID
	}
	if b.Supersedes != nil {
		key, err := effectonce.ParseKey(b.Supersedes.Key)
		if err != nil {
			return in, invalid("supersedes.key", "is not a key", "a key has 64 hex digits")
		}
		in.Supersedes = &effectonce.Supersede{Key: key, Reason: b.Supersedes.Reason, Force: b.Supersedes.Force}
	}
	return in, nil
}

// metaOf is what templates may use besides arguments: the request's context, run, step and actor.
func metaOf(b Submission) (map[string]string, error) {
	meta := make(map[string]string, len(b.Context)+2)
	for name, v := range b.Context {
		if name == "run" || name == "step" || name == "actor" {
			return nil, invalid("context."+name, "has a field of its own", "give it as "+name)
		}
		meta[name] = v
	}
	if b.Run != "" {
		meta["run"] = b.Run
	}
	if b.Step != "" {
		meta["step"] = b.Step
	}
	if b.Actor != "" {
		meta["actor"] = b.Actor
	}
	return meta, nil
}

// states are the codes that only say how the operation stands: the answer is then the operation, not a refusal (S7.10).
var states = map[effectonce.Code]bool{
	effectonce.CodeFailed: true, effectonce.CodeAbandoned: true, effectonce.CodeUnknownOutcome: true, effectonce.CodePending: true,
	effectonce.CodeInReview: true, effectonce.CodeHeld: true,
}

// outcome turns what the guard returned into an answer.
func (s *server) outcome(ctx context.Context) func(effectonce.Outcome, error) (reply, error) {
	return func(o effectonce.Outcome, err error) (reply, error) {
		if o, err = s.stands(ctx, o, err); err != nil {
			return reply{}, err
		}
		code := http.StatusAccepted
		if o.Operation.State.Final() {
			code = http.StatusOK
		}
		return s.answer(code, o, view(o)), nil
	}
}

// stands separates how an operation stands from why nothing could be said: only the latter stays an error.
func (s *server) stands(ctx context.Context, o effectonce.Outcome, err error) (effectonce.Outcome, error) {
	known := o.Operation.State != ""
	if known && o.Outcome == "" {
		o = effectonce.OutcomeOf(o.Operation, o.Replayed)
	}
	if err == nil {
		return o, nil
	}
	if !known || !states[effectonce.CodeOf(err)] {
		return o, &refused{err: err, outcome: o}
	}
	if effectonce.CodeOf(o.Err()) != effectonce.CodeOf(err) {
		// The row moved on between the guard's reading and its verdict.
		return s.guard.Wait(ctx, o.Operation.Key, 0)
	}
	return o, nil
}

// answer is a reply that shows an operation, with the headers that go with it.
func (s *server) answer(code int, o effectonce.Outcome, body any) reply {
	h := http.Header{}
	if o.Replayed {
		h.Set("Effectonce-Replayed", "true")
	}
	if !o.Operation.Key.IsZero() && code != http.StatusOK {
		h.Set("Location", "/v1/operations/"+o.Operation.Key.String())
	}
	if code == http.StatusAccepted {
		setRetryAfter(h, pause(o.RetryAfter))
	}
	s.metrics.answer(o)
	return reply{status: code, body: body, header: h}
}
