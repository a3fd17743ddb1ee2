package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

func keysOf(a answered) []string {
	var keys []string
	for _, op := range a.get("operations").([]any) {
		keys = append(keys, op.(map[string]any)["key"].(string))
	}
	return keys
}

func TestListPagesAndFilters(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const n = 25
	seen := map[string]bool{}
	for i := range n {
		a := f.send("POST", "/v1/claims", fmt.Sprintf(`{"tool":"tool.%d","run":"run-%d","intent_id":"i:%d","arguments":{}}`, i%2, i%5, i)).want(t, 201)
		seen[a.key()] = false
		if i%3 == 0 {
			f.send("POST", "/v1/claims/"+a.key()+"/complete", `{"token":1,"reference":"ref-x"}`).want(t, 200)
		}
	}
	after, pages := "", 0
	for {
		a := f.send("GET", "/v1/operations?limit=7&after="+after, "").want(t, 200)
		for _, k := range keysOf(a) {
			if done, ok := seen[k]; done || !ok {
				t.Errorf("operation %s is listed twice, or is not ours", k)
			}
			seen[k] = true
		}
		pages++
		after, _ = a.get("next").(string)
		if after == "" || pages > n {
			break
		}
	}
	if pages != 4 {
		t.Errorf("%d pages, want 4", pages)
	}
	for k, ok := range seen {
		if !ok {
			t.Errorf("operation %s is not listed", k)
		}
	}
	for query, want := range map[string]int{
		"tool=tool.0":                           13,
		"run=run-1":                             5,
		"intent_id=i:3":                         1,
		"state=succeeded":                       9,
		"state=succeeded,in_progress":           25,
		"state=succeeded&state=unknown":         9,
		"q=ref-x":                               9,
		"alarmed=true":                          0,
		"alarmed=false&limit=500":               25,
		"tool=tool.0&state=succeeded&run=run-0": 1,
		"tool=nothing":                          0,
	} {
		if got := len(keysOf(f.send("GET", "/v1/operations?"+query, "").want(t, 200))); got != want {
			t.Errorf("%s: %d operations, want %d", query, got, want)
		}
	}
}

// review brings a claim into review and returns the operation.
func review(f *fixture) answered {
	c := f.send("POST", "/v1/claims", note).want(f.t, 201)
	f.send("POST", "/v1/claims/"+c.key()+"/unknown", `{"token":1,"error":{"code":"timeout"}}`).want(f.t, 202)
	f.later(time.Hour)
	c = f.send("POST", "/v1/claims", note).want(f.t, 201, "do=look_up")
	f.send("POST", "/v1/claims/"+c.key()+"/looked_up", fmt.Sprintf(`{"token":%d,"found":"absent"}`, c.token())).want(f.t, 200, "do=review")
	return f.send("GET", "/v1/operations/"+c.key(), "").want(f.t, 200, "outcome=in_review")
}

// S7.6
func TestResolve(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body   string
		code   int
		fields []string
	}{
		"confirmed":              {`"resolution":"confirmed","reference":"re_1","result":{"id":"re_1"}`, 200, []string{"outcome=succeeded", "reference=re_1", "result=map[id:re_1]"}},
		"confirmed without what": {`"resolution":"confirmed"`, 400, []string{"field=reference"}},
		"absent, fail":           {`"resolution":"absent_fail"`, 200, []string{"outcome=failed", "next=new_intent"}},
		"absent, resend":         {`"resolution":"absent_resend"`, 200, []string{"outcome=in_progress"}},
		"abandoned":              {`"resolution":"abandoned"`, 200, []string{"outcome=abandoned", "next=stop_and_report"}},
		"approved":               {`"resolution":"approved"`, 409, []string{"code=not_allowed"}},
		"reference for absent":   {`"resolution":"absent_fail","reference":"re_1"`, 400, []string{"field=reference"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			op := review(f)
			body := fmt.Sprintf(`{"version":%v,"person":"mara","reason":"looked at the dashboard",%s}`, op.get("version"), tt.body)
			f.send("POST", "/v1/operations/"+op.key()+"/resolve", body).want(t, tt.code, tt.fields...)
			if tt.code != 200 {
				return
			}
			// The version that the person saw is no longer the current one.
			p := f.send("POST", "/v1/operations/"+op.key()+"/resolve", body).want(t, 409, "code=stale_version", "field=version")
			if p.get("operation") == nil {
				t.Error("the operation as it stands is not shown")
			}
			ev := f.send("GET", "/v1/operations/"+op.key()+"/events", "").want(t, 200).get("events").([]any)
			last := ev[len(ev)-1].(map[string]any)
			if last["kind"] != "resolved" || last["actor"] != "mara" {
				t.Errorf("the audit does not name the person: %v", last)
			}
		})
	}
}

