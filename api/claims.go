package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
)

// The bounds of a claim's own durations. They keep a forgotten unit from making a lease of a second or of a year.
const (
	TimeoutMin = 100 * time.Millisecond
	TimeoutMax = 24 * time.Hour
)

// ClaimBody is the body of POST /v1/claims.
type ClaimBody struct {
	Tool       string            `json:"tool" minLength:"1" maxLength:"512" doc:"The tool's name. Without a configuration any name will do."`
	Run        string            `json:"run,omitempty" maxLength:"512" doc:"The run of the agent's workflow."`
	Step       string            `json:"step,omitempty" maxLength:"512" doc:"The step in the run."`
	IntentID   string            `json:"intent_id,omitempty" maxLength:"512" doc:"The intent in business terms, like refund:order-8812:ticket-5521, made by the orchestration layer and never by a model. Required unless the tool's policy has a template for it."`
	Arguments  json.RawMessage   `json:"arguments" doc:"The tool's arguments, a JSON object. The same intent with other arguments is refused."`
	Context    map[string]string `json:"context,omitempty" doc:"Call metadata that the policy's templates may use; it comes from the orchestration layer."`
	Supersedes *Supersedes       `json:"supersedes,omitempty" doc:"Makes this the successor of an earlier operation of the same tool and intent id: after failed it runs at once, after any other final state a person approves, while it is unresolved it takes force."`
	Owner      string            `json:"owner,omitempty" maxLength:"512" doc:"Who claims, for the audit: a name that the caller gives. Who has this name cannot approve the operation; while there are no tokens that is advice, not access control."`
	Scope      string            `json:"scope,omitempty" enum:"business,run,step" doc:"What makes two intents one, for a tool without a policy: business (default): tool and intent_id, over all runs; run: also run; step: also run and step."`
	Timeout    string            `json:"timeout,omitempty" doc:"The longest that the effect's call may take, for a tool without a policy, like 30s (default)."`
	Lease      string            `json:"lease,omitempty" doc:"Makes the lease this short, shorter than timeout, and extended by heartbeats, so that a dead holder is noticed early. For a tool without a policy."`
}

// Held is the body of a follow-up that only carries the token.
type Held struct {
	Token int64 `json:"token" minimum:"1" doc:"The claim's fencing token."`
}

// LookedUp is the body of POST /v1/claims/{key}/looked_up.
type LookedUp struct {
	Token     int64           `json:"token" minimum:"1" doc:"The claim's fencing token."`
	Found     string          `json:"found" enum:"one,many,absent,unavailable" doc:"What bears the operation's stamp, downstream key or reference: an equal amount is not identity. A look-up that failed is unavailable, never absent."`
	Reference string          `json:"reference,omitempty" maxLength:"512" doc:"For one: the provider's id of it."`
	Result    json.RawMessage `json:"result,omitempty" doc:"For one: the provider's answer, any JSON."`
	Detail    string          `json:"detail,omitempty" maxLength:"2048" doc:"What was seen, for the audit: 3 pages, 214 refunds, none stamped."`
}

// Completed is the body of POST /v1/claims/{key}/complete.
type Completed struct {
	Token     int64           `json:"token" minimum:"1" doc:"The claim's fencing token."`
	Result    json.RawMessage `json:"result,omitempty" doc:"The provider's answer, any JSON. Over 1 MiB only its digest is kept."`
	Reference string          `json:"reference,omitempty" maxLength:"512" doc:"The provider's id of what was created."`
}

// Rejected is the body of POST /v1/claims/{key}/reject.
type Rejected struct {
	Token         int64   `json:"token" minimum:"1" doc:"The claim's fencing token."`
	Error         Failure `json:"error" doc:"The provider's definitive refusal."`
	Authoritative bool    `json:"authoritative,omitempty" doc:"The provider answered from its record of the downstream key, so the refusal speaks for earlier attempts too."`
}

// Ambiguous is the body of POST /v1/claims/{key}/unknown.
type Ambiguous struct {
	Token int64   `json:"token" minimum:"1" doc:"The claim's fencing token."`
	Error Failure `json:"error" doc:"What was seen instead of an answer: a timeout, a reset, a 5xx."`
}

// NotSent is the body of POST /v1/claims/{key}/not_sent.
type NotSent struct {
	Token      int64    `json:"token" minimum:"1" doc:"The claim's fencing token."`
	Error      *Failure `json:"error,omitempty" doc:"Why nothing was sent."`
	Throttled  bool     `json:"throttled,omitempty" doc:"It was sent, and the provider's documentation says that this answer means it did not execute."`
	RetryAfter string   `json:"retry_after,omitempty" doc:"The pause that the provider asked for, like 2s."`
}

