package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// does has an effect in run-1 and returns the operation's key.
func (f *fixture) does(tool, order string) string {
	f.t.Helper()
	body := fmt.Sprintf(`{"tool":%q,"run":"run-1","step":%q,"arguments":{"order_id":%q,"amount":480}}`, tool, order, order)
	return f.send("POST", "/v1/operations", body).want(f.t, 200, "outcome=succeeded").key()
}

const because = `{"reason":"the wrong order","person":"mara"}`

// S11.3: an operation of its own, linked to the first, once.
func TestAnOperationIsCompensatedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.does("shop.order", "o1")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			f.send("POST", "/v1/operations/"+key+"/compensate?wait=30s", because).want(t, 200, "outcome=succeeded", "executes=effectonce", "compensates="+key, "do=done")
		})
	}
	group.Wait()
	a := f.send("POST", "/v1/operations/"+key+"/compensate", because).want(t, 200, "replayed=true", "tool=shop.cancel", "run=run-1", "intent_id=compensate:"+key)
	if n := f.effects.Load(); n != 2 {
		t.Errorf("%d effects, want the order and its cancelling", n)
	}
	events := f.send("GET", "/v1/operations/"+a.key()+"/events", "").want(t, 200).get("events").([]any)
	if first := events[0].(map[string]any); !strings.Contains(fmt.Sprint(first["reason"]), "compensates "+key+": the wrong order") || first["actor"] != "mara" {
		t.Errorf("the audit says %v", first)
	}
}

func TestWhatCannotBeCompensatedIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	plain := f.does("shop.refund", "o1")
	f.send("POST", "/v1/operations/"+plain+"/compensate", because).want(t, 409, "code=not_allowed", "field=tools.shop.refund.compensate")
	f.behaves(func(context.Context, effectonce.Call) (any, error) {
		return nil, effectonce.Rejected(errors.New("declined"), true)
	})
	failed := f.send("POST", "/v1/operations", `{"tool":"shop.order","arguments":{"order_id":"o2","amount":1}}`).want(t, 200, "outcome=failed").key()
	f.send("POST", "/v1/operations/"+failed+"/compensate", because).want(t, 409, "code=not_allowed", "detail=it failed: there is nothing to undo")
	f.behaves(func(context.Context, effectonce.Call) (any, error) { return nil, errors.New("reset") })
	unknown := f.send("POST", "/v1/operations", `{"tool":"shop.order","arguments":{"order_id":"o3","amount":1}}`).want(t, 202, "outcome=unknown").key()
	f.send("POST", "/v1/operations/"+unknown+"/compensate", because).want(t, 409, "code=not_allowed")
	f.send("POST", "/v1/operations/"+strings.Repeat("0", 64)+"/compensate", because).want(t, 404)
	f.send("POST", "/v1/operations/"+plain+"/compensate", `{}`).want(t, 400, "field=reason")
	// Nobody takes the identity of a compensation.
	f.send("POST", "/v1/claims", `{"tool":"hotel.cancel","intent_id":"compensate:`+plain+`","arguments":{}}`).want(t, 400, "field=intent_id")
}

// S11.3: where the effect is the caller's, the undoing is recorded and can be claimed.
func TestACompensationInTheCallersHandsIsClaimed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.does("hotel.book", "o1")
	f.send("POST", "/v1/operations/"+key+"/compensate", because).want(t, 202, "executes=caller", "outcome=pending")
	c := f.send("POST", "/v1/operations/"+key+"/compensate", `{"reason":"the wrong order","claim":true}`).want(t, 201, "do=execute", "token=1")
	f.send("POST", "/v1/claims/"+c.key()+"/complete", `{"token":1,"reference":"cancel_1"}`).want(t, 200)
	f.send("POST", "/v1/operations/"+key+"/compensate", because).want(t, 200, "reference=cancel_1", "replayed=true")
	managed := f.does("shop.order", "o1")
	f.send("POST", "/v1/operations/"+managed+"/compensate", `{"reason":"x","claim":true}`).want(t, 400, "field=claim")
}

