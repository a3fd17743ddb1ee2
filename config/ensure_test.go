package config

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	memorystore "github.com/effectonce/effectonce/store/memory"
)

// shop keeps orders with a status, and counts how often one is set.
type shop struct {
	mu      sync.Mutex
	orders  map[string]map[string]any
	applied int
	looked  int
	// drop says what becomes of the answer to a change: it is applied and never answered.
	drop bool
	// stubborn ignores changes.
	stubborn bool
	refuse   int // a status with which changes are refused
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.URL.Path[len("/orders/"):]
	if r.Method == http.MethodGet {
		s.looked++
		order, ok := s.orders[id]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if err := json.NewEncoder(w).Encode(order); err != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	if s.refuse != 0 {
		w.WriteHeader(s.refuse)
		return
	}
	s.applied++
	var change map[string]any
	body, err := io.ReadAll(r.Body)
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &change)
	}
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	case s.stubborn:
	case r.Method == http.MethodDelete:
		delete(s.orders, id)
	default:
		s.orders[id] = change
	}
	if s.drop {
		s.drop = false
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
}

func converging(t *testing.T, s *shop) *Config {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return mustParse(t, "effectonce.yaml", fmt.Appendf(nil, `
providers:
  shop: {contract: http/none, base_url: %q, rejected: [422]}
tools:
  ship:
    class: convergent
    intent_id: "ship:{order}:{status}"
    arguments: {order: {kind: identity}, status: {kind: identity}, weight: {}}
    retry: {backoff: 1ms, backoff_max: 1ms}
    call:
      provider: shop
      ensure:
        observe: {path: "/orders/{order}", query: {view: full}}
        met: {status: "{status}", parcel.weight: "{weight?}"}
        apply: {method: PUT, path: "/orders/{order}", body: {status: "{status}", parcel: {weight: "{weight?}"}}}
  cancel:
    class: convergent
    intent_id: "cancel:{order}"
    arguments: {order: {kind: identity}}
    call:
      provider: shop
      ensure:
        observe: {path: "/orders/{order}"}
        absent: true
        apply: {method: DELETE, path: "/orders/{order}"}
`, server.URL))
}

// ensure calls a convergent tool and follows it to its end.
func ensure(t *testing.T, c *Config, tool, args string, wait time.Duration) effectonce.Outcome {
	t.Helper()
	guard := effectonce.New(memorystore.Open(memorystore.Options{}), effectonce.Options{})
	in, err := c.Tools[tool].Intent(json.RawMessage(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := guard.Do(t.Context(), in, c.Tools[tool].Provider, effectonce.WaitFor(wait))
	if err != nil && effectonce.CodeOf(err) == effectonce.CodeInternal {
		t.Fatal(err)
	}
	return out
}

// S11.1: observe, apply if different, observe again.
func TestAConvergentToolOfTheFile(t *testing.T) {
	t.Parallel()
	const args = `{"order":"o 1/2","status":"shipped","weight":2.50}`
	open := map[string]any{"status": "open"}
	shipped := map[string]any{"status": "shipped", "parcel": map[string]any{"weight": 2.5}}
	for name, c := range map[string]struct {
		shop    *shop
		tool    string
		args    string
		state   effectonce.State
		applied int
	}{
		"met already":                          {&shop{orders: map[string]map[string]any{"o 1/2": shipped}}, "ship", args, effectonce.StateSucceeded, 0},
		"different":                            {&shop{orders: map[string]map[string]any{"o 1/2": open}}, "ship", args, effectonce.StateSucceeded, 1},
		"a number that differs":                {&shop{orders: map[string]map[string]any{"o 1/2": {"status": "shipped", "parcel": map[string]any{"weight": 3}}}}, "ship", args, effectonce.StateSucceeded, 1},
		"what the call does not ask for":       {&shop{orders: map[string]map[string]any{"o 1/2": {"status": "shipped"}}}, "ship", `{"order":"o 1/2","status":"shipped"}`, effectonce.StateSucceeded, 0},
		"not there":                            {&shop{orders: map[string]map[string]any{}}, "ship", args, effectonce.StateSucceeded, 1},
		"applied, and nobody heard the answer": {&shop{orders: map[string]map[string]any{"o 1/2": open}, drop: true}, "ship", args, effectonce.StateSucceeded, 1},
		"refused":                              {&shop{orders: map[string]map[string]any{"o 1/2": open}, refuse: 422}, "ship", args, effectonce.StateFailed, 0},
		"never so":                             {&shop{orders: map[string]map[string]any{"o 1/2": open}, stubborn: true}, "ship", args, effectonce.StateUnknown, 1},
		"gone already":                         {&shop{orders: map[string]map[string]any{}}, "cancel", `{"order":"o-1"}`, effectonce.StateSucceeded, 0},
		"to be removed":                        {&shop{orders: map[string]map[string]any{"o-1": open}}, "cancel", `{"order":"o-1"}`, effectonce.StateSucceeded, 1},
	} {
		s := c.shop
		wait := 20 * time.Second
		if c.state == effectonce.StateUnknown {
			wait = 0 // one attempt is enough to see
		}
		op := ensure(t, converging(t, s), c.tool, c.args, wait).Operation
		if op.State != c.state || s.applied != c.applied {
			t.Errorf("%s: %s (%s), applied %d times", name, op.State, op.Reason, s.applied)
		}
		if c.state == effectonce.StateUnknown && !strings.Contains(op.Reason, "there is nothing at parcel.weight") {
			t.Errorf("%s: %s", name, op.Reason)
		}
		if c.tool == "ship" && op.State == effectonce.StateSucceeded && len(op.Result) < len(`{"status":"shipped"}`) {
			t.Errorf("%s: the result is the state, and not %s", name, op.Result)
		}
	}
}
