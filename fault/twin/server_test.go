package twin

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// twinUnderTest is a twin on a real socket.
type twinUnderTest struct {
	*Server
	Control
	t *testing.T
}

// startTwin serves on loopback until the test ends.
func startTwin(t *testing.T, config Config) twinUnderTest {
	t.Helper()
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return twinUnderTest{Server: s, Control: Control{BaseURL: "http://" + l.Addr().String(), HTTP: client()}, t: t}
}

// client never reuses a connection, so that net/http cannot send a keyed POST again by itself.
func client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
}

// got is an answer, read whole.
type got struct {
	status int
	header http.Header
	body   string
	object map[string]any
	err    error
}

func (g got) code() string {
	e, _ := g.object["error"].(map[string]any)
	code, _ := e["code"].(string)
	if code == "" {
		code, _ = e["type"].(string)
	}
	return code
}

func (g got) id() string {
	id, _ := g.object["id"].(string)
	return id
}

func (tw twinUnderTest) send(ctx context.Context, method, path, key, body string, headers ...string) got {
	request, err := http.NewRequestWithContext(ctx, method, tw.BaseURL+path, strings.NewReader(body))
	if err != nil {
		tw.t.Error(err)
		return got{err: err}
	}
	request.GetBody = nil
	request.Header.Set("Authorization", "Bearer sk_test_1")
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := tw.HTTP.Do(request)
	if err != nil {
		return got{err: err}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	g := got{status: response.StatusCode, header: response.Header, body: string(data), err: err}
	_ = json.Unmarshal(data, &g.object)
	return g
}

const refund480 = "payment_intent=pi_1&amount=480&currency=EUR&reason=duplicate&metadata[effectonce]=abc&metadata[order]=A-1"

func (tw twinUnderTest) refund(key string) got {
	tw.t.Helper()
	return tw.send(tw.t.Context(), "POST", "/v1/refunds", key, refund480)
}

func (tw twinUnderTest) get(path string) got {
	tw.t.Helper()
	return tw.send(tw.t.Context(), "GET", path, "", "")
}

func (tw twinUnderTest) wantEffects(n int) Ledger {
	tw.t.Helper()
	ledger, err := tw.Control.Ledger(tw.t.Context())
	if err != nil {
		tw.t.Fatal(err)
	}
	if ledger.Count != n || len(ledger.Effects) != n {
		tw.t.Errorf("the ledger has %d effects, want %d: %+v", ledger.Count, n, ledger.Effects)
	}
	return ledger
}

func (tw twinUnderTest) plan(line string) {
	tw.t.Helper()
	plan, err := ParsePlan(line)
	if err == nil {
		err = tw.Control.SetFaults(tw.t.Context(), plan)
	}
	if err != nil {
		tw.t.Fatal(err)
	}
}

func (g got) want(t *testing.T, status int, code string) {
	t.Helper()
	if g.err != nil || g.status != status || (code != "" && g.code() != code) {
		t.Errorf("status %d, code %q, error %v; want %d, %q\n%s", g.status, g.code(), g.err, status, code, g.body)
	}
}

// until polls for what another goroutine brings about.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// outcomes are those of everything that arrived.
func (tw twinUnderTest) outcomes() []string {
	var all []string
	for _, r := range tw.Server.Requests().Requests {
		all = append(all, r.Outcome)
	}
	return all
}

func (tw twinUnderTest) untilOutcome(i int, outcome string) {
	tw.t.Helper()
	until(tw.t, "request "+outcome, func() bool {
		all := tw.outcomes()
		return len(all) > i && all[i] == outcome
	})
}

func TestRefundAndReplay(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	first := tw.refund("k1")
	first.want(t, 200, "")
	for name, want := range map[string]any{
		"object": "refund", "amount": 480.0, "currency": "eur", "status": "succeeded", "payment_intent": "pi_1",
		"charge": "ch_1", "reason": "duplicate", "id": "re_twin000000000001",
	} {
		if first.object[name] != want {
			t.Errorf("%s is %v, want %v", name, first.object[name], want)
		}
	}
	if m, _ := first.object["metadata"].(map[string]any); m["effectonce"] != "abc" || m["order"] != "A-1" {
		t.Errorf("metadata: %v", m)
	}
	if first.header.Get("Idempotent-Replayed") != "" {
		t.Error("the first answer is marked as a replay")
	}
	again := tw.send(t.Context(), "POST", "/v1/refunds", "k1",
		"metadata[order]=A-1&metadata[effectonce]=abc&reason=duplicate&currency=EUR&amount=480&payment_intent=pi_1")
	again.want(t, 200, "")
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay: marker %q, body\n%s", again.header.Get("Idempotent-Replayed"), again.body)
	}
	if again.header.Get("Original-Request") != first.header.Get("Request-Id") ||
		again.header.Get("Request-Id") == first.header.Get("Request-Id") {
		t.Errorf("original request %q, request %q, first %q", again.header.Get("Original-Request"),
			again.header.Get("Request-Id"), first.header.Get("Request-Id"))
	}
	ledger := tw.wantEffects(1)
	if e := ledger.Effects[0]; e.Key != "k1" || e.Stamp != "abc" || e.Amount != 480 || e.Metadata["order"] != "A-1" {
		t.Errorf("ledger: %+v", e)
	}
}

