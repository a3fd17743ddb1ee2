package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/effectonce/effectonce"
)

// What the clients of a history do to one operation: create it, move it on from the version they saw, or read it.
type historyCall struct {
	kind string
	from int64
}

type historyAnswer struct {
	// version is what the caller saw; 0 says that there is no row. ok says that its own write took place.
	version int64
	ok      bool
}

// register is the model: an operation's version, which a create sets to 1 once, and an apply raises by one from a given one.
var register = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		version, in, out := state.(int64), input.(historyCall), output.(historyAnswer)
		switch in.kind {
		case "create":
			if version == 0 {
				return out.ok && out.version == 1, int64(1)
			}
			return !out.ok && out.version == version, version
		case "apply":
			if in.from == version {
				return out.ok && out.version == version+1, version + 1
			}
			return !out.ok, version
		default:
			return out.version == version, version
		}
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(historyCall), output.(historyAnswer)
		return fmt.Sprintf("%s from %d: version %d, %v", in.kind, in.from, out.version, out.ok)
	},
}

// testLinearizable checks the history of many clients of one key: whatever the store answers, there is an order of the calls,
// each between its beginning and its end, in which a single client would have got the same answers.
func testLinearizable(t *testing.T, open Open) {
	f := start(t, open)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const clients, steps = 8, 40
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	atOnce(clients, func(client int) {
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		var seen effectonce.Operation
		for range steps {
			in := historyCall{kind: "load"}
			switch n := r.IntN(4); {
			case n == 0:
				in.kind = "create"
			case n < 3 && seen.Version > 0:
				in.kind, in.from = "apply", seen.Version
			}
			call := time.Since(began)
			out, op, err := in.do(t, f, seen)
			if err != nil {
				t.Errorf("%s: %v", in.kind, err)
				return
			}
			if op.Version > 0 {
				seen = op
			}
			mu.Lock()
			history = append(history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: int64(call), Return: int64(time.Since(began))})
			mu.Unlock()
		}
	})
	if porcupine.CheckOperationsTimeout(register, history, 20*time.Second) != porcupine.Ok {
		t.Errorf("the history of %d calls is not linearizable", len(history))
		for _, h := range history {
			t.Logf("%d [%d, %d] %s", h.ClientId, h.Call, h.Return, register.DescribeOperation(h.Input, h.Output))
		}
	}
}

func (in historyCall) do(t *testing.T, f fixture, seen effectonce.Operation) (historyAnswer, effectonce.Operation, error) {
	switch in.kind {
	case "create":
		tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: intent("register")}, f.clock.Now())
		if err != nil {
			return historyAnswer{}, seen, err
		}
		op, created, err := f.Create(t.Context(), tr)
		return historyAnswer{version: op.Version, ok: created}, op, err
	case "apply":
		tr, err := effectonce.Next(seen, onward(seen), seen.DueAt)
		if err != nil {
			return historyAnswer{}, seen, err
		}
		op, err := f.Apply(t.Context(), tr)
		if effectonce.CodeOf(err) == effectonce.CodeStaleVersion && err != nil {
			return historyAnswer{}, effectonce.Operation{}, nil
		}
		return historyAnswer{version: op.Version, ok: err == nil}, op, err
	}
	op, err := f.Load(t.Context(), intent("register").Key)
	if err != nil && effectonce.CodeOf(err) == effectonce.CodeNotFound {
		return historyAnswer{}, effectonce.Operation{}, nil
	}
	return historyAnswer{version: op.Version}, op, err
}

// onward is a cause that fits the operation's state and never ends it.
func onward(op effectonce.Operation) effectonce.Cause {
	switch {
	case op.State == effectonce.StatePending:
		return effectonce.Claimed{Owner: "w"}
	case op.State == effectonce.StateInProgress && op.Open:
		return unclear(op)
	case op.State == effectonce.StateInProgress:
		return effectonce.AttemptStarted{Token: op.Token, Line: 7}
	default:
		return effectonce.TakenOver{Owner: "w"}
	}
}
