package fault_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault"
	"github.com/effectonce/effectonce/store/memory"
)

// journal are actions that only write down what struck.
type journal struct{ lines []string }

func (j *journal) actions() fault.Actions {
	return fault.Actions{
		Crash:  func() { panic("crash") },
		Stop:   func() {},
		Pause:  func(time.Duration) {},
		Struck: func(s fault.Step) { j.lines = append(j.lines, s.String()) },
	}
}

func refund(id string) effectonce.Intent {
	return effectonce.Intent{Tool: "refund", ID: id, Arguments: effectonce.Arguments(map[string]any{"amount": 480})}
}

func counting(n *atomic.Int64) effectonce.Function {
	return effectonce.Func(func(context.Context, effectonce.Call) (map[string]int64, error) {
		return map[string]int64{"n": n.Add(1)}, nil
	})
}

func TestStoreFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plan    string
		effects int64
		stored  bool
		err     error
		struck  []string
	}{
		"refused claim sends nothing":              {"error before create", 0, false, effectonce.ErrStoreUnavailable, []string{"error before create"}},
		"lost claim sends nothing, and is stored":  {"error after create#1", 0, true, effectonce.ErrStoreUnavailable, []string{"error after create#1"}},
		"refused record is tried again":            {"error before apply:attempt_ended#1-2", 1, true, nil, []string{"error before apply:attempt_ended#1-2", "error before apply:attempt_ended#1-2"}},
		"record whose answer is lost is found out": {"error after apply:attempt_ended#1", 1, true, nil, []string{"error after apply:attempt_ended#1"}},
		"other kinds pass":                         {"error before apply:taken_over; error before extend", 1, true, nil, nil},
		"stop and pause change nothing":            {"stop after create; pause 1h before apply:*", 1, true, nil, []string{"stop after create", "pause 1h0m0s before apply:*"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var j journal
			var effects atomic.Int64
			inner := memory.Open(memory.Options{})
			guard := effectonce.New(fault.Store(inner, fault.MustPlan(c.plan), j.actions()), effectonce.Options{})
			_, err := guard.Do(t.Context(), refund("r1"), counting(&effects))
			if !errors.Is(err, c.err) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			if effects.Load() != c.effects {
				t.Errorf("%d effects, want %d", effects.Load(), c.effects)
			}
			page, err := inner.List(t.Context(), effectonce.Filter{})
			if err != nil || (len(page.Operations) == 1) != c.stored {
				t.Errorf("stored %d operations, want stored %v (%v)", len(page.Operations), c.stored, err)
			}
			if !slices.Equal(j.lines, c.struck) {
				t.Errorf("struck %q, want %q", j.lines, c.struck)
			}
		})
	}
}

func TestReadFaults(t *testing.T) {
	t.Parallel()
	var j journal
	store := fault.Store(memory.Open(memory.Options{}), fault.MustPlan("error before load; error after due"), j.actions())
	if _, err := store.Load(t.Context(), effectonce.Key{1}); !errors.Is(err, effectonce.ErrStoreUnavailable) {
		t.Errorf("load: %v", err)
	}
	if _, err := store.Due(t.Context(), 1); !errors.Is(err, effectonce.ErrStoreUnavailable) {
		t.Errorf("due: %v", err)
	}
}

func TestProviderFaults(t *testing.T) {
	t.Parallel()
	for plan, c := range map[string]struct {
		effects int64
		verdict effectonce.Verdict
		found   effectonce.Found
	}{
		"":                    {1, effectonce.VerdictSucceeded, effectonce.FoundAbsent},
		"error before call":   {0, effectonce.VerdictUnknown, effectonce.FoundAbsent},
		"error after call":    {1, effectonce.VerdictUnknown, effectonce.FoundAbsent},
		"error before lookup": {1, effectonce.VerdictSucceeded, effectonce.FoundUnavailable},
		"error after lookup":  {1, effectonce.VerdictSucceeded, effectonce.FoundUnavailable},
	} {
		var j journal
		var effects atomic.Int64
		inner := counting(&effects).WithLookUp(func(context.Context, effectonce.Call) (any, bool, error) { return nil, false, nil })
		p := fault.Provider(inner, fault.MustPlan(plan), j.actions())
		end := p.Call(t.Context(), effectonce.Call{})
		if end.Verdict != c.verdict || effects.Load() != c.effects {
			t.Errorf("%q: %s with %d effects, want %s with %d", plan, end.Verdict, effects.Load(), c.verdict, c.effects)
		}
		if f := p.LookUp(t.Context(), effectonce.Call{}); f.Found != c.found {
			t.Errorf("%q: look-up says %s, want %s", plan, f.Found, c.found)
		}
	}
}

func TestCrashDoesNotGoOn(t *testing.T) {
	t.Parallel()
	var j journal
	var effects atomic.Int64
	p := fault.Provider(counting(&effects), fault.MustPlan("crash before call#2"), j.actions())
	p.Call(t.Context(), effectonce.Call{})
	defer func() {
		if recover() == nil || effects.Load() != 1 {
			t.Errorf("no crash, or %d effects", effects.Load())
		}
	}()
	p.Call(t.Context(), effectonce.Call{})
}

func TestTransportFaults(t *testing.T) {
	t.Parallel()
	for plan, want := range map[string]struct {
		arrived  int64
		answered bool
	}{
		"":                       {1, true},
		"error before send:POST": {0, false},
		"error after send:*":     {1, false},
		"error after send:GET":   {1, true},
	} {
		var arrived atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
		var j journal
		client := &http.Client{Transport: fault.Transport(nil, fault.MustPlan(plan), j.actions())}
		response, err := client.Post(server.URL, "text/plain", nil)
		if err == nil {
			response.Body.Close()
		}
		if arrived.Load() != want.arrived || (err == nil) != want.answered {
			t.Errorf("%q: %d arrived, error %v", plan, arrived.Load(), err)
		}
		server.Close()
	}
}