func TestKeyExpires(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.refund("k1")
	if err := tw.Control.Advance(t.Context(), 23*time.Hour); err != nil {
		t.Fatal(err)
	}
	tw.refund("k1").want(t, 200, "")
	tw.wantEffects(1)
	if err := tw.Control.Advance(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	late := tw.refund("k1")
	late.want(t, 200, "")
	if late.header.Get("Idempotent-Replayed") != "" {
		t.Error("a forgotten key was replayed")
	}
	tw.wantEffects(2) // S16.9: after the window the same key is a new effect
}

func TestRefusedBeforeTheKey(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		headers    []string
		status     int
		code       string
	}{
		{"no credential", refund480, []string{"Authorization", ""}, 401, "invalid_request_error"},
		{"publishable key", refund480, []string{"Authorization", "Bearer pk_test_1"}, 401, "invalid_request_error"},
		{"no payment", "amount=480", nil, 400, "parameter_missing"},
		{"payment of another form", "payment_intent=order-1", nil, 400, "resource_missing"},
		{"two payments", "payment_intent=pi_1&charge=ch_2", nil, 400, "resource_missing"},
		{"amount in decimals", "payment_intent=pi_1&amount=4.80", nil, 400, "parameter_invalid_integer"},
		{"amount of zero", "payment_intent=pi_1&amount=0", nil, 400, "parameter_invalid_integer"},
		{"empty amount", "payment_intent=pi_1&amount=", nil, 400, "parameter_invalid_integer"},
		{"currency", "payment_intent=pi_1&currency=euro", nil, 400, "invalid_request_error"},
		{"reason", "payment_intent=pi_1&reason=because", nil, 400, "invalid_request_error"},
		{"unknown parameter", "payment_intent=pi_1&note=x", nil, 400, "parameter_unknown"},
		{"parameter twice", "payment_intent=pi_1&amount=1&amount=2", nil, 400, "parameter_invalid_string"},
		{"metadata too long", "payment_intent=pi_1&metadata[a]=" + strings.Repeat("x", 501), nil, 400, "invalid_request_error"},
		{"json", `{"payment_intent":"pi_1"}`, []string{"Content-Type", "application/json"}, 400, "invalid_request_error"},
		{"broken encoding", "payment_intent=%zz", nil, 400, "invalid_request_error"},
		{"key too long", refund480, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "idempotency_error"},
		{"body too long", "payment_intent=pi_1&metadata[a]=" + strings.Repeat("x", 2<<20), nil, 413, "invalid_request_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tw := startTwin(t, Config{})
			tw.send(t.Context(), "POST", "/v1/refunds", "k1", tt.body, tt.headers...).want(t, tt.status, tt.code)
			tw.wantEffects(0)
			fresh := tw.refund("k1")
			fresh.want(t, 200, "")
			if fresh.header.Get("Idempotent-Replayed") != "" {
				t.Error("the refusal was stored under the key")
			}
			tw.wantEffects(1)
		})
	}
}

func TestChargeAndBasicAuthentication(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{Rules: rulesWith(func(r *Rules) { r.Captured = 500 })})
	tw.refund("k1").want(t, 200, "")
	byCharge := tw.send(t.Context(), "POST", "/v1/refunds", "k2", "charge=ch_1", "Authorization", "Basic c2tfdGVzdF8xOg==")
	byCharge.want(t, 200, "")
	if byCharge.object["amount"] != 20.0 || byCharge.object["payment_intent"] != "pi_1" {
		t.Errorf("a charge is not its payment intent: %s", byCharge.body)
	}
}

func TestMismatch(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.refund("k1")
	tw.send(t.Context(), "POST", "/v1/refunds", "k1", "payment_intent=pi_1&amount=450").want(t, 400, "idempotency_error") // S16.8
	tw.wantEffects(1)
	tw.send(t.Context(), "POST", "/v1/refunds", "", "payment_intent=pi_1&amount=450").want(t, 200, "")
	tw.wantEffects(2)
}

