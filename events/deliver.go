package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// The headers of Effectonce's own on deliveries.
const (
	headerEvent   = "Effectonce-Event-Id"
	headerRun     = "Effectonce-Run"
	headerType    = "Effectonce-Type"
	headerAttempt = "Effectonce-Attempt"
	headerSubject = "Effectonce-Subject"
	headerSeq     = "Effectonce-Seq"
)

// poster sends one POST per call and never a second one by itself.
type poster struct{ client *http.Client }

func newPoster(rt http.RoundTripper) poster {
	if rt == nil {
		base := http.DefaultTransport.(*http.Transport).Clone()
		base.MaxResponseHeaderBytes = 64 << 10
		base.MaxIdleConnsPerHost = 16
		rt = base
	}
	return poster{client: &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// answerBytesMax bounds what is read of an answer, so that its connection can be used again.
const answerBytesMax = 64 << 10

// refusal is an answer that is not 2xx.
type refusal struct {
	status int
	after  time.Duration
}

func (r *refusal) Error() string { return fmt.Sprintf("the answer was %d", r.status) }

// post sends a body and returns the status of a 2xx answer. The error is a *refusal for other answers.
func (p poster) post(ctx context.Context, url string, header http.Header, body []byte) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	// Without a way to get the body again, net/http does not send it a second time when a reused connection breaks.
	r.GetBody = nil
	header.Set("User-Agent", "effectonce")
	r.Header = header
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, answerBytesMax) // what it says does not matter, only the status does
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return 0, &refusal{status: answer.StatusCode, after: retryAfter(answer.Header.Get("Retry-After"))}
	}
	return answer.StatusCode, nil
}

// retryAfterMax bounds what a receiver may ask for.
const retryAfterMax = time.Hour

func retryAfter(v string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(v))
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(min(n, int(retryAfterMax/time.Second)))*time.Second, retryAfterMax)
}

// Provider returns the provider of an operation that pushes an event to its consumer, or nil if the operation is none, or its source
// does not push.
func (b *Inbox) Provider(op effectonce.Operation) effectonce.Provider {
	name, ok := strings.CutPrefix(op.Tool, ToolPrefix)
	if !ok {
		return nil
	}
	r, ok := b.readers[name]
	if !ok || r.source.Deliver == nil {
		return nil
	}
	return consumer{to: *r.source.Deliver, post: b.post, now: b.options.Now}
}

// consumer is a consumer's address as a provider. Any end but success is unknown: the event is convergent, so it is delivered again,
// and when the attempts are spent it is in review, where nobody can overlook it. Nothing a consumer answers loses an event.
type consumer struct {
	to   Webhook
	post poster
	now  func() time.Time
}

// Call implements [effectonce.Provider].
func (c consumer) Call(ctx context.Context, call effectonce.Call) effectonce.End {
	unknown := func(code, message string, after time.Duration) effectonce.End {
		return effectonce.End{Verdict: effectonce.VerdictUnknown, RetryAfter: after, Failure: effectonce.Failure{Code: code, Message: message}}
	}
	e, err := EventOf(effectonce.Operation{Key: call.Key, Tenant: call.Tenant, Request: call.Request})
	if err != nil {
		return unknown("unreadable", err.Error(), 0)
	}
	h := http.Header{}
	set := func(name, value string) {
		if value != "" {
			h.Set(name, headerSafe(value))
		}
	}
	for name, value := range e.Headers {
		set(name, value)
	}
	set("Content-Type", e.ContentType)
	set(headerEvent, e.ID)
	set(headerRun, e.Run)
	set(headerType, e.Type)
	set(headerAttempt, strconv.Itoa(call.Attempt))
	set("Idempotency-Key", call.DownstreamKey)
	for _, name := range []string{headerID, headerTimestamp, headerSignature} {
		h.Del(name)
	}
	if c.to.Secret != nil {
		secret, err := c.to.Secret(ctx)
		if err == nil {
			err = signStandard(h, secret, webhookID(e.ID), e.Body, c.now())
		}
		if err != nil {
			return unknown("no_secret", "the delivery could not be signed: "+err.Error(), 0)
		}
	}
	status, err := c.post.post(ctx, c.to.URL, h, e.Body)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		end := unknown("consumer_refused", fmt.Sprintf("the consumer answered %d", refused.status), refused.after)
		end.Failure.Status = refused.status
		return end
	case err != nil:
		return unknown("no_answer", "the consumer did not answer: "+plainError(err), 0)
	}
	return effectonce.End{Verdict: effectonce.VerdictSucceeded, Result: effectonce.Arguments(map[string]int{"status": status})}
}

// LookUp implements [effectonce.Provider].
func (consumer) LookUp(context.Context, effectonce.Call) effectonce.Finding {
	return effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: "consumers are not asked; a repeat is harmless"}
}

// Scope implements [effectonce.Provider]. A consumer may move: an event is the same wherever it is consumed.
func (consumer) Scope() string { return "" }

// headerSafe writes what a header cannot carry as %XX.
func headerSafe(v string) string {
	return escape(v, "\t")
}

// plainError leaves out the method and address that net/http puts in front.
func plainError(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "time-out"
	}
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "Post ") {
		return inner.Error()
	}
	return err.Error()
}
