package config

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/policy"
	memorystore "github.com/effectonce/effectonce/store/memory"
)

const charges = `
tools:
  charge:
    accept_review: true
    intent_id: "charge:{order}"
    arguments:
      order: {kind: identity}
      amount: {normalise: {amount: {currency: currency}}}
      currency: {default: EUR}
      note: {kind: free}
    compensate:
      tool: refund
      arguments: {payment: "{result.id}", of: "{reference}", amount: "{amount}", cents: "{amount}", currency: "{currency}", why: "undo {order} ({key})", lines: ["{result.lines.0?}", "{amount.minor}"]}
  refund:
    accept_review: true
    scope: run
    intent_id: "refund:{payment}:{meta.ticket}"
    arguments:
      payment: {kind: identity}
      of: {required: true}
      amount: {normalise: {amount: {currency: currency}}, required: true}
      cents: {normalise: {amount: {currency: currency, unit: minor}}}
      why: {kind: free}
`

type charged struct {
	ID    string   `json:"id"`
	Lines []string `json:"lines"`
}

func (c charged) EffectReference() string { return c.ID }

// S11.3: an effect is undone by an operation of its own, once, whoever asks for it and however often.
func TestACompensationIsMadeOfWhatTookEffect(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "effectonce.yaml", []byte(charges+"      currency: {}\n"))
	guard := effectonce.New(memorystore.Open(memorystore.Options{}), effectonce.Options{})
	first := charge(t, guard, c, `{"order":"o-1","amount":480,"note":"x"}`)
	var got []effectonce.Key
	for _, run := range []string{"r1", "r2"} {
		tool, in, ok, err := c.Tools["charge"].Compensation(first, policy.Meta{"run": run})
		if err != nil || !ok || tool != "refund" {
			t.Fatalf("%v %v %s", err, ok, tool)
		}
		want := `{"amount":"480.00","cents":48000,"currency":"EUR","lines":[48000],"of":"pi_1","payment":"pi_1","why":"undo o-1 (` + first.Key.String() + `)"}`
		if string(in.Arguments) != want {
			t.Errorf("arguments %s", in.Arguments)
		}
		if in.ID != effectonce.CompensationID(first.Key) || in.Compensates != first.Key || in.Scope != effectonce.ScopeBusiness || !in.ForgetAt.IsZero() {
			t.Errorf("intent %+v", in)
		}
		out, err := guard.Record(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, out.Operation.Key)
	}
	if got[0] != got[1] {
		t.Error("two runs have two compensations")
	}
	if _, _, ok, err := c.Tools["refund"].Compensation(first, nil); ok || err != nil {
		t.Errorf("a tool without one: %v %v", ok, err)
	}
	purged := first
	purged.PurgedAt = purged.CreatedAt
	bare := first
	bare.Result = nil
	for name, op := range map[string]effectonce.Operation{"were purged": purged, "{result.id}": bare} {
		var e *effectonce.Error
		if _, _, _, err := c.Tools["charge"].Compensation(op, nil); !errors.As(err, &e) || !strings.Contains(e.Detail, name) || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func charge(t *testing.T, guard *effectonce.Guard, c *Config, args string) effectonce.Operation {
	t.Helper()
	in, err := c.Tools["charge"].Intent(json.RawMessage(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := guard.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (charged, error) { return charged{ID: "pi_1"}, nil }))
	if err != nil {
		t.Fatal(err)
	}
	return out.Operation
}

// S3.10, S11.3: the call of a compensation through a provider is frozen like any other, and its tool can be edited in between.
func TestACompensationThroughAProvider(t *testing.T) {
	t.Parallel()
	text := `
providers:
  stripe: {contract: stripe/v1, base_url: "http://127.0.0.1:9", credential: env:STRIPE_KEY, account: shop}
tools:
  charge:
    accept_review: true
    intent_id: "charge:{order}"
    arguments: {order: {kind: identity}, amount: {normalise: {amount: {code: EUR}}}}
    compensate: {tool: refund, arguments: {payment_intent: "{reference}", amount: "{amount}"}}
  refund:
    intent_id: "refund:{payment_intent}:{meta.ticket}"
    arguments: {payment_intent: {kind: identity}, amount: {normalise: {amount: {code: EUR}}}}
    limits: [{name: "refunds:{payment_intent}", amount: "{amount.minor}", max: 50000}]
    call: {provider: stripe, operation: refunds.create, body: {payment_intent: "{payment_intent}", amount: "{amount.minor}"}}
`
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	before, err := edited(t, store, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	first := charge(t, guard, before, `{"order":"o-1","amount":480}`)
	compensate := func(c *Config) effectonce.Outcome {
		_, in, _, err := c.Tools["charge"].Compensation(first, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(in.Request), "48000") || in.RequestScope == "" || !in.Terms.Managed || len(in.Limits) != 1 || in.Limits[0].Amount != 48000 {
			t.Errorf("intent %+v", in)
		}
		out, err := guard.Record(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	one := compensate(before)
	after, err := edited(t, store, []byte(strings.Replace(text, "refund:{payment_intent}:", "refund/{payment_intent}/", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if again := compensate(after); again.Operation.Key != one.Operation.Key || one.Operation.Compensates != first.Key {
		t.Errorf("two compensations: %+v", again.Operation)
	}
}
