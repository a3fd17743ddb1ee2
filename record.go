package effectonce

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/effectonce/effectonce/canon"
)

// record stores the operation of an intent, or finds the one that has its key and checks that it is the same intent with the
// same arguments (S3.5, S4.5, S5.12).
func (g *Guard) record(ctx context.Context, in Intent, claim bool) (op Operation, created bool, err error) {
	// Detached from the caller: a cancelled commit would leave a row of which nobody knows whether it was sent.
	dctx, cancel := g.detached(ctx)
	defer cancel()
	cause := Recorded{Claim: claim}
	if wait := g.options.Breaker.wait(Operation{Tool: in.Tool, RequestScope: in.RequestScope}.circuit()); claim && wait > 0 {
		cause = Recorded{After: wait, Reason: heldBack(wait)}
	}
	return g.recordBy(dctx, g.store, in, cause)
}

// creator is a store, or a transaction of the caller's on it.
type creator interface {
	Create(ctx context.Context, t Transition) (op Operation, created bool, err error)
}

// recordBy completes the cause and stores it.
func (g *Guard) recordBy(ctx context.Context, c creator, in Intent, cause Recorded) (op Operation, created bool, err error) {
	in, err = in.normalise()
	if err != nil {
		return Operation{}, false, err
	}
	op, hold, err := g.compose(ctx, in)
	if err != nil {
		return Operation{}, false, err
	}
	cause.Operation, cause.Owner, cause.Hold = op, g.options.Owner, hold
	t, err := Next(Operation{}, cause, g.options.Clock.Now())
	if err != nil {
		return Operation{}, false, err
	}

	stored, created, err := c.Create(ctx, t)
	if err != nil {
		return Operation{}, false, unsent(err)
	}
	if created {
		return stored, true, nil
	}
	if err := g.access(ctx, stored); err != nil {
		return Operation{}, false, err
	}
	return stored, false, g.matches(ctx, stored, op, in)
}

// compose makes the operation of an intent: its key, fingerprint, frozen request, stamp and downstream key.
func (g *Guard) compose(ctx context.Context, in Intent) (Operation, Hold, error) {
	business, fingerprint, err := canonical("arguments", in.Business)
	if err != nil {
		return Operation{}, "", err
	}
	if _, err := canon.Decode(in.Arguments, canon.DefaultLimits); err != nil {
		return Operation{}, "", &Error{Code: CodeNotCanonical, Field: "arguments", Cause: err}
	}
	op := Operation{
		Tenant: in.Tenant, Tool: in.Tool, Scope: in.Scope, Run: in.Run, Step: in.Step, IntentID: in.ID, Actor: in.Actor,
		Business: business, Fingerprint: fingerprint, Arguments: in.Arguments,
		Request: in.Request, RequestScope: in.RequestScope, Resource: in.Resource, Terms: in.Terms,
		Limits: in.Limits, ForgetAt: in.ForgetAt, Reason: in.Reason,
	}
	if op.Request == nil {
		op.Request = business
	}
	if in.Terms.Twins != TwinOff {
		op.Twin = in.Twin
		if op.Twin.IsZero() {
			op.Twin = fingerprint
		}
	}
	hold := HoldNone
	if in.Terms.Approval {
		hold = HoldApproval
	}
	if !in.Compensates.IsZero() {
		if err := g.compensates(ctx, &op, in.Compensates); err != nil {
			return Operation{}, "", err
		}
	}
	if in.Supersedes != nil {
		if hold, err = g.supersede(ctx, &op, in, hold); err != nil {
			return Operation{}, "", err
		}
	}
	if op.Key, err = op.Identity().Key(); err != nil {
		return Operation{}, "", err
	}
	if op.Aliases, err = aliases(op, in.Formerly); err != nil {
		return Operation{}, "", err
	}
	secret, err := g.installationSecret(ctx)
	if err != nil {
		return Operation{}, "", unsent(err)
	}
	op.Stamp = StampOf(secret, op.Key)
	op.DownstreamKey = DownstreamKey(secret, op.Key, 0, in.Terms.KeyForm)
	return op, hold, nil
}

