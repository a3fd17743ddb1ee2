package api

import (
	"encoding/json"
	"time"

	"github.com/effectonce/effectonce"
)

// Operation is an operation as every answer shows it (S7.10).
type Operation struct {
	Key           string          `json:"key" pattern:"^([0-9a-f]{64})?$" patternDescription:"64 hex digits" doc:"The operation's identity. Empty for a read-only tool, of which nothing is stored."`
	Tenant        string          `json:"tenant" doc:"The isolation boundary."`
	Tool          string          `json:"tool" doc:"The tool, like stripe.refund."`
	Run           string          `json:"run,omitempty" doc:"The run that recorded it first."`
	Step          string          `json:"step,omitempty" doc:"The step that recorded it first."`
	IntentID      string          `json:"intent_id" doc:"The intent in business terms."`
	State         string          `json:"state" enum:"pending,in_progress,unknown,review,succeeded,failed,abandoned" doc:"Where the operation is in its life. The last three are final."`
	Outcome       string          `json:"outcome" enum:"succeeded,failed,abandoned,pending,in_progress,unknown,in_review,awaiting_approval,held" doc:"What came of it so far."`
	Next          string          `json:"next" enum:"use_result,wait,retry_after,stop_and_report,new_intent" doc:"What an agent should do now. new_intent comes only after failed."`
	Replayed      bool            `json:"replayed" doc:"The answer was recorded before this request: nothing was executed for it."`
	Version       int64           `json:"version" doc:"Grows by one with each transition; a resolution carries the one that the person saw."`
	Result        json.RawMessage `json:"result,omitempty" doc:"The provider's answer, as JSON."`
	ResultOmitted string          `json:"result_omitted,omitempty" doc:"Why there is no result although there was one: too_large, not_encodable, or purged after its retention."`
	Reference     string          `json:"reference,omitempty" doc:"The provider's id of what was created."`
	Error         *Failure        `json:"error,omitempty" doc:"The provider's refusal, for failed."`
	Attempts      int             `json:"attempts" minimum:"0" doc:"How many attempts were started."`
	TwinOf        string          `json:"twin_of,omitempty" doc:"Key of a recent operation with the same content under another intent: a possible repeat."`
	Supersedes    string          `json:"supersedes,omitempty" doc:"Key of the predecessor that this operation replaces."`
	Compensates   string          `json:"compensates,omitempty" doc:"Key of the operation that this one undoes."`
	Hold          string          `json:"hold,omitempty" enum:"approval,twin,duplicate" doc:"Why it waits for a person before it runs."`
	Reason        string          `json:"reason,omitempty" doc:"Why it is where it is, for people."`
	Alarm         string          `json:"alarm,omitempty" doc:"What people must look at even though the state is final."`
	RetryAfter    string          `json:"retry_after,omitempty" doc:"How long to wait before asking again, like 2s. Absent where the state is final or a person has to act."`
	CreatedAt     *time.Time      `json:"created_at,omitempty" doc:"When it was recorded."`
	SettledAt     *time.Time      `json:"settled_at,omitempty" doc:"When it became final."`
}

// Failure is a provider's definitive refusal, or what a caller saw instead of an answer.
type Failure struct {
	Code    string `json:"code" minLength:"1" maxLength:"512" doc:"A stable word, like card_declined."`
	Message string `json:"message,omitempty" maxLength:"2048" doc:"For people."`
	Status  int    `json:"status,omitempty" minimum:"0" maximum:"999" doc:"The provider's HTTP status, if there was one."`
}

