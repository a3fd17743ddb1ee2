package provider

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// S3.9, S3.10: what is on the wire.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	server, seen := serve(t, answerWith(200, ourRefund))
	o := stripeOptions(t, server.URL)
	o.APIVersion = "2026-09-30"
	h := newHTTP(t, o)
	call := aCall(t, h, refundArgs)
	end := do(t, h, call, 5*time.Second)
	want(t, end, effectonce.VerdictSucceeded, "")
	if end.Reference != "re_1" || string(end.Result) != ourRefund {
		t.Errorf("%+v", end)
	}
	r := seen.requests[0]
	for name, value := range map[string]string{
		"Idempotency-Key": testKey, "Authorization": "Bearer " + testSecret, "Stripe-Version": "2026-09-30",
		"Content-Type": "application/x-www-form-urlencoded", "User-Agent": "effectonce",
	} {
		if got := r.Header.Get(name); got != value {
			t.Errorf("%s: %q", name, got)
		}
	}
	form, err := url.ParseQuery(seen.bodies[0])
	if err != nil || form.Encode() != (url.Values{"payment_intent": {"pi_1"}, "amount": {"48000"}, "metadata[effectonce]": {testStamp}}).Encode() {
		t.Errorf("body %q, %v", seen.bodies[0], err)
	}
	if r.Method != "POST" || r.URL.Path != "/v1/refunds" || !r.Close {
		t.Errorf("%s %s, close %t", r.Method, r.URL, r.Close)
	}
	if bytes.Contains(call.Request, []byte(testSecret)) {
		t.Error("the frozen request holds the credential")
	}
	// S3.10: the same bytes at each attempt.
	call.Attempt, call.Resend = 2, true
	want(t, do(t, h, call, 5*time.Second), effectonce.VerdictSucceeded, "")
	if seen.bodies[1] != seen.bodies[0] || seen.count() != 2 {
		t.Errorf("attempt 2 sent %q, attempt 1 %q", seen.bodies[1], seen.bodies[0])
	}
}

// S6.1 to S6.8 through the wire; the contract's own tests have the other answers.
func TestAnswers(t *testing.T) {
	t.Parallel()
	zipped := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, s)
		z.Close()
		return b.String()
	}
	header := func(status int, body string, pairs ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				w.Header().Set(pairs[i], pairs[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, tt := range []struct {
		name    string
		answer  http.HandlerFunc
		verdict effectonce.Verdict
		code    string
	}{
		{"bad gateway", answerWith(502, "<html>"), effectonce.VerdictUnknown, ""},
		{"garbled success", answerWith(200, `{"id":"re_1",`), effectonce.VerdictUnknown, "garbled_answer"},
		{"an empty success", answerWith(200, ""), effectonce.VerdictUnknown, "empty_answer"},
		{"a foreign stamp", answerWith(200, `{"id":"re_9","metadata":{"effectonce":"somebody-else"}}`), effectonce.VerdictUnknown, "foreign_answer"}, // S6.7
		{"no stamp", answerWith(200, `{"id":"re_9","metadata":{}}`), effectonce.VerdictUnknown, "no_stamp"},
		{"a redirect", header(307, "", "Location", "/v1/elsewhere"), effectonce.VerdictUnknown, "unclassified"},
		{"see other", header(303, "", "Location", "/v1/elsewhere"), effectonce.VerdictUnknown, "unclassified"},
		{"gzip", header(200, zipped(ourRefund), "Content-Encoding", "gzip"), effectonce.VerdictSucceeded, ""},
		{"broken gzip", header(200, "no gzip", "Content-Encoding", "gzip"), effectonce.VerdictUnknown, "answer_incomplete"},
		{"cut gzip", header(200, zipped(ourRefund)[:40], "Content-Encoding", "gzip"), effectonce.VerdictUnknown, "answer_incomplete"},
		{"unknown encoding", header(200, ourRefund, "Content-Encoding", "zstd"), effectonce.VerdictUnknown, "answer_incomplete"},
		{"less than announced", header(200, ourRefund, "Content-Length", "5000"), effectonce.VerdictUnknown, "answer_incomplete"},
		{"in flight", answerWith(409, `{"error":{"code":"idempotency_key_in_use"}}`), effectonce.VerdictInFlight, ""},
		{"the credential in the message", answerWith(401, `{"error":{"type":"invalid_request_error","message":"no such key: `+testSecret+`"}}`), effectonce.VerdictThrottled, ""},
		{"the credential in the result", answerWith(200, strings.Replace(ourRefund, "refund", testSecret, 1)), effectonce.VerdictSucceeded, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, seen := serve(t, tt.answer)
			h := newHTTP(t, stripeOptions(t, server.URL))
			want(t, do(t, h, aCall(t, h, refundArgs), 5*time.Second), tt.verdict, tt.code)
			if seen.count() != 1 {
				t.Errorf("%d requests on the wire", seen.count())
			}
		})
	}
}

// S6.8: an answer over a mebibyte does not undo the effect.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	body := `{"id":"re_1","metadata":{"effectonce":"` + testStamp + `"},"note":"` + strings.Repeat("x", 3<<20) + `"}`
	server, _ := serve(t, answerWith(200, body))
	h := newHTTP(t, stripeOptions(t, server.URL))
	end := do(t, h, aCall(t, h, refundArgs), 10*time.Second)
	want(t, end, effectonce.VerdictSucceeded, "")
	if end.Omitted != "too_large" || end.Reference != "re_1" || end.Result != nil || end.Digest != canon.Digest(sha256.Sum256([]byte(body))) {
		t.Errorf("omitted %q, reference %q, %d bytes, digest %s", end.Omitted, end.Reference, len(end.Result), end.Digest)
	}
	// A large answer about somebody else is not ours (S6.7).
	foreign, _ := serve(t, answerWith(200, strings.Replace(body, testStamp, "other", 1)))
	h = newHTTP(t, stripeOptions(t, foreign.URL))
	want(t, do(t, h, aCall(t, h, refundArgs), 10*time.Second), effectonce.VerdictUnknown, "foreign_answer")
}

