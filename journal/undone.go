package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/effectonce/effectonce"
)

// This file is how a run is closed for being undone (S11.3), so that no effect slips through beside the undoing. Both sides write first
// and read then: the undoing records that the run is undone, and lists its operations; a call records its operation, and reads whether
// the run is undone. Either the undoing sees the operation, or the call sees the undoing, and nothing is sent.

// StepUndone is the step that ends a run because it is undone: what was decided before it and has not started is not started any more.
const StepUndone = "effectonce.undone"

// FailureUndone is the failure code of an operation that was not carried out, because its run was undone.
const FailureUndone = string(effectonce.CodeRunFinished)

// mark is where it is recorded that the run is undone. It is not a step of the run, which may have ended before, and then takes none.
func (r *Run) mark() effectonce.Decision {
	name := sha256.Sum256([]byte(r.tenant + "\x00" + r.name))
	return effectonce.Decision{Tenant: effectonce.ReservedTenant, Run: "undone " + hex.EncodeToString(name[:]), Step: StepUndone, Finish: true}
}

// MarkUndone records that the run is undone, and ends it if it has not ended. List its operations after it, not before. Again is harmless.
func (r *Run) MarkUndone(ctx context.Context, reason, person string) error {
	m := r.mark()
	m.Note, m.Actor = reason, person
	m.Arguments = effectonce.Arguments(map[string]string{"tenant": r.tenant, "run": r.name})
	if err := m.Check(); err != nil {
		return err
	}
	if _, _, err := r.journal.store.Decide(ctx, m); err != nil {
		return err
	}
	_, err := r.Record(ctx, effectonce.Decision{Step: StepUndone, Finish: true, Note: reason, Actor: person})
	if errors.Is(err, effectonce.ErrRunFinished) {
		// It stays as it ended.
		return nil
	}
	return err
}

// undone returns when the run was marked; the zero time if it was not.
func (r *Run) undone(ctx context.Context) (time.Time, error) {
	m := r.mark()
	d, err := r.journal.store.Decision(ctx, m.Tenant, m.Run, m.Step)
	if errors.Is(err, effectonce.ErrNotFound) {
		return time.Time{}, nil
	}
	return d.At, err
}

// Stops reports whether an operation must not be carried out, because the run that recorded it is undone. One that may have been sent
// already, and that the undoing sees, is not stopped: it is settled, and undone then. Nor is a compensation.
func (r *Run) Stops(ctx context.Context, op effectonce.Operation) (bool, error) {
	if op.Run != r.name || op.Tenant != r.tenant || !op.Compensates.IsZero() || op.State.Final() {
		return false, nil
	}
	at, err := r.undone(ctx)
	return stops(op, at), err
}

func stops(op effectonce.Operation, undoneAt time.Time) bool {
	return !undoneAt.IsZero() && (!op.Exposed || op.CreatedAt.After(undoneAt))
}

// Provider is p for an operation that the run may have recorded: before each call it reads whether the run is undone. Then the operation
// fails with [FailureUndone], and nothing is sent.
func (r *Run) Provider(p effectonce.Provider) effectonce.Provider {
	return closable{Provider: p, run: r}
}

type closable struct {
	effectonce.Provider
	run *Run
}

// Call implements [effectonce.Provider].
func (c closable) Call(ctx context.Context, call effectonce.Call) effectonce.End {
	at, err := c.run.undone(ctx)
	if err == nil && at.IsZero() {
		return c.Provider.Call(ctx, call)
	}
	var o effectonce.Outcome
	if err == nil {
		// Rare: only now it matters which run recorded the operation.
		o, err = c.run.journal.guard.Wait(ctx, call.Key, 0)
	}
	switch op := o.Operation; {
	case err != nil:
		return effectonce.End{Verdict: effectonce.VerdictNotSent, Failure: effectonce.Failure{Code: "run_not_read", Message: "whether the run is undone could not be read: " + err.Error()}}
	case op.Run != c.run.name || op.Tenant != c.run.tenant || !op.Compensates.IsZero() || !stops(op, at):
		return c.Provider.Call(ctx, call)
	}
	// It speaks for earlier attempts too: each of them was stopped here.
	return effectonce.End{Verdict: effectonce.VerdictRejected, Authoritative: true, Failure: effectonce.Failure{Code: FailureUndone, Message: "the run was undone; nothing was sent"}}
}
