package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
)

// Bad input gets a problem document that names field and remedy, and leaves nothing behind.
func TestBadInput(t *testing.T) {
	t.Parallel()
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	none := func(*http.Request) {}
	with := func(member string) string { return strings.TrimSuffix(note, "}") + "," + member + "}" }
	key := strings.Repeat("ab", 32)
	deep := strings.Repeat(`{"a":`, 80) + "1" + strings.Repeat("}", 80)
	tests := map[string]struct {
		method, path, body string
		change             func(*http.Request)
		code               int
		problem, field     string
	}{
		"no body":                        {"POST", "/v1/claims", " ", none, 400, "invalid", "body"},
		"not JSON":                       {"POST", "/v1/claims", "tool=x", none, 400, "invalid", "body"},
		"half a document":                {"POST", "/v1/claims", `{"tool":"x"`, none, 400, "invalid", "body"},
		"two documents":                  {"POST", "/v1/claims", note + note, none, 400, "invalid", "body"},
		"an array":                       {"POST", "/v1/claims", "[" + note + "]", none, 400, "invalid", "body"},
		"a byte order mark":              {"POST", "/v1/claims", "\ufeff" + note, none, 400, "invalid", "body"},
		"bytes that are no UTF-8":        {"POST", "/v1/claims", strings.Replace(note, "480", "\"\xff\"", 1), none, 400, "not_canonical", "arguments.amount"},
		"NaN":                            {"POST", "/v1/claims", strings.Replace(note, "480", "NaN", 1), none, 400, "not_canonical", "arguments.amount"},
		"beyond a double":                {"POST", "/v1/claims", strings.Replace(note, "480", "1e400", 1), none, 400, "not_canonical", "arguments.amount"},
		"an integer no double carries":   {"POST", "/v1/claims", strings.Replace(note, "480", "9007199254740993", 1), none, 400, "not_canonical", "arguments.amount"},
		"a lone surrogate":               {"POST", "/v1/claims", strings.Replace(note, "480", `"\ud800"`, 1), none, 400, "not_canonical", "arguments.amount"},
		"an argument twice":              {"POST", "/v1/claims", strings.Replace(note, `"amount":480`, `"amount":480,"amount":480`, 1), none, 400, "not_canonical", "arguments.amount"},
		"a field twice":                  {"POST", "/v1/claims", with(`"tool":"other"`), none, 400, "not_canonical", "tool"},
		"too deep":                       {"POST", "/v1/claims", strings.Replace(note, "480", deep, 1), none, 400, "not_canonical", ""},
		"too large":                      {"POST", "/v1/claims", strings.Replace(note, "480", `"`+strings.Repeat("x", BodyBytesMax)+`"`, 1), none, 413, "too_large", "body"},
		"an unknown field":               {"POST", "/v1/claims", with(`"idempotency_key":"k"`), none, 400, "invalid", "idempotency_key"},
		"a field in capitals":            {"POST", "/v1/claims", strings.Replace(note, `"tool"`, `"Tool"`, 1), none, 400, "invalid", "Tool"},
		"no tool":                        {"POST", "/v1/claims", `{"intent_id":"i","arguments":{}}`, none, 400, "invalid", "tool"},
		"an empty tool":                  {"POST", "/v1/claims", `{"tool":"","intent_id":"i","arguments":{}}`, none, 400, "invalid", "tool"},
		"a number as tool":               {"POST", "/v1/claims", `{"tool":7,"intent_id":"i","arguments":{}}`, none, 400, "invalid", "tool"},
		"no arguments":                   {"POST", "/v1/claims", `{"tool":"x","intent_id":"i"}`, none, 400, "invalid", "arguments"},
		"arguments that are a list":      {"POST", "/v1/claims", `{"tool":"x","intent_id":"i","arguments":[1]}`, none, 400, "invalid", "arguments"},
		"arguments that are null":        {"POST", "/v1/claims", `{"tool":"x","intent_id":"i","arguments":null}`, none, 400, "invalid", "arguments"},
		"arguments as text":              {"POST", "/v1/claims", `{"tool":"x","intent_id":"i","arguments":"{}"}`, none, 400, "invalid", "arguments"},
		"no intent id (B19)":             {"POST", "/v1/claims", `{"tool":"x","arguments":{}}`, none, 400, "intent_incomplete", "intent_id"},
		"an intent id with a newline":    {"POST", "/v1/claims", `{"tool":"x","intent_id":"a\nb","arguments":{}}`, none, 400, "invalid", "intent_id"},
		"an intent id too long":          {"POST", "/v1/claims", `{"tool":"x","intent_id":"` + strings.Repeat("é", 300) + `","arguments":{}}`, none, 400, "invalid", "intent_id"},
		"an intent id and a template":    {"POST", "/v1/operations", `{"tool":"shop.refund","intent_id":"mine","arguments":{"order_id":"o1"}}`, none, 400, "invalid", "intent_id"},
		"a missing template component":   {"POST", "/v1/operations", `{"tool":"shop.refund","arguments":{"amount":1}}`, none, 400, "intent_incomplete", "arguments.order_id"},
		"a tool nobody configured":       {"POST", "/v1/operations", `{"tool":"x","arguments":{}}`, none, 404, "unknown_tool", "tool"},
		"a tool without provider":        {"POST", "/v1/operations", `{"tool":"crm.keyed","intent_id":"i","arguments":{}}`, none, 404, "unknown_tool", "tool"},
		"run in the context":             {"POST", "/v1/operations", `{"tool":"shop.refund","arguments":{"order_id":"o"},"context":{"run":"r"}}`, none, 400, "invalid", "context.run"},
		"a context that is no text":      {"POST", "/v1/operations", `{"tool":"shop.refund","arguments":{"order_id":"o"},"context":{"a":1}}`, none, 400, "invalid", "context.a"},
		"execute that is no boolean":     {"POST", "/v1/operations?execute=maybe", refund, none, 400, "invalid", "query.execute"},
		"a scope that is none":           {"POST", "/v1/claims", with(`"scope":"galaxy"`), none, 400, "invalid", "scope"},
		"a timeout that is none":         {"POST", "/v1/claims", with(`"timeout":"30"`), none, 400, "invalid", "timeout"},
		"a negative timeout":             {"POST", "/v1/claims", with(`"timeout":"-5s"`), none, 400, "invalid", "timeout"},
		"a timeout of a week":            {"POST", "/v1/claims", with(`"timeout":"168h"`), none, 400, "invalid", "timeout"},
		"a lease as long as the timeout": {"POST", "/v1/claims", with(`"lease":"30s"`), none, 400, "invalid", "lease"},
		"a lease for a configured tool":  {"POST", "/v1/claims", strings.Replace(with(`"lease":"10s"`), "crm.anything", "crm.keyed", 1), none, 400, "invalid", "lease"},
		"a window from the caller":       {"POST", "/v1/claims", with(`"retention":"24h"`), none, 400, "invalid", "retention"},
		"a predecessor that is none":     {"POST", "/v1/claims", with(`"supersedes":{"key":"` + strings.Repeat("z", 64) + `","reason":"x"}`), none, 400, "invalid", "supersedes.key"},
		"a predecessor without reason":   {"POST", "/v1/claims", with(`"supersedes":{"key":"` + key + `"}`), none, 400, "invalid", "supersedes.reason"},
		"an unknown nested field":        {"POST", "/v1/claims", with(`"supersedes":{"key":"` + key + `","reason":"x","by":"me"}`), none, 400, "invalid", "supersedes.by"},
		"a predecessor nobody has":       {"POST", "/v1/claims", with(`"supersedes":{"key":"` + key + `","reason":"x"}`), none, 404, "not_found", ""},
		"an unknown query parameter":     {"POST", "/v1/claims?waits=3s", note, none, 400, "invalid", "query.waits"},
		"a wait that is none":            {"POST", "/v1/claims?wait=soon", note, none, 400, "invalid", "query.wait"},
		"a wait too long":                {"POST", "/v1/claims?wait=61s", note, none, 400, "invalid", "query.wait"},
		"a negative wait":                {"POST", "/v1/claims?wait=-1s", note, none, 400, "invalid", "query.wait"},
		"a wait given twice":             {"POST", "/v1/claims?wait=1s&wait=2s", note, none, 400, "invalid", "query.wait"},
		"a preferred wait that is none":  {"POST", "/v1/claims", note, header("Prefer", "wait=soon"), 400, "invalid", "Prefer"},
		"a broken query":                 {"POST", "/v1/claims?wait=%zz", note, none, 400, "invalid", "query"},
		"no content type":                {"POST", "/v1/claims", note, func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "invalid", "Content-Type"},
		"a form":                         {"POST", "/v1/claims", note, header("Content-Type", "application/x-www-form-urlencoded"), 415, "invalid", "Content-Type"},
		"plain text":                     {"POST", "/v1/claims", note, header("Content-Type", "text/plain"), 415, "invalid", "Content-Type"},
		"another charset":                {"POST", "/v1/claims", note, header("Content-Type", "application/json; charset=latin-1"), 415, "invalid", "Content-Type"},
		"a compressed body":              {"POST", "/v1/claims", note, header("Content-Encoding", "gzip"), 415, "invalid", "Content-Encoding"},
		"an unknown path":                {"GET", "/v2/operations", "", none, 404, "not_found", "path"},
		"a path that is not clean":       {"POST", "/v1//claims", note, none, 404, "not_found", "path"},
		"a path with a slash at its end": {"POST", "/v1/claims/", note, none, 404, "not_found", "path"},
		"another method":                 {"DELETE", "/v1/operations/" + key, "", none, 405, "invalid", "method"},
		"a get of claims":                {"GET", "/v1/claims", "", none, 405, "invalid", "method"},
		"a key that is none":             {"GET", "/v1/operations/abc", "", none, 400, "invalid", "key"},
		"a key nobody has":               {"GET", "/v1/operations/" + key, "", none, 404, "not_found", ""},
		"events of a key nobody has":     {"GET", "/v1/operations/" + key + "/events", "", none, 404, "not_found", ""},
		"a state that is none":           {"GET", "/v1/operations?state=done", "", none, 400, "invalid", "query.state"},
		"a limit of zero":                {"GET", "/v1/operations?limit=0", "", none, 400, "invalid", "query.limit"},
		"a limit too large":              {"GET", "/v1/operations?limit=501", "", none, 400, "invalid", "query.limit"},
		"a cursor that is none":          {"GET", "/v1/operations?after=!!", "", none, 400, "invalid", ""},
		"alarmed that is no boolean":     {"GET", "/v1/operations?alarmed=yes", "", none, 400, "invalid", "query.alarmed"},
		"a report for nobody's claim":    {"POST", "/v1/claims/" + key + "/complete", `{"token":1}`, none, 404, "not_found", ""},
		"a report without a token":       {"POST", "/v1/claims/" + key + "/complete", `{}`, none, 400, "invalid", "token"},
		"a token of zero":                {"POST", "/v1/claims/" + key + "/complete", `{"token":0}`, none, 400, "invalid", "token"},
		"a token that is text":           {"POST", "/v1/claims/" + key + "/complete", `{"token":"1"}`, none, 400, "invalid", "token"},
		"a token that is a fraction":     {"POST", "/v1/claims/" + key + "/complete", `{"token":1.5}`, none, 400, "invalid", "token"},
		"a token beyond an integer":      {"POST", "/v1/claims/" + key + "/complete", `{"token":1e30}`, none, 400, "invalid", "token"},
		"a refusal without its error":    {"POST", "/v1/claims/" + key + "/reject", `{"token":1}`, none, 400, "invalid", "error"},
		"a refusal without a code":       {"POST", "/v1/claims/" + key + "/reject", `{"token":1,"error":{"message":"no"}}`, none, 400, "invalid", "error.code"},
		"a pause that is none":           {"POST", "/v1/claims/" + key + "/not_sent", `{"token":1,"retry_after":"soon"}`, none, 400, "invalid", "retry_after"},
		"a finding that is none":         {"POST", "/v1/claims/" + key + "/looked_up", `{"token":1,"found":"two"}`, none, 400, "invalid", "found"},
		"a reference of nothing":         {"POST", "/v1/claims/" + key + "/looked_up", `{"token":1,"found":"absent","reference":"re_1"}`, none, 400, "invalid", "reference"},
		"a decision by nobody":           {"POST", "/v1/operations/" + key + "/resolve", `{"version":1,"resolution":"abandoned","reason":"x"}`, none, 400, "invalid", "person"},
		"a decision without a reason":    {"POST", "/v1/operations/" + key + "/resolve", `{"version":1,"resolution":"abandoned","person":"m","reason":""}`, none, 400, "invalid", "reason"},
		"a decision without a version":   {"POST", "/v1/operations/" + key + "/resolve", `{"resolution":"abandoned","person":"m","reason":"x"}`, none, 400, "invalid", "version"},
		"a decision that is none":        {"POST", "/v1/operations/" + key + "/resolve", `{"version":1,"resolution":"maybe","person":"m","reason":"x"}`, none, 400, "invalid", "resolution"},
		"a question without arguments":   {"POST", "/v1/explain", `{"tool":"x","intent_id":"i"}`, none, 400, "invalid", "arguments"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			a := f.send(tt.method, tt.path, tt.body, tt.change).want(t, tt.code)
			if tt.problem != "" {
				a.want(t, tt.code, "code="+tt.problem)
			}
			if tt.field != "" {
				a.want(t, tt.code, "field="+tt.field)
			}
			if fmt.Sprint(a.get("status")) != fmt.Sprint(tt.code) {
				t.Errorf("the body's status is %v, the answer's %d", a.get("status"), tt.code)
			}
			if a.get("next") != "stop_and_report" {
				t.Errorf("next is %v", a.get("next"))
			}
			if n := f.effects.Load(); n != 0 {
				t.Errorf("%d effects", n)
			}
			f.untouched()
		})
	}
}

