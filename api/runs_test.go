package api

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

const decision = "/v1/runs/run-1/steps/refund/decision"

func decides(amount int) string {
	return fmt.Sprintf(`{"tool":"shop.refund","arguments":{"order_id":"o1","amount":%d},"note":"it arrived broken","actor":"agent-1"}`, amount)
}

func call1(amount int) string {
	return fmt.Sprintf(`{"tool":"shop.refund","run":"run-1","step":"refund","arguments":{"order_id":"o1","amount":%d}}`, amount)
}

// S10.1, S10.2, S16.11: from the first question to the result.
func TestAStepIsDecidedOnceAndCarriedOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=decide", "first=false")
	first := f.send("POST", decision, decides(480)).want(t, 201, "do=execute", "first=true")
	stored := first.get("decision").(map[string]any)
	if stored["operation"] == "" || stored["note"] != "it arrived broken" || stored["seq"] != 1.0 {
		t.Errorf("stored is %v", stored)
	}
	again := f.send("POST", decision, decides(450)).want(t, 200, "do=execute", "first=false")
	if got := fmt.Sprint(again.get("decision").(map[string]any)["arguments"]); got != "map[amount:480 order_id:o1]" {
		t.Errorf("the second decider was told %s", got)
	}
	f.untouched()

	op := f.send("POST", "/v1/operations", call1(480)).want(t, 200, "outcome=succeeded")
	if stored["operation"] != op.key() {
		t.Errorf("the decision named %v, the operation is %s", stored["operation"], op.key())
	}
	step := f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=use_result")
	if o := step.get("operation").(map[string]any); o["key"] != op.key() || o["outcome"] != "succeeded" {
		t.Errorf("the operation is %v", o)
	}
	f.send("POST", decision, decides(450)).want(t, 200, "do=use_result", "first=false")
	if n := f.effects.Load(); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// S10.1
func TestConcurrentDecidersGetOneDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var all [16]answered
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() { all[i] = f.send("POST", decision, decides(100+i)) })
	}
	group.Wait()
	firsts := 0
	for _, a := range all {
		if a.code == 201 {
			firsts++
		}
		if fmt.Sprint(a.get("decision")) != fmt.Sprint(all[0].get("decision")) {
			t.Errorf("one got %s, another %s", a.raw, all[0].raw)
		}
	}
	if firsts != 1 {
		t.Errorf("%d decisions are the first", firsts)
	}
}

// S5.1 I9: what is executed for a step is what was decided for it.
func TestACallThatWasNotDecidedIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", decision, decides(480)).want(t, 201)
	for name, c := range map[string]struct{ path, body, field, fields string }{
		"another amount": {"/v1/operations", call1(450), "arguments", "[amount]"},
		"another order":  {"/v1/operations", strings.Replace(call1(480), "o1", "o2", 1), "arguments", "<nil>"},
		"another tool":   {"/v1/operations", strings.Replace(call1(480), "shop.refund", "shop.held", 1), "tool", "<nil>"},
		"a claim":        {"/v1/claims", `{"tool":"crm.refund","intent_id":"x","run":"run-1","step":"refund","arguments":{}}`, "tool", "<nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			f.send("POST", c.path, c.body).want(t, 422, "code=payload_mismatch", "field="+c.field, "fields="+c.fields, "next=stop_and_report")
		})
	}
	f.untouched()
	// The same call in other words, and of another step, is none of these.
	f.send("POST", "/v1/operations", strings.Replace(call1(480), "480", "480.0", 1)).want(t, 200, "outcome=succeeded")
	f.send("POST", "/v1/operations", strings.Replace(call1(1), `"step":"refund"`, `"step":"other"`, 1)).want(t, 422, "code=payload_mismatch")
}

func TestAClaimOfAnUndescribedToolIsComparedWithItsDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", decision, `{"tool":"crm.refund","intent_id":"refund:1","arguments":{"amount":480}}`).want(t, 201, "do=execute")
	claim := func(id, amount string) answered {
		return f.send("POST", "/v1/claims", `{"tool":"crm.refund","intent_id":"`+id+`","run":"run-1","step":"refund","arguments":{"amount":`+amount+`}}`)
	}
	claim("refund:2", "480").want(t, 422, "field=intent_id")
	claim("refund:1", "450").want(t, 422, "field=arguments", "fields=[amount]")
	f.untouched()
	claim("refund:1", "480.00").want(t, 201, "do=execute")
	f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=wait")
	// S10.2: the holder is gone; the restarted agent claims again, and is told to look first.
	f.later(2 * time.Minute)
	f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=execute")
	c := claim("refund:1", "480").want(t, 201, "do=look_up")
	f.send("POST", "/v1/claims/"+c.key()+"/looked_up", `{"token":2,"found":"one","reference":"re_1"}`).want(t, 200, "do=done")
	f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=use_result")
}

