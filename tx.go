package effectonce

import (
	"context"
	"errors"
)

// This file is S8.1 and S9.3: effects and intents inside a transaction of the caller's own, on the store's database.

// Tx is a transaction of the caller's, as a driver wraps it. What is done through it becomes real with the caller's commit and
// leaves nothing with a rollback. It is for one goroutine. Errors are those of [Store]; after any but a refusal named here the caller
// has to roll back.
type Tx interface {
	// Create is [Store.Create] in the transaction. A concurrent transaction that records the same key is waited for, bounded by
	// the caller's statement timeout and ctx.
	Create(ctx context.Context, t Transition) (op Operation, created bool, err error)
	// Apply is [Store.Apply] in the transaction.
	Apply(ctx context.Context, t Transition) (Operation, error)
	// Append is [Outbox.Append] in the transaction. It locks the subjects until its end, so that their order is that of commits.
	Append(ctx context.Context, messages ...Message) error
	// Savepoint calls f. If f returns an error, what was done in the transaction since is undone, and the error returned.
	Savepoint(ctx context.Context, f func() error) error
}

// DoTx makes an effect that is wholly inside the store's database, within the caller's transaction: the operation's record, what
// effect changes through the same transaction, and its result become real together, or nothing does (S8.1). The result is stored
// as JSON.
//
// Where the intent is recorded already, effect is not called, and the outcome is the recorded one: preconditions count once, on
// first execution (S8.2). A concurrent duplicate waits for the first transaction's end and then gets its outcome.
//
// An error of effect undoes what this call did and is returned as it is. Wrapped by [Rejected] it is a decision to be kept ("not
// enough left"): what effect changed is undone, the operation is recorded as failed, and the error is [ErrFailed], now and for every
// repeat once the caller commits. Other errors are those of [Guard.Do]; nothing was done then.
func (g *Guard) DoTx(ctx context.Context, tx Tx, in Intent, effect func(ctx context.Context) (result any, err error)) (Outcome, error) {
	if tx == nil || effect == nil {
		return Outcome{}, invalid("tx", "or the effect is missing", "give the transaction, and the function that makes the effect in it")
	}
	done, err := g.running.begin()
	if err != nil {
		return Outcome{}, err
	}
	defer done()
	if in.Terms.Class == ClassReadOnly {
		return Outcome{}, invalid("terms.class", "read_only has no effect to record", "read through the transaction without the guard")
	}
	in.Terms.Managed = false
	var op Operation
	replayed := false
	err = tx.Savepoint(ctx, func() error {
		var created bool
		if op, created, err = g.recordTx(ctx, tx, in, true); err != nil {
			return err
		}
		if !created && op.State == StatePending && op.Hold == HoldNone && g.due(op) {
			op, err = persistTx(ctx, tx, op, Claimed{Owner: g.options.Owner, Actor: in.Actor})
			created = err == nil
		}
		if err != nil || !created || op.State != StateInProgress {
			replayed = !created && op.State.Final()
			return err
		}
		end, err := local(ctx, tx, effect)
		if err != nil {
			return err
		}
		op, err = persistTx(ctx, tx, op, AttemptEnded{Token: op.Token, End: end})
		return err
	})
	if err != nil {
		return Outcome{}, err
	}
	outcome := OutcomeOf(op, replayed)
	return outcome, outcome.Err()
}

// RecordTx stores an intent with the caller's transaction, to be executed after its commit by a worker, or by whoever claims it
// (S9.3).
func (g *Guard) RecordTx(ctx context.Context, tx Tx, in Intent) (Outcome, error) {
	op, created, err := g.recordTx(ctx, tx, in, false)
	return OutcomeOf(op, !created), err
}

// local calls an effect inside the transaction. An error that is not a refusal ends the whole.
func local(ctx context.Context, tx Tx, effect func(ctx context.Context) (any, error)) (End, error) {
	var end End
	var refusal error
	err := tx.Savepoint(ctx, func() error {
		result, err := effect(ctx)
		end = endOf(result, err).bounded()
		if end.Verdict == VerdictRejected {
			refusal = err
		}
		return err
	})
	// Any other error than the refusal itself says that what the effect changed may still be there.
	if err == nil || err == refusal {
		return end, nil
	}
	return End{}, err
}

func (g *Guard) recordTx(ctx context.Context, tx Tx, in Intent, claim bool) (Operation, bool, error) {
	if in.Supersedes != nil && in.Supersedes.Force {
		return Operation{}, false, invalid("supersedes.force", "is not possible inside a transaction, which may be rolled back", "supersede by force outside it")
	}
	return g.recordBy(ctx, tx, in, Recorded{Claim: claim})
}

func persistTx(ctx context.Context, tx Tx, op Operation, cause Cause) (Operation, error) {
	t, err := Next(op, cause, op.AsOf)
	if err != nil {
		return op, err
	}
	next, err := tx.Apply(ctx, t)
	if errors.Is(err, ErrStaleVersion) {
		return op, &Error{Code: CodeConflict, Key: op.Key, Detail: "somebody else is executing it", Cause: err}
	}
	return next, err
}
