package effectonce

import (
	"errors"
	"fmt"
	"time"
)

// Code names a kind of error. Codes are stable strings, the same in the library, the API's problem
// documents, the CLI's JSON and logs.
type Code string

// Error is the one error type of the project: a code that a program decides on, and what a person needs.
// Errors compare by code with errors.Is. It never holds a secret.
type Error struct {
	Code Code
	// Key is the operation concerned, zero where there is none.
	Key Key
	// Field names the input at fault, as a path a user can find ("arguments.amount"), if there is one.
	Field string
	// Fields are the business arguments that differ (payload_mismatch, S4.5).
	Fields []string
	// Limit is the limit that would be exceeded, HeldBy some of the operations that hold it (S8.3).
	Limit  string
	HeldBy []Key
	// Detail says what happened, Remedy what to do about it. Both are for people.
	Detail, Remedy string
	// RetryAfter is how long to wait before asking again, 0 where that would not help.
	RetryAfter time.Duration
	// Sent says, where the store failed, whether a request can have left: SentNo or SentUnknown.
	Sent Sent
	// Cause is the underlying error; it is wrapped, not shown to clients.
	Cause error
}

// Sent answers, when the store failed, whether the provider can have been called (S16.14).
type Sent string

// The answers to "can the request have left?".
const (
	SentNo      Sent = "no"
	SentUnknown Sent = "unknown"
)

