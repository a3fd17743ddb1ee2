package integration

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/stripe/stripe-go/v84"
)

// Stripe's clients send again by themselves, under the key that they made up for the call. A call that the agent repeats has another key: two refunds.

// S14.4, S16.4
func TestStripeGo(t *testing.T) {
	t.Parallel()
	address := double(t)
	w := newWire(t, address)
	s := subject{
		name: "stripe-go", wire: w, route: "stripe", settles: true,
		daemon: serve(t, `
providers:
  stripe: {contract: stripe/v1, base_url: "`+w.URL+`", credential: "env:STRIPE_KEY"}
routes:
  - {path: stripe, provider: stripe, tools: {refunds.create: stripe.refund}}
tools:
  stripe.refund:`+tool, "STRIPE_KEY=sk_test_held"),
		prepare: func(t *testing.T, _ string) string { return charge(t, address) },
		effects: func(t *testing.T, about string) int { return len(refunds(t, address, about)) },
		call: func(t *testing.T, base, about, intent string) error {
			address, err := url.Parse(base)
			if err != nil {
				t.Fatal(err)
			}
			backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
				URL: stripe.String("http://" + address.Host), HTTPClient: &http.Client{Timeout: patience, Transport: before(address.Path)}, LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
			})
			params := &stripe.RefundCreateParams{Charge: stripe.String(about), Amount: stripe.Int64(refundedMinor)}
			if intent != "" {
				params.Headers = http.Header{"Effectonce-Intent": {intent}}
			}
			_, err = stripe.NewClient("sk_test_agent", stripe.WithBackends(backends)).V1Refunds.Create(t.Context(), params)
			return err
		},
	}
	s.run(t)
}

// before is a path that goes before each request's. stripe-go refuses a base URL with a path: it wants to see /v1 or /v2 first.
type before string

// RoundTrip implements http.RoundTripper.
func (b before) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Path = string(b) + r.URL.Path
	return http.DefaultTransport.RoundTrip(r)
}

// The intent is derived from the request, so that the agent's code says nothing of it.
// S14.4, S16.4
func TestStripeNode(t *testing.T) {
	t.Parallel()
	npmPackages(t, "sdks")
	address := double(t)
	w := newWire(t, address)
	call := nodeCall("stripe", patience, patience*20)
	s := subject{
		name: "stripe-node", wire: w, route: "stripe", settles: true,
		daemon: serve(t, `
providers:
  stripe: {contract: stripe/v1, base_url: "`+w.URL+`", credential: "env:STRIPE_KEY"}
routes:
  - {path: stripe, provider: stripe, intents: derive, tools: {refunds.create: stripe.refund}}
tools:
  stripe.refund:
    intent_id: "refund:{charge}:{metadata.ticket}"
    arguments: {charge: {kind: identity}, metadata.ticket: {kind: identity}}`+tool, "STRIPE_KEY=sk_test_held"),
		prepare: func(t *testing.T, _ string) string { return charge(t, address) },
		effects: func(t *testing.T, about string) int { return len(refunds(t, address, about)) },
		call:    func(t *testing.T, base, about, _ string) error { return call(t, base, about, "") },
		intent:  func(about string) string { return fmt.Sprintf("refund:%s:%s", about, about) },
	}
	s.run(t)
}
