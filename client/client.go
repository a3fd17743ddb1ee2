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

// Intent is what the daemon is asked to make take effect once.
type Intent struct {
	Tool string
	Run  string
	Step string
	// ID is the intent in business terms, for tools whose policy has no template for it. It comes from the orchestration layer,
	// never from a model.
	ID string
	// Arguments is a JSON object; [effectonce.Arguments] makes one.
	Arguments json.RawMessage
	// Context is call metadata that the policy's templates may use.
	Context map[string]string
	// Actor is who asks, for the audit.
	Actor string
	// Supersedes makes this the successor of an earlier operation of the same intent (S3.7).
	Supersedes *effectonce.Supersede

	// The following are for claims of tools without a policy. Scope is business if empty; Timeout, the longest that the effect's
	// call may take, 30s if zero; Lease, shorter than Timeout, makes the lease that short, to be kept by heartbeats.
	Scope          effectonce.Scope
	Timeout, Lease time.Duration
}

type intent struct {
	Tool       string            `json:"tool"`
	Run        string            `json:"run,omitempty"`
	Step       string            `json:"step,omitempty"`
	IntentID   string            `json:"intent_id,omitempty"`
	Arguments  json.RawMessage   `json:"arguments"`
	Context    map[string]string `json:"context,omitempty"`
	Actor      string            `json:"actor,omitempty"`
	Owner      string            `json:"owner,omitempty"`
	Supersedes *supersedes       `json:"supersedes,omitempty"`
	Scope      effectonce.Scope  `json:"scope,omitempty"`
	Timeout    string            `json:"timeout,omitempty"`
	Lease      string            `json:"lease,omitempty"`
}

type supersedes struct {
	Key    effectonce.Key `json:"key"`
	Reason string         `json:"reason"`
	Force  bool           `json:"force,omitempty"`
}

func (c *Client) body(in Intent) intent {
	b := intent{Tool: in.Tool, Run: in.Run, Step: in.Step, IntentID: in.ID, Arguments: in.Arguments, Context: in.Context}
	if b.Arguments == nil {
		b.Arguments = json.RawMessage("{}")
	}
	if s := in.Supersedes; s != nil {
		b.Supersedes = &supersedes{Key: s.Key, Reason: s.Reason, Force: s.Force}
	}
	return b
}

func (c *Client) actorOf(in Intent) string {
	if in.Actor != "" {
		return in.Actor
	}
	return c.actor
}

// Option adjusts one call.
type Option func(url.Values)

// WaitFor lets a call wait up to d, at most a minute, for the outcome.
func WaitFor(d time.Duration) Option { return func(q url.Values) { q.Set("wait", d.String()) } }

// RecordOnly makes [Client.Do] record the intent, for a worker to execute.
func RecordOnly() Option { return func(q url.Values) { q.Set("execute", "false") } }

func query(opts []Option) url.Values {
	q := url.Values{}
	for _, o := range opts {
		o(q)
	}
	return q
}

// Do has the daemon make the intent take effect once, and returns the outcome. Outcome and error are those of
// [effectonce.Guard.Do].
func (c *Client) Do(ctx context.Context, in Intent, opts ...Option) (effectonce.Outcome, error) {
	b := c.body(in)
	b.Actor = c.actorOf(in)
	return c.settled(c.operation(ctx, http.MethodPost, "/v1/operations", query(opts), b))
}

// Claim claims the intent for the caller, who has the effect itself and then reports how it ended. See
// [effectonce.Guard.Claim].
func (c *Client) Claim(ctx context.Context, in Intent, opts ...Option) (effectonce.Claim, error) {
	b := c.body(in)
	b.Owner, b.Scope, b.Timeout, b.Lease = c.actorOf(in), in.Scope, text(in.Timeout), text(in.Lease)
	return c.claim(ctx, "/v1/claims", query(opts), b)
}

// Heartbeat extends the lease of a claim and returns how long it now is. [effectonce.ErrStaleToken] means stop: the operation
// is somebody else's, or settled.
func (c *Client) Heartbeat(ctx context.Context, key effectonce.Key, token int64) (time.Duration, error) {
	var v struct {
		LeaseFor wireDuration `json:"lease_for"`
	}
	_, err := split(c.post(ctx, follow(key, "heartbeat"), nil, map[string]any{"token": token}, &v))
	return time.Duration(v.LeaseFor), err
}

