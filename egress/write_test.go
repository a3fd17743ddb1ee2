package egress_test

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/egress"
)

func randomKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Whatever happens on the wire, one refund is made, and the client gets it. (S16.4, S14.4)
func TestOneEffectWhateverTheWireDoes(t *testing.T) {
	t.Parallel()
	for _, plan := range []string{
		"", "refunds#1 after-effect drop", "refunds#1 after-effect reset", "refunds#1 after-effect status=502", "refunds#1 after-effect status=503", "refunds#1 after-effect cut",
		"refunds#1 after-effect garble", "refunds#1 before-effect status=503", "refunds#1 drop", "refunds#1 status=429", "refunds#1 after-effect slow=300ms",
		"refunds#1 after-effect drop; lookup#1-2 status=500", "refunds#1 foreign", "refunds#1-2 after-effect drop", "refunds#1 hold=400ms",
	} {
		t.Run(strings.ReplaceAll(plan, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c := startTwin(t, plan)
			w := newWorld(t, c.BaseURL)
			first := refund(t, w.base, "refund:1", "pi_1", "480").want(t, 200, "Effectonce-Outcome=succeeded", "Effectonce-Next=use_result")
			again := refund(t, w.base, "refund:1", "pi_1", "480").want(t, 200, "Effectonce-Replayed=true")
			if first.body != again.body || first.Header.Get("Content-Type") != again.Header.Get("Content-Type") {
				t.Errorf("the repeat got another answer:\n%s\n%s", first.body, again.body)
			}
			var made struct{ ID, Object string }
			if err := json.Unmarshal([]byte(first.body), &made); err != nil || made.Object != "refund" {
				t.Errorf("the answer is no refund: %s", first.body)
			}
			if n := effects(t, c); n != 1 {
				t.Errorf("%d effects, want 1", n)
			}
		})
	}
}

// The client's random keys and its credential never reach the provider; one key and one stamp do, on every send. (S3.9)
func TestTheClientsKeyIsOverwritten(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "refunds#1-2 before-effect status=503")
	w := newWorld(t, c.BaseURL)
	refund(t, w.base, "refund:1", "pi_1", "480").want(t, 200)
	log, err := c.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]int{}
	for _, r := range log.Requests {
		if r.Method != http.MethodPost {
			continue
		}
		keys[r.Key]++
		for _, name := range []string{"Effectonce-Intent", "Accept-Encoding"} {
			if v := r.Headers[name]; v != "" && v != "identity" {
				t.Errorf("%s %q was sent on", name, v)
			}
		}
	}
	if len(keys) != 1 {
		t.Errorf("keys at the provider: %v", keys)
	}
	if op := w.stored()[0]; keys[op.DownstreamKey] == 0 {
		t.Errorf("the provider did not get %s: %v", op.DownstreamKey, keys)
	}
}

// A refusal comes back as the provider gave it, to each repeat too. (S14.4, S7.10)
func TestARefusalIsReplayedAsItCame(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	w := newWorld(t, c.BaseURL)
	first := refund(t, w.base, "refund:1", "pi_declined", "480").want(t, 402, "Effectonce-Outcome=failed", "Effectonce-Next=new_intent")
	again := refund(t, w.base, "refund:1", "pi_declined", "480").want(t, 402, "Effectonce-Replayed=true")
	if first.body != again.body || !strings.Contains(first.body, "card_declined") {
		t.Errorf("%s\n%s", first.body, again.body)
	}
	if log, err := c.Requests(t.Context()); err != nil || log.Total != 1 {
		t.Errorf("%d requests (%v)", log.Total, err)
	}
}