func (s *server) routeClaims() {
	claim := reflect.TypeFor[Claim]()
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/claims", id: "claim", tag: "external execution",
		summary: "Claim an intent whose effect the caller has itself",
		description: "With do: execute, send the effect within send_within and report with complete, reject, unknown or not_sent. With do: look_up, an earlier attempt may have had " +
			"the effect: look for it first and report with looked_up. Otherwise the operation needs nothing from the caller, and the answer shows it.",
		query:   []*huma.Param{waitParam("Wait so long while somebody else holds the claim.")},
		example: map[string]any{"tool": "crm.refund", "intent_id": "refund:order-8812:ticket-5521", "arguments": map[string]any{"amount": 480, "currency": "EUR"}},
		answers: []answer{
			{http.StatusCreated, claim, "The claim is the caller's: execute, or look up.", claimExample},
			{http.StatusOK, claim, "Final already: the recorded outcome.", nil},
			{http.StatusAccepted, claim, "Not final, and nothing for the caller to do now.", nil},
		},
		problems: []effectonce.Code{
			effectonce.CodeNotCanonical, effectonce.CodeIntentIncomplete, effectonce.CodePayloadMismatch, effectonce.CodePolicyGone, effectonce.CodeConflict,
			effectonce.CodeTwinRejected, effectonce.CodeSupersede, effectonce.CodeNotFound, effectonce.CodeExpired,
			effectonce.CodeLimitExceeded, effectonce.CodeRunFinished,
		},
	}, s.claim)

	follow := []effectonce.Code{effectonce.CodeNotFound, effectonce.CodeStaleToken, effectonce.CodeNotAllowed}
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/claims/{key}/heartbeat", id: "heartbeat", tag: "external execution",
		summary: "Extend the lease of a claim", description: "A stale_token means stop: somebody took the operation over, or it is settled.",
		example:  map[string]any{"token": 1},
		answers:  []answer{{http.StatusOK, reflect.TypeFor[Lease](), "The lease is extended, up to its cap.", map[string]any{"lease_for": "30s"}}},
		problems: follow,
	}, s.heartbeat)
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/claims/{key}/looked_up", id: "looked-up", tag: "external execution",
		summary: "Report what a look-up found", description: "The answer says what to do now: done, execute (again, with the downstream key given), wait or review.",
		example: map[string]any{"token": 2, "found": "absent", "detail": "1 page, 3 refunds, none stamped"}, bodyMax: 2 * BodyBytesMax,
		answers: []answer{{http.StatusOK, claim, "What to do now.", nil}}, problems: follow,
	}, s.lookedUp)

	settled := []answer{
		{http.StatusOK, reflect.TypeFor[Operation](), "Final.", succeededExample},
		{http.StatusAccepted, reflect.TypeFor[Operation](), "Recorded, and not final.", unknownExample},
	}
	end := func(name, summary, description string, example any, bodyMax int64) endpoint {
		return endpoint{
			method: http.MethodPost, path: "/v1/claims/{key}/" + name, id: name, tag: "external execution", summary: summary,
			description: description + " After a take-over the token is stale: the problem shows the operation as it stands.",
			example:     example, bodyMax: bodyMax, answers: settled, problems: follow,
		}
	}
	failure := map[string]any{"code": "card_declined", "message": "the card was declined", "status": 402}
	register(s, end("complete", "Report success", "A late success is kept as evidence. Reporting it again is harmless.",
		map[string]any{"token": 1, "result": map[string]any{"id": "re_1"}, "reference": "re_1"}, 2*BodyBytesMax), func(c call[Completed]) (reply, error) {
		return s.settle(c.ctx, c.key, c.body.Token, effectonce.End{Verdict: effectonce.VerdictSucceeded, Result: c.body.Result, Reference: c.body.Reference})
	})
	register(s, end("reject", "Report a definitive refusal", "Only what certainly had no effect is a refusal; anything doubtful is unknown.",
		map[string]any{"token": 1, "error": failure}, 0), func(c call[Rejected]) (reply, error) {
		return s.settle(c.ctx, c.key, c.body.Token, effectonce.End{Verdict: effectonce.VerdictRejected, Failure: c.body.Error.failure(), Authoritative: c.body.Authoritative})
	})
	register(s, end("unknown", "Report an ambiguous end", "The operation is reconciled before anything is sent again.",
		map[string]any{"token": 1, "error": map[string]any{"code": "timeout", "message": "no answer within 30s"}}, 0), func(c call[Ambiguous]) (reply, error) {
		return s.settle(c.ctx, c.key, c.body.Token, effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: c.body.Error.failure()})
	})
	register(s, end("not_sent", "Report that nothing was sent", "Only where no byte of the request can have left, or, with throttled, where the provider's documentation says that it did not execute.",
		map[string]any{"token": 1, "error": map[string]any{"code": "connection_refused"}}, 0), s.notSent)
}

