package twin

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLedgerFileSurvives(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.jsonl")
	config := Config{LedgerFile: file, Rules: rulesWith(func(r *Rules) { r.Captured = 1000 })}
	before := startTwin(t, config)
	first := before.refund("k1")
	before.plan("refunds#1 after-effect status=500; refunds#2 after-effect drop")
	before.send(t.Context(), "POST", "/v1/refunds", "k2", "payment_intent=pi_2&amount=5").want(t, 500, "")
	before.send(t.Context(), "POST", "/v1/refunds", "k3", "payment_intent=pi_declined&amount=5")
	if err := before.Control.Advance(t.Context(), 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	was := before.wantEffects(2)

	// The earlier twin is not closed: a kill closes nothing either.
	after := startTwin(t, config)
	now := after.wantEffects(2)
	if diff := cmp.Diff(was.Effects, now.Effects); diff != "" {
		t.Errorf("ledger (-before +after):\n%s", diff)
	}
	if now.Now.Before(was.Now) {
		t.Errorf("the clock went back from %s to %s", was.Now, now.Now)
	}
	again := after.refund("k1") // S16.3
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" ||
		again.header.Get("Original-Request") != first.header.Get("Request-Id") {
		t.Errorf("replay after the restart: %v %s", again.header, again.body)
	}
	if again.header.Get("Request-Id") == first.header.Get("Request-Id") {
		t.Error("a request id was used twice")
	}
	after.send(t.Context(), "POST", "/v1/refunds", "k1", "payment_intent=pi_1&amount=1").want(t, 400, "idempotency_error")
	after.send(t.Context(), "POST", "/v1/refunds", "k2", "payment_intent=pi_2&amount=5").want(t, 500, "")
	after.send(t.Context(), "POST", "/v1/refunds", "k3", "payment_intent=pi_declined&amount=5").want(t, 402, "card_declined")
	after.send(t.Context(), "POST", "/v1/refunds", "k4", "payment_intent=pi_1&amount=600").want(t, 400, "amount_too_large")
	after.wantEffects(2)
	if err := after.Control.Advance(t.Context(), 22*time.Hour); err != nil {
		t.Fatal(err)
	}
	after.refund("k1").want(t, 200, "")
	after.wantEffects(3)
}

func TestLedgerFileWithoutItsEnd(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.jsonl")
	s := startTwin(t, Config{LedgerFile: file})
	s.refund("k1")
	s.refund("k2")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	torn := filepath.Join(t.TempDir(), "torn.jsonl")
	if err := os.WriteFile(torn, whole[:len(whole)-len(lines[len(lines)-2])/2], 0o600); err != nil {
		t.Fatal(err)
	}
	after := startTwin(t, Config{LedgerFile: torn})
	after.wantEffects(1)
	after.refund("k2").want(t, 200, "")
	after.wantEffects(2)
	last := startTwin(t, Config{LedgerFile: torn})
	last.wantEffects(2)
}

func TestLedgerFileRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"text":      "hello\n",
		"other":     `{"balance": 3}` + "\n",
		"gap":       `{"refund":{"id":"re_twin000000000002","resource":"pi_1","amount":1,"at":"2026-11-30T09:00:00Z","ticket":1,"metadata":null,"request_id":"r"}}` + "\n",
		"no moment": `{"advance":"soon"}` + "\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{LedgerFile: file}); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v, want it refused with its line", name, err)
		}
		if kept, err := os.ReadFile(file); err != nil || string(kept) != text {
			t.Errorf("%s: a refused file was changed to %q (%v)", name, kept, err)
		}
	}
	if _, err := New(Config{LedgerFile: dir}); err == nil {
		t.Error("a directory was accepted as a ledger file")
	}
}

func TestLedgerFileReset(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.jsonl")
	tw := startTwin(t, Config{LedgerFile: file})
	tw.refund("k1")
	if err := tw.Control.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	tw.refund("k2")
	after := startTwin(t, Config{LedgerFile: file})
	if ledger := after.wantEffects(1); ledger.Effects[0].Key != "k2" {
		t.Errorf("after the reset: %+v", ledger.Effects)
	}
}

func TestLedgerFileThatFails(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{LedgerFile: filepath.Join(t.TempDir(), "ledger.jsonl")})
	tw.Server.mu.Lock()
	tw.Server.ledger.Close()
	tw.Server.mu.Unlock()
	tw.refund("k1").want(t, 503, "api_error")
	tw.refund("k2").want(t, 503, "api_error")
	if n := tw.Server.Ledger().Count; n > 1 {
		t.Errorf("%d effects: requests were accepted after the file had failed", n)
	}
	if _, err := tw.Control.Health(t.Context()); err == nil {
		t.Error("healthy without a ledger file")
	}
	tw.Server.mu.Lock()
	tw.Server.ledger = nil
	tw.Server.mu.Unlock()
}