// Detail is what a person needs besides [Operation] to decide about one operation (S7.6).
type Detail struct {
	Operation
	Scope         string          `json:"scope" enum:"business,run,step" doc:"Which recorded ids are part of the key."`
	Revision      int             `json:"revision,omitempty" doc:"0 for the first operation of an intent, one more for each successor."`
	SupersedesWhy string          `json:"supersedes_reason,omitempty" doc:"Why the predecessor was superseded."`
	Actor         string          `json:"actor,omitempty" doc:"Who recorded the intent."`
	Fingerprint   string          `json:"fingerprint" doc:"SHA-256 of the business arguments in canonical form, as hex."`
	Arguments     json.RawMessage `json:"arguments,omitempty" doc:"What the caller gave, free text included."`
	Business      json.RawMessage `json:"business,omitempty" doc:"The business arguments in canonical form: what is compared, and what the provider gets."`
	Resource      string          `json:"resource,omitempty" doc:"What the operation acts on."`
	Managed       bool            `json:"managed" doc:"Effectonce holds the provider; otherwise the effect is in the caller's hands."`
	Policy        string          `json:"policy,omitempty" doc:"Version of the policy of the first claim, which keeps applying."`
	Stamp         string          `json:"stamp,omitempty" doc:"The mark that created resources bear."`
	DownstreamKey string          `json:"downstream_key,omitempty" doc:"The idempotency key that the provider gets."`
	Epoch         int             `json:"epoch" doc:"Grows with each resend that a person permitted; each has a downstream key of its own."`
	Proof         string          `json:"proof,omitempty" enum:"answer,look_up,late,person,not_sent,rejected,local" doc:"What the final state rests on."`
	Evidence      string          `json:"evidence,omitempty" doc:"Reference of a late success that has not settled the operation."`
	DueAt         *time.Time      `json:"due_at,omitempty" doc:"When the machine looks at it next."`
	FirstSentAt   *time.Time      `json:"first_sent_at,omitempty" doc:"Start of the first attempt that may have reached the provider; the window counts from it."`
	LastSentAt    *time.Time      `json:"last_sent_at,omitempty" doc:"Start of the last attempt that may have reached the provider."`
	SettledBy     *time.Time      `json:"settled_by,omitempty" doc:"After this moment nothing sent so far can still take effect."`
	Limits        []LimitPart     `json:"limits,omitempty" doc:"The totals that it counts against."`
	PurgedAt      *time.Time      `json:"purged_at,omitempty" doc:"When everything but its identity and reference was purged."`
	ForgetAt      *time.Time      `json:"forget_at,omitempty" doc:"When its identity ends, because its business period is over."`
	WindowEnds    *time.Time      `json:"window_ends,omitempty" doc:"Until this moment a resend with the same downstream key is certainly recognised by the provider."`
}

// Event is a line of an operation's audit: exactly one for each transition (S5.1 I7).
type Event struct {
	Seq        int64     `json:"seq" doc:"The version that the transition made."`
	At         time.Time `json:"at" doc:"When, by the store's clock."`
	Kind       string    `json:"kind" enum:"recorded,claimed,taken_over,attempt_started,attempt_ended,ruled,parked,evidence,resolved,cancelled,expired,purged" doc:"What happened."`
	From       string    `json:"from,omitempty" doc:"The state before."`
	To         string    `json:"to" doc:"The state after."`
	Token      int64     `json:"token,omitempty" doc:"The fencing token."`
	Attempt    int       `json:"attempt,omitempty" doc:"The attempt's number."`
	Epoch      int       `json:"epoch,omitempty" doc:"The downstream key's epoch."`
	Actor      string    `json:"actor,omitempty" doc:"Who did it."`
	Sends      bool      `json:"sends,omitempty" doc:"This event opens an attempt: a request follows it."`
	Verdict    string    `json:"verdict,omitempty" doc:"How the attempt ended."`
	Found      string    `json:"found,omitempty" doc:"What a look-up said."`
	Line       int       `json:"line,omitempty" doc:"The line of the decision table that decided."`
	Resolution string    `json:"resolution,omitempty" doc:"What a person decided."`
	Reference  string    `json:"reference,omitempty" doc:"The provider's id of the effect."`
	Reason     string    `json:"reason,omitempty" doc:"For people."`
	Risk       bool      `json:"risk,omitempty" doc:"A risk was accepted on record."`
}

// Claim is the answer to a claim and to a reported look-up: what its holder does now, and the operation.
type Claim struct {
	Operation
	Do            string `json:"do" enum:"execute,look_up,done,wait,review" doc:"execute: send it within send_within, then complete, reject, unknown or not_sent. look_up: an earlier attempt may have had the effect; look first, then looked_up. done: settled, use the outcome. wait: ask again after retry_after. review: a person decides."`
	Token         int64  `json:"token,omitempty" doc:"The fencing token that every follow-up carries."`
	SendWithin    string `json:"send_within,omitempty" doc:"The effect's call must have been sent and answered within this time, counted from before the request."`
	LeaseFor      string `json:"lease_for,omitempty" doc:"How long the claim is the caller's, counted from before the request; a heartbeat extends it."`
	Attempt       int    `json:"attempt,omitempty" doc:"Number of the attempt to execute."`
	DownstreamKey string `json:"downstream_key,omitempty" doc:"Give it to the provider as its idempotency key."`
	Stamp         string `json:"stamp,omitempty" doc:"Put it on what is created, where the provider has a place for it (metadata, memo)."`
	Window        string `json:"window,omitempty" doc:"How long the provider certainly still remembers the downstream key."`
	LastAttempt   int    `json:"last_attempt,omitempty" doc:"For look_up: the attempt whose end is not known."`
}

// Lease is the answer to a heartbeat.
type Lease struct {
	LeaseFor string `json:"lease_for" doc:"How long the lease now is."`
}

