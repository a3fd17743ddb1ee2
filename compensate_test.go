package effectonce_test

import (
	"context"
	"errors"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// S11.3: only what took effect is undone, once, by an operation of its own that says what it undoes.
func TestCompensation(t *testing.T) {
	t.Parallel()
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	run := func(id string, of effectonce.Key, end error) (effectonce.Outcome, error) {
		return guard.Do(t.Context(), effectonce.Intent{Tool: "pay", ID: id, Compensates: of},
			effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return id, end }))
	}
	paid, err := run("pay:1", effectonce.Key{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	undo := effectonce.CompensationID(paid.Operation.Key)
	undone, err := run(undo, paid.Operation.Key, nil)
	if err != nil || undone.Operation.Compensates != paid.Operation.Key {
		t.Fatalf("%+v, %v", undone.Operation, err)
	}
	again, err := run(undo, paid.Operation.Key, nil)
	if err != nil || !again.Replayed {
		t.Errorf("undone twice: %v", err)
	}

	failed, _ := run("pay:2", effectonce.Key{}, effectonce.Rejected(errors.New("no"), true))
	unknown, _ := run("pay:3", effectonce.Key{}, errors.New("reset"))
	for what, key := range map[string]effectonce.Key{"failed": failed.Operation.Key, "unknown": unknown.Operation.Key} {
		if _, err := run(effectonce.CompensationID(key), key, nil); !errors.Is(err, effectonce.ErrNotAllowed) {
			t.Errorf("%s is undone: %v", what, err)
		}
	}
	if _, err := run("undo nothing", effectonce.Key{9}, nil); !errors.Is(err, effectonce.ErrNotFound) {
		t.Error(err)
	}
}

// S3.12: one operation under the keys of all live identity versions, whichever comes first.
func TestFormerIdentities(t *testing.T) {
	t.Parallel()
	old := effectonce.Identity{Scope: effectonce.ScopeBusiness, IntentID: "refund:8812"}
	for name, first := range map[string]bool{"the old key first": true, "the new key first": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
			calls := 0
			do := func(in effectonce.Intent) effectonce.Outcome {
				in.Tool = "refund"
				o, err := guard.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (int, error) { calls++; return calls, nil }))
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			before := effectonce.Intent{ID: "refund:8812"}
			after := effectonce.Intent{ID: "refund:8812:5521", Formerly: []effectonce.Identity{old}}
			var a, b effectonce.Outcome
			if first {
				a, b = do(before), do(after)
			} else {
				a, b = do(after), do(before)
			}
			if calls != 1 || a.Operation.Key != b.Operation.Key || !b.Replayed {
				t.Errorf("%d effects, keys %s and %s", calls, a.Operation.Key.Short(), b.Operation.Key.Short())
			}
		})
	}
}