// S11.3: able to fail, and tried again only when somebody says so.
func TestAFailedCompensationIsTriedAgainOnDemand(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.does("shop.order", "o1")
	f.behaves(func(context.Context, effectonce.Call) (any, error) {
		return nil, effectonce.Rejected(errors.New("locked"), true)
	})
	path := "/v1/operations/" + key + "/compensate"
	first := f.send("POST", path, because).want(t, 200, "outcome=failed", "next=new_intent").key()
	f.behaves(nil)
	f.send("POST", path, because).want(t, 200, "outcome=failed", "replayed=true")
	undo := f.send("POST", "/v1/runs/run-1/undo", because).want(t, 202, "complete=false")
	if got := story(undo); got != "o1 stopped" {
		t.Errorf("undoing says %s", got)
	}
	f.send("POST", path, `{"reason":"unlocked now","again":true}`).want(t, 200, "outcome=succeeded", "supersedes="+first, "compensates="+key)
	f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200, "complete=true")
	if n := f.effects.Load(); n != 3 {
		t.Errorf("%d calls, want the order, a refused and a successful cancelling", n)
	}
}

// S11.3: however often it failed, the answer is how the last one stands, whatever is asked.
func TestTheLastOfSeveralCompensationsCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.does("shop.order", "o1")
	f.behaves(func(context.Context, effectonce.Call) (any, error) {
		return nil, effectonce.Rejected(errors.New("locked"), true)
	})
	path := "/v1/operations/" + key + "/compensate"
	const again = `{"reason":"once more","person":"mara","again":true}`
	f.send("POST", path, because).want(t, 200, "outcome=failed")
	second := f.send("POST", path, again).want(t, 200, "outcome=failed").key()
	if got := f.send("POST", path, because).want(t, 200, "outcome=failed", "replayed=true").key(); got != second {
		t.Errorf("the answer is %s, want the second one, %s", got, second)
	}
	f.behaves(nil)
	third := f.send("POST", path, again).want(t, 200, "outcome=succeeded", "supersedes="+second).key()
	for _, body := range []string{because, again, because} {
		f.send("POST", path, body).want(t, 200, "outcome=succeeded", "replayed=true", "next=use_result", "key="+third)
	}
	f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200, "complete=true")
	if n := f.effects.Load(); n != 4 {
		t.Errorf("%d calls, want the order, two refused and a successful cancelling", n)
	}
}

// S11.3: what is complete may still leave something: it is counted, with its reason.
func TestUndoingCountsWhatStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	counts := func(run, want string) answered {
		t.Helper()
		a := f.send("POST", "/v1/runs/"+run+"/undo", because).want(t, 200, "complete=true")
		if got := fmt.Sprint(a.get("counts")); got != want {
			t.Errorf("the counts are %s, want %s", got, want)
		}
		return a
	}
	f.does("shop.refund", "o1")
	purged := f.does("shop.order", "o2")
	f.does("shop.order", "o3")
	f.behaves(func(context.Context, effectonce.Call) (any, error) {
		return nil, effectonce.Rejected(errors.New("declined"), true)
	})
	f.send("POST", "/v1/operations", `{"tool":"shop.order","run":"run-2","step":"a","arguments":{"order_id":"o4","amount":1}}`).want(t, 200, "outcome=failed")
	f.behaves(nil)
	counts("run-2", "map[cannot_be_undone:0 left:0 nothing_to_undo:1 undone:0]")
	a := counts("run-1", "map[cannot_be_undone:1 left:0 nothing_to_undo:0 undone:2]")
	if !strings.Contains(a.raw, "tools.shop.refund.compensate is missing") {
		t.Errorf("it does not say why: %s", a.raw)
	}
	// It is undone already: that its result is not kept any more changes nothing.
	f.purge(purged)
	counts("run-1", "map[cannot_be_undone:1 left:0 nothing_to_undo:0 undone:2]")
}

// story is what is done about each operation, in order.
func story(a answered) string {
	var all []string
	for _, s := range a.get("steps").([]any) {
		step := s.(map[string]any)
		all = append(all, fmt.Sprint(step["step"], " ", step["do"]))
	}
	return strings.Join(all, ", ")
}