// S7.6: the permission is for exactly one attempt, under a new downstream key.
func TestPermittedResend(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	op := review(f)
	before := op.get("downstream_key")
	f.send("POST", "/v1/operations/"+op.key()+"/resolve", fmt.Sprintf(`{"version":%v,"person":"mara","reason":"absent","resolution":"absent_resend"}`, op.get("version"))).want(t, 200)
	c := f.send("POST", "/v1/claims", note).want(t, 201, "do=look_up")
	c = f.send("POST", "/v1/claims/"+c.key()+"/looked_up", fmt.Sprintf(`{"token":%d,"found":"absent"}`, c.token())).want(t, 200, "do=execute")
	if c.get("downstream_key") == before {
		t.Error("the resend has the old downstream key")
	}
}

func TestApproval(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	held := `{"tool":"shop.held","arguments":{"order_id":"o1","amount":1},"actor":"agent-7"}`
	op := f.send("POST", "/v1/operations", held).want(t, 202, "outcome=awaiting_approval")
	path := "/v1/operations/" + op.key() + "/resolve"
	f.send("POST", path, `{"version":1,"resolution":"approved","person":"agent-7","reason":"me"}`).want(t, 403, "code=forbidden", "field=person")
	f.send("POST", path, `{"version":1,"resolution":"approved","person":"mara","reason":"fine"}`).want(t, 200, "outcome=pending")
	f.send("POST", "/v1/operations", held).want(t, 200, "outcome=succeeded")
}

func TestExplainStoresNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	q := `{"tool":"shop.refund","arguments":{"order_id":"o1","amount":480}}`
	e := f.send("POST", "/v1/explain", q).want(t, 200, "intent_id=refund:o1", "policy=p1", "template=refund:{order_id}", "managed=true", "class=non_idempotent")
	plain := f.send("POST", "/v1/explain", note).want(t, 200, "intent_id=refund:o1", "managed=false", "scope=business")
	f.send("POST", "/v1/explain", `{"tool":"shop.refund","arguments":{}}`).want(t, 400, "code=intent_incomplete", "field=arguments.order_id")
	f.untouched()
	f.send("POST", "/v1/operations", q).want(t, 200, "key="+e.key())
	f.send("POST", "/v1/claims", note).want(t, 201, "key="+plain.key(), fmt.Sprintf("downstream_key=%v", plain.get("downstream_key")))
}

func TestHealthMetricsAndHelp(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	if a := f.send("GET", "/healthz", "").want(t, 200, "status=ok", "version=1.2.3"); !strings.HasSuffix(a.raw, "}\n") {
		t.Errorf("on a terminal the prompt would stick to the answer %q", a.raw)
	}
	f.send("GET", "/readyz", "").want(t, 200, "status=ok")
	f.send("POST", "/v1/operations", refund).want(t, 200)
	f.send("POST", "/v1/operations", refund).want(t, 200)
	f.send("GET", "/v1/nothing", "").want(t, 404, "code=not_found", "field=path")
	text := f.send("GET", "/metrics", "").raw
	for _, line := range []string{
		`effectonce_answers_total{outcome="succeeded",replayed="true"} 1`,
		`effectonce_attempts_total 1`,
		`effectonce_attempt_ends_total{verdict="succeeded"} 1`,
		`effectonce_problems_total{code="not_found"} 1`,
		`effectonce_transitions_total{kind="recorded",state="in_progress"} 1`,
		`effectonce_build_info{version="1.2.3",`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the metrics lack %s:\n%s", line, text)
		}
	}
	// A counter that nobody feeds is not shown as zero.
	if plain := NewMetrics().text("1"); strings.Contains(plain, "attempts") || !strings.Contains(plain, "answers") {
		t.Errorf("without a store the metrics are\n%s", plain)
	}
	if help := f.send("GET", "/errors/conflict", "").raw; !strings.Contains(help, "Somebody else holds the lease") {
		t.Errorf("the help page is %q", help)
	}
	f.send("GET", "/errors/no_such_code", "").want(t, 404, "field=code")
}

