package journal

import (
	"errors"
	"time"

	"github.com/effectonce/effectonce"
)

// Do is what whoever works on a step does now. It is machine-readable for the same reason as [effectonce.Advice] (S7.10).
type Do string

// What to do.
const (
	// DoDecide: nothing is recorded. Ask the model, and record what it says. In a run with decisions nothing has started either; in
	// one without, calls are not seen that were made without a decision.
	DoDecide Do = "decide"
	// DoExecute: the recorded decision has to be carried out, or taken up again: submit or claim its call, as it is recorded, with
	// its run and step. That is harmless however often it is done.
	DoExecute Do = "execute"
	// DoWait: it is under way. Ask again after RetryAfter.
	DoWait Do = "wait"
	// DoUseResult: the operation succeeded; go on with its result. For a step without an effect the result is the decision's
	// arguments.
	DoUseResult Do = "use_result"
	// DoNewStep: the operation failed and had no effect. The step stays as it is; the model may decide a new one.
	DoNewStep Do = "new_step"
	// DoStop: a person has to decide, or decided to stop, or nothing is left of the result. Report it.
	DoStop Do = "stop"
	// DoFinished: the run ends with this step, or has ended without it.
	DoFinished Do = "finished"
)

// Entry is a step as the journal and the store have it.
type Entry struct {
	Run  string
	Step string
	// Decided says that Decision is recorded. An operation can exist without one, where the caller kept no journal (S10.2).
	Decided  bool
	Decision effectonce.Decision
	// First says that this call recorded the decision.
	First bool
	Do    Do
	// Operation is what became of the call; its State is empty where there is none.
	Operation effectonce.Outcome
	// RetryAfter is how long to wait, for DoWait.
	RetryAfter time.Duration
}

// Started reports whether there is an operation.
func (e Entry) Started() bool { return e.Operation.Operation.State != "" }

// foreign reports whether another run or step recorded the operation that the decided call is.
func (e Entry) foreign() bool {
	op := e.Operation.Operation
	return op.Run != e.Run || op.Step != e.Step
}

// judge fills in what to do. finished says that the run has ended.
func (e Entry) judge(finished bool) Entry {
	switch {
	case e.Started() && e.foreign():
		// Only the guard can say whether it is the same call: it is asked with the call (S4.5).
		e.Do = DoExecute
	case e.Started():
		e.Do = doOf(e.Operation)
		if e.Do == DoWait {
			e.RetryAfter = max(e.Operation.RetryAfter, 100*time.Millisecond)
		}
	case !e.Decided && finished:
		e.Do = DoFinished
	case !e.Decided:
		e.Do = DoDecide
	case e.Decision.Tool != "":
		e.Do = DoExecute
	case e.Decision.Finish:
		e.Do = DoFinished
	default:
		e.Do = DoUseResult
	}
	if e.Do == DoUseResult && e.Decision.Finish {
		e.Do = DoFinished
	}
	return e
}

func doOf(o effectonce.Outcome) Do {
	op := o.Operation
	switch {
	case op.State == effectonce.StateSucceeded && errors.Is(o.Err(), effectonce.ErrExpired):
		return DoStop
	case op.State == effectonce.StateSucceeded:
		return DoUseResult
	case op.State == effectonce.StateFailed:
		return DoNewStep
	case op.State == effectonce.StateAbandoned, op.State == effectonce.StateReview, op.Hold != effectonce.HoldNone:
		return DoStop
	case !op.Terms.Managed && takeable(op):
		// Nobody but the caller can go on with it; a worker only waits for them (S3.10).
		return DoExecute
	}
	return DoWait
}

// takeable reports whether a caller who has the effect can claim the operation now.
func takeable(op effectonce.Operation) bool {
	if op.State == effectonce.StateInProgress {
		return op.LeaseOver(op.AsOf)
	}
	next := op.DueAt
	if op.Parked {
		next = op.RetryAt
	}
	return !op.AsOf.Before(next)
}
