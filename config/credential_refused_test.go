package config

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
	memorystore "github.com/effectonce/effectonce/store/memory"
)

// bank is the example's tool against a twin, with a credential in a file and a clock that can be moved.
type bank struct {
	t      *testing.T
	stripe *twin.Server
	secret string
	tool   *Tool
	guard  *effectonce.Guard
	now    time.Time
}

func openBank(t *testing.T, faults string) *bank {
	t.Helper()
	plan, err := twin.ParsePlan(faults)
	if err != nil {
		t.Fatal(err)
	}
	stripe, err := twin.New(twin.Config{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stripe.Close() })
	web := httptest.NewServer(stripe)
	t.Cleanup(web.Close)
	data, err := os.ReadFile(filepath.Join("..", "examples", "refund", "effectonce.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{t: t, stripe: stripe, secret: filepath.Join(t.TempDir(), "key"), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	b.credential("sk_test_1")
	text := strings.NewReplacer("http://127.0.0.1:7190", web.URL, "env:STRIPE_KEY", "file:"+b.secret).Replace(string(data))
	b.tool = mustParse(t, "effectonce.yaml", []byte(text)).Tools["stripe.refund"]
	b.guard = effectonce.New(memorystore.Open(memorystore.Options{Now: func() time.Time { return b.now }}), effectonce.Options{})
	return b
}

func (b *bank) credential(secret string) {
	b.t.Helper()
	if err := os.WriteFile(b.secret, []byte(secret), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// ask asks for the refund, after any pause between two attempts.
func (b *bank) ask() effectonce.Outcome {
	b.t.Helper()
	b.now = b.now.Add(2 * time.Minute)
	in, err := b.tool.Intent(json.RawMessage(`{"order_id":"O-1","ticket_id":"T-1","payment_intent":"pi_1","amount":480}`), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := b.guard.Do(b.t.Context(), in, b.tool.Provider)
	b.t.Logf("%s: %v", out.Operation.State, err)
	return out
}

// S6.2: a credential that is refused fails no refund; with the right one the same operation succeeds.
func TestARefusedCredentialDoesNotFailTheRefund(t *testing.T) {
	t.Parallel()
	b := openBank(t, "")
	b.credential("pk_test_wrong")
	out := b.ask()
	if out.Operation.State != effectonce.StatePending || !strings.Contains(out.Operation.Reason, "refused the credential") {
		t.Fatalf("with a wrong credential: %s, %q", out.Operation.State, out.Operation.Reason)
	}
	b.credential("sk_test_1")
	if out = b.ask(); out.Operation.State != effectonce.StateSucceeded || b.stripe.Ledger().Count != 1 {
		t.Errorf("with the right one: %s, %d refunds", out.Operation.State, b.stripe.Ledger().Count)
	}
}

// S7.3 lines 9 and 11, S7.7: a credential that stays refused ends as failed once the total time is over, since nothing was ever
// executed; until then the look-up, which is refused as well, is asked again.
func TestACredentialThatStaysRefused(t *testing.T) {
	t.Parallel()
	b := openBank(t, "")
	b.credential("pk_test_wrong")
	var out effectonce.Outcome
	for range 20 {
		out = b.ask()
	}
	if out.Operation.State != effectonce.StateFailed || out.Next != effectonce.AdviceNewIntent || !strings.Contains(out.Operation.Reason, "nothing was ever executed") || b.stripe.Ledger().Count != 0 {
		t.Errorf("%s, %s, %q, %d refunds", out.Operation.State, out.Next, out.Operation.Reason, b.stripe.Ledger().Count)
	}
}

// S6.4, schedule 10: one copy of the request is answered 401 and another takes effect. The key's record tells.
func TestACopyThatTookEffectBesideARefusal(t *testing.T) {
	t.Parallel()
	b := openBank(t, "refunds#1 twice")
	out := b.ask()
	if out.Operation.State != effectonce.StatePending {
		t.Fatalf("after the 401: %s", out.Operation.State)
	}
	if out = b.ask(); out.Operation.State != effectonce.StateSucceeded || b.stripe.Ledger().Count != 1 {
		t.Errorf("%s, %d refunds", out.Operation.State, b.stripe.Ledger().Count)
	}
}