// S5.12, S15.2: who may not see an operation learns neither its outcome nor whether arguments match, and a refusal shows nothing of it.
func TestAccessIsAskedFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	key := f.send("POST", "/v1/operations", refund).want(t, 200).key()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	f.server.guard = effectonce.New(f.store, effectonce.Options{Logger: log, Access: func(context.Context, effectonce.Operation) error {
		return &effectonce.Error{Code: effectonce.CodeForbidden, Detail: "not yours"}
	}})
	for _, r := range [][3]string{
		{"POST", "/v1/operations", refund},
		{"POST", "/v1/operations", strings.Replace(refund, "480", "450", 1)},
		{"POST", "/v1/claims", refund},
		{"GET", "/v1/operations/" + key, ""},
		{"GET", "/v1/operations/" + key + "/events", ""},
		{"POST", "/v1/operations/" + key + "/resolve", `{"version":2,"resolution":"abandoned","person":"m","reason":"x"}`},
		{"POST", "/v1/claims/" + key + "/complete", `{"token":1}`},
		{"POST", "/v1/claims/" + key + "/heartbeat", `{"token":1}`},
		{"POST", "/v1/claims/" + key + "/looked_up", `{"token":1,"found":"absent"}`},
	} {
		if a := f.send(r[0], r[1], r[2]).want(t, 403, "code=forbidden"); strings.Contains(a.raw, "re_1") || a.get("operation") != nil {
			t.Errorf("%s %s shows the operation: %s", r[0], r[1], a.raw)
		}
	}
}

// A page in a browser on this machine must not reach the daemon.
func TestLoopbackCallersOnly(t *testing.T) {
	t.Parallel()
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	for name, tt := range map[string]struct {
		change func(*http.Request)
		field  string
	}{
		"a foreign name":                {host("evil.example"), "Host"},
		"a name that begins like ours":  {host("localhost.evil.example:7171"), "Host"},
		"an address beginning with 127": {host("127.0.0.1.evil.example"), "Host"},
		"another address":               {host("10.0.0.1:7171"), "Host"},
		"no host":                       {host(""), "Host"},
		"another site":                  {header("Origin", "https://evil.example"), "Origin"},
		"another port":                  {header("Origin", "http://127.0.0.1:8080"), "Origin"},
		"a hidden origin":               {header("Origin", "null"), "Origin"},
		"fetched from another site":     {header("Sec-Fetch-Site", "cross-site"), "Sec-Fetch-Site"},
		"fetched from a sibling":        {header("Sec-Fetch-Site", "same-site"), "Sec-Fetch-Site"},
		"ipv4":                          {host("127.0.0.1:7171"), ""},
		"ipv6":                          {host("[::1]:7171"), ""},
		"ipv6 without port":             {host("[::1]"), ""},
		"localhost":                     {host("LocalHost:7171"), ""},
		"our own page":                  {header("Origin", "http://127.0.0.1:7171"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			if tt.field == "" {
				f.send("POST", "/v1/claims", note, tt.change).want(t, 201)
				return
			}
			f.send("POST", "/v1/claims", note, tt.change).want(t, 403, "code=forbidden", "field="+tt.field)
			f.send("GET", "/v1/operations", "", tt.change).want(t, 403)
			f.untouched()
		})
	}
}
