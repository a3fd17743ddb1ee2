package effectonce_test

import (
	"context"
	"errors"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// S11.1: observe, apply if different, observe again.
func TestEnsure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state, after    string
		observe, apply  error
		applies         int
		want            error
		observeFailsNth int
	}{
		"already so":                  {state: "on", after: "on", applies: 0},
		"brought about":               {state: "off", after: "on", applies: 1},
		"not so afterwards":           {state: "off", after: "off", applies: 1, want: effectonce.ErrUnknownOutcome},
		"cannot be observed at first": {state: "off", after: "on", observe: errors.New("down"), observeFailsNth: 1, want: effectonce.ErrPending},
		"cannot be observed after":    {state: "off", after: "on", observe: errors.New("down"), observeFailsNth: 2, applies: 1, want: effectonce.ErrUnknownOutcome},
		"refused":                     {state: "off", after: "on", apply: effectonce.Rejected(errors.New("no such switch"), false), applies: 1, want: effectonce.ErrFailed},
		"lost":                        {state: "off", after: "on", apply: errors.New("reset"), applies: 1, want: effectonce.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			observed, applied := 0, 0
			state := c.state
			p := effectonce.Ensure(func(context.Context, effectonce.Call) (string, bool, error) {
				observed++
				if observed == c.observeFailsNth {
					return "", false, c.observe
				}
				return state, state == "on", nil
			}, func(context.Context, effectonce.Call, string) error {
				applied++
				if c.apply == nil {
					state = c.after
				}
				return c.apply
			})
			guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
			o, err := guard.Do(t.Context(), effectonce.Intent{Tool: "switch", ID: "lamp:1", Terms: effectonce.Terms{Class: effectonce.ClassConvergent}}, p)
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("%v, want %v", err, c.want)
			}
			if applied != c.applies {
				t.Errorf("applied %d times, want %d", applied, c.applies)
			}
			if err == nil && string(o.Operation.Result) != `"on"` {
				t.Errorf("the result is %s", o.Operation.Result)
			}
		})
	}
}