// S11.3: newest first, each once, stopped by what does not succeed, and continued.
func TestARunIsUndoneNewestFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.does("shop.order", "o1")
	f.later(time.Minute)
	f.does("shop.refund", "o2") // nobody said how it is undone
	f.later(time.Minute)
	f.does("hotel.book", "o3")
	f.later(time.Minute)
	f.does("shop.order", "o4")

	dry := f.send("POST", "/v1/runs/run-1/undo", `{"reason":"x","person":"mara","dry_run":true}`).want(t, 200, "dry_run=true", "complete=false")
	if got := story(dry); got != "o4 undo, o3 undo, o2 cannot_be_undone, o1 undo" {
		t.Errorf("it would do %s", got)
	}
	if n := f.effects.Load(); n != 4 {
		t.Errorf("the dry run had %d effects", n-4)
	}
	f.send("GET", "/v1/runs/run-1", "").want(t, 200, "finished=false")

	first := f.send("POST", "/v1/runs/run-1/undo", because).want(t, 202, "complete=false")
	if got := story(first); got != "o4 undone, o3 stopped, o2 cannot_be_undone, o1 not_reached" {
		t.Errorf("it did %s", got)
	}
	f.send("GET", "/v1/runs/run-1", "").want(t, 200, "finished=true")
	booked := first.get("steps").([]any)[1].(map[string]any)
	c := f.send("POST", fmt.Sprint("/v1/operations/", booked["key"], "/compensate"), `{"reason":"x","claim":true}`).want(t, 201)
	f.send("POST", "/v1/claims/"+c.key()+"/complete", `{"token":1}`).want(t, 200)

	last := f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200, "complete=true")
	if got := story(last); got != "o4 undone, o3 undone, o2 cannot_be_undone, o1 undone" {
		t.Errorf("it did %s", got)
	}
	f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200, "complete=true")
	if n := f.effects.Load(); n != 6 {
		t.Errorf("%d effects at the providers, want four and two undone", n)
	}
}

// S11.3: however many ask at once, each step is undone once.
func TestConcurrentUndoingUndoesOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for i := range 3 {
		f.does("shop.order", fmt.Sprint("o", i))
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { f.send("POST", "/v1/runs/run-1/undo?wait=30s", because).want(t, 200, "complete=true") })
	}
	group.Wait()
	if n := f.effects.Load(); n != 6 {
		t.Errorf("%d effects, want three and three undone", n)
	}
}

// S11.3: nothing is undone while anything is not settled.
func TestARunWithAnUnresolvedOperationIsNotUndone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.does("shop.order", "o1")
	held := f.send("POST", "/v1/operations", `{"tool":"shop.held","run":"run-1","step":"h","arguments":{"order_id":"o2","amount":1}}`).want(t, 202).key()
	f.send("POST", "/v1/runs/run-1/undo", because).want(t, 409, "code=not_allowed", "key="+held)
	dry := f.send("POST", "/v1/runs/run-1/undo", `{"reason":"x","person":"mara","dry_run":true}`).want(t, 200, "complete=false")
	if got := story(dry); !strings.Contains(got, "h unresolved") {
		t.Errorf("the dry run says %s", got)
	}
	if n := f.effects.Load(); n != 1 {
		t.Errorf("%d effects", n)
	}
	f.send("GET", "/v1/runs/run-1", "").want(t, 200, "finished=false")
	f.send("POST", "/v1/runs/no-such/undo", because).want(t, 404, "field=run")
}

// S10.2, S11.3: what was decided before the run was undone, and has not started, is not started any more.
func TestAnUndoneRunDoesNotGoOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.does("shop.order", "o1")
	f.send("POST", decision, decides(480)).want(t, 201, "do=execute")
	f.send("POST", "/v1/runs/run-1/undo", because).want(t, 200, "complete=true")
	f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=finished")
	f.send("POST", "/v1/operations", call1(480)).want(t, 409, "code=run_finished")
	f.send("POST", "/v1/operations", `{"tool":"shop.refund","run":"run-1","step":"new","arguments":{"order_id":"o9","amount":1}}`).want(t, 409, "code=run_finished")
	f.send("POST", "/v1/runs/run-2/steps/effectonce.undone/decision", `{"finish":true}`).want(t, 400, "field=step")
	// What it did before is still told.
	f.send("POST", "/v1/operations", `{"tool":"shop.order","run":"run-1","step":"o1","arguments":{"order_id":"o1","amount":480}}`).want(t, 200, "replayed=true")
}
