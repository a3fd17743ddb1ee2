package api

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

const note = `{"tool":"crm.anything","intent_id":"refund:o1","arguments":{"amount":480}}`

func follow(f *fixture, a answered, name, body string) answered {
	f.t.Helper()
	return f.send("POST", "/v1/claims/"+a.key()+"/"+name, body)
}

func TestClaimAndComplete(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	c := f.send("POST", "/v1/claims", note).want(t, 201, "do=execute", "attempt=1", "send_within=30s", "lease_for=1m0s", "replayed=false")
	for _, name := range []string{"token", "downstream_key", "stamp", "key"} {
		if c.get(name) == nil {
			t.Errorf("there is no %s", name)
		}
	}
	done := follow(f, c, "complete", fmt.Sprintf(`{"token":%d,"result":{"id":"re_1"},"reference":"re_1"}`, c.token())).
		want(t, 200, "outcome=succeeded", "next=use_result", "reference=re_1", "replayed=false")
	// The same report again is harmless.
	follow(f, c, "complete", fmt.Sprintf(`{"token":%d,"result":{"id":"re_1"},"reference":"re_1"}`, c.token())).want(t, 200, "outcome=succeeded", "replayed=true")
	again := f.send("POST", "/v1/claims", note).want(t, 200, "do=done", "outcome=succeeded", "replayed=true", "key="+done.key())
	if again.header.Get("Effectonce-Replayed") != "true" || again.get("token") != nil {
		t.Errorf("a replay gave a claim: %s", again.raw)
	}
	f.send("POST", "/v1/claims", strings.Replace(note, "480", "450", 1)).want(t, 422, "code=payload_mismatch", "fields=[amount]")
}

// S5.5: two claimers, one owner; who waits gets the outcome.
func TestTwoClaimers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	answers := make([]answered, 2)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = f.send("POST", "/v1/claims", note) })
	}
	wg.Wait()
	if answers[0].code != 201 {
		answers[0], answers[1] = answers[1], answers[0]
	}
	owner := answers[0].want(t, 201, "do=execute")
	loser := answers[1].want(t, 409, "code=conflict", "next=retry_after")
	op, _ := loser.get("operation").(map[string]any)
	if op["outcome"] != "in_progress" || loser.get("retry_after") == nil || loser.header.Get("Retry-After") == "" {
		t.Errorf("the loser is not told how it stands: %s", loser.raw)
	}
	waiting := make(chan answered)
	go func() { waiting <- f.send("POST", "/v1/claims?wait=30s", note) }()
	follow(f, owner, "complete", fmt.Sprintf(`{"token":%d,"reference":"re_1"}`, owner.token())).want(t, 200)
	select {
	case a := <-waiting:
		a.want(t, 200, "do=done", "outcome=succeeded", "reference=re_1")
	case <-time.After(20 * time.Second):
		t.Fatal("the waiting claimer was not told")
	}
}

func TestEndsOfAClaim(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name, body string
		code       int
		fields     []string
	}{
		"refused":                       {"reject", `{"token":1,"error":{"code":"card_declined","message":"no","status":402}}`, 200, []string{"outcome=failed", "next=new_intent", "error=map[code:card_declined message:no status:402]"}},
		"ambiguous":                     {"unknown", `{"token":1,"error":{"code":"timeout"}}`, 202, []string{"outcome=unknown", "next=wait"}},
		"not sent":                      {"not_sent", `{"token":1}`, 202, []string{"outcome=pending"}},
		"throttled":                     {"not_sent", `{"token":1,"throttled":true,"retry_after":"7s","error":{"code":"rate_limited"}}`, 202, []string{"outcome=pending"}},
		"result too large":              {"complete", `{"token":1,"reference":"re_1","result":"` + strings.Repeat("x", effectonce.ResultBytesMax) + `"}`, 200, []string{"outcome=succeeded", "result_omitted=too_large", "reference=re_1"}},
		"no result":                     {"complete", `{"token":1}`, 200, []string{"outcome=succeeded"}},
		"wrong token":                   {"complete", `{"token":7,"reference":"re_1"}`, 409, []string{"code=stale_token", "next=stop_and_report"}},
		"beat":                          {"heartbeat", `{"token":1}`, 200, nil},
		"beat, wrong token":             {"heartbeat", `{"token":7}`, 409, []string{"code=stale_token"}},
		"looked up without a take-over": {"looked_up", `{"token":1,"found":"unavailable"}`, 0, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			c := f.send("POST", "/v1/claims", note).want(t, 201)
			a := follow(f, c, tt.name, tt.body)
			if tt.code == 0 {
				if a.code >= 500 {
					t.Fatalf("status %d: %s", a.code, a.raw)
				}
				return
			}
			a.want(t, tt.code, tt.fields...)
			if tt.code == 409 {
				if op, _ := a.get("operation").(map[string]any); op["state"] != "in_progress" {
					t.Errorf("the operation as it stands is not shown: %s", a.raw)
				}
			}
		})
	}
}