// Error implements error.
func (e *Error) Error() string {
	s := string(e.Code)
	if e.Field != "" {
		s += ": " + e.Field
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Remedy != "" {
		s += " (" + e.Remedy + ")"
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an Error of the same code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the first Error in err's chain, or [CodeInternal] for any other error.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// The codes. See [Registry] for status, help and what an agent should do next.
const (
	CodeInvalid          Code = "invalid"
	CodeNotCanonical     Code = "not_canonical"
	CodeIntentIncomplete Code = "intent_incomplete"
	CodeUnknownTool      Code = "unknown_tool"
	CodeTooLarge         Code = "too_large"
	CodeNotFound         Code = "not_found"
	CodeForbidden        Code = "forbidden"
	CodePayloadMismatch  Code = "payload_mismatch"
	CodePolicyGone       Code = "policy_gone"
	CodeConflict         Code = "conflict"
	CodeStaleToken       Code = "stale_token"
	CodeStaleVersion     Code = "stale_version"
	CodeNotAllowed       Code = "not_allowed"
	CodeTwinRejected     Code = "twin_rejected"
	CodeSupersede        Code = "supersede_refused"
	CodeExpired          Code = "expired"
	CodeLimitExceeded    Code = "limit_exceeded"
	CodeRunFinished      Code = "run_finished"
	CodeFailed           Code = "failed"
	CodeAbandoned        Code = "abandoned"
	CodeUnknownOutcome   Code = "unknown"
	CodePending          Code = "pending"
	CodeInReview         Code = "in_review"
	CodeHeld             Code = "held"
	CodeShuttingDown     Code = "shutting_down"
	CodeStoreUnavailable Code = "store_unavailable"
	CodeStoreBroken      Code = "store_broken"
	CodeClockStepped     Code = "clock_stepped_back"
	CodeInternal         Code = "internal"
)

// Sentinels for errors.Is. They compare by code.
var (
	ErrInvalid          = &Error{Code: CodeInvalid}
	ErrNotCanonical     = &Error{Code: CodeNotCanonical}
	ErrIntentIncomplete = &Error{Code: CodeIntentIncomplete}
	ErrNotFound         = &Error{Code: CodeNotFound}
	ErrForbidden        = &Error{Code: CodeForbidden}
	ErrPayloadMismatch  = &Error{Code: CodePayloadMismatch}
	ErrConflict         = &Error{Code: CodeConflict}
	ErrStaleToken       = &Error{Code: CodeStaleToken}
	ErrStaleVersion     = &Error{Code: CodeStaleVersion}
	ErrNotAllowed       = &Error{Code: CodeNotAllowed}
	ErrTwinRejected     = &Error{Code: CodeTwinRejected}
	ErrSupersede        = &Error{Code: CodeSupersede}
	ErrExpired          = &Error{Code: CodeExpired}
	ErrLimitExceeded    = &Error{Code: CodeLimitExceeded}
	ErrRunFinished      = &Error{Code: CodeRunFinished}
	ErrFailed           = &Error{Code: CodeFailed}
	ErrAbandoned        = &Error{Code: CodeAbandoned}
	ErrUnknownOutcome   = &Error{Code: CodeUnknownOutcome}
	ErrPending          = &Error{Code: CodePending}
	ErrInReview         = &Error{Code: CodeInReview}
	ErrHeld             = &Error{Code: CodeHeld}
	ErrShuttingDown     = &Error{Code: CodeShuttingDown}
	ErrStoreUnavailable = &Error{Code: CodeStoreUnavailable}
	ErrStoreBroken      = &Error{Code: CodeStoreBroken}
	ErrClockStepped     = &Error{Code: CodeClockStepped}
)

// ErrorKind is one line of the error registry: what a code means to each surface.
type ErrorKind struct {
	Code Code
	// Status is the HTTP status of the problem document.
	Status int
	// Next is what an agent should do (S7.10).
	Next Advice
	// Exit is the CLI's exit code.
	Exit int
	// Title is one line; Help says what happened and what to do.
	Title, Help string
}

// Registry lists every code once: it feeds the API, the CLI's exit codes and docs/errors.md.
var Registry = []ErrorKind{
	{CodeInvalid, 400, AdviceStop, 2, "The input is not valid", "A field is missing or has a value that is not allowed. Nothing was stored and nothing ran. Correct the named field."},
	{CodeNotCanonical, 400, AdviceStop, 2, "The arguments have no canonical form", "Duplicate names, lone surrogates, numbers a double cannot carry, or nesting or size over the limits. Nothing was stored and nothing ran."},
	{CodeIntentIncomplete, 400, AdviceStop, 2, "The intent id cannot be built", "A component of the policy's intent_id template is missing or empty. Give the named argument."},
	{CodeUnknownTool, 404, AdviceStop, 2, "No policy for this tool", "Managed execution needs a policy that says how to call the provider. Add the tool to the configuration, or use claims."},
	{CodeTooLarge, 413, AdviceStop, 2, "The input is too large", "The body is over the limit. Nothing was stored and nothing ran."},
	{CodeNotFound, 404, AdviceStop, 4, "There is no such operation", "No operation has this key."},
	{CodeForbidden, 403, AdviceStop, 4, "Not allowed", "The caller may not see or do this."},
	{CodePayloadMismatch, 422, AdviceStop, 3, "Same intent, other arguments", "The key is in use with other business arguments; nothing was executed. If minds really changed, record a successor with a reason (supersedes)."},
	{CodePolicyGone, 409, AdviceStop, 3, "The policy of the first claim is not known here", "A repeat is compared under the policy version of the first claim, and this installation does not have it."},
	{CodeConflict, 409, AdviceRetry, 5, "The operation is being executed", "Somebody else holds the lease. Ask again after retry_after, or wait for the outcome; do not execute."},
	{CodeStaleToken, 409, AdviceStop, 5, "The fencing token is stale", "Somebody took the operation over. Discard your own result; the answer shows the operation as it stands. A success is kept as evidence."},
	{CodeStaleVersion, 409, AdviceStop, 5, "The operation changed meanwhile", "The version you saw is not the current one. Read the operation again and decide again."},
	{CodeNotAllowed, 409, AdviceStop, 5, "Not possible in this state", "The operation's state does not allow this."},
	{CodeTwinRejected, 409, AdviceStop, 3, "A possible repeat was rejected", "A recent operation of this tool has the same business content under another intent, and the policy rejects twins."},
	{CodeSupersede, 409, AdviceStop, 3, "The operation cannot be superseded like this", "After failed anybody may supersede; after another final state a person approves; while it is unresolved only by force."},
	{CodeExpired, 410, AdviceStop, 3, "No longer kept", "The operation took effect and its result was purged, or the period of the intent is over. Nothing executes."},
	{CodeLimitExceeded, 429, AdviceStop, 3, "A limit is reached", "The operation would take more than is left of a limit. Nothing was stored and nothing ran. held_by names operations that hold it; unresolved ones may give it back."},
	{CodeRunFinished, 409, AdviceStop, 3, "The run is finished", "A step of the run was recorded as its last one; no further step is recorded."},
	{CodeFailed, 200, AdviceNewIntent, 6, "The operation failed", "The provider refused it and no attempt had an effect."},
	{CodeAbandoned, 200, AdviceStop, 6, "A person abandoned the operation", "Whether it had an effect is not known; it stays as it is."},
	{CodeUnknownOutcome, 202, AdviceWait, 7, "The outcome is not known yet", "An attempt ended ambiguously. It is reconciled before anything is sent again. Wait; do not repeat it in another form."},
	{CodePending, 202, AdviceWait, 7, "The operation is recorded and not executed yet", "It waits for its turn. Wait, or ask again."},
	{CodeInReview, 202, AdviceStop, 7, "A person has to decide", "Nobody but a person can say what happened. Report it; do not repeat it."},
	{CodeHeld, 202, AdviceStop, 7, "The operation is held", "It waits for a person's release: approval, a possible repeat (twin), or a resource with a duplicate alarm."},
	{CodeShuttingDown, 503, AdviceRetry, 8, "The server is shutting down", "No new operations are taken. Nothing was sent. Ask again."},
	{CodeStoreUnavailable, 503, AdviceRetry, 8, "The store is not available", "sent says whether a request can have left: no, or unknown. Ask again with the same intent; it is reconciled first."},
	{CodeStoreBroken, 500, AdviceStop, 8, "The store cannot be used", "The file is read-only, full, corrupt or written by a newer version. The detail says which."},
	{CodeClockStepped, 503, AdviceRetry, 8, "The clock stepped back", "The store's clock is behind a time it has already recorded. Nothing is decided until it has caught up. Correct the clock."},
	{CodeInternal, 500, AdviceStop, 1, "An unexpected error", "This is a defect. The log has the details."},
}

// KindOf returns the registry line of a code; an unknown code is [CodeInternal]'s.
func KindOf(c Code) ErrorKind {
	for _, k := range Registry {
		if k.Code == c {
			return k
		}
	}
	return Registry[len(Registry)-1]
}

func invalid(field, detail, remedy string) *Error {
	return &Error{Code: CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}

func notAllowed(op Operation, what string) *Error {
	return &Error{Code: CodeNotAllowed, Key: op.Key, Detail: fmt.Sprintf("%s is not possible while the operation is %s", what, op.State)}
}
