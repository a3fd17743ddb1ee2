package api

import (
	"context"
	"errors"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/journal"
)

// This file is what a call does about a run that is undone while the call is on its way (S11.3): it is recorded first, and the run is
// read after that. Whoever undoes does it the other way round, so that one of them sees the other.

// runUndone refuses a call of a run that was undone.
func runUndone(run string) error { return effectonce.RunFinished(run, journal.StepUndone) }

// stoppedReason is why an operation of such a run failed.
const stoppedReason = "the run was undone; nothing was sent"

// closed refuses the outcome of a call of run that its undoing has stopped, and cancels what the call has only recorded.
func (s *server) closed(ctx context.Context, run string, o effectonce.Outcome) error {
	op := o.Operation
	if run == "" || op.Run != run || op.State == "" || !op.Compensates.IsZero() {
		return nil
	}
	if f := op.Failure; op.State == effectonce.StateFailed && f != nil && (f.Code == journal.FailureUndone || f.Message == stoppedReason) {
		return runUndone(run)
	}
	if op.State.Final() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTimeout)
	defer cancel()
	stops, err := s.run(run).Stops(ctx, op)
	if err != nil || !stops {
		return err
	}
	if op.State == effectonce.StatePending {
		_, err = s.guard.Resolve(ctx, op.Key, effectonce.Resolved{Resolution: effectonce.ResolveRejected, Person: "effectonce", Reason: stoppedReason, Version: op.Version})
		if err != nil && !errors.Is(err, effectonce.ErrStaleVersion) && !errors.Is(err, effectonce.ErrNotAllowed) {
			return err
		}
		// Whoever took it up meanwhile reads the run as well, before anything is sent.
	}
	return runUndone(run)
}

// given refuses a claim that must not be carried out, because its run is undone: it is ended before its holder knows of it.
func (s *server) given(ctx context.Context, run string, claim effectonce.Claim) error {
	if claim.Do == effectonce.TaskExecute && run != "" {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalTimeout)
		defer cancel()
		stops, err := s.run(run).Stops(rctx, claim.Operation)
		if err != nil {
			return err
		}
		if !stops {
			return nil
		}
		// It speaks for earlier attempts too: none of them was given to anybody.
		end := effectonce.End{Verdict: effectonce.VerdictRejected, Authoritative: true, Failure: effectonce.Failure{Code: journal.FailureUndone, Message: stoppedReason}}
		if _, err := s.guard.Settle(rctx, claim.Operation.Key, claim.Token, end); err != nil {
			return err
		}
		return runUndone(run)
	}
	if claim.Token != 0 {
		// To be looked up first: it may have been sent, and is settled before it is undone.
		return nil
	}
	return s.closed(ctx, run, claim.Outcome)
}
