package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// gate is a store that holds an operation back before it is recorded: its call has passed the look at the journal by then.
type gate struct {
	effectonce.Store
	mu sync.Mutex
	// of is the part of an intent id whose operation is held back; reached is closed when it is, and it goes on when open is closed.
	of            string
	reached, open chan struct{}
}

func (g *gate) hold(of string) (reached <-chan struct{}, open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.of, g.reached, g.open = of, make(chan struct{}), make(chan struct{})
	return g.reached, sync.OnceFunc(func() { close(g.open) })
}

func (g *gate) Create(ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	g.mu.Lock()
	held := g.of != "" && strings.Contains(t.To.IntentID, g.of)
	if held {
		g.of = ""
	}
	reached, open := g.reached, g.open
	g.mu.Unlock()
	if held {
		close(reached)
		<-open
	}
	return g.Store.Create(ctx, t)
}

func newGated(t *testing.T) (*fixture, *gate) {
	g := &gate{}
	f := newFixture(t, func(s effectonce.Store) effectonce.Store { g.Store = s; return g })
	return f, g
}

// S10.2, S11.3: a call that had passed the look at the journal when its run was undone has no effect. The operation that it records is
// not left behind either.
func TestACallOnItsWayWhenItsRunIsUndoneHasNoEffect(t *testing.T) {
	t.Parallel()
	const late = `"run":"run-1","step":"late","arguments":{"order_id":"late","amount":1}}`
	for name, c := range map[string]struct {
		path, body string
		finished   bool
		journal    bool
	}{
		"a call":                                {path: "/v1/operations", body: `{"tool":"shop.order",` + late},
		"a call of a run with decisions":        {path: "/v1/operations", body: `{"tool":"shop.order",` + late, journal: true},
		"a call that is only recorded":          {path: "/v1/operations?execute=false", body: `{"tool":"shop.order",` + late},
		"a call that waits for approval":        {path: "/v1/operations", body: `{"tool":"shop.held",` + late},
		"a claim":                               {path: "/v1/claims", body: `{"tool":"crm.refund","intent_id":"late",` + late},
		"a call that names no step":             {path: "/v1/operations", body: strings.Replace(`{"tool":"shop.order",`+late, `"step":"late",`, "", 1)},
		"a decided call of a run that finished": {path: "/v1/operations", body: `{"tool":"shop.order",` + late, journal: true, finished: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, g := newGated(t)
			f.does("shop.order", "o1")
			if c.journal {
				f.send("POST", "/v1/runs/run-1/steps/late/decision", `{"tool":"shop.order","arguments":{"order_id":"late","amount":1}}`).want(t, 201)
			}
			if c.finished {
				f.send("POST", "/v1/runs/run-1/steps/end/decision", `{"finish":true}`).want(t, 201)
			}
			reached, open := g.hold("late")
			defer open()
			done := make(chan answered)
			go func() { done <- f.send("POST", c.path, c.body) }()
			<-reached
			f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200, "complete=true")
			open()
			(<-done).want(t, 409, "code=run_finished")
			if n := f.effects.Load(); n != 2 {
				t.Errorf("%d effects, want the first order and its cancelling", n)
			}
			again := f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200, "complete=true")
			if got := story(again); !strings.Contains(got, " nothing_to_undo") || !strings.Contains(got, "o1 undone") {
				t.Errorf("undoing says %s", got)
			}
			f.send("POST", c.path, c.body).want(t, 409, "code=run_finished")
			if n := f.effects.Load(); n != 2 {
				t.Errorf("%d effects after asking again", n)
			}
		})
	}
}

