package effectonce

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"
)

// Provider is the port to whatever has the effect: an HTTP API by contract, an MCP tool, a function. Methods are safe for
// concurrent use.
type Provider interface {
	// Call delivers the operation once, and never sends a second time by itself. It classifies the end from evidence: anything
	// it cannot classify, and any error, is unknown; not_sent only where no byte can have left (S6). ctx ends at the call's
	// deadline; a provider that can, arms the deadline on its connection too.
	Call(ctx context.Context, call Call) End
	// LookUp asks what the operation did, without any effect (S7.1). It is called only if the terms say LookUp.
	LookUp(ctx context.Context, call Call) Finding
	// Scope is where requests go at present: base URL, API version, account. It is compared with what was frozen (S3.10).
	Scope() string
}

// Call is what a provider gets for one attempt or look-up. Free text is not in it (S5.1 I6).
type Call struct {
	Key    Key
	Tenant string
	Tool   string
	// Attempt is the attempt's number, 1 for the first, and Epoch the downstream key's.
	Attempt int
	Epoch   int
	// DownstreamKey goes to the provider as its idempotency key, Stamp onto what is created.
	DownstreamKey string
	Stamp         string
	// Arguments are the canonical business arguments; Request the frozen request.
	Arguments json.RawMessage
	Request   []byte
	// Reference is what the provider called the effect, where that is known already.
	Reference string
	// Resend says that an earlier attempt may have reached the provider (S6.3: what an error means depends on it).
	Resend bool
	// FirstSent is when the first attempt of this epoch started that may have reached the provider, by the store's clock: the same on every
	// resend, for providers that want it along with the key. It is zero where nothing was stored.
	FirstSent time.Time
	// SendWithin is the time left for sending, when the call is made.
	SendWithin time.Duration
}

// Decode unmarshals the business arguments into v.
func (c Call) Decode(v any) error { return json.Unmarshal(c.Arguments, v) }

func (op Operation) call(within time.Duration) Call {
	return Call{
		Key: op.Key, Tenant: op.Tenant, Tool: op.Tool, Attempt: op.Attempt, Epoch: op.Epoch,
		DownstreamKey: op.DownstreamKey, Stamp: op.Stamp, Arguments: op.Business, Request: op.Request,
		Reference: op.Reference, Resend: op.Exposed, FirstSent: op.FirstSent(), SendWithin: within,
	}
}

// Func makes a provider of a function that has the effect. Its result is stored as JSON. An error means that the outcome is
// unknown, unless it is wrapped by [Rejected] or [NotSent].
func Func[R any](call func(ctx context.Context, call Call) (R, error)) Function {
	return Function{call: func(ctx context.Context, c Call) End {
		r, err := call(ctx, c)
		return endOf(r, err)
	}}
}

// Function is a [Provider] made of plain functions.
type Function struct {
	call   func(context.Context, Call) End
	lookUp func(context.Context, Call) Finding
}

// WithLookUp adds the look-up: it returns the result of the effect that bears the call's stamp or downstream key, and whether
// there is one. An error means that the look-up is unavailable, never that the effect is absent.
func (f Function) WithLookUp(lookUp func(ctx context.Context, call Call) (result any, found bool, err error)) Function {
	f.lookUp = func(ctx context.Context, c Call) Finding {
		r, found, err := lookUp(ctx, c)
		switch {
		case err != nil:
			return Finding{Found: FoundUnavailable, Detail: err.Error()}
		case !found:
			return Finding{Found: FoundAbsent}
		}
		end := endOf(r, nil)
		return Finding{Found: FoundOne, Result: end.Result, Reference: end.Reference, Omitted: end.Omitted, Digest: end.Digest}
	}
	return f
}

// Call implements [Provider]. A panic of the function is an unknown end.
func (f Function) Call(ctx context.Context, call Call) (end End) {
	defer func() {
		if p := recover(); p != nil {
			end = End{Verdict: VerdictUnknown, Failure: Failure{Code: "panic", Message: "the provider function panicked"}}
		}
	}()
	return f.call(ctx, call)
}

// LookUp implements [Provider].
func (f Function) LookUp(ctx context.Context, call Call) (finding Finding) {
	if f.lookUp == nil {
		return Finding{Found: FoundUnavailable, Detail: "there is no look-up"}
	}
	defer func() {
		if p := recover(); p != nil {
			finding = Finding{Found: FoundUnavailable, Detail: "the look-up function panicked"}
		}
	}()
	return f.lookUp(ctx, call)
}

// Scope implements [Provider]: a function is always in the same scope.
func (Function) Scope() string { return "" }

// Referrer is a result that knows the provider's id of what was created; it is stored as the operation's reference.
type Referrer interface{ EffectReference() string }

// Rejected marks an error as the provider's definitive refusal: certainly no effect (S6.1). authoritative says that the provider
// answered from its record of the key (S6.4).
func Rejected(err error, authoritative bool) error {
	return &verdictError{verdict: VerdictRejected, authoritative: authoritative, err: err}
}

// NotSent marks an error after which certainly nothing was sent (S6.2).
func NotSent(err error) error { return &verdictError{verdict: VerdictNotSent, err: err} }

// Throttled marks an error by which the provider says that it did not execute; retryAfter may be 0.
func Throttled(err error, retryAfter time.Duration) error {
	return &verdictError{verdict: VerdictThrottled, err: err, retryAfter: retryAfter}
}

// InFlight marks an error by which the provider says that it still works on this key; retryAfter may be 0.
func InFlight(err error, retryAfter time.Duration) error {
	return &verdictError{verdict: VerdictInFlight, err: err, retryAfter: retryAfter}
}

type verdictError struct {
	verdict       Verdict
	authoritative bool
	retryAfter    time.Duration
	err           error
}

func (e *verdictError) Error() string {
	if e.err == nil {
		return string(e.verdict)
	}
	return e.err.Error()
}
func (e *verdictError) Unwrap() error { return e.err }

func endOf(result any, err error) End {
	if err != nil {
		end := End{Verdict: VerdictUnknown, Failure: Failure{Code: string(VerdictUnknown), Message: err.Error()}}
		var v *verdictError
		if errors.As(err, &v) {
			end.Verdict, end.Authoritative, end.RetryAfter = v.verdict, v.authoritative, v.retryAfter
			end.Failure.Code = string(v.verdict)
		}
		return end
	}
	end := End{Verdict: VerdictSucceeded}
	if r, ok := result.(Referrer); ok {
		end.Reference = r.EffectReference()
	}
	b, err := json.Marshal(result)
	if err != nil {
		// The effect happened; only its result cannot be kept (S6.8).
		end.Omitted = "not_encodable"
		return end
	}
	end.Result = b
	return end
}

// bounded keeps a result within ResultBytesMax; a larger one leaves its digest (S6.8).
func (e End) bounded() End {
	if e.Result != nil {
		e.Digest = sha256.Sum256(e.Result)
		if len(e.Result) > ResultBytesMax {
			e.Result, e.Omitted = nil, "too_large"
		}
	}
	if len(e.Failure.Answer) > FailureBytesMax {
		e.Failure.Answer = ""
	}
	return e
}
