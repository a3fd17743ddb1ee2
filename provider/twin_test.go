package provider

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
)

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
			plan, err := twin.ParsePlan(tt.plan)
			if err != nil {
				t.Fatal(err)
			}
			rules := twin.StripeRules()
			rules.LookupLag = 0
			server, err := twin.New(twin.Config{Rules: rules, Plan: plan, StampField: "effectonce"})
			if err != nil {
				t.Fatal(err)
			}
			web := httptest.NewServer(server)
			t.Cleanup(func() { server.Close(); web.Close() })

			h := newHTTP(t, stripeOptions(t, web.URL))
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
			control := twin.Control{BaseURL: web.URL}
			ledger, err := control.Ledger(t.Context())
			if err != nil || ledger.Count != tt.effects {
				t.Errorf("%d effects, %v", ledger.Count, err)
			}
		})
	}
}