// LookedUp reports what a look-up found after a take-over, and says what to do now.
func (c *Client) LookedUp(ctx context.Context, key effectonce.Key, token int64, f effectonce.Finding) (effectonce.Claim, error) {
	return c.claim(ctx, follow(key, "looked_up"), nil, struct {
		Token     int64            `json:"token"`
		Found     effectonce.Found `json:"found"`
		Reference string           `json:"reference,omitempty"`
		Result    json.RawMessage  `json:"result,omitempty"`
		Detail    string           `json:"detail,omitempty"`
	}{token, f.Found, f.Reference, f.Result, f.Detail})
}

// Complete reports success. result is the provider's answer as JSON, or nil; reference the id of what it created. A stale token
// changes nothing as an owner's write: the error is [effectonce.ErrStaleToken], the outcome shows the operation as it stands,
// and the success is kept as evidence.
func (c *Client) Complete(ctx context.Context, key effectonce.Key, token int64, result json.RawMessage, reference string) (effectonce.Outcome, error) {
	return c.report(ctx, key, "complete", report{Token: token, Result: result, Reference: reference})
}

// Reject reports the provider's definitive refusal. authoritative says that the provider answered from its record of the
// downstream key.
func (c *Client) Reject(ctx context.Context, key effectonce.Key, token int64, f effectonce.Failure, authoritative bool) (effectonce.Outcome, error) {
	return c.report(ctx, key, "reject", report{Token: token, Error: &f, Authoritative: authoritative})
}

// Unknown reports an ambiguous end: a timeout, a reset, a 5xx.
func (c *Client) Unknown(ctx context.Context, key effectonce.Key, token int64, f effectonce.Failure) (effectonce.Outcome, error) {
	return c.report(ctx, key, "unknown", report{Token: token, Error: &f})
}

// NotSent reports that no byte of the request can have left. With throttled, that it was sent, and that the provider's
// documentation says that its answer means it did not execute; retryAfter is then the pause it asked for.
func (c *Client) NotSent(ctx context.Context, key effectonce.Key, token int64, f effectonce.Failure, throttled bool, retryAfter time.Duration) (effectonce.Outcome, error) {
	r := report{Token: token, Throttled: throttled, RetryAfter: text(retryAfter)}
	if f.Code != "" {
		r.Error = &f
	}
	return c.report(ctx, key, "not_sent", r)
}

type report struct {
	Token         int64               `json:"token"`
	Result        json.RawMessage     `json:"result,omitempty"`
	Reference     string              `json:"reference,omitempty"`
	Error         *effectonce.Failure `json:"error,omitempty"`
	Authoritative bool                `json:"authoritative,omitempty"`
	Throttled     bool                `json:"throttled,omitempty"`
	RetryAfter    string              `json:"retry_after,omitempty"`
}

// report sends how an attempt ended. Like [effectonce.Guard.Settle] it returns an error only if the report was refused.
func (c *Client) report(ctx context.Context, key effectonce.Key, name string, r report) (effectonce.Outcome, error) {
	return c.operation(ctx, http.MethodPost, follow(key, name), nil, r)
}

// Get returns how the operation stands. The error is nil whatever its state.
func (c *Client) Get(ctx context.Context, key effectonce.Key) (effectonce.Outcome, error) {
	return c.operation(ctx, http.MethodGet, one(key), nil, nil)
}

// Wait returns the operation's outcome, after at most d, a minute at most, if it is not settled before.
func (c *Client) Wait(ctx context.Context, key effectonce.Key, d time.Duration) (effectonce.Outcome, error) {
	return c.operation(ctx, http.MethodGet, one(key), query([]Option{WaitFor(d)}), nil)
}

// List returns a page of operations, newest first, and the After of the following page, empty at the end. The filter's Tenant
// is not sent.
func (c *Client) List(ctx context.Context, f effectonce.Filter) (operations []effectonce.Outcome, next string, err error) {
	q := url.Values{}
	set := func(name, v string) {
		if v != "" {
			q.Set(name, v)
		}
	}
	for _, s := range f.States {
		q.Add("state", string(s))
	}
	set("tool", f.Tool)
	set("intent_id", f.IntentID)
	set("run", f.Run)
	set("q", f.Text)
	set("after", f.After)
	if f.Alarmed {
		set("alarmed", "true")
	}
	if f.Limit != 0 {
		set("limit", strconv.Itoa(f.Limit))
	}
	var v struct {
		Operations []operation `json:"operations"`
		Next       string      `json:"next"`
	}
	if err := c.get(ctx, "/v1/operations", q, &v); err != nil {
		return nil, "", err
	}
	for _, o := range v.Operations {
		operations = append(operations, o.outcome())
	}
	return operations, v.Next, nil
}

