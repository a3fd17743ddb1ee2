package policy

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// counting is the refund policy with limits, in euros only.
func counting(limits ...Limit) Spec {
	s := refund()
	s.Arguments["currency"] = Argument{Normalise: steps("upper"), Default: json.RawMessage(`"EUR"`), OneOf: values(`"EUR"`)}
	s.Arguments["captured"] = Argument{Normalise: []Normaliser{{Name: "amount", Amount: &Amount{Currency: "currency"}}}}
	s.Arguments["count"] = Argument{}
	s.Limits = limits
	return s
}

// S8.3
func TestLimitsOfACall(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, counting(
		Limit{Name: "refunds:payment:{payment_intent}", Amount: "{amount.minor}", Max: "{meta.captured}"},
		Limit{Name: "refunds:agent:{meta.actor}", Max: "3", Per: Duration(24 * time.Hour)},
		Limit{Name: "all", Amount: "{amount.minor}", Max: "{captured.minor}"},
	))
	args := `{"order_id":"o-1","ticket_id":1,"payment_intent":"pi/1","amount":"480","captured":500}`
	in, err := tool.Intent(json.RawMessage(args), Meta{"captured": "50000", "actor": "a7"})
	if err != nil {
		t.Fatal(err)
	}
	want := []effectonce.Limit{
		{Name: "refunds:payment:pi%2F1", Amount: 48000, Max: 50000},
		{Name: "refunds:agent:a7", Amount: 1, Max: 3, Per: 24 * time.Hour},
		{Name: "all", Amount: 48000, Max: 50000},
	}
	if !slices.Equal(in.Limits, want) {
		t.Errorf("limits %+v", in.Limits)
	}
	for name, c := range map[string]struct {
		args  string
		meta  Meta
		field string
	}{
		"a maximum missing":         {args, Meta{"actor": "a"}, "context.captured"},
		"a maximum that is none":    {args, Meta{"actor": "a", "captured": "many"}, "context.captured"},
		"a fraction":                {args, Meta{"actor": "a", "captured": "1.5"}, "context.captured"},
		"a negative maximum":        {args, Meta{"actor": "a", "captured": "-1"}, "context.captured"},
		"beyond what can be summed": {args, Meta{"actor": "a", "captured": "4503599627370497"}, "context.captured"},
		"nobody":                    {args, Meta{"captured": "1"}, "actor"},
		"no amount":                 {`{"order_id":"o-1","ticket_id":1,"payment_intent":"pi_1","captured":500}`, Meta{"actor": "a", "captured": "1"}, "arguments.amount"},
		"nothing":                   {`{"order_id":"o-1","ticket_id":1,"payment_intent":"pi_1","amount":0,"captured":500}`, Meta{"actor": "a", "captured": "1"}, "arguments.amount"},
	} {
		_, err := tool.Intent(json.RawMessage(c.args), c.meta)
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Field != c.field || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryProblemOfALimitIsNamed(t *testing.T) {
	t.Parallel()
	readOnly := counting(Limit{Name: "a", Max: "1"})
	readOnly.Class = effectonce.ClassReadOnly
	mixed := refund()
	mixed.Limits = []Limit{{Name: "all", Amount: "{amount.minor}", Max: "1"}}
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"no name":               {counting(Limit{Max: "1"}), "limits.0.name: is missing"},
		"no maximum":            {counting(Limit{Name: "a"}), "limits.0.max: is missing"},
		"free text in the name": {counting(Limit{Name: "a:{reason}", Max: "1"}), "limits.0.name: {reason} is free text"},
		"free text counted":     {counting(Limit{Name: "a", Amount: "{reason}", Max: "1"}), "limits.0.amount: {reason} is free text"},
		"a key counted":         {counting(Limit{Name: "a", Max: "{idempotency_key}"}), "limits.0.max: {idempotency_key} is not an argument"},
		"a decimal":             {counting(Limit{Name: "a", Amount: "{amount.decimal}", Max: "1"}), "limits.0.amount: {amount.decimal} is no whole number: write {amount.minor}"},
		"a whole amount":        {counting(Limit{Name: "a", Amount: "{amount}", Max: "1"}), "is an amount, which is no component by itself"},
		"words":                 {counting(Limit{Name: "a", Max: "about {count}"}), "is neither a whole number nor one placeholder"},
		"nothing taken":         {counting(Limit{Name: "a", Amount: "0", Max: "1"}), "limits.0.amount: must be between 1 and 2^52"},
		"too much":              {counting(Limit{Name: "a", Max: "4503599627370497"}), "limits.0.max: must be between 0 and 2^52"},
		"twice":                 {counting(Limit{Name: "a", Max: "1"}, Limit{Name: "a", Max: "2"}), "limits.1.name: is there twice"},
		"parts of seconds":      {counting(Limit{Name: "a", Max: "1", Per: Duration(1500 * time.Millisecond)}), "limits.0.per: must be whole seconds"},
		"not injective":         {counting(Limit{Name: "{payment_intent}{order_id}", Max: "1"}), "does not keep {payment_intent} and {order_id} apart"},
		"read only":             {readOnly, "limits: a read-only tool"},
		"mixed currencies":      {mixed, "limits.0.name: adds up amounts of different currencies: put {currency} into the name"},
		"too many":              {counting(make([]Limit, 9)...), "limits: has more than 8 limits"},
	} {
		_, problems := Compile(c.spec)
		if len(problems) == 0 || !strings.Contains(problems[0].String(), c.want) {
			t.Errorf("%s: %v", name, problems)
		}
	}
	mixed.Limits[0].Name = "all:{currency}"
	mustCompile(t, mixed)
	mixed.Limits[0].Name = "all:{amount.currency}"
	mustCompile(t, mixed)
}
