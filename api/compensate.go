package api

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
)

// Compensator is a [Tool] whose configuration says how its effect is undone (S11.3).
type Compensator interface {
	// Compensation makes the call that undoes op, an operation of this tool that took effect: the tool that does it, and the intent,
	// whose ID is [effectonce.CompensationID] of op. ok is false where the configuration does not say how. meta is as for
	// [Tool.Intent].
	Compensation(op effectonce.Operation, meta map[string]string) (tool string, in effectonce.Intent, ok bool, err error)
}

// Compensate is the body of POST /v1/operations/{key}/compensate.
type Compensate struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1024" doc:"Why it is undone; it goes into the audit."`
	Person string `json:"person,omitempty" maxLength:"512" doc:"Who undoes it, for the audit: a name that the caller gives."`
	Again  bool   `json:"again,omitempty" doc:"Its compensation failed, without an effect: record a successor of that, which is executed. Ignored where it has not failed."`
	Claim  bool   `json:"claim,omitempty" doc:"Where the undoing is in the caller's hands: claim it, as with POST /v1/claims. Without it the undoing is recorded, for whoever claims it later in this way."`
}

// Compensation is the operation that undoes another one, and who has its effect.
type Compensation struct {
	Claim
	Executes string `json:"executes" enum:"effectonce,caller" doc:"Who has the effect of the undoing: Effectonce calls the provider, or the caller claims it."`
}

// compensationPrefix begins the intent ids that only compensations have.
var compensationPrefix = strings.TrimSuffix(effectonce.CompensationID(effectonce.Key{}), effectonce.Key{}.String())

func (s *server) routeCompensations() {
	comp := reflect.TypeFor[Compensation]()
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/operations/{key}/compensate", id: "compensate", tag: "operations",
		summary: "Undo an operation that took effect",
		description: "As the tool's compensate section says: an operation of its own, guarded like any other, able to fail and to need a person. There is one for each " +
			"operation: the same request again gets that one, or, where it failed and was tried again, the last of its successors.",
		query:   []*huma.Param{waitParam("Wait so long for the outcome if it is not certain yet.")},
		example: map[string]any{"reason": "refunded the wrong order", "person": "mara"},
		answers: []answer{
			{http.StatusOK, comp, "Final.", nil},
			{http.StatusCreated, comp, "Claimed: the caller executes it.", nil},
			{http.StatusAccepted, comp, "Not final.", nil},
		},
		problems: []effectonce.Code{
			effectonce.CodeNotFound, effectonce.CodeNotAllowed, effectonce.CodeUnknownTool, effectonce.CodeNotCanonical, effectonce.CodeIntentIncomplete,
			effectonce.CodePayloadMismatch, effectonce.CodePolicyGone, effectonce.CodeConflict, effectonce.CodeTwinRejected, effectonce.CodeExpired, effectonce.CodeLimitExceeded,
		},
	}, s.compensate)
	s.routeUndo()
}

func (s *server) compensate(c call[Compensate]) (reply, error) {
	o, err := s.guard.Wait(c.ctx, c.key, 0)
	if err != nil {
		return reply{}, err
	}
	u, err := s.undoing(o.Operation, c.body.Reason, c.body.Person)
	if err != nil {
		return reply{}, &refused{err: err, outcome: o}
	}
	last, err := s.lastOf(c.ctx, u)
	if err != nil {
		return reply{}, err
	}
	switch op := last.Operation; {
	case op.State == effectonce.StateFailed && c.body.Again:
		u.intent.Supersedes = &effectonce.Supersede{Key: op.Key, Reason: c.body.Reason}
	case op.Revision > 0:
		// The last one counts, not the first that failed.
		u.intent.Supersedes = &effectonce.Supersede{Key: op.Supersedes, Reason: op.SupersedeReason}
	}
	var claim effectonce.Claim
	var code int
	if c.body.Claim {
		if u.provider != nil {
			return reply{}, invalid("claim", "Effectonce calls the provider itself", "leave it out")
		}
		if claim, code, err = s.claimed(c.ctx, u.intent, c.wait); err == nil {
			err = u.own(claim.Outcome)
		}
	} else {
		claim.Outcome, err = s.undo(c.ctx, u, c.wait)
		claim, code = standing(claim.Outcome), http.StatusAccepted
		if claim.Do == effectonce.TaskDone {
			code = http.StatusOK
		}
	}
	if err != nil {
		return reply{}, err
	}
	return s.answer(code, claim.Outcome, Compensation{Claim: claimView(claim), Executes: u.executes()}), nil
}