// S5.4, S6.2: nothing is sent without time, key, stamp, credential, or in another scope.
func TestNothingIsSent(t *testing.T) {
	t.Parallel()
	server, seen := serve(t, answerWith(200, ourRefund))
	other := newHTTP(t, stripeOptions(t, "http://127.0.0.1:1"))
	for _, tt := range []struct {
		name    string
		options func(*HTTPOptions)
		call    func(*effectonce.Call)
		code    string
	}{
		{"no time left", nil, func(c *effectonce.Call) { c.SendWithin = 0 }, "deadline"},
		{"less than no time", nil, func(c *effectonce.Call) { c.SendWithin = -time.Second }, "deadline"},
		{"no key", nil, func(c *effectonce.Call) { c.DownstreamKey = "" }, "request_invalid"},
		{"no stamp", nil, func(c *effectonce.Call) { c.Stamp = "" }, "request_invalid"},
		{"no frozen request", nil, func(c *effectonce.Call) { c.Request = []byte(refundArgs) }, "request_invalid"},
		{"no request at all", nil, func(c *effectonce.Call) { c.Request = nil }, "request_invalid"},
		{"another scope", nil, func(c *effectonce.Call) { c.Request = render(t, other, refundArgs) }, "scope_changed"},
		{"credential unavailable", func(o *HTTPOptions) {
			o.Credential = func(context.Context) (string, error) { return "", errors.New("no such file") }
		}, nil, "credential_unavailable"},
		{"credential with a line break", func(o *HTTPOptions) {
			o.Credential = func(context.Context) (string, error) { return testSecret + "\r\nX: y", nil }
		}, nil, "credential_invalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := stripeOptions(t, server.URL)
			if tt.options != nil {
				tt.options(&o)
			}
			h := newHTTP(t, o)
			call := aCall(t, h, refundArgs)
			if tt.call != nil {
				tt.call(&call)
			}
			want(t, do(t, h, call, 5*time.Second), effectonce.VerdictNotSent, tt.code)
			if seen.count() != 0 {
				t.Error("a request was sent")
			}
		})
	}
	h := newHTTP(t, stripeOptions(t, server.URL))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want(t, h.Call(ctx, aCall(t, h, refundArgs)), effectonce.VerdictNotSent, "deadline")
	if seen.count() != 0 {
		t.Error("a request was sent")
	}
}

