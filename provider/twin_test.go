package provider

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
	"github.com/effectonce/effectonce/store/memory"
)

// startTwin starts a Stripe-like twin and returns its address and control.
func startTwin(t *testing.T, plan string) (string, twin.Control) {
	t.Helper()
	parsed, err := twin.ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	rules := twin.StripeRules()
	rules.LookupLag = 0
	server, err := twin.New(twin.Config{Rules: rules, Plan: parsed, StampField: "effectonce"})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	t.Cleanup(func() { server.Close(); web.Close() })
	return web.URL, twin.Control{BaseURL: web.URL}
}

// The contract stripe/v1 against the provider twin: what is counted is its ledger.
func TestAgainstTheTwin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, plan string
		first      effectonce.Verdict
		again      effectonce.Verdict
		found      effectonce.Found
		effects    int
	}{
		{"nothing goes wrong", "", effectonce.VerdictSucceeded, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
		{"the answer is dropped", "refunds#1 after-effect drop", effectonce.VerdictUnknown, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
		{"the connection is reset", "refunds#1 after-effect reset", effectonce.VerdictUnknown, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
		{"the answer is cut", "refunds#1 after-effect cut", effectonce.VerdictUnknown, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
		{"the answer is garbled", "refunds#1 after-effect garble", effectonce.VerdictUnknown, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
		{"somebody else's answer", "refunds#1 after-effect foreign", effectonce.VerdictUnknown, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
		{"dropped before the effect", "refunds#1 before-effect drop", effectonce.VerdictUnknown, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
		{"bad gateway after the effect", "refunds#1 after-effect status=502", effectonce.VerdictUnknown, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
		{"an error that is stored", "refunds#1 after-effect status=500", effectonce.VerdictUnknown, effectonce.VerdictUnknown, effectonce.FoundOne, 1},
		{"refused by a limiter", "refunds#1 instead status=429", effectonce.VerdictThrottled, effectonce.VerdictSucceeded, effectonce.FoundOne, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base, control := startTwin(t, tt.plan)
			h := newHTTP(t, stripeOptions(t, base))
			call := aCall(t, h, refundArgs)
			want(t, do(t, h, call, 10*time.Second), tt.first, "")
			call.Attempt, call.Resend = 2, tt.first == effectonce.VerdictUnknown
			end := do(t, h, call, 10*time.Second)
			want(t, end, tt.again, "")
			if (end.Verdict == effectonce.VerdictUnknown) != end.StoredError {
				t.Errorf("%+v", end)
			}
			f := h.LookUp(t.Context(), call)
			if f.Found != tt.found || (end.Verdict == effectonce.VerdictSucceeded && f.Reference != end.Reference) {
				t.Errorf("looked up %+v after %+v", f, end)
			}
			ledger, err := control.Ledger(t.Context())
			if err != nil || ledger.Count != tt.effects {
				t.Errorf("%d effects, %v", ledger.Count, err)
			}
		})
	}
}

// S16.3, S16.4: through the guard, whatever happens to the answer, there is one refund and the operation learns of it.
func TestGuardedRefund(t *testing.T) {
	t.Parallel()
	for _, plan := range []string{
		"", "refunds#1 after-effect drop", "refunds#1 after-effect reset", "refunds#1 after-effect garble", "refunds#1 after-effect foreign",
		"refunds#1 after-effect status=502", "refunds#1 after-effect status=500", "refunds#1 before-effect drop", "refunds#1 after-effect drop; lookup#1 status=500",
		"refunds#1 instead status=429",
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			base, control := startTwin(t, plan)
			h := newHTTP(t, stripeOptions(t, base))
			guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
			terms := effectonce.DefaultTerms()
			terms.Managed, terms.Backoff = true, time.Millisecond
			intent := effectonce.Intent{
				Tool: "stripe.refund", ID: "refund:o1", Business: json.RawMessage(refundArgs),
				Request: render(t, h, refundArgs), RequestScope: h.Scope(), Terms: h.Terms(terms),
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			outcome, err := guard.Do(ctx, intent, h, effectonce.WaitFor(15*time.Second))
			if err != nil || outcome.Operation.State != effectonce.StateSucceeded || outcome.Operation.Reference == "" {
				t.Errorf("%s (%s), reference %q, %v", outcome.Operation.State, outcome.Operation.Reason, outcome.Operation.Reference, err)
			}
			ledger, err := control.Ledger(ctx)
			if err != nil || ledger.Count != 1 {
				t.Errorf("%d refunds, %v", ledger.Count, err)
			}
		})
	}
}
