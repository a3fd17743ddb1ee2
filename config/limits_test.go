package config

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/policy"
	memorystore "github.com/effectonce/effectonce/store/memory"
)

// do has the effect of a call through a tool; the effect is counted in ran.
func do(t *testing.T, guard *effectonce.Guard, tool *Tool, args string, meta policy.Meta, ran *int) (effectonce.Outcome, error) {
	t.Helper()
	in, err := tool.Intent(json.RawMessage(args), meta)
	if err != nil {
		return effectonce.Outcome{}, err
	}
	if in.ID == "" {
		in.ID = "given:1"
	}
	return guard.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (map[string]string, error) {
		*ran++
		return map[string]string{"id": "re_1"}, nil
	}))
}

// S8.3: more than the captured amount is not refunded, in however many refunds.
func TestALimitOfTheFileIsKept(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "effectonce.yaml", []byte(`
tools:
  pay:
    accept_review: true
    intent_id: "refund:{ticket}"
    arguments: {ticket: {kind: identity}, payment: {}, amount: {normalise: {amount: {code: EUR}}}}
    limits:
      - {name: "refunds:{payment}", amount: "{amount.minor}", max: "{meta.captured}"}
      - {name: "refunds:{meta.actor}", max: 3, per: 1d}
`))
	guard := effectonce.New(memorystore.Open(memorystore.Options{}), effectonce.Options{})
	meta, ran := policy.Meta{"captured": "50000", "actor": "a7"}, 0
	if _, err := do(t, guard, c.Tools["pay"], `{"ticket":"1","payment":"pi_1","amount":480}`, meta, &ran); err != nil {
		t.Fatal(err)
	}
	_, err := do(t, guard, c.Tools["pay"], `{"ticket":"2","payment":"pi_1","amount":20.01}`, meta, &ran)
	var e *effectonce.Error
	if !errors.As(err, &e) || e.Code != effectonce.CodeLimitExceeded || e.Limit != "refunds:pi_1" || len(e.HeldBy) != 1 {
		t.Errorf("one cent too much: %v", err)
	}
	if out, err := do(t, guard, c.Tools["pay"], `{"ticket":"1","payment":"pi_1","amount":480}`, meta, &ran); err != nil || !out.Replayed {
		t.Errorf("a repeat takes nothing: %v", err)
	}
	for ticket, args := range map[string]string{"3": `{"ticket":"3","payment":"pi_1","amount":20}`, "4": `{"ticket":"4","payment":"pi_2","amount":1}`} {
		if _, err := do(t, guard, c.Tools["pay"], args, meta, &ran); err != nil {
			t.Errorf("ticket %s: %v", ticket, err)
		}
	}
	if _, err := do(t, guard, c.Tools["pay"], `{"ticket":"5","payment":"pi_3","amount":1}`, meta, &ran); !errors.As(err, &e) || e.Limit != "refunds:a7" || ran != 3 {
		t.Errorf("the fourth of a day: %d, %v", ran, err)
	}
}

// S13.2: a call of a period that is over is refused without the row, and nothing executes.
func TestACallOfAForgottenPeriodIsRefused(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "effectonce.yaml", pay(`intent_id: "pay:{month}", arguments: {month: {kind: identity}}, retention: {result: 1d, identity: {for: 30d, period: "{month}"}}`))
	now := time.Date(2026, 12, 30, 0, 0, 0, 0, time.UTC)
	guard := effectonce.New(memorystore.Open(memorystore.Options{Now: func() time.Time { return now }}), effectonce.Options{})
	ran := 0
	if _, err := do(t, guard, c.Tools["pay"], `{"month":"2026-11"}`, nil, &ran); err != nil || ran != 1 {
		t.Fatalf("inside its time: %d, %v", ran, err)
	}
	now = time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)
	if _, err := do(t, guard, c.Tools["pay"], `{"month":"2026-10"}`, nil, &ran); !errors.Is(err, effectonce.ErrExpired) || ran != 1 {
		t.Errorf("after it: %d, %v", ran, err)
	}
	if got := c.Tools["pay"].Terms().Results; got != 24*time.Hour {
		t.Errorf("results are kept for %s", got)
	}
}

// S13.2: however long identities are kept after an edit, what the policy before it may have forgotten is not executed again.
func TestALongerRetentionBringsNothingBack(t *testing.T) {
	t.Parallel()
	const tool = `intent_id: "pay:{month}", arguments: {month: {kind: identity}}, retention: {identity: `
	now := time.Date(2026, 12, 30, 0, 0, 0, 0, time.UTC)
	store := memorystore.Open(memorystore.Options{Now: func() time.Time { return now }})
	guard := effectonce.New(store, effectonce.Options{})
	ran := 0
	before, err := edited(t, store, pay(tool+`{for: 30d, period: "{month}"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, guard, before.Tools["pay"], `{"month":"2026-11"}`, nil, &ran); err != nil {
		t.Fatal(err)
	}
	now = time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)
	if n, err := store.Forget(t.Context(), 10); err != nil || n != 1 {
		t.Fatalf("forgot %d, %v", n, err)
	}
	// There is an operation by which the edit is noticed.
	if _, err := do(t, guard, before.Tools["pay"], `{"month":"2026-12"}`, nil, &ran); err != nil {
		t.Fatal(err)
	}
	for name, identity := range map[string]string{"longer": `{for: 400d, period: "{month}"}}`, "for ever": `forever}`} {
		after, err := edited(t, store, pay(tool+identity))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := do(t, guard, after.Tools["pay"], `{"month":"2026-11"}`, nil, &ran); !errors.Is(err, effectonce.ErrExpired) {
			t.Errorf("%s: %v", name, err)
		}
		if out, err := do(t, guard, after.Tools["pay"], `{"month":"2026-12"}`, nil, &ran); err != nil || !out.Replayed || ran != 2 {
			t.Errorf("%s: executed %d times, %v", name, ran, err)
		}
	}
}