// List is a page of operations, newest first.
type List struct {
	Operations []Operation `json:"operations" nullable:"false" doc:"The page."`
	Next       string      `json:"next,omitempty" doc:"Give it as after for the following page; absent at the end."`
}

// EventList is an operation's audit, oldest first.
type EventList struct {
	Events []Event `json:"events" nullable:"false" doc:"The events."`
}

// view shows an outcome.
func view(o effectonce.Outcome) Operation {
	op := o.Operation
	v := Operation{
		Key: text(op.Key), Tenant: op.Tenant, Tool: op.Tool, Run: op.Run, Step: op.Step, IntentID: op.IntentID,
		State: string(op.State), Outcome: string(o.Outcome), Next: string(o.Next), Replayed: o.Replayed, Version: op.Version,
		ResultOmitted: op.ResultOmitted, Reference: op.Reference, Attempts: op.Attempt,
		TwinOf: text(op.TwinOf), Supersedes: text(op.Supersedes), Compensates: text(op.Compensates), Hold: string(op.Hold), Reason: op.Reason, Alarm: op.Alarm,
		RetryAfter: pause(o.RetryAfter), CreatedAt: moment(op.CreatedAt), SettledAt: moment(op.SettledAt),
	}
	switch {
	case len(op.Result) == 0:
	case json.Valid(op.Result):
		v.Result = op.Result
	default:
		// An adapter that stores no JSON must not break the answer to its caller.
		v.ResultOmitted = "not_json"
	}
	if f := op.Failure; f != nil && op.State == effectonce.StateFailed {
		v.Error = &Failure{Code: f.Code, Message: f.Message, Status: f.Status}
	}
	return v
}

func detail(o effectonce.Outcome) Detail {
	op := o.Operation
	d := Detail{
		Operation: view(o), Scope: string(op.Scope), Revision: op.Revision, SupersedesWhy: op.SupersedeReason, Actor: op.Actor,
		Fingerprint: op.Fingerprint.String(), Arguments: op.Arguments, Business: op.Business, Resource: op.Resource,
		Managed: op.Terms.Managed, Policy: op.Terms.Policy, Stamp: op.Stamp, DownstreamKey: op.DownstreamKey, Epoch: op.Epoch,
		Proof: string(op.Proof), DueAt: moment(op.DueAt),
		FirstSentAt: moment(op.FirstSent()), LastSentAt: moment(op.LastSent()), SettledBy: moment(op.SettledBy()),
	}
	d.PurgedAt, d.ForgetAt = moment(op.PurgedAt), moment(op.ForgetAt)
	for _, l := range op.Limits {
		d.Limits = append(d.Limits, LimitPart{Name: l.Name, Amount: l.Amount, Max: l.Max, Per: duration(l.Per)})
	}
	if op.Evidence != nil {
		d.Evidence = op.Evidence.Reference
	}
	if end, forever, ok := op.WindowEnd(); ok && !forever {
		d.WindowEnds = moment(end)
	}
	return d
}

func claimView(c effectonce.Claim) Claim {
	v := Claim{Operation: view(c.Outcome), Do: string(c.Do)}
	if c.Token == 0 {
		return v
	}
	v.Token, v.SendWithin, v.LeaseFor = c.Token, duration(c.SendWithin), duration(c.LeaseFor)
	v.DownstreamKey, v.Stamp, v.Window = c.DownstreamKey, c.Stamp, duration(c.Window)
	if c.Do == effectonce.TaskLookUp {
		v.LastAttempt = c.LastAttempt
	} else {
		v.Attempt = c.Operation.Attempt
	}
	return v
}

func eventView(e effectonce.Event) Event {
	return Event{
		Seq: e.Seq, At: e.At.UTC(), Kind: string(e.Kind), From: string(e.From), To: string(e.To), Token: e.Token, Attempt: e.Attempt,
		Epoch: e.Epoch, Actor: e.Actor, Sends: e.Sends, Verdict: string(e.Verdict), Found: string(e.Found), Line: e.Line,
		Resolution: string(e.Resolution), Reference: e.Reference, Reason: e.Reason, Risk: e.Risk,
	}
}

func text(k effectonce.Key) string {
	if k.IsZero() {
		return ""
	}
	return k.String()
}

// duration writes a duration in milliseconds at the finest, rounded down: what is the caller's for so long is certainly so.
func duration(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	if d > time.Millisecond {
		d = d.Truncate(time.Millisecond)
	}
	return d.String()
}

// pause writes how long to wait, rounded up to milliseconds: whoever waits so long does not come too early.
func pause(d time.Duration) string {
	if rest := d % time.Millisecond; d > 0 && rest > 0 {
		d += time.Millisecond - rest
	}
	return duration(d)
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