// S3.3: what cannot be a call is not recorded, so that the model can be asked again.
func TestADecisionThatCannotBeCarriedOutIsNotRecorded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, c := range map[string]struct{ body, code, field string }{
		"no order":                {`{"tool":"shop.refund","arguments":{"amount":480}}`, "intent_incomplete", "arguments.order_id"},
		"no intent id of a claim": {`{"tool":"crm.refund","arguments":{}}`, "intent_incomplete", "intent_id"},
		"no intent id":            {`{"tool":"shop.note","arguments":{}}`, "intent_incomplete", "intent_id"},
		"an intent of no tool":    {`{"intent_id":"x"}`, "invalid", "intent_id"},
		"a context of no tool":    {`{"context":{"a":"b"}}`, "invalid", "context"},
		"a compensation":          {`{"tool":"shop.note","intent_id":"compensate:1","arguments":{}}`, "invalid", "intent_id"},
		"arguments not an object": {`{"tool":"shop.refund","arguments":[1]}`, "invalid", "arguments"},
		"an unknown field":        {`{"tool":"shop.refund","why":"x"}`, "invalid", "why"},
	} {
		t.Run(name, func(t *testing.T) {
			f.send("POST", decision, c.body).want(t, 400, "code="+c.code, "field="+c.field)
		})
	}
	f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=decide")
	f.send("POST", decision, decides(480)).want(t, 201)
	// Once there is one, it counts, whatever is sent.
	f.send("POST", decision, `{"tool":"shop.refund","arguments":{"amount":480}}`).want(t, 200, "do=execute")
}

// S10.2: the caller kept no journal.
func TestAStartedStepIsNotDecided(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", "/v1/operations", call1(480)).want(t, 200)
	a := f.send("POST", decision, decides(450)).want(t, 200, "do=use_result", "first=false")
	if a.get("decision") != nil {
		t.Errorf("a decision was recorded beside it: %s", a.raw)
	}
}

// S10.2, S5.1 I9: in a run that keeps a journal no step starts without a decision, so none is prompted after it has started.
func TestACallInARunWithAJournalIsItsDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", "/v1/runs/run-1/steps/ticket/decision", `{}`).want(t, 201)
	f.send("POST", "/v1/operations?execute=false", call1(480)).want(t, 202)
	step := f.send("GET", "/v1/runs/run-1/steps/refund", "").want(t, 200, "do=wait")
	if d := step.get("decision").(map[string]any); d["seq"] != 2.0 || d["note"] != "recorded with its call" {
		t.Errorf("the decision is %v", d)
	}
	f.send("POST", "/v1/operations", call1(450)).want(t, 422, "field=arguments")
	f.send("POST", decision, decides(450)).want(t, 200, "do=wait", "first=false")
	const claim = `{"tool":"crm.refund","run":"run-1","step":"crm","scope":"step","intent_id":"refund:1","arguments":{}}`
	f.send("POST", "/v1/claims", claim).want(t, 201)
	f.send("GET", "/v1/runs/run-1/steps/crm", "").want(t, 200, "do=wait")
	f.send("POST", "/v1/runs/run-1/steps/end/decision", `{"finish":true}`).want(t, 201)
	f.send("POST", "/v1/operations", strings.NewReplacer(`"refund"`, `"more"`, "o1", "o7").Replace(call1(1))).want(t, 409, "code=run_finished")
	// What has started is told, whatever the run.
	f.send("POST", "/v1/claims", claim).want(t, 409, "code=conflict")
}

// S10.3
func TestRunsAreShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("GET", "/v1/runs/run-1", "").want(t, 404, "code=not_found", "field=run")
	f.send("GET", "/v1/runs", "").want(t, 200, "runs=[]")
	f.send("POST", "/v1/runs/run-1/steps/ticket/decision", `{"arguments":{"ticket":"t-1"},"note":"read"}`).want(t, 201, "do=use_result")
	f.send("POST", decision, decides(480)).want(t, 201)
	f.send("POST", "/v1/operations", call1(480)).want(t, 200)
	f.send("POST", "/v1/runs/run-1/steps/end/decision", `{"finish":true}`).want(t, 201, "do=finished")
	f.send("POST", "/v1/runs/run-1/steps/more/decision", `{}`).want(t, 409, "code=run_finished", "field=step")
	f.send("GET", "/v1/runs/run-1/steps/more", "").want(t, 200, "do=finished")
	f.send("POST", "/v1/runs/a%2Fb%20%C3%A4/steps/..%2F/decision", `{}`).want(t, 201, "run=a/b ä", "step=../")

	story := f.send("GET", "/v1/runs/run-1", "").want(t, 200, "finished=true")
	var told []string
	for _, s := range story.get("steps").([]any) {
		told = append(told, fmt.Sprint(s.(map[string]any)["step"], " ", s.(map[string]any)["do"]))
	}
	if got := strings.Join(told, ", "); got != "ticket use_result, refund use_result, end finished" {
		t.Errorf("told is %s", got)
	}
	names := func(query string) string {
		var names []string
		for _, r := range f.send("GET", "/v1/runs"+query, "").want(t, 200).get("runs").([]any) {
			names = append(names, r.(map[string]any)["run"].(string))
		}
		return strings.Join(names, ", ")
	}
	for query, want := range map[string]string{"": "a/b ä, run-1", "?unfinished=true": "a/b ä", "?q=run": "run-1", "?limit=1": "a/b ä"} {
		if got := names(query); got != want {
			t.Errorf("runs%s: %s, want %s", query, got, want)
		}
	}
	f.send("GET", "/v1/runs?unfinished=maybe", "").want(t, 400, "field=query.unfinished")
	f.send("GET", "/v1/runs?limit=0", "").want(t, 400, "field=query.limit")
	f.send("POST", "/v1/runs/run-1%20/steps/refund/decision", `{}`).want(t, 400, "field=run")
}

