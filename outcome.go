package effectonce

import (
	"encoding/json"
	"time"
)

// Advice is what an agent should do next, so that a model does not have to guess from prose (S7.10).
type Advice string

// The advice.
const (
	AdviceUseResult Advice = "use_result"
	AdviceWait      Advice = "wait"
	AdviceRetry     Advice = "retry_after"
	AdviceStop      Advice = "stop_and_report"
	AdviceNewIntent Advice = "new_intent" // only after failed
)

// Status is an operation's outcome as callers are told.
type Status string

// The outcomes.
const (
	OutcomeSucceeded        Status = "succeeded"
	OutcomeFailed           Status = "failed"
	OutcomeAbandoned        Status = "abandoned"
	OutcomePending          Status = "pending"
	OutcomeInProgress       Status = "in_progress"
	OutcomeUnknown          Status = "unknown"
	OutcomeInReview         Status = "in_review"
	OutcomeAwaitingApproval Status = "awaiting_approval"
	OutcomeHeld             Status = "held"
)

// Outcome is what a caller is told about an operation.
type Outcome struct {
	Operation Operation
	Outcome   Status
	Next      Advice
	// Replayed says that this answer was recorded before this request came: nothing was executed for it.
	Replayed bool
	// RetryAfter is how long to wait before asking again, 0 where the state is final or waits for a person.
	RetryAfter time.Duration
}

// OutcomeOf says what a caller is told about op.
func OutcomeOf(op Operation, replayed bool) Outcome {
	o := Outcome{Operation: op, Replayed: replayed}
	switch op.State {
	case StateSucceeded:
		o.Outcome, o.Next = OutcomeSucceeded, AdviceUseResult
		if op.gone() {
			o.Next = AdviceStop
		}
	case StateFailed:
		o.Outcome, o.Next = OutcomeFailed, AdviceNewIntent
	case StateAbandoned:
		o.Outcome, o.Next = OutcomeAbandoned, AdviceStop
	case StateReview:
		o.Outcome, o.Next = OutcomeInReview, AdviceStop
	case StateInProgress:
		o.Outcome, o.Next = OutcomeInProgress, AdviceRetry
	case StateUnknown:
		o.Outcome, o.Next = OutcomeUnknown, AdviceWait
	case StatePending:
		o.Outcome, o.Next = OutcomePending, AdviceWait
		switch op.Hold {
		case HoldApproval:
			o.Outcome, o.Next = OutcomeAwaitingApproval, AdviceStop
		case HoldTwin, HoldDuplicate:
			o.Outcome, o.Next = OutcomeHeld, AdviceStop
		}
	}
	if (o.Next == AdviceRetry || o.Next == AdviceWait) && !op.DueAt.IsZero() {
		o.RetryAfter = retryAfter(op.nextStep().Sub(op.AsOf))
	}
	return o
}

// retryAfter keeps a pause between a tenth of a second and half a minute, whatever the clocks say: whoever asks again early
// only learns the state.
func retryAfter(d time.Duration) time.Duration {
	return min(max(d, 100*time.Millisecond), 30*time.Second)
}

// Err returns nil if the operation succeeded, else an *[Error] that says how it stands: [ErrFailed], [ErrAbandoned],
// [ErrUnknownOutcome], [ErrInReview], [ErrHeld], [ErrPending] or [ErrConflict]; [ErrExpired] if it succeeded and neither a result
// nor a reference is left (S13.1).
func (o Outcome) Err() error {
	op := o.Operation
	e := &Error{Key: op.Key, Detail: op.Reason, RetryAfter: o.RetryAfter}
	switch o.Outcome {
	case OutcomeSucceeded:
		if !op.gone() {
			return nil
		}
		e.Code, e.Detail, e.Remedy = CodeExpired, "it took effect, and its result was purged", "do not repeat it; the provider's records say what it did"
	case OutcomeFailed:
		e.Code = CodeFailed
		if f := op.Failure; f != nil {
			e.Detail = f.Code
			if f.Message != "" {
				e.Detail += ": " + f.Message
			}
		}
	case OutcomeAbandoned:
		e.Code = CodeAbandoned
	case OutcomeInReview:
		e.Code = CodeInReview
	case OutcomeUnknown:
		e.Code = CodeUnknownOutcome
	case OutcomeInProgress:
		e.Code, e.Detail = CodeConflict, "somebody else is executing it"
	case OutcomePending:
		e.Code = CodePending
	default:
		e.Code = CodeHeld
	}
	return e
}

// Decode unmarshals the recorded result into v.
func (o Outcome) Decode(v any) error {
	if len(o.Operation.Result) == 0 {
		return &Error{Code: CodeExpired, Key: o.Operation.Key, Detail: "there is no recorded result", Remedy: "use the reference"}
	}
	return json.Unmarshal(o.Operation.Result, v)
}