// FuzzSubmit sends any body: it never gets a server error, and what is refused leaves nothing behind.
func FuzzSubmit(f *testing.F) {
	for _, seed := range []string{
		refund, note, `{}`, `[]`, `{"tool":"shop.refund","arguments":{"order_id":"a","order_id":"b"}}`, `{"tool":"shop.refund","arguments":{"order_id":"o","amount":1e400}}`,
		`{"tool":"shop.refund","arguments":{"order_id":"o"},"supersedes":null}`, `{"tool":"shop.refund","arguments":{"order_id":"o"},"context":{"a":"b"},"result":1}`, "{\"tool\":\"\xff\"}",
	} {
		f.Add(seed)
	}
	fix := newFixture(f, nil)
	f.Fuzz(func(t *testing.T, body string) {
		fix.t = t
		if body == "" {
			body = " "
		}
		for _, path := range []string{"/v1/operations", "/v1/claims", "/v1/explain"} {
			before := len(fix.store.AllEvents())
			a := fix.send("POST", path, body)
			if a.code >= 500 {
				t.Fatalf("status %d: %s", a.code, a.raw)
			}
			if (a.code >= 400 || path == "/v1/explain") && len(fix.store.AllEvents()) != before {
				t.Fatalf("%s stored something for: %s", path, a.raw)
			}
		}
	})
}

func TestProblemsComeFromTheRegistry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, k := range effectonce.Registry {
		p, _ := problemOf(&effectonce.Error{Code: k.Code})
		if p.Code != string(k.Code) || p.Status != k.Status || p.Next != string(k.Next) || p.Title != k.Title || p.Remedy == "" || p.Detail == "" {
			t.Errorf("%s: %+v", k.Code, p)
		}
		if help := f.send("GET", p.Type, ""); help.code != 200 || !strings.Contains(help.raw, k.Help) {
			t.Errorf("%s: its type %s gives no help", k.Code, p.Type)
		}
	}
}