func (s *server) claim(c call[ClaimBody]) (reply, error) {
	b := c.body
	tool, configured := s.tool(b.Tool)
	sub := Submission{Tool: b.Tool, Run: b.Run, Step: b.Step, IntentID: b.IntentID, Arguments: b.Arguments, Context: b.Context, Supersedes: b.Supersedes, Actor: b.Owner}
	in, err := s.intent(tool, sub)
	if err != nil {
		return reply{}, err
	}
	if configured {
		err = ownTerms(b)
	} else {
		err = b.terms(&in)
	}
	if err == nil {
		err = s.asDecided(c.ctx, tool, in, sub)
	}
	if err != nil {
		return reply{}, err
	}
	if in.Terms.Class == effectonce.ClassReadOnly {
		return reply{}, invalid("tool", "the tool is read-only: nothing is claimed for it", "call it without a claim")
	}
	in.Actor = b.Owner
	claim, code, err := s.claimed(c.ctx, in, c.wait)
	if err == nil {
		err = s.given(c.ctx, in.Run, claim)
	}
	if err != nil {
		return reply{}, err
	}
	return s.answer(code, claim.Outcome, claimView(claim)), nil
}

// claimed claims an intent, and says with which status that is answered.
func (s *server) claimed(ctx context.Context, in effectonce.Intent, wait time.Duration) (effectonce.Claim, int, error) {
	claim, err := s.guard.Claim(ctx, in, effectonce.WaitFor(wait))
	if claim.Outcome.Outcome == "" || err != nil {
		if claim.Outcome, err = s.stands(ctx, claim.Outcome, err); err != nil {
			return claim, 0, err
		}
		claim = standing(claim.Outcome)
	}
	switch {
	case claim.Token != 0:
		return claim, http.StatusCreated, nil
	case claim.Do != effectonce.TaskDone:
		return claim, http.StatusAccepted, nil
	}
	if err := claim.Err(); errors.Is(err, effectonce.ErrExpired) {
		// A tombstone without a reference: nothing is left to use (S13.1).
		return claim, 0, &refused{err: err, outcome: claim.Outcome}
	}
	return claim, http.StatusOK, nil
}

// standing is the claim of a caller who owns nothing.
func standing(o effectonce.Outcome) effectonce.Claim {
	c := effectonce.Claim{Outcome: o, Do: effectonce.TaskWait}
	switch {
	case o.Operation.State.Final():
		c.Do = effectonce.TaskDone
	case o.Operation.State == effectonce.StateReview, o.Operation.Hold != effectonce.HoldNone:
		c.Do = effectonce.TaskReview
	}
	return c
}

// ownTerms refuses what the policy of a configured tool says already.
func ownTerms(b ClaimBody) error {
	for _, f := range [][2]string{{"scope", b.Scope}, {"timeout", b.Timeout}, {"lease", b.Lease}} {
		if f[1] != "" {
			return invalid(f[0], "the tool's policy says it", "leave it out, or change the policy")
		}
	}
	return nil
}

// terms are the caller's own for a tool that nobody described. What a provider promises is never among them: a caller cannot
// invent a window (S14.5).
func (b ClaimBody) terms(in *effectonce.Intent) error {
	in.Scope = effectonce.Scope(b.Scope)
	t := effectonce.DefaultTerms()
	if b.Timeout != "" {
		d, err := bounded("timeout", b.Timeout, TimeoutMin, TimeoutMax)
		if err != nil {
			return err
		}
		t.CallTimeout = d
	}
	if b.Lease != "" {
		d, err := bounded("lease", b.Lease, TimeoutMin, TimeoutMax)
		if err != nil {
			return err
		}
		if d >= t.CallTimeout {
			return invalid("lease", "is not shorter than timeout ("+t.CallTimeout.String()+")", "leave it out, or give a longer timeout")
		}
		t.Heartbeat = d
	}
	// The budget must leave room for more than one call (S7.7).
	t.Within = max(t.Within, 2*t.CallTimeout)
	in.Terms = t
	return nil
}

func (f Failure) failure() effectonce.Failure {
	return effectonce.Failure{Code: f.Code, Message: f.Message, Status: f.Status}
}