// Another body under the same intent is refused, with what differs. (S4.5)
func TestAnotherBodyUnderTheSameIntentIsRefused(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	w := newWorld(t, c.BaseURL)
	refund(t, w.base, "refund:1", "pi_1", "480").want(t, 200)
	a := refund(t, w.base, "refund:1", "pi_1", "450").want(t, 422, "Stripe-Should-Retry=false", "Effectonce-Next=stop_and_report")
	var p egress.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Code != "payload_mismatch" || fmt.Sprint(p.Fields) != "[amount]" || p.Error.Message == "" {
		t.Errorf("%+v (%v)", p, err)
	}
	if n := effects(t, c); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// What is no business of the intent may differ. (S4.2)
func TestTheSameBodyInAnotherSpellingIsTheSame(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	w := newWorld(t, c.BaseURL)
	refund(t, w.base, "refund:1", "pi_1", "480").want(t, 200)
	r := request(t, "POST", w.base+"/v1/refunds", "currency=eur&payment%5Fintent=pi_1&amount=480", "Content-Type=application/x-www-form-urlencoded; charset=utf-8", "Effectonce-Intent=refund:1", "User-Agent=another/2")
	send(t, r).want(t, 200, "Effectonce-Replayed=true")
}

// A write without an intent, and one that nobody described, are refused and never sent. (S14.4)
func TestNothingIsSilentlyUnguarded(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	w := newWorld(t, c.BaseURL)
	form := "Content-Type=application/x-www-form-urlencoded"
	for name, one := range map[string]struct {
		r      *http.Request
		status int
		code   string
	}{
		"no intent":             {request(t, "POST", w.base+"/v1/refunds", "amount=1", form), 400, egress.CodeIntentMissing},
		"nobody described it":   {request(t, "POST", w.base+"/v2/core/accounts", "amount=1", form, "Effectonce-Intent=x"), 403, egress.CodeUndescribed},
		"an overridden method":  {request(t, "GET", w.base+"/v1/refunds", "", "X-HTTP-Method-Override=POST"), 403, egress.CodeUndescribed},
		"a method in the query": {request(t, "GET", w.base+"/v1/refunds?_method=POST", ""), 403, egress.CodeUndescribed},
		"another spelling":      {request(t, "POST", w.base+"/v1//refunds", "amount=1", form, "Effectonce-Intent=x"), 403, egress.CodeUndescribed},
		"a delete":              {request(t, "DELETE", w.base+"/v1/refunds/re_1", "", "Effectonce-Intent=x"), 403, egress.CodeUndescribed},
		"another tenant":        {request(t, "POST", w.base+"/v1/refunds", "amount=1", form, "Effectonce-Intent=x", "Effectonce-Tenant=acme"), 400, "invalid"},
		"a credential in query": {request(t, "POST", w.base+"/v1/refunds?api_key=sk_x", "amount=1", form, "Effectonce-Intent=x"), 400, "invalid"},
		"compressed":            {request(t, "POST", w.base+"/v1/refunds", "amount=1", form, "Effectonce-Intent=x", "Content-Encoding=gzip"), 400, "invalid"},
		"too large":             {request(t, "POST", w.base+"/v1/refunds", "a="+strings.Repeat("x", egress.BodyBytesMax), form, "Effectonce-Intent=x"), 413, "too_large"},
		"a field in two ways":   {request(t, "POST", w.base+"/v1/refunds", "a[b]=1&a[[b]]=2", form, "Effectonce-Intent=x"), 400, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			a := send(t, one.r).want(t, one.status, "Content-Type=application/problem+json")
			if !strings.Contains(a.body, `"code":"`+one.code+`"`) {
				t.Errorf("%s", a.body)
			}
		})
	}
	if log, err := c.Requests(t.Context()); err != nil || log.Total != 0 {
		t.Errorf("%d requests reached the provider (%v)", log.Total, err)
	}
}

// Two proxies on one store, many clients, one intent: one effect, and everybody gets it. (S16.6)
func TestTwoProxiesOneStore(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "refunds#1 hold=200ms")
	store := openSQLite(t)
	bases := []string{newWorldOn(t, store, c.BaseURL).base, newWorldOn(t, store, c.BaseURL).base}
	var wait sync.WaitGroup
	bodies := make([]string, 20)
	for i := range bodies {
		wait.Go(func() { bodies[i] = refund(t, bases[i%2], "refund:1", "pi_1", "480").want(t, 200).body })
	}
	wait.Wait()
	for _, body := range bodies {
		if body != bodies[0] {
			t.Errorf("got %s and %s", body, bodies[0])
		}
	}
	if n := effects(t, c); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// The proxy is killed after the effect and before its record; the client's repeat at the next one causes nothing. (S16.3)