// S8.3: the limit is shown with what holds it, and its refusal names them.
func TestLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	limited := func(order string) string {
		return `{"tool":"shop.limited","arguments":{"order_id":"` + order + `","amount":300}}`
	}
	op := f.send("POST", "/v1/operations", limited("o1")).want(t, 200)
	f.send("POST", "/v1/operations", limited("o2")).want(t, 429, "code=limit_exceeded", "limit=refunds", "held_by=["+op.key()+"]", "next=stop_and_report")
	if f.effects.Load() != 1 {
		t.Errorf("%d effects", f.effects.Load())
	}
	f.later(time.Hour)
	all := f.send("GET", "/v1/limits", "").want(t, 200).get("limits").([]any)
	one := f.send("GET", "/v1/limits?name=refunds", "").want(t, 200).get("limits").([]any)
	if len(all) != 1 || len(one) != 1 {
		t.Fatalf("%v, %v", all, one)
	}
	l := one[0].(map[string]any)
	h := l["holders"].([]any)[0].(map[string]any)
	if l["used"] != 300.0 || l["max"] != 500.0 || h["key"] != op.key() || h["state"] != "succeeded" || h["intent_id"] != "refund:o1" || !strings.HasPrefix(fmt.Sprint(h["age"]), "1h0m") {
		t.Errorf("the limit is %v", l)
	}
	f.send("GET", "/v1/limits?q=other", "").want(t, 200, "limits=[]")
	f.send("GET", "/v1/limits?limit=x", "").want(t, 400, "field=query.limit")
	shown := f.send("GET", "/v1/operations/"+op.key(), "").want(t, 200)
	if got := fmt.Sprint(shown.get("limits")); got != "[map[amount:300 max:500 name:refunds]]" {
		t.Errorf("the operation shows %s", got)
	}
}

// S13.1: a tombstone answers by its reference, or is refused as expired; nothing runs again.
func TestAPurgedOperationAnswersByReferenceOrIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reference string
		code      int
	}{"with a reference": {`,"reference":"re_1"`, 200}, "without": {``, 410}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			const body = `{"tool":"crm.refund","intent_id":"refund:1","arguments":{}}`
			claim := f.send("POST", "/v1/claims", body).want(t, 201)
			f.send("POST", "/v1/claims/"+claim.key()+"/complete", `{"token":1,"result":{"id":"re_1"}`+c.reference+`}`).want(t, 200)
			f.purge(claim.key())
			a := f.send("POST", "/v1/claims", body)
			if a.code != c.code {
				t.Fatalf("status %d, want %d: %s", a.code, c.code, a.raw)
			}
			if c.code == 410 {
				a.want(t, 410, "code=expired", "key="+claim.key(), "next=stop_and_report")
				if op, _ := a.get("operation").(map[string]any); op["state"] != "succeeded" {
					t.Errorf("the operation is %v", op)
				}
			} else {
				a.want(t, 200, "reference=re_1", "result_omitted=purged", "replayed=true")
			}
			shown := f.send("GET", "/v1/operations/"+claim.key(), "").want(t, 200, "result_omitted=purged", "arguments=<nil>")
			if shown.get("purged_at") == nil {
				t.Errorf("it does not say when it was purged: %s", shown.raw)
			}
		})
	}
}

// S13.2: a request whose business period is over is refused without a row.
func TestARequestOfAPeriodThatIsOverIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	old := f.send("POST", "/v1/operations", `{"tool":"shop.refund","context":{"period":"2020"},"arguments":{"order_id":"o1","amount":1}}`)
	old.want(t, 410, "code=expired", "next=stop_and_report", "operation=<nil>")
	f.untouched()
	if f.effects.Load() != 0 {
		t.Errorf("%d effects", f.effects.Load())
	}
}

// purge removes what an operation holds besides its identity, as its retention would.
func (f *fixture) purge(text string) {
	f.t.Helper()
	key, err := effectonce.ParseKey(text)
	if err != nil {
		f.t.Fatal(err)
	}
	op, err := f.store.Load(f.t.Context(), key)
	if err != nil {
		f.t.Fatal(err)
	}
	due := op
	due.PurgeAt = op.AsOf
	tr, err := effectonce.Next(due, effectonce.Purged{}, op.AsOf)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.store.Apply(f.t.Context(), tr); err != nil {
		f.t.Fatal(err)
	}
}
