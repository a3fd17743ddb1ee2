package provider

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

func ensureOptions(t testing.TB, base string) HTTPOptions {
	t.Helper()
	return HTTPOptions{
		Contract: load(t, "http/none"), BaseURL: base, Account: "shop",
		Settings:   contract.Settings{Method: "PUT", Path: "/orders/{order}", Rejected: []int{422}},
		Credential: func(context.Context) (string, error) { return testSecret, nil },
		Body:       map[string]any{"status": "{status}"},
		Headers:    map[string]string{"X-Tenant": "{tenant}"},
		Ensure:     &Ensure{Path: "/orders/{order}", Query: map[string]string{"view": "{view?}"}, Met: map[string]any{"status": "{status}"}},
	}
}

const shipArgs = `{"order":"o/1","status":"shipped","tenant":"t1"}`

// S11.1: what an observation says decides whether anything is sent.
func TestEnsureAppliesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		looks   []string // what each observation answers: a status and a body
		applies string
		verdict effectonce.Verdict
		applied int
		says    string
	}{
		"met":                       {[]string{`200 {"status":"shipped","token":"` + testSecret + `"}`}, "200", effectonce.VerdictSucceeded, 0, ""},
		"different":                 {[]string{`200 {"status":"open"}`, `200 {"status":"shipped"}`}, "204", effectonce.VerdictSucceeded, 1, ""},
		"still different":           {[]string{`200 {"status":"open"}`, `200 {"status":"open"}`}, "204", effectonce.VerdictUnknown, 1, `status is "open", and "shipped" was asked for`},
		"not there":                 {[]string{`404 `, `200 {"status":"shipped"}`}, "201", effectonce.VerdictSucceeded, 1, ""},
		"not to be observed":        {[]string{`500 `}, "200", effectonce.VerdictNotSent, 0, "answered 500"},
		"an observation of nothing": {[]string{`200 <html>`}, "200", effectonce.VerdictNotSent, 0, "not JSON"},
		"lost afterwards":           {[]string{`200 {"status":"open"}`, `503 `}, "200", effectonce.VerdictUnknown, 1, "applied, and the state could not be observed"},
		"refused":                   {[]string{`200 {"status":"open"}`}, "422", effectonce.VerdictRejected, 1, ""},
		"unclear":                   {[]string{`200 {"status":"open"}`}, "500", effectonce.VerdictUnknown, 1, ""},
		"a field of another type":   {[]string{`200 {"status":["shipped"]}`, `200 {"status":"shipped"}`}, "200", effectonce.VerdictSucceeded, 1, ""},
	} {
		looked, applied := 0, 0
		server, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
			answer := c.applies + " "
			if r.Method == http.MethodGet {
				answer = c.looks[min(looked, len(c.looks)-1)]
				looked++
			} else {
				applied++
			}
			status, body, _ := strings.Cut(answer, " ")
			code := map[string]int{"200": 200, "201": 201, "204": 204, "404": 404, "422": 422, "500": 500, "503": 503}[status]
			w.WriteHeader(code)
			if body != "" {
				if _, err := w.Write([]byte(body)); err != nil {
					t.Error(err)
				}
			}
		})
		h := newHTTP(t, ensureOptions(t, server.URL))
		end := do(t, h, aCall(t, h, shipArgs), 10*time.Second)
		if end.Verdict != c.verdict || applied != c.applied || !strings.Contains(end.Failure.Message, c.says) {
			t.Errorf("%s: %s %+v, applied %d times", name, end.Verdict, end.Failure, applied)
		}
		for _, r := range seen.requests {
			if r.URL.EscapedPath() != "/orders/o%2F1" || r.Header.Get("X-Tenant") != "t1" || r.Header.Get("Authorization") == "" || r.URL.RawQuery != "" {
				t.Errorf("%s: %s %s %v", name, r.Method, r.URL, r.Header)
			}
		}
	}
}

func TestEnsureIsCheckedWhenItIsConfigured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(o *HTTPOptions)
		field  string
	}{
		"a key":        {func(o *HTTPOptions) { o.Contract = load(t, "http/keyed"); o.Settings = contract.Settings{Path: "/x"} }, "ensure"},
		"no path":      {func(o *HTTPOptions) { o.Ensure.Path = "" }, "ensure.observe.path"},
		"a wrong path": {func(o *HTTPOptions) { o.Ensure.Path = "/{" }, "ensure.observe.path"},
		"no state":     {func(o *HTTPOptions) { o.Ensure.Met = nil }, "ensure.met"},
		"both":         {func(o *HTTPOptions) { o.Ensure.Absent = true }, "ensure.absent"},
		"no place":     {func(o *HTTPOptions) { o.Ensure.Met = map[string]any{"": 1} }, "ensure.met"},
		"a template":   {func(o *HTTPOptions) { o.Ensure.Met = map[string]any{"a": "}"} }, "ensure.met.a"},
		"a query":      {func(o *HTTPOptions) { o.Ensure.Query = map[string]string{"a": "{"} }, "ensure.observe.query.a"},
	} {
		o := ensureOptions(t, "http://127.0.0.1:9")
		c.change(&o)
		_, err := NewHTTP(o)
		e, ok := err.(*effectonce.Error)
		if !ok || e.Field != c.field || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	h := newHTTP(t, ensureOptions(t, "http://127.0.0.1:9"))
	if _, err := h.Render([]byte(`{"order":"..","status":"x","tenant":"t"}`)); err == nil {
		t.Error("a path that leaves its place is rendered")
	}
}