func TestKilledBetweenEffectAndRecord(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "refunds#1 after-effect hang=30s")
	path := filepath.Join(t.TempDir(), "e.db")
	env := []string{pathVar + "=" + path, upstreamVar + "=" + c.BaseURL}
	first := start(t, "proxy", env...)
	go func() {
		r, err := http.NewRequest("POST", first.url+"/egress/stripe/v1/refunds", strings.NewReader("payment_intent=pi_1&amount=480&currency=eur"))
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set(egress.HeaderIntent, "refund:1")
		if response, err := http.DefaultClient.Do(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	eventually(t, "the effect", func() bool { return effects(t, c) == 1 })
	first.kill(t)
	second := start(t, "proxy", env...)
	eventually(t, "the client's repeat gets the refund", func() bool {
		a := refund(t, second.url+"/egress/stripe", "refund:1", "pi_1", "480")
		if a.StatusCode != 200 && a.StatusCode != 409 {
			t.Fatalf("status %d: %s", a.StatusCode, a.body)
		}
		return a.StatusCode == 200
	})
	if n := effects(t, c); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// A client that hangs up in the middle changes nothing: the answer is on record for the next one. (S6.6)
func TestTheCallerHangsUp(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "refunds#1 hold=500ms")
	w := newWorld(t, c.BaseURL)
	ctx, hangUp := context.WithCancel(t.Context())
	r := request(t, "POST", w.base+"/v1/refunds", "payment_intent=pi_1&amount=480&currency=eur", "Content-Type=application/x-www-form-urlencoded", "Effectonce-Intent=refund:1").WithContext(ctx)
	gone := make(chan error)
	go func() {
		response, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		gone <- err
	}()
	eventually(t, "the request at the provider", func() bool {
		log, err := c.Requests(t.Context())
		return err == nil && log.Total == 1
	})
	hangUp()
	if err := <-gone; err == nil {
		t.Fatal("the client did not hang up")
	}
	eventually(t, "the success on record", func() bool {
		all := w.stored()
		return len(all) == 1 && all[0].State == effectonce.StateSucceeded
	})
	refund(t, w.base, "refund:1", "pi_1", "480").want(t, 200, "Effectonce-Replayed=true")
	if n := effects(t, c); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// Bytes come back as they were, also when the provider compresses what nobody asked it to, and what is no text. (S14.4)
func TestAnswersAreKeptByteForByte(t *testing.T) {
	t.Parallel()
	var encoding string
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		encoding = r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("ETag", `W/"7"`)
		w.Header().Set("Set-Cookie", "session=opens")
		w.Header().Set("X-Api-Key", "opens too")
		z := gzip.NewWriter(w)
		fmt.Fprintf(z, `{"id":"re_1","metadata":{"effectonce":%q}}`, stampIn(r))
		_ = z.Close()
	})
	w := newWorld(t, u.URL)
	first := refund(t, w.base, "refund:1", "pi_1", "480", "Accept-Encoding=gzip").want(t, 200, "Content-Encoding=gzip", `ETag=W/"7"`, "Set-Cookie=", "X-Api-Key=")
	again := refund(t, w.base, "refund:1", "pi_1", "480", "Accept-Encoding=gzip").want(t, 200, "Content-Encoding=gzip", `ETag=W/"7"`, "Effectonce-Replayed=true")
	if first.body != again.body || !strings.HasPrefix(first.body, "\x1f\x8b") || encoding != "identity" {
		t.Errorf("%q %q, asked for %s", first.body, again.body, encoding)
	}
}

// A thousand guarded writes at once have a thousand effects.
func TestAThousandWritesAtOnce(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	var keys sync.Map
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		if _, twice := keys.LoadOrStore(r.Header.Get("Idempotency-Key"), true); !twice {
			seen.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"re_%s","object":"refund","metadata":{"effectonce":%q}}`, r.Form.Get("payment_intent"), r.Form.Get("metadata[effectonce]"))
	}))
	t.Cleanup(upstream.Close)
	w := newWorldOn(t, openSQLite(t), upstream.URL, func(o *egress.Options) { o.Terms.CallTimeout = time.Minute; o.Wait = time.Minute })
	n := 1000
	if raceDetector {
		n = 100
	}
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			id := fmt.Sprint("pi_", i)
			if a := refund(t, w.base, "refund:"+id, id, "480"); a.StatusCode != 200 || !strings.Contains(a.body, "re_"+id) {
				t.Errorf("%d %s", a.StatusCode, a.body)
			}
		})
	}
	wait.Wait()
	if seen.Load() != int64(n) {
		t.Errorf("%d effects, want %d", seen.Load(), n)
	}
}