// S3.10: a rotated credential is another scope unless the account is named.
func TestScope(t *testing.T) {
	t.Parallel()
	secret := testSecret
	var failing error
	o := stripeOptions(t, "HTTPS://API.Example.com:443/")
	o.Credential = func(context.Context) (string, error) { return secret, failing }
	named := newHTTP(t, o)
	o.Account = ""
	unnamed := newHTTP(t, o)
	wasNamed, wasUnnamed := named.Scope(), unnamed.Scope()
	if strings.Contains(wasUnnamed, testSecret) || !strings.Contains(wasUnnamed, "credential=") || strings.Contains(wasNamed, "credential=") {
		t.Errorf("scopes %q and %q", wasNamed, wasUnnamed)
	}
	o.BaseURL = "https://api.example.com"
	if got := newHTTP(t, o).Scope(); got != wasUnnamed {
		t.Errorf("two spellings of one address: %q and %q", got, wasUnnamed)
	}
	failing = errors.New("away")
	if unnamed.Scope() != wasUnnamed {
		t.Error("a credential that cannot be read for a moment is another scope")
	}
	failing, secret = nil, testSecret+"2"
	if named.Scope() != wasNamed || unnamed.Scope() == wasUnnamed {
		t.Errorf("after rotation: %q and %q", named.Scope(), unnamed.Scope())
	}
}

// S3.11: a contract that changed since the first claim does not make a refusal conclusive.
func TestChangedContract(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, answerWith(402, `{"error":{"type":"card_error","code":"card_declined"}}`))
	h := newHTTP(t, stripeOptions(t, server.URL))
	call := aCall(t, h, refundArgs)
	end := do(t, h, call, 5*time.Second)
	if end.Verdict != effectonce.VerdictRejected || !end.Authoritative {
		t.Fatalf("%+v", end)
	}
	call.Request = bytes.Replace(call.Request, []byte(h.Operation().Version), []byte("older"), 1)
	end = do(t, h, call, 5*time.Second)
	if end.Verdict != effectonce.VerdictUnknown || end.Authoritative {
		t.Errorf("%+v", end)
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		set   func(*HTTPOptions)
		field string
	}{
		{"no contract", func(o *HTTPOptions) { o.Contract = nil }, "contract"},
		{"no operation", func(o *HTTPOptions) { o.Operation = "refunds.delete" }, "operation"},
		{"no address", func(o *HTTPOptions) { o.BaseURL = "" }, "base_url"},
		{"not an address", func(o *HTTPOptions) { o.BaseURL = "api.stripe.com" }, "base_url"},
		{"credential in the address", func(o *HTTPOptions) { o.BaseURL = "https://user:" + testSecret + "@host" }, "base_url"},
		{"query in the address", func(o *HTTPOptions) { o.BaseURL = "https://host?key=" + testSecret }, "base_url"},
		{"unbalanced placeholder", func(o *HTTPOptions) { o.Body["amount"] = "{amount" }, "body.amount"},
		{"a field twice", func(o *HTTPOptions) { o.Body["m[a]"] = "1"; o.Body["m"] = map[string]any{"a": "2"} }, "body.m[a]"},
		{"a secret header", func(o *HTTPOptions) { o.Headers = map[string]string{"authorization": "x"} }, "headers.authorization"},
		{"the key's header", func(o *HTTPOptions) { o.Headers = map[string]string{"idempotency-key": "{payment_intent}"} }, "headers.idempotency-key"},
		{"a hop-by-hop header", func(o *HTTPOptions) { o.Headers = map[string]string{"Transfer-Encoding": "x"} }, "headers.Transfer-Encoding"},
		{"no header name", func(o *HTTPOptions) { o.Headers = map[string]string{"a b": "x"} }, "headers.a b"},
		{"a path placeholder that there is not", func(o *HTTPOptions) { o.Path = map[string]string{"id": "{id}"} }, "path.id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := stripeOptions(t, "https://api.example.com")
			tt.set(&o)
			_, err := NewHTTP(o)
			var e *effectonce.Error
			if !errors.As(err, &e) || e.Field != tt.field || e.Remedy == "" || strings.Contains(fmt.Sprint(err), testSecret) {
				t.Errorf("got %v, want field %s", err, tt.field)
			}
		})
	}
}
