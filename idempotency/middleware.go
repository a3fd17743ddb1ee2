package idempotency

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/effectonce/effectonce"
)

// HeaderReplayed marks an answer that was recorded before its request came: nothing ran for it.
const HeaderReplayed = "Idempotency-Replayed"

// HeaderNext says with a replay what an agent should do (S7.10); problems say it in their body.
const HeaderNext = "Effectonce-Next"

// Wrap guards a handler.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values(HeaderKey)
		if !slices.Contains(m.options.Methods, r.Method) || len(values) == 0 && m.options.Optional {
			next.ServeHTTP(w, r)
			return
		}
		x := &exchange{m: m, next: next, w: w, r: r, room: room{slots: m.slots}}
		defer x.room.release()
		if p, ok := x.read(values); !ok {
			m.refuse(w, p)
			return
		}
		if m.options.Begin != nil {
			x.inTurn()
			return
		}
		if m.options.Access != nil {
			if _, _, err := x.known(); err != nil {
				x.tell(effectonce.Outcome{}, err)
				return
			}
		}
		x.plain()
	})
}

// read makes the intent of the request. ok is false with the problem that it has; nothing is stored then.
func (x *exchange) read(values []string) (p Problem, ok bool) {
	o := x.m.options
	switch len(values) {
	case 0:
		return own(CodeKeyMissing, "This operation is idempotent and it requires correct usage of Idempotency Key."), false
	case 1:
	default:
		return own(CodeKeyMalformed, "there is more than one Idempotency-Key header"), false
	}
	var err error
	if x.key, err = ParseKey(values[0], o.KeyBytesMax); err != nil {
		code := CodeKeyMalformed
		if errors.Is(err, errTooLong) {
			code = CodeKeyTooLong
		}
		return own(code, err.Error()), false
	}
	tenant := effectonce.DefaultTenant
	if o.Tenant != nil {
		if tenant = o.Tenant(x.r); tenant == "" {
			p, _ = problemOf(effectonce.Outcome{}, effectonce.ErrForbidden)
			p.Detail = "whose request this is is not known"
			return p, false
		}
	}
	if x.body, err = readBody(x.r, o.RequestBytesMax, &x.room); err != nil {
		return bodyProblem(err), false
	}
	if x.id, err = (effectonce.Identity{Tenant: tenant, Tool: x.tool(), Scope: effectonce.ScopeBusiness, IntentID: x.key}).Key(); err != nil {
		p, _ = problemOf(effectonce.Outcome{}, &effectonce.Error{Code: effectonce.CodeInternal, Cause: err})
		return p, false
	}
	x.intent = effectonce.Intent{Tenant: tenant, Tool: x.tool(), ID: x.key, Business: business(x.r, x.body, o.Headers), Terms: o.Terms}
	if o.Actor != nil {
		x.intent.Actor = o.Actor(x.r)
	}
	return Problem{}, true
}

func bodyProblem(err error) Problem {
	var over *http.MaxBytesError
	switch {
	case errors.Is(err, errTooLarge), errors.As(err, &over):
		p, _ := problemOf(effectonce.Outcome{}, &effectonce.Error{Code: effectonce.CodeTooLarge})
		return p
	case errors.Is(err, errBusy):
		return own(CodeBusy, "there is no room for another large body; nothing ran")
	}
	return own(CodeBodyCut, "the body ended early or could not be read; nothing ran")
}

// tool names the operation's tool. A key that is used on two routes is two operations only if the routes are known by name.
func (x *exchange) tool() string {
	switch pattern := x.r.Pattern; {
	case x.m.options.Name != "":
		return x.m.options.Name
	case pattern == "":
		return "http"
	case strings.HasPrefix(pattern, x.r.Method+" "):
		return pattern
	default:
		return x.r.Method + " " + pattern
	}
}

// known returns the operation that is there already, if there is one, after the hook was asked about it: before anything is compared
// (S5.12).
func (x *exchange) known() (outcome effectonce.Outcome, found bool, err error) {
	outcome, err = x.m.guard.Wait(x.r.Context(), x.id, 0)
	if errors.Is(err, effectonce.ErrNotFound) {
		return outcome, false, nil
	}
	if err == nil {
		err = x.mayTell(outcome.Operation)
	}
	return outcome, err == nil, err
}

func (x *exchange) mayTell(op effectonce.Operation) error {
	if x.m.options.Access == nil {
		return nil
	}
	if err := x.m.options.Access(x.r, op); err != nil {
		return &effectonce.Error{Code: effectonce.CodeForbidden, Key: op.Key, Cause: err}
	}
	return nil
}

// tell answers with what is on record, or with why nothing is.
func (x *exchange) tell(outcome effectonce.Outcome, err error) {
	if x.m.options.Access != nil && !x.ran() {
		// Another request may have recorded it since it was asked.
		if denied := x.accessTo(outcome, err); denied != nil {
			outcome, err = effectonce.Outcome{}, denied
		}
	}
	if err == nil {
		err = x.replay(outcome.Operation)
	}
	if err == nil {
		return
	}
	p, ok := problemOf(outcome, err)
	if !ok {
		x.m.options.Logger.Error("a request could not be guarded", "tool", x.intent.Tool, "error", err)
	}
	x.m.refuse(x.w, p)
}

func (x *exchange) accessTo(outcome effectonce.Outcome, err error) error {
	if outcome.Operation.State != "" {
		return x.mayTell(outcome.Operation)
	}
	var e *effectonce.Error
	if errors.As(err, &e) && !e.Key.IsZero() && e.Code != effectonce.CodeForbidden {
		_, _, err := x.known()
		return err
	}
	return nil
}

// replay writes the stored answer of an operation that succeeded. The error is why there is none.
func (x *exchange) replay(op effectonce.Operation) error {
	if op.ResultOmitted == effectonce.OmittedPurged || !op.PurgeAt.IsZero() && !op.AsOf.Before(op.PurgeAt) {
		// What was promised to be kept no longer is not shown any longer, whether or not it was purged already.
		return &effectonce.Error{Code: effectonce.CodeExpired, Key: op.Key}
	}
	answer, err := decode(op.Result)
	if errors.Is(err, errNotAnswer) {
		answer, err = confirmed(op), nil
	}
	if err != nil {
		return err
	}
	if answer.Omitted != "" {
		p := own(CodeAnswerNotKept, "the first request took effect, and its answer is not kept ("+answer.Omitted+")")
		p.Outcome, p.Operation, p.Reference = effectonce.OutcomeSucceeded, op.Key.String(), op.Reference
		p.AnsweredStatus, p.AnsweredBytes, p.AnsweredSHA256 = answer.Status, answer.Bytes, answer.SHA256
		x.m.refuse(x.w, p)
		return nil
	}
	h := x.w.Header()
	h.Set(HeaderReplayed, "true")
	h.Set(HeaderNext, string(effectonce.AdviceUseResult))
	x.m.setRetention(h)
	answer.write(x.w, x.m.options.ReplayMember)
	return nil
}

// confirmed makes an answer of what a person confirmed (S7.6): the result that they gave, or only the reference.
func confirmed(op effectonce.Operation) stored {
	switch {
	case op.ResultOmitted != "":
		return stored{Omitted: op.ResultOmitted}
	case len(op.Result) == 0:
		return stored{Omitted: "confirmed_by_a_person"}
	}
	return stored{Status: http.StatusOK, Headers: http.Header{"Content-Type": {"application/json"}}, body: op.Result}
}
