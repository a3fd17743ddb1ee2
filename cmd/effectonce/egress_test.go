package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/fault/twin"
)

// egressConfig is a route as docs/egress.md shows it, with short times.
const egressConfig = `
providers:
  stripe: {contract: stripe/v1, base_url: "UPSTREAM", credential: "env:STRIPE_KEY"}
routes:
  - {path: stripe, provider: stripe, intents: derive, tools: {refunds.create: stripe.refund}}
tools:
  stripe.refund:
    intent_id: "refund:{payment_intent}:{metadata.ticket}"
    arguments: {payment_intent: {kind: identity}, metadata.ticket: {kind: identity}, reason: {kind: free}}
    call: {timeout: 1500ms}
    lease: {grace: 500ms}
    settle: {pause: 10ms, transit: 10ms, processing: 10ms}
    retry: {backoff: 50ms, backoff_max: 200ms}
`

// withRoute is a directory with a configuration that has a route to a running twin.
func withRoute(t testing.TB, plan string) (dir string, ledger twin.Control) {
	t.Helper()
	dir = t.TempDir()
	p := start(t, dir, nil, "twin", "stripe", "--fault", plan, "--listen", "127.0.0.1:0")
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte(strings.ReplaceAll(egressConfig, "UPSTREAM", p.url)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, twin.Control{BaseURL: p.url}
}

// postForm sends a refund as an SDK does; status 0 says that nothing was answered.
func postForm(t testing.TB, base, form string, headers ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/egress/stripe/v1/refunds", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Idempotency-Key", "made-up")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, ""
	}
	return response.StatusCode, response.Header, string(body)
}

const ticketForm = "payment_intent=pi_1&amount=480&currency=eur&metadata[ticket]=T-7&reason="

// The daemon is killed after the effect. The next one finds out by itself what it did, since it holds the credential, and the agent, in other words, gets the refund. (S7.5, S16.3)
func TestARouteSurvivesTheDaemon(t *testing.T) {
	t.Parallel()
	dir, ledger := withRoute(t, "refunds#1 after-effect hang=30s")
	first := serve(t, dir)
	gone := make(chan int)
	go func() {
		status, _, _ := postForm(t, first.url, ticketForm+"duplicate")
		gone <- status
	}()
	eventually(t, "the effect", func() bool { return effects(t, ledger) == 1 })
	first.kill()
	if status := <-gone; status != 0 {
		t.Errorf("the client was answered %d", status)
	}
	second := serve(t, dir)
	eventually(t, "the next daemon settles it", func() bool {
		code, out, _ := answer(t, nil, "", "ops", "ls", "--server", second.url, "--json")
		return code == 0 && strings.Contains(out, `"succeeded"`)
	})
	status, header, body := postForm(t, second.url, ticketForm+"requested_by_customer")
	if status != http.StatusOK || header.Get("Effectonce-Replayed") != "true" || !strings.Contains(body, "re_twin") {
		t.Errorf("%d %v %s", status, header, body)
	}
	if got := effects(t, ledger); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
}

// A write that names a run which was undone is not sent. (S11.3)
func TestARouteSendsNothingForAnUndoneRun(t *testing.T) {
	t.Parallel()
	dir, ledger := withRoute(t, "")
	p := serve(t, dir)
	run := []string{"Effectonce-Run", "run-1", "Effectonce-Step", "one"}
	if status, _, body := postForm(t, p.url, ticketForm, run...); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	// Nobody said how it is undone, and the exit code says that it stays.
	if code, out, errs := answer(t, nil, "", "runs", "undo", "run-1", "--reason", "x", "--person", "mara", "--server", p.url); code != 6 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	another := strings.Replace(ticketForm, "T-7", "T-8", 1)
	for range 2 {
		if status, _, body := postForm(t, p.url, another, run...); status == http.StatusOK || !strings.Contains(body, "run was undone") {
			t.Errorf("%d %s", status, body)
		}
	}
	if status, header, body := postForm(t, p.url, ticketForm, run...); status != http.StatusOK || header.Get("Effectonce-Replayed") != "true" {
		t.Errorf("what it did before is answered %d %s", status, body)
	}
	if got := effects(t, ledger); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
}

// Reads, the API and the metrics are served beside a route, and the free text does not reach the provider. (S4.3, S14.4)
func TestARouteBesideTheAPI(t *testing.T) {
	t.Parallel()
	dir, ledger := withRoute(t, "")
	p := serve(t, dir)
	if status, _, body := postForm(t, p.url, ticketForm+"duplicate"); status != http.StatusOK || strings.Contains(body, "duplicate") {
		t.Fatalf("%d %s", status, body)
	}
	for path, want := range map[string]string{
		"/egress/stripe/v1/refunds?limit=1": `"has_more"`, "/healthz": `"ok"`, "/metrics": `effectonce_egress_writes_total{route="stripe",outcome="succeeded",replayed="false"} 1`,
		"/egress/none/v1": "no_route", "/egress": "not_found",
	} {
		response, err := http.Get(p.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s (%v)", path, body, err)
		}
	}
	if got := effects(t, ledger); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
	if strings.Contains(p.stderr.String(), "sk_test") || strings.Contains(p.stderr.String(), "pi_1") {
		t.Errorf("the log says too much:\n%s", p.stderr)
	}
}

// S14.4: a route can have an address of its own, for SDKs whose base URL has no place for a path; nothing else is served there.
func TestARouteHasAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	dir, ledger := withRoute(t, "")
	// A port that was free a moment ago.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, configFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "path: stripe,", `path: stripe, listen: "`+address+`",`, 1))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, dir)
	send := func(method, url, form string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	if status, body := send("POST", "http://"+address+"/v1/refunds", ticketForm); status != http.StatusOK || !strings.Contains(body, "re_twin") {
		t.Fatalf("%d %s", status, body)
	}
	// The same intent by the path under the daemon's address is the same operation.
	if status, header, _ := postForm(t, p.url, ticketForm); status != http.StatusOK || header.Get("Effectonce-Replayed") != "true" {
		t.Errorf("%d %v", status, header)
	}
	if status, body := send("GET", "http://"+address+"/v1/refunds?limit=1", ""); status != http.StatusOK || !strings.Contains(body, "re_twin") {
		t.Errorf("a read: %d %s", status, body)
	}
	// The daemon's own API is not there: whatever comes is the provider's.
	if status, _ := send("GET", "http://"+address+"/healthz", ""); status == http.StatusOK {
		t.Error("the API answers at a route's address")
	}
	if got := effects(t, ledger); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
}
