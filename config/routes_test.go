package config

import (
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

const routeProviders = `
providers:
  stripe: {contract: stripe/v1, base_url: "https://api.stripe.com", credential: env:STRIPE_KEY}
  bare: {contract: stripe/v1, base_url: "https://api.stripe.com"}
  slack: {contract: slack, base_url: "https://slack.com/api"}
  ec2: {contract: aws/ec2, base_url: "https://ec2.eu-west-1.amazonaws.com"}
tools:
  refund: {intent_id: "refund:{payment_intent}", arguments: {payment_intent: {kind: identity}}}
  plain: {arguments: {reason: {kind: free}}, drop: [token]}
  own: {accept_review: true}
routes:
  - {path: first, provider: stripe, intents: derive, tools: {refunds.create: refund, post: plain}}
`

// A route has its provider's contract and credential, and the tools their policies; a tool of a route gets its terms from the contract. (S14.4)
func TestRoutes(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "effectonce.yaml", []byte(routeProviders+`
  - {path: second, provider: bare, wait: 5s, timeout: 10s, undescribed: pass}
  - {path: third, provider: slack, accept_review: true, intents: observe}
`))
	if len(c.Routes) != 3 {
		t.Fatalf("%d routes", len(c.Routes))
	}
	first, second := c.Routes[0], c.Routes[1]
	if secret, err := first.API.Credential(t.Context()); err != nil || secret != "sk_test_1" || first.Intents != "derive" || first.Tools["refunds.create"] != c.Tools["refund"] {
		t.Errorf("%+v", first)
	}
	if second.API.Credential != nil || second.Intents != "require" || second.Wait != 5*time.Second || second.Terms.CallTimeout != 10*time.Second || !second.PassUndescribed {
		t.Errorf("%+v", second)
	}
	terms := c.Tools["refund"].Terms()
	if !terms.Keyed || terms.Retention != 24*time.Hour || !terms.LookUp {
		t.Errorf("the tool's terms are %+v", terms)
	}
	in, err := c.Tools["refund"].Read([]byte(`{"payment_intent":"pi_1","amount":"480"}`), nil)
	if err != nil || in.ID != "refund:pi_1" || in.Request != nil || in.Under == nil || in.Terms.Class != effectonce.ClassNonIdempotent {
		t.Errorf("%+v (%v)", in, err)
	}
	for name, want := range map[string]bool{"reason": true, "token": true, "Idempotency-Key": true, "idempotency_key": true, "amount": false} {
		if got := c.Tools["plain"].Unsent(name); got != want {
			t.Errorf("%s is unsent: %t", name, got)
		}
	}
}

// What cannot work, or would stop for a person whom nobody told, is refused with its place. (S11.2, S14.5)
func TestRoutesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ route, field, says string }{
		"no path":                      {`{provider: stripe}`, "routes.1.path", "is missing"},
		"a path of two segments":       {`{path: a/b, provider: stripe}`, "routes.1.path", "segment"},
		"a path twice":                 {`{path: first, provider: stripe}`, "routes.1.path", "another route's"},
		"no provider":                  {`{path: x}`, "routes.1.provider", "is missing"},
		"an unknown provider":          {`{path: x, provider: strip}`, "routes.1.provider", "did you mean stripe"},
		"an unknown word":              {`{path: x, provider: stripe, intents: maybe}`, "routes.1.intents", "require, derive or observe"},
		"an unknown word for the rest": {`{path: x, provider: stripe, undescribed: allow}`, "routes.1.undescribed", "refuse"},
		"an unknown operation":         {`{path: x, provider: stripe, tools: {refunds.make: plain}}`, "routes.1.tools.refunds.make", "refunds.create"},
		"an unknown tool":              {`{path: x, provider: stripe, tools: {refunds.create: plan}}`, "routes.1.tools.refunds.create", "did you mean plain"},
		"a template and a header":      {`{path: x, provider: stripe, tools: {refunds.create: refund}}`, "routes.1.intents", "derive"},
		"a person nobody told":         {`{path: x, provider: slack}`, "routes.1", "accept_review"},
		"a call that is too long":      {`{path: x, provider: stripe, timeout: 24h}`, "routes.1.timeout", "shorten"},
		"nothing to sign with":         {`{path: x, provider: ec2, accept_review: true}`, "providers.ec2.credential", "signed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("effectonce.yaml", []byte(routeProviders+"  - "+one.route+"\n"), func(string) (string, bool) { return "sk_test_1", true })
			problems, ok := err.(Problems)
			if !ok {
				t.Fatalf("not refused: %v", err)
			}
			for _, p := range problems {
				if p.Field == one.field && strings.Contains(p.Detail+" "+p.Remedy, one.says) && p.Line > 0 {
					return
				}
			}
			t.Errorf("%v", problems)
		})
	}
}