// undoing is how one operation is undone.
type undoing struct {
	intent effectonce.Intent
	// provider has the effect; nil where it is in the caller's hands.
	provider effectonce.Provider
}

func (u undoing) executes() string {
	if u.provider == nil {
		return "caller"
	}
	return "effectonce"
}

// undoing reads from the configuration how an operation is undone. It stores nothing.
func (s *server) undoing(op effectonce.Operation, reason, person string) (undoing, error) {
	refuse := func(field, detail, remedy string) error {
		return &effectonce.Error{Code: effectonce.CodeNotAllowed, Key: op.Key, Field: field, Detail: detail, Remedy: remedy}
	}
	switch op.State {
	case effectonce.StateSucceeded:
	case effectonce.StateFailed:
		return undoing{}, refuse("", "it failed: there is nothing to undo", "nothing needs to be done")
	case effectonce.StateAbandoned:
		return undoing{}, refuse("", "it was abandoned: whether there is something to undo is not known", "look at the provider; a person undoes it there")
	default:
		return undoing{}, refuse("", "it is "+string(op.State)+": whether there is something to undo is not known", "wait until it is settled, or resolve it")
	}
	tool, ok := s.tool(op.Tool)
	if !ok {
		return undoing{}, refuse("tool", "the tool is not configured: nobody said how it is undone", "add the tool, with compensate, to the configuration")
	}
	section := "tools." + op.Tool + ".compensate"
	how, ok := tool.(Compensator)
	if !ok {
		return undoing{}, refuse(section, "is missing: nobody said how the tool is undone", "add compensate: {tool, arguments} to the tool")
	}
	meta := map[string]string{}
	if op.Run != "" {
		meta["run"] = op.Run
	}
	step := compensationPrefix + op.Key.Short()
	meta["step"] = step
	if actor := cmp.Or(person, op.Actor); actor != "" {
		meta["actor"] = actor
	}
	name, in, ok, err := how.Compensation(op, meta)
	if err != nil {
		return undoing{}, err
	}
	if !ok {
		return undoing{}, refuse(section, "is missing: nobody said how the tool is undone", "add compensate: {tool, arguments} to the tool")
	}
	by, ok := s.tool(name)
	if !ok {
		return undoing{}, &effectonce.Error{Code: effectonce.CodeUnknownTool, Key: op.Key, Field: section + ".tool", Detail: "the tool that undoes it is not configured", Remedy: "add it to the configuration"}
	}
	in.Tool, in.ID, in.Compensates, in.Reason, in.Actor = name, effectonce.CompensationID(op.Key), op.Key, reason, person
	in.Run, in.Step = op.Run, step
	u := undoing{intent: in, provider: by.Provider()}
	u.intent.Terms.Managed = u.provider != nil
	return u, nil
}

// undo carries out a compensation, or records it for whoever has its effect. The outcome says how it stands; the error is only why
// nothing could be said.
func (s *server) undo(ctx context.Context, u undoing, wait time.Duration) (effectonce.Outcome, error) {
	var o effectonce.Outcome
	var err error
	if u.provider != nil {
		o, err = s.guard.Do(ctx, u.intent, u.provider, effectonce.WaitFor(wait))
	} else {
		o, err = s.guard.Record(ctx, u.intent)
	}
	if o, err = s.stands(ctx, o, err); err != nil {
		return o, err
	}
	return o, u.own(o)
}

// lastOf is the last operation of a compensation: each that failed may have a successor. Its state is empty where there is none.
func (s *server) lastOf(ctx context.Context, u undoing) (last effectonce.Outcome, err error) {
	op, err := s.guard.Preview(ctx, u.intent)
	if err != nil {
		return last, err
	}
	for id := op.Identity(); ; id.Revision++ {
		key, err := id.Key()
		if err != nil {
			return last, err
		}
		o, err := s.guard.Wait(ctx, key, 0)
		if effectonce.CodeOf(err) == effectonce.CodeNotFound {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = o
	}
}

// own refuses an operation that was recorded under the identity of a compensation and is none.
func (u undoing) own(o effectonce.Outcome) error {
	if o.Operation.Compensates == u.intent.Compensates {
		return nil
	}
	return &refused{outcome: o, err: &effectonce.Error{
		Code: effectonce.CodePayloadMismatch, Key: o.Operation.Key, Field: "intent_id", Detail: "another operation has the intent id of the compensation; nothing was undone",
		Remedy: "a person looks at both, and undoes it at the provider",
	}}
}
