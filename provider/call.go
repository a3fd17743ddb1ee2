package provider

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// Call implements [effectonce.Provider]; for a convergent tool it observes before and after, see [Ensure]. It sends the frozen request exactly once, on a connection of its own, follows no
// redirect, and never repeats anything. The end is not_sent only if certainly no byte of the request has left; a wrong or missing
// frozen request, credential, key or stamp, another scope than the frozen one, and a time for sending that is over all
// end so. What the answer means the contract says; anything else is unknown (S6).
func (h *HTTP) Call(ctx context.Context, call effectonce.Call) effectonce.End {
	late := h.lateness(call.SendWithin)
	f, err := parseFrozen(call.Request)
	if err != nil {
		return notSent("request_invalid", err.Error())
	}
	if f.Contract != h.operation.Contract || f.Operation != h.operation.Name {
		return notSent("other_operation", "the request was made for "+f.Contract+" "+f.Operation+", which is not what is configured now")
	}
	secret, err := h.secret(ctx)
	if err != nil {
		return notSent("credential_unavailable", err.Error())
	}
	if f.Scope != h.scope.with(secret) {
		return notSent("scope_changed", "the request was made for another base URL, API version, account or credential")
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, call.SendWithin)
		defer cancel()
	}
	deliver := func(ctx context.Context) effectonce.End { return h.deliver(ctx, f, call, secret, late) }
	var end effectonce.End
	if f.Observe != nil {
		end = h.converge(ctx, call, f.Observe, secret, deliver)
	} else {
		end = deliver(ctx)
	}
	end.Failure.Message = redact(end.Failure.Message, secret)
	end.Failure.Code = redact(end.Failure.Code, secret)
	end.Reference = redact(end.Reference, secret)
	if end.Result != nil {
		end.Result = []byte(redact(string(end.Result), secret))
	}
	return end
}

// deliver sends the frozen request.
func (h *HTTP) deliver(ctx context.Context, f frozen, call effectonce.Call, secret string, late func() bool) effectonce.End {
	request, err := f.request(h.base, call)
	if err != nil {
		return notSent("request_invalid", err.Error())
	}
	if err := h.authenticate(request, secret); err != nil {
		return notSent("credential_invalid", err.Error())
	}
	return h.send(ctx, request, call, late, f.Version != h.version)
}

// lateness counts the time for sending from now on, by the larger of monotonic and wall time, since a suspended machine stops
// the first (S5.4). No time is none, never unlimited.
func (h *HTTP) lateness(within time.Duration) func() bool {
	start := h.now()
	return func() bool {
		now := h.now()
		return max(now.Sub(start), now.Round(0).Sub(start.Round(0))) >= within
	}
}

func (h *HTTP) authenticate(r *http.Request, secret string) error {
	if h.credential == nil {
		return nil
	}
	if secret == "" || !printable(secret) {
		// Its value must not get into the message.
		return errors.New("the credential is empty or holds a control character")
	}
	r.Header.Set(h.credentialIn.Header, h.credentialIn.Prefix+secret)
	return nil
}

func (h *HTTP) send(ctx context.Context, request *http.Request, call effectonce.Call, late func() bool, otherContract bool) effectonce.End {
	response, a, failed := h.exchange(ctx, request, late, readParsed)
	if failed != nil {
		return *failed
	}
	return h.judge(response, a, call, otherContract)
}

func readParsed(r *http.Response) (answer, error) { return readAnswer(r, effectonce.ResultBytesMax) }

// exchange sends the request exactly once and reads the answer to its end. failed is the end of a call that has no whole answer.
func (h *HTTP) exchange(ctx context.Context, request *http.Request, late func() bool, read func(*http.Response) (answer, error)) (answered contract.Response, a answer, failed *effectonce.End) {
	w := &wire{late: late}
	w.deadline, _ = ctx.Deadline()
	transport, done := w.transport(h.transport)
	defer done()
	request = request.WithContext(w.trace(ctx))
	if late() || ctx.Err() != nil {
		end := notSent("deadline", "the time for sending was over before anything was sent")
		return answered, a, &end
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		end := failedEnd(err, w.seal(err))
		return answered, a, &end
	}
	defer response.Body.Close()
	if a, err = read(response); err != nil {
		end := unknown("answer_incomplete", "the answer could not be read to its end: "+transportText(err))
		end.Failure.Status = response.StatusCode
		return answered, a, &end
	}
	return contract.Response{Status: response.StatusCode, Header: response.Header, Body: a.body, Beginning: a.beginning}, a, nil
}

// judge says what an answer means.
func (h *HTTP) judge(answered contract.Response, a answer, call effectonce.Call, otherContract bool) effectonce.End {
	end := h.operation.Classify(answered, call.Resend)
	end.Digest = a.digest
	switch {
	case end.Verdict == effectonce.VerdictSucceeded && h.operation.Foreign(answered, call.Stamp):
		foreign := unknown("foreign_answer", "the answer is about a resource that does not bear this operation's stamp")
		foreign.Failure.Status = answered.Status
		return foreign
	case otherContract && (end.Verdict == effectonce.VerdictRejected || end.Verdict == effectonce.VerdictThrottled):
		// The contract changed since the request was made: it must not widen what the operation may conclude (S3.11).
		end.Verdict, end.Authoritative = effectonce.VerdictUnknown, false
		end.Failure.Message = "the contract changed since the first claim, so a refusal is not conclusive: " + end.Failure.Message
	}
	return end
}

// failedEnd is the end of a call without an answer.
func failedEnd(err error, nothingLeft bool) effectonce.End {
	text := transportText(err)
	if !nothingLeft {
		return unknown("no_answer", "no answer came, and the request may have been executed: "+text)
	}
	if errors.Is(err, errLate) {
		return notSent("deadline", text)
	}
	return notSent("not_connected", "nothing was sent: "+text)
}

// transportText says what went wrong without the request's address, which may hold a key.
func transportText(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timed out"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "the name " + dns.Name + " cannot be looked up"
	}
	s := err.Error()
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return s
}