func TestDeclineIsStored(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	const body = "payment_intent=pi_declined_1&amount=480"
	tw.send(t.Context(), "POST", "/v1/refunds", "k1", body).want(t, 402, "card_declined")
	again := tw.send(t.Context(), "POST", "/v1/refunds", "k1", body)
	again.want(t, 402, "card_declined")
	if again.header.Get("Idempotent-Replayed") != "true" {
		t.Error("the decline is not replayed")
	}
	tw.wantEffects(0)
}

func TestOverRefund(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{Rules: rulesWith(func(r *Rules) { r.Captured = 1000 })})
	pay := func(key, amount string) got {
		return tw.send(t.Context(), "POST", "/v1/refunds", key, "payment_intent=pi_1&amount="+amount)
	}
	pay("k1", "600").want(t, 200, "")
	pay("k2", "600").want(t, 400, "amount_too_large")
	pay("k3", "400").want(t, 200, "")
	pay("k4", "1").want(t, 400, "charge_already_refunded")
	again := pay("k4", "1")
	again.want(t, 400, "charge_already_refunded")
	if again.header.Get("Idempotent-Replayed") != "true" {
		t.Error("a refusal made while processing is not stored")
	}
	tw.wantEffects(2)
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 hold=1h")
	first := make(chan got, 1)
	go func() { first <- tw.refund("k1") }()
	tw.untilOutcome(0, "started")
	tw.refund("k1").want(t, 409, "idempotency_key_in_use") // S16.17
	tw.refund("k2").want(t, 200, "")
	tw.wantEffects(1)
	if err := tw.Server.Close(); err != nil {
		t.Error(err)
	}
	(<-first).want(t, 503, "")
	tw.refund("k3").want(t, 503, "")
	if n := tw.Server.Ledger().Count; n != 1 {
		t.Errorf("%d effects after the twin stopped in the middle of processing, want 1", n)
	}
}

func TestProcessingTakesItsTime(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{Rules: rulesWith(func(r *Rules) { r.Processing = 20 * time.Millisecond })})
	began := time.Now()
	tw.refund("k1").want(t, 200, "")
	if d := time.Since(began); d < 20*time.Millisecond {
		t.Errorf("answered after %s, want at least 20ms", d)
	}
	tw.wantEffects(1)
}

func TestConcurrentSameKey(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{Rules: rulesWith(func(r *Rules) { r.Processing = time.Millisecond })})
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			key := []string{"a", "b"}[i%2]
			if g := tw.refund(key); g.err != nil || (g.status != 200 && g.status != 409) {
				t.Errorf("%d %v %s", g.status, g.err, g.body)
			}
			tw.get("/v1/refunds?payment_intent=pi_1").want(t, 200, "")
			if _, err := tw.Control.Requests(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	tw.wantEffects(2) // S16.6
}

func TestConcurrentOverRefund(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{Rules: rulesWith(func(r *Rules) { r.Captured = 480 * 3 })})
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() { tw.refund("") })
	}
	callers.Wait()
	tw.wantEffects(3)
}

func TestKindsWithoutKeys(t *testing.T) {
	t.Parallel()
	for _, kind := range []Kind{LookupOnly, NoDedupe} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			tw := startTwin(t, Config{Rules: rulesWith(func(r *Rules) { r.Kind = kind })})
			tw.refund("k1").want(t, 200, "")
			second := tw.refund("k1")
			second.want(t, 200, "")
			if second.header.Get("Idempotent-Replayed") != "" || second.header.Get("Original-Request") != "" {
				t.Error("a provider that ignores keys marks a replay")
			}
			tw.wantEffects(2)
			metadata, _ := second.object["metadata"].(map[string]any)
			list := tw.get("/v1/refunds?payment_intent=pi_1")
			events := tw.get("/v1/events")
			if kind == NoDedupe {
				if len(metadata) != 0 {
					t.Errorf("metadata was kept: %v", metadata)
				}
				list.want(t, 404, "")
				events.want(t, 404, "")
				tw.get("/v1/refunds/"+second.id()).want(t, 404, "")
				tw.get("/v1/refunds/search?query="+url.QueryEscape("metadata['effectonce']:'abc'")).want(t, 404, "")
				return
			}
			if metadata["effectonce"] != "abc" {
				t.Errorf("metadata: %v", metadata)
			}
			list.want(t, 200, "")
			if strings.Contains(events.body, "k1") {
				t.Error("an ignored key appears in the events")
			}
		})
	}
}

func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.get("/v1/charges").want(t, 404, "invalid_request_error")
	tw.get("/").want(t, 404, "invalid_request_error")
	tw.send(t.Context(), "DELETE", "/v1/refunds/re_1", "", "").want(t, 404, "invalid_request_error")
	if _, err := New(Config{Rules: Rules{Kind: "clever"}}); err == nil {
		t.Error("rules of an unknown kind were accepted")
	}
}