// aliases are the keys of an operation under the other live identity versions of its tool (S3.12).
func aliases(op Operation, formerly []Identity) ([]Key, error) {
	var keys []Key
	for _, id := range formerly {
		id.Revision = op.Revision
		key, err := id.Key()
		if err != nil {
			return nil, err
		}
		if key != op.Key && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// supersede makes op the successor of its predecessor (S3.7): revision one more, so that there is at most one.
func (g *Guard) supersede(ctx context.Context, op *Operation, in Intent, hold Hold) (Hold, error) {
	s := *in.Supersedes
	refuse := func(detail, remedy string) error {
		return &Error{Code: CodeSupersede, Key: s.Key, Field: "supersedes.key", Detail: detail, Remedy: remedy}
	}
	before, err := g.load(ctx, s.Key)
	if err != nil {
		return hold, err
	}
	if err := g.access(ctx, before); err != nil {
		return hold, err
	}
	if !slices.ContainsFunc(append(slices.Clone(in.Formerly), op.Identity()), before.Identity().sameIntent) {
		return hold, refuse("it is the operation of another intent", "supersede the operation of this tool and intent id")
	}
	op.Revision, op.Supersedes, op.SupersedeReason = before.Revision+1, before.Key, s.Reason
	if before.State == StatePending && s.Force {
		// Nothing was sent: it is cancelled, so that not both of them can run.
		before, err = g.apply(ctx, before, Cancelled{Actor: op.Actor, Reason: s.Reason}, before.AsOf)
		if err != nil && !errors.Is(err, ErrNotAllowed) {
			return hold, err
		}
	}
	switch {
	case before.State == StateFailed && before.Failure.Code != failureSuperseded:
		return hold, nil
	case before.State.Final(), s.Force:
		return HoldApproval, nil
	}
	return hold, refuse(fmt.Sprintf("it is %s, not resolved", before.State), "wait until it is, or force with a reason; a person then approves")
}

// matches compares a repeat with what is stored, under the policy version of the first claim (S3.11, S4.5).
func (g *Guard) matches(ctx context.Context, stored, again Operation, in Intent) error {
	if stored.Terms.Policy != again.Terms.Policy {
		if in.Under == nil {
			return &Error{Code: CodePolicyGone, Key: stored.Key, Detail: "it was first claimed under policy version " + stored.Terms.Policy}
		}
		business, err := in.Under(ctx, stored.Terms.Policy)
		if err != nil {
			return err
		}
		if again.Business, again.Fingerprint, err = canonical("arguments", business); err != nil {
			return err
		}
	}
	if stored.Fingerprint == again.Fingerprint {
		return nil
	}
	return &Error{
		Code: CodePayloadMismatch, Key: stored.Key, Field: "arguments", Fields: differing(stored.Business, again.Business),
		Detail: "this intent was recorded with other arguments; nothing was executed",
		Remedy: "repeat it with the recorded arguments, or supersede it with a reason",
	}
}

func (g *Guard) access(ctx context.Context, op Operation) error {
	if g.options.Access == nil {
		return nil
	}
	return g.options.Access(ctx, op)
}

func (g *Guard) installationSecret(ctx context.Context) ([]byte, error) {
	g.secretOnce.Lock()
	defer g.secretOnce.Unlock()
	if g.secret != nil {
		return g.secret, nil
	}
	dctx, cancel := g.detached(ctx)
	defer cancel()
	secret, err := g.store.Secret(dctx)
	if err == nil {
		g.secret = secret
	}
	return secret, err
}

// unsent marks a store error before anything was sent (S16.14).
func unsent(err error) error { return withSent(err, SentNo) }

func withSent(err error, sent Sent) error {
	e, ok := err.(*Error)
	if !ok || !storeFailed(err) {
		return err
	}
	c := *e
	c.Sent = sent
	return &c
}
