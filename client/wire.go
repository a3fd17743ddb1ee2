package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// operation is an operation in an answer. Fields of later releases are ignored.
type operation struct {
	Key           effectonce.Key      `json:"key"`
	Tenant        string              `json:"tenant"`
	Tool          string              `json:"tool"`
	Run           string              `json:"run"`
	Step          string              `json:"step"`
	IntentID      string              `json:"intent_id"`
	State         effectonce.State    `json:"state"`
	Outcome       effectonce.Status   `json:"outcome"`
	Next          effectonce.Advice   `json:"next"`
	Replayed      bool                `json:"replayed"`
	Version       int64               `json:"version"`
	Result        json.RawMessage     `json:"result"`
	ResultOmitted string              `json:"result_omitted"`
	Reference     string              `json:"reference"`
	Error         *effectonce.Failure `json:"error"`
	Attempts      int                 `json:"attempts"`
	TwinOf        effectonce.Key      `json:"twin_of"`
	Supersedes    effectonce.Key      `json:"supersedes"`
	Compensates   effectonce.Key      `json:"compensates"`
	Hold          effectonce.Hold     `json:"hold"`
	Reason        string              `json:"reason"`
	Alarm         string              `json:"alarm"`
	RetryAfter    wireDuration        `json:"retry_after"`
	CreatedAt     time.Time           `json:"created_at"`
	SettledAt     time.Time           `json:"settled_at"`

	// The following are only in the answer about one operation.
	Scope            effectonce.Scope `json:"scope"`
	Revision         int              `json:"revision"`
	SupersedesReason string           `json:"supersedes_reason"`
	Actor            string           `json:"actor"`
	Fingerprint      string           `json:"fingerprint"`
	Arguments        json.RawMessage  `json:"arguments"`
	Business         json.RawMessage  `json:"business"`
	Resource         string           `json:"resource"`
	Managed          bool             `json:"managed"`
	Policy           string           `json:"policy"`
	Stamp            string           `json:"stamp"`
	DownstreamKey    string           `json:"downstream_key"`
	Epoch            int              `json:"epoch"`
	Proof            effectonce.Proof `json:"proof"`
	Evidence         string           `json:"evidence"`
	DueAt            time.Time        `json:"due_at"`
	FirstSentAt      time.Time        `json:"first_sent_at"`
	LastSentAt       time.Time        `json:"last_sent_at"`
	PurgedAt         time.Time        `json:"purged_at"`
	ForgetAt         time.Time        `json:"forget_at"`
}

func (o operation) outcome() effectonce.Outcome {
	op := effectonce.Operation{
		Key: o.Key, Tenant: o.Tenant, Tool: o.Tool, Scope: o.Scope, Run: o.Run, Step: o.Step, IntentID: o.IntentID,
		Revision: o.Revision, Supersedes: o.Supersedes, SupersedeReason: o.SupersedesReason, Actor: o.Actor,
		Arguments: o.Arguments, Business: o.Business, Resource: o.Resource, TwinOf: o.TwinOf, Stamp: o.Stamp,
		DownstreamKey: o.DownstreamKey, Epoch: o.Epoch, State: o.State, Hold: o.Hold, Reason: o.Reason, Version: o.Version,
		DueAt: o.DueAt, Attempt: o.Attempts, FirstSentAt: o.FirstSentAt, LastSentAt: o.LastSentAt, Alarm: o.Alarm,
		Result: o.Result, ResultOmitted: o.ResultOmitted, Reference: o.Reference, Proof: o.Proof, Failure: o.Error,
		CreatedAt: o.CreatedAt, SettledAt: o.SettledAt, Compensates: o.Compensates, PurgedAt: o.PurgedAt, ForgetAt: o.ForgetAt,
	}
	op.Terms.Managed, op.Terms.Policy = o.Managed, o.Policy
	// An answer without a fingerprint leaves it zero.
	op.Fingerprint, _ = canon.ParseDigest(o.Fingerprint)
	if o.Evidence != "" {
		op.Evidence = &effectonce.Evidence{Reference: o.Evidence}
	}
	return effectonce.Outcome{Operation: op, Outcome: o.Outcome, Next: o.Next, Replayed: o.Replayed, RetryAfter: time.Duration(o.RetryAfter)}
}

// claim is the answer to a claim and to a look-up's report.
type claim struct {
	operation
	Do            effectonce.Task `json:"do"`
	Token         int64           `json:"token"`
	SendWithin    wireDuration    `json:"send_within"`
	LeaseFor      wireDuration    `json:"lease_for"`
	Attempt       int             `json:"attempt"`
	DownstreamKey string          `json:"downstream_key"`
	Stamp         string          `json:"stamp"`
	Window        wireDuration    `json:"window"`
	LastAttempt   int             `json:"last_attempt"`
}

func (c claim) claim() effectonce.Claim {
	o := c.operation.outcome()
	o.Operation.DownstreamKey, o.Operation.Stamp = c.DownstreamKey, c.Stamp
	return effectonce.Claim{
		Outcome: o, Do: c.Do, Token: c.Token, SendWithin: time.Duration(c.SendWithin), LeaseFor: time.Duration(c.LeaseFor),
		DownstreamKey: c.DownstreamKey, Stamp: c.Stamp, Window: time.Duration(c.Window), LastAttempt: max(c.LastAttempt, c.Attempt),
	}
}

// problem is a refusal.
type problem struct {
	Status     int              `json:"status"`
	Code       effectonce.Code  `json:"code"`
	Detail     string           `json:"detail"`
	Field      string           `json:"field"`
	Fields     []string         `json:"fields"`
	Limit      string           `json:"limit"`
	HeldBy     []effectonce.Key `json:"held_by"`
	Remedy     string           `json:"remedy"`
	RetryAfter wireDuration     `json:"retry_after"`
	Sent       effectonce.Sent  `json:"sent"`
	Key        effectonce.Key   `json:"key"`
	Operation  *operation       `json:"operation"`
}

func (p problem) err() *effectonce.Error {
	return &effectonce.Error{
		Code: p.Code, Key: p.Key, Field: p.Field, Fields: p.Fields, Detail: p.Detail, Remedy: p.Remedy,
		RetryAfter: time.Duration(p.RetryAfter), Sent: p.Sent, Limit: p.Limit, HeldBy: p.HeldBy,
	}
}

// wireDuration is a duration as the API writes it: 30s.
type wireDuration time.Duration

func (d *wireDuration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	*d = wireDuration(v)
	return nil
}

func text(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
