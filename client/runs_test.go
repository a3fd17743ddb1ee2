package client_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/client"
)

// S10.1, S10.2 over the wire.
func TestAStepOverTheWire(t *testing.T) {
	t.Parallel()
	d := start(t)
	for _, run := range []string{"r1", "a/b ä?%2F", ".."} {
		s, err := d.client.Step(t.Context(), run, "s/1")
		if err != nil || s.Do != client.DoDecide || s.Decision != nil || s.Operation != nil {
			t.Fatalf("%q: an unknown step is %+v, %v", run, s, err)
		}
		choice := effectonce.Decision{Run: run, Step: "s/1", Tool: "shop.refund", IntentID: "refund:" + run, Arguments: json.RawMessage(`{"amount":480}`), Note: "n"}
		s, err = d.client.Decide(t.Context(), choice, nil)
		if err != nil || !s.First || s.Do != client.DoExecute || s.Decision.Actor != "agent-7" || s.Decision.Operation.IsZero() {
			t.Fatalf("%q: decided %+v, %v", run, s, err)
		}
		choice.Arguments = json.RawMessage(`{"amount":450}`)
		if s, err = d.client.Decide(t.Context(), choice, nil); err != nil || s.First || string(s.Decision.Arguments) != `{"amount":480}` {
			t.Fatalf("%q: decided again %+v, %v", run, s, err)
		}
		in := client.Intent{Tool: "shop.refund", Run: run, Step: "s/1", ID: "refund:" + run, Arguments: s.Decision.Arguments}
		o, err := d.client.Do(t.Context(), in)
		if err != nil || o.Operation.Key != s.Decision.Operation {
			t.Fatalf("%q: executed %+v, %v", run, o, err)
		}
		if s, err = d.client.Step(t.Context(), run, "s/1"); err != nil || s.Do != client.DoUseResult || s.Operation.Operation.Key != o.Operation.Key {
			t.Fatalf("%q: then it is %+v, %v", run, s, err)
		}
		if s, err = d.client.Decide(t.Context(), effectonce.Decision{Run: run, Step: "end", Finish: true}, nil); err != nil || s.Do != client.DoFinished {
			t.Fatalf("%q: finished %+v, %v", run, s, err)
		}
		if _, err = d.client.Decide(t.Context(), effectonce.Decision{Run: run, Step: "more"}, nil); !errors.Is(err, effectonce.ErrRunFinished) {
			t.Errorf("%q: a further step: %v", run, err)
		}
		steps, finished, err := d.client.Run(t.Context(), run)
		if err != nil || !finished || len(steps) != 2 || steps[0].Step != "s/1" {
			t.Errorf("%q: the run is %+v, %v, %v", run, steps, finished, err)
		}
	}
	page, err := d.client.Runs(t.Context(), effectonce.RunFilter{Limit: 2})
	if err != nil || len(page.Runs) != 2 || page.Next == "" || page.Runs[0].Run != ".." || !page.Runs[0].Finished || page.Runs[0].Steps != 2 {
		t.Errorf("the runs are %+v, %v", page, err)
	}
	if _, _, err := d.client.Run(t.Context(), "no-such"); !errors.Is(err, effectonce.ErrNotFound) {
		t.Errorf("an unknown run: %v", err)
	}
}

// S11.3, S8.3: refusals are the library's own errors.
func TestRefusalsOfCompensationOverTheWire(t *testing.T) {
	t.Parallel()
	d := start(t)
	o, err := d.client.Do(t.Context(), managed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.client.Compensate(t.Context(), o.Operation.Key, client.Compensation{Reason: "wrong", Person: "mara"}); !errors.Is(err, effectonce.ErrNotAllowed) {
		t.Errorf("a tool that nobody can undo: %v", err)
	}
	undone, err := d.client.Undo(t.Context(), "r1", "wrong", "mara", true, client.WaitFor(time.Second))
	if err != nil || len(undone.Steps) != 1 || undone.Steps[0].Do != "cannot_be_undone" || undone.Steps[0].Key != o.Operation.Key {
		t.Errorf("the run: %+v, %v", undone, err)
	}
	if limits, err := d.client.Limits(t.Context(), effectonce.LimitFilter{Name: "x", Limit: 3}); err != nil || len(limits) != 0 {
		t.Errorf("limits: %v, %v", limits, err)
	}
}
