package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"time"

	"github.com/effectonce/effectonce"
)

// Question is the body of POST /v1/explain.
type Question struct {
	Tool      string            `json:"tool" minLength:"1" maxLength:"512" doc:"The tool's name."`
	Run       string            `json:"run,omitempty" maxLength:"512" doc:"The run of the agent's workflow."`
	Step      string            `json:"step,omitempty" maxLength:"512" doc:"The step in the run."`
	IntentID  string            `json:"intent_id,omitempty" maxLength:"512" doc:"For a tool whose policy has no template for it."`
	Arguments json.RawMessage   `json:"arguments" doc:"The tool's arguments, a JSON object."`
	Context   map[string]string `json:"context,omitempty" doc:"Call metadata that the policy's templates may use."`
	Actor     string            `json:"actor,omitempty" maxLength:"512" doc:"Who would ask, for templates that name the actor."`
	Scope     string            `json:"scope,omitempty" enum:"business,run,step" doc:"As in the claim, for a tool without a policy."`
}

// Explanation is what the arguments of a call come to.
type Explanation struct {
	Tool          string          `json:"tool" doc:"The tool."`
	Policy        string          `json:"policy,omitempty" doc:"Version of the tool's policy; absent for a tool that nobody described."`
	Class         string          `json:"class" enum:"read_only,convergent,non_idempotent" doc:"What a repeat of the tool does."`
	Scope         string          `json:"scope" enum:"business,run,step" doc:"Which recorded ids are part of the key."`
	Template      string          `json:"template,omitempty" doc:"The policy's template of the intent id."`
	IntentID      string          `json:"intent_id" doc:"The intent in business terms."`
	Key           string          `json:"key" doc:"The operation's identity."`
	Fingerprint   string          `json:"fingerprint" doc:"SHA-256 of the business arguments in canonical form, as hex."`
	Business      json.RawMessage `json:"business" doc:"The business arguments in canonical form."`
	Arguments     []Argument      `json:"arguments" nullable:"false" doc:"What became of each argument, and why."`
	Managed       bool            `json:"managed" doc:"Effectonce calls the provider itself."`
	DownstreamKey string          `json:"downstream_key" doc:"The idempotency key that the provider would get."`
	Stamp         string          `json:"stamp" doc:"The mark that the created resource would bear."`
	Limits        []LimitPart     `json:"limits,omitempty" doc:"The totals that it would count against."`
	ForgetAt      *time.Time      `json:"forget_at,omitempty" doc:"When its identity ends, because its business period is over; absent for never."`
	Aliases       []string        `json:"aliases,omitempty" doc:"The keys that it has besides, from before the tool's policy was edited."`
}

// Kept fills what an operation counts against, and under which identities it is kept for how long.
func (e *Explanation) Kept(op effectonce.Operation) {
	for _, l := range op.Limits {
		e.Limits = append(e.Limits, LimitPart{Name: l.Name, Amount: l.Amount, Max: l.Max, Per: duration(l.Per)})
	}
	e.ForgetAt = moment(op.ForgetAt)
	for _, key := range op.Aliases {
		e.Aliases = append(e.Aliases, key.String())
	}
}

// Argument explains one argument (S4.3).
type Argument struct {
	Name       string          `json:"name" doc:"The argument's name."`
	Kind       string          `json:"kind" enum:"identity,material,free,dropped" doc:"identity goes into the intent id, material is compared, free is kept for the audit only, dropped is ignored."`
	Given      json.RawMessage `json:"given,omitempty" doc:"As it came; absent if a default stands in for it."`
	Normalised json.RawMessage `json:"normalised,omitempty" doc:"What it became."`
	Why        string          `json:"why,omitempty" doc:"Why, for people."`
}

func (s *server) routeExplain() {
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/explain", id: "explain", tag: "operations",
		summary: "Explain what a call comes to", description: "Computes intent id, key and fingerprint of a call, with the reasons. Nothing is stored and nothing runs.",
		example:  map[string]any{"tool": "crm.refund", "intent_id": "refund:order-8812:ticket-5521", "arguments": map[string]any{"amount": 480, "currency": "EUR"}},
		answers:  []answer{{http.StatusOK, reflect.TypeFor[Explanation](), "The explanation.", nil}},
		problems: []effectonce.Code{effectonce.CodeNotCanonical, effectonce.CodeIntentIncomplete},
	}, s.explain)
}

func (s *server) explain(c call[Question]) (reply, error) {
	b := c.body
	sub := Submission{Tool: b.Tool, Run: b.Run, Step: b.Step, IntentID: b.IntentID, Arguments: b.Arguments, Context: b.Context, Actor: b.Actor}
	tool, configured := s.tool(b.Tool)
	in, err := s.intent(tool, sub)
	if err != nil {
		return reply{}, err
	}
	var reading Reading
	if !configured {
		in.Scope = effectonce.Scope(b.Scope)
	} else {
		if err := ownTerms(ClaimBody{Scope: b.Scope}); err != nil {
			return reply{}, err
		}
		meta, err := metaOf(sub)
		if err != nil {
			return reply{}, err
		}
		if reading, err = tool.Explain(b.Arguments, meta); err != nil {
			return reply{}, err
		}
	}
	op, err := s.guard.Preview(c.ctx, in)
	if err != nil {
		return reply{}, err
	}
	if !configured {
		reading.Arguments = undescribed(op.Business)
	}
	e := Explanation{
		Tool: op.Tool, Policy: reading.Policy, Class: string(op.Terms.Class), Scope: string(op.Scope), Template: reading.Template,
		IntentID: op.IntentID, Key: op.Key.String(), Fingerprint: op.Fingerprint.String(), Business: op.Business,
		Arguments: reading.Arguments, Managed: configured && tool.Provider() != nil, DownstreamKey: op.DownstreamKey, Stamp: op.Stamp,
	}
	if e.Arguments == nil {
		e.Arguments = []Argument{}
	}
	e.Kept(op)
	return reply{status: http.StatusOK, body: e}, nil
}

// undescribed explains the arguments of a tool without a policy: what no policy names is material (S4.3).
func undescribed(business []byte) []Argument {
	parts, err := members(business)
	if err != nil {
		return nil
	}
	all := make([]Argument, 0, len(parts))
	for _, m := range parts {
		all = append(all, Argument{Name: m.name, Kind: "material", Given: m.value, Normalised: m.value, Why: "no policy describes the tool: every argument is compared"})
	}
	return all
}