// S11.3: what a program adds to the run without reading that it is undone is waited for, and undone too.
func TestUndoingWaitsForWhatWasUnderWay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.does("shop.order", "o1")
	f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200, "complete=true")

	sending, send := make(chan struct{}), make(chan struct{})
	first := true
	f.behaves(func(_ context.Context, c effectonce.Call) (any, error) {
		if first {
			first = false
			close(sending)
			<-send
		}
		return map[string]any{"id": "re_late"}, nil
	})
	done := make(chan error)
	go func() {
		tool, _ := f.Tool("shop.order")
		in := effectonce.Intent{Tool: "shop.order", Run: "run-1", Step: "late", ID: "late", Arguments: effectonce.Arguments(map[string]any{"order_id": "late"}), Terms: effectonce.DefaultTerms()}
		in.Terms.Managed = true
		_, err := f.guard.Do(context.WithoutCancel(t.Context()), in, tool.Provider())
		done <- err
	}()
	<-sending
	short := f.send("POST", "/v1/runs/run-1/undo?wait=10ms", because).want(t, 202, "complete=false")
	if got := story(short); !strings.Contains(got, "late unresolved") {
		t.Errorf("undoing says %s", got)
	}
	undone := make(chan answered)
	go func() { undone <- f.send("POST", "/v1/runs/run-1/undo?wait=30s", because) }()
	close(send)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	last := (<-undone).want(t, 200, "complete=true")
	if got := story(last); !strings.Contains(got, "late undone") {
		t.Errorf("undoing says %s", got)
	}
}

// S11.3: many calls and many undoings at once; what is said to be complete leaves no effect.
func TestNoEffectSlipsThroughBesideTheUndoing(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		f := newFixture(t, nil)
		var mu sync.Mutex
		ordered, cancelled := map[string]bool{}, 0
		f.behaves(func(_ context.Context, c effectonce.Call) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if c.Tool == "shop.cancel" {
				cancelled++
			} else {
				ordered[c.Key.String()] = true
			}
			return map[string]any{"id": "x"}, nil
		})
		f.does("shop.order", "first")
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				for j := range 4 {
					body := fmt.Sprintf(`{"tool":"shop.order","run":"run-1","step":"s%d-%d","arguments":{"order_id":"o%d-%d","amount":1}}`, i, j, i, j)
					if i%2 == 0 {
						f.send("POST", fmt.Sprintf("/v1/runs/run-1/steps/s%d-%d/decision", i, j), fmt.Sprintf(`{"tool":"shop.order","arguments":{"order_id":"o%d-%d","amount":1}}`, i, j))
					}
					f.send("POST", "/v1/operations", body)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for ctx.Err() == nil {
			// Before the run is closed it is refused while a call is under way.
			if a := f.send("POST", "/v1/runs/run-1/undo?wait=10s", because); a.code == 200 {
				break
			}
		}
		cancel()
		group.Wait()
		if f.effects.Load() == 0 || len(ordered) != cancelled {
			t.Fatalf("round %d: %d orders, %d of them cancelled", round, len(ordered), cancelled)
		}
	}
}

// S10.1, S5.1 I9: in a run with decisions a call without a step goes past none of them.
func TestACallWithoutAStepGoesPastNoDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const path = "/v1/operations"
	stepless := func(order string) string {
		return `{"tool":"shop.refund","run":"run-1","arguments":{"order_id":"` + order + `","amount":480}}`
	}
	const claim = `{"tool":"crm.refund","intent_id":"x","run":"run-1","arguments":{}}`
	f.send("POST", path, stepless("before")).want(t, 200)
	f.send("POST", decision, decides(480)).want(t, 201)
	f.send("POST", path, stepless("o1")).want(t, 400, "code=invalid", "field=step")
	f.send("POST", path+"?execute=false", stepless("o2")).want(t, 400, "field=step")
	f.send("POST", "/v1/claims", claim).want(t, 400, "field=step")
	// What it did before is still told, and what has no effect needs no step.
	f.send("POST", path, stepless("before")).want(t, 200, "replayed=true")
	f.send("POST", path, `{"tool":"shop.read","run":"run-1","arguments":{"order_id":"o1"}}`).want(t, 200)
	f.send("POST", "/v1/runs/run-1/steps/end/decision", `{"finish":true}`).want(t, 201)
	f.send("POST", path, stepless("o1")).want(t, 409, "code=run_finished")
	f.send("POST", "/v1/claims", claim).want(t, 409, "code=run_finished")
	f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200)
	f.send("POST", path, stepless("o1")).want(t, 409, "code=run_finished")
	// The decided step of a run that had finished before it was undone is not started any more either.
	f.send("POST", path, call1(480)).want(t, 409, "code=run_finished")
	f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=finished")
	if n := f.effects.Load(); n != 2 {
		t.Errorf("%d calls, want the refund from before and the reading", n)
	}
	names := f.send("GET", "/v1/runs", "").want(t, 200).get("runs").([]any)
	if len(names) != 1 {
		t.Errorf("listed are %v", names)
	}
}