// S7.8, S7.3: a lease that ran out authorises a look, and the look decides.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	takeOver := func(t *testing.T, body string) (*fixture, answered) {
		f := newFixture(t, nil)
		f.send("POST", "/v1/claims", body).want(t, 201, "do=execute")
		f.later(2 * time.Minute)
		return f, f.send("POST", "/v1/claims", body).want(t, 201, "do=look_up", "last_attempt=1", "token=2")
	}
	keyed := strings.Replace(note, "crm.anything", "crm.keyed", 1)
	t.Run("found", func(t *testing.T) {
		t.Parallel()
		f, c := takeOver(t, note)
		follow(f, c, "looked_up", `{"token":2,"found":"one","reference":"re_1","result":{"id":"re_1"}}`).want(t, 200, "do=done", "outcome=succeeded", "reference=re_1")
	})
	t.Run("absent too early", func(t *testing.T) {
		t.Parallel()
		f, c := takeOver(t, note)
		follow(f, c, "looked_up", `{"token":2,"found":"absent"}`).want(t, 200, "do=wait", "outcome=unknown")
	})
	t.Run("absent, and nothing allows a resend", func(t *testing.T) {
		t.Parallel()
		f, c := takeOver(t, note)
		f.later(time.Hour)
		f.send("POST", "/v1/claims", note).want(t, 201, "do=look_up", "token=3")
		follow(f, c, "looked_up", `{"token":3,"found":"absent"}`).want(t, 200, "do=review", "outcome=in_review", "next=stop_and_report")
		f.send("POST", "/v1/claims", note).want(t, 202, "do=review", "outcome=in_review")
	})
	t.Run("absent, and the provider remembers the key", func(t *testing.T) {
		t.Parallel()
		f, c := takeOver(t, keyed)
		if c.get("window") == nil {
			t.Errorf("there is no window: %s", c.raw)
		}
		first := c.get("downstream_key")
		c = follow(f, c, "looked_up", `{"token":2,"found":"absent"}`).want(t, 200, "do=execute", "attempt=2", "token=2")
		if c.get("downstream_key") != first {
			t.Error("a resend in the same epoch has another downstream key")
		}
		follow(f, c, "complete", `{"token":2,"reference":"re_1"}`).want(t, 200, "outcome=succeeded")
	})
	t.Run("many", func(t *testing.T) {
		t.Parallel()
		f, c := takeOver(t, note)
		a := follow(f, c, "looked_up", `{"token":2,"found":"many"}`).want(t, 200, "do=review")
		if a.get("alarm") == nil {
			t.Errorf("there is no alarm: %s", a.raw)
		}
		list := f.send("GET", "/v1/operations?alarmed=true", "").want(t, 200)
		if n := len(list.get("operations").([]any)); n != 1 {
			t.Errorf("%d operations with an alarm, want 1", n)
		}
	})
	t.Run("an end before the look is refused", func(t *testing.T) {
		t.Parallel()
		f, c := takeOver(t, note)
		follow(f, c, "unknown", `{"token":2,"error":{"code":"x"}}`).want(t, 409, "code=not_allowed")
	})
	t.Run("stale, and a late success settles it", func(t *testing.T) {
		t.Parallel()
		// S5.8
		f, c := takeOver(t, note)
		follow(f, c, "complete", `{"token":1,"reference":"re_1"}`).want(t, 200, "outcome=succeeded", "reference=re_1", "replayed=true")
	})
	t.Run("stale, and a late success contradicts", func(t *testing.T) {
		t.Parallel()
		f, c := takeOver(t, note)
		follow(f, c, "looked_up", `{"token":2,"found":"one","reference":"re_2"}`).want(t, 200, "do=done")
		a := follow(f, c, "complete", `{"token":1,"reference":"re_1"}`).want(t, 409, "code=stale_token")
		op, _ := a.get("operation").(map[string]any)
		if op["reference"] != "re_2" || op["alarm"] == nil {
			t.Errorf("the operation as it stands is not shown: %s", a.raw)
		}
	})
}

func TestHeartbeatKeepsAShortLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	body := strings.TrimSuffix(note, "}") + `,"timeout":"10m","lease":"20s","owner":"agent-7"}`
	c := f.send("POST", "/v1/claims", body).want(t, 201, "lease_for=20s", "send_within=10m0s")
	for range 3 {
		f.later(15 * time.Second)
		follow(f, c, "heartbeat", `{"token":1}`).want(t, 200, "lease_for=20s")
	}
	f.send("POST", "/v1/claims", body).want(t, 409, "code=conflict")
	f.later(21 * time.Second)
	f.send("POST", "/v1/claims", body).want(t, 201, "do=look_up")
	follow(f, c, "heartbeat", `{"token":1}`).want(t, 409, "code=stale_token")
	f.send("GET", "/v1/operations/"+c.key(), "").want(t, 200, "actor=agent-7")
}

// S3.2
func TestScopesWithoutAPolicy(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	in := func(scope, run, step string) string {
		return fmt.Sprintf(`{"tool":"x","intent_id":"i","arguments":{},"scope":%q,"run":%q,"step":%q}`, scope, run, step)
	}
	keys := map[string]bool{}
	for _, b := range []string{in("business", "r1", "s1"), in("run", "r1", "s1"), in("run", "r2", "s1"), in("step", "r1", "s1"), in("step", "r1", "s2")} {
		keys[f.send("POST", "/v1/claims", b).want(t, 201).key()] = true
	}
	if len(keys) != 5 {
		t.Errorf("%d keys, want 5", len(keys))
	}
	f.send("POST", "/v1/claims", in("run", "r1", "s9")).want(t, 409, "code=conflict")
	f.send("POST", "/v1/claims", in("run", "", "s1")).want(t, 400, "code=intent_incomplete", "field=run")
}

// S4.4, S6.8: what goes in comes out with its numbers as they were written.
func TestNumbersAreUnharmed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	args := `{"amount":480.10,"exponent":4.8e2,"text":"<é>"}`
	c := f.send("POST", "/v1/claims", `{"tool":"x","intent_id":"i","arguments":`+args+`}`).want(t, 201)
	key, err := effectonce.ParseKey(c.key())
	if err != nil {
		t.Fatal(err)
	}
	op, err := f.store.Load(t.Context(), key)
	if err != nil || string(op.Arguments) != args {
		t.Errorf("arguments are %s (%v), want %s", op.Arguments, err, args)
	}
	result := `{"id":12345678901234567890,"rate":1.10,"a":1,"a":2,"html":"<b>&"}`
	a := f.send("POST", "/v1/claims/"+c.key()+"/complete", `{"token":1,"result":`+result+`}`)
	if a.code != 200 || !strings.Contains(a.raw, `"result":`+result+`,`) {
		t.Errorf("status %d, the result is not as it came: %s", a.code, a.raw)
	}
}

// S6.8: what a provider answered never hides an effect, even where no double carries it.
func TestAnyResultIsAccepted(t *testing.T) {
	t.Parallel()
	for _, result := range []string{`1e999`, `null`, `"\ud800"`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000)} {
		f := newFixture(t, nil)
		c := f.send("POST", "/v1/claims", note).want(t, 201)
		r := httptest.NewRequest("POST", "http://localhost/v1/claims/"+c.key()+"/complete", strings.NewReader(`{"token":1,"result":`+result+`}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		f.server.ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), `"result":`+result) {
			t.Errorf("%.40s: status %d: %.300s", result, w.Code, w.Body.String())
		}
	}
}

func TestManagedOperationIsNotHandedOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", "/v1/operations?execute=false", refund).want(t, 202)
	f.send("POST", "/v1/claims", refund).want(t, 202, "do=wait", "outcome=pending")
}
