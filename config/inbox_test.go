package config

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce/events"
)

// S9.1, S9.2: where events come in and go out, with what the kinds of sources imply.
func TestInboxAndOutbox(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "effectonce.yaml", []byte(`
inbox:
  stripe:
    verify: stripe
    secret: [env:STRIPE_KEY, env:STRIPE_KEY]
    run: "refund:{data.object.metadata.order}"
    only: [charge.refund.updated]
    deliver: {url: "http://127.0.0.1:9000/events", secret: env:STRIPE_KEY}
  github: {verify: github, secret: env:STRIPE_KEY}
  ce: {verify: none, unsigned: true, format: cloudevents}
  hmac: {verify: hmac, secret: env:STRIPE_KEY, header: X-Signature, prefix: "sha256=", event_id: "{id}", type: refund}
  orders: {nats: {url: "nats://127.0.0.1:4222", stream: ORDERS, consumer: effectonce, credentials: env:TWO_LINES}}
outbox:
  - {subjects: ["orders.*", "refunds.>"], webhook: {url: "https://example.com", secret: env:STRIPE_KEY}, attempts: 3, backoff: 2s, backoff_max: 1m, timeout: 20s}
  - {subjects: [">"], nats: {url: "nats://127.0.0.1:4222"}}
`))
	stripe := c.Inbox["stripe"]
	if stripe.EventID != "{id}" || stripe.Type != "{type}" || stripe.Tolerance != 5*time.Minute || len(stripe.Secrets) != 2 || stripe.Deliver.Timeout != 30*time.Second || len(stripe.Only) != 1 {
		t.Errorf("stripe: %+v", stripe)
	}
	for name, read := range map[string]events.Secret{"sk_test_1": stripe.Secrets[1], "a\nb": c.Inbox["orders"].NATS.Credentials} {
		if secret, err := read(t.Context()); err != nil || secret != name {
			t.Errorf("%q: %q %v", name, secret, err)
		}
	}
	if g := c.Inbox["github"]; g.EventID != "{header.x-github-delivery}" || g.Type != "{header.x-github-event}" || g.Deliver != nil {
		t.Errorf("github: %+v", g)
	}
	if ce := c.Inbox["ce"]; ce.EventID != "{source}:{id}" || ce.Format != events.FormatCloudEvents {
		t.Errorf("cloud events: %+v", ce)
	}
	if h := c.Inbox["hmac"]; h.Encoding != "hex" || h.Prefix != "sha256=" {
		t.Errorf("hmac: %+v", h)
	}
	if len(c.Outbox) != 2 || c.Outbox[0].Attempts != 3 || c.Outbox[0].Timeout != 20*time.Second || c.Outbox[0].Webhook.Secret == nil {
		t.Errorf("outbox: %+v", c.Outbox)
	}
	if r := c.Outbox[1]; r.Attempts != 12 || r.BackoffMax != 5*time.Minute || r.NATS.Credentials != nil {
		t.Errorf("outbox: %+v", r)
	}
}