// Events returns the operation's audit, oldest first.
func (c *Client) Events(ctx context.Context, key effectonce.Key) ([]effectonce.Event, error) {
	var v struct {
		Events []effectonce.Event `json:"events"`
	}
	if err := c.get(ctx, one(key)+"/events", nil, &v); err != nil {
		return nil, err
	}
	for i := range v.Events {
		v.Events[i].Key = key
	}
	return v.Events, nil
}

// Resolve records a person's decision (S7.6). See [effectonce.Guard.Resolve].
func (c *Client) Resolve(ctx context.Context, key effectonce.Key, r effectonce.Resolved) (effectonce.Outcome, error) {
	return c.operation(ctx, http.MethodPost, one(key)+"/resolve", nil, struct {
		Version    int64                 `json:"version"`
		Resolution effectonce.Resolution `json:"resolution"`
		Person     string                `json:"person"`
		Reason     string                `json:"reason"`
		Reference  string                `json:"reference,omitempty"`
		Result     json.RawMessage       `json:"result,omitempty"`
		AcceptRisk bool                  `json:"accept_risk,omitempty"`
	}{r.Version, r.Resolution, r.Person, r.Reason, r.Reference, r.Result, r.AcceptRisk})
}

// Explanation is what the arguments of a call come to. Nothing is stored for it.
type Explanation struct {
	Tool          string           `json:"tool"`
	Policy        string           `json:"policy,omitempty"`
	Class         effectonce.Class `json:"class"`
	Scope         effectonce.Scope `json:"scope"`
	Template      string           `json:"template,omitempty"`
	IntentID      string           `json:"intent_id"`
	Key           effectonce.Key   `json:"key"`
	Fingerprint   string           `json:"fingerprint"`
	Business      json.RawMessage  `json:"business"`
	Arguments     []Argument       `json:"arguments"`
	Managed       bool             `json:"managed"`
	DownstreamKey string           `json:"downstream_key"`
	Stamp         string           `json:"stamp"`
	// Limits are the totals that it would count against, ForgetAt when its identity ends, nil for never, and Aliases the keys that it
	// has besides, from before the tool's policy was edited.
	Limits   []LimitPart      `json:"limits,omitempty"`
	ForgetAt *time.Time       `json:"forget_at,omitempty"`
	Aliases  []effectonce.Key `json:"aliases,omitempty"`
}

// LimitPart is what an operation would take of a limit (S8.3); Per is the length of its periods, like 24h0m0s.
type LimitPart struct {
	Name   string `json:"name"`
	Amount int64  `json:"amount"`
	Max    int64  `json:"max"`
	Per    string `json:"per,omitempty"`
}

// Argument explains one argument (S4.3).
type Argument struct {
	Name       string          `json:"name"`
	Kind       string          `json:"kind"`
	Given      json.RawMessage `json:"given,omitempty"`
	Normalised json.RawMessage `json:"normalised,omitempty"`
	Why        string          `json:"why,omitempty"`
}

// Explain computes intent id, key and fingerprint of a call, with the reasons. Only the intent's Tool, Run, Step, ID, Arguments,
// Context and Scope are used.
func (c *Client) Explain(ctx context.Context, in Intent) (Explanation, error) {
	b := c.body(in)
	b.Supersedes, b.Scope = nil, in.Scope
	var e Explanation
	err := c.post(ctx, "/v1/explain", nil, b, &e)
	return e, err
}

func (c *Client) operation(ctx context.Context, method, path string, q url.Values, body any) (effectonce.Outcome, error) {
	var v operation
	var err error
	if method == http.MethodGet {
		err = c.get(ctx, path, q, &v)
	} else {
		err = c.post(ctx, path, q, body, &v)
	}
	if err != nil {
		return split(err)
	}
	return v.outcome(), nil
}

// settled adds the error that says how the operation stands.
func (c *Client) settled(o effectonce.Outcome, err error) (effectonce.Outcome, error) {
	if err != nil {
		return o, err
	}
	return o, o.Err()
}

func (c *Client) claim(ctx context.Context, path string, q url.Values, body any) (effectonce.Claim, error) {
	var v claim
	if err := c.post(ctx, path, q, body, &v); err != nil {
		o, err := split(err)
		return effectonce.Claim{Outcome: o}, err
	}
	return v.claim(), nil
}

func one(key effectonce.Key) string { return "/v1/operations/" + key.String() }

func follow(key effectonce.Key, name string) string { return "/v1/claims/" + key.String() + "/" + name }
