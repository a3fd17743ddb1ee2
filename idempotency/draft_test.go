package idempotency_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/idempotency"
	"github.com/effectonce/effectonce/store/memory"
)

// S12.1: each scenario and example of draft-ietf-httpapi-idempotency-key-header-07, by its section.
func TestTheDraft(t *testing.T) {
	t.Parallel()
	const docs = "https://developer.example.com/idempotency"
	const key = `"8e03978e-40d5-43e8-bc93-6894a57f9324"` // 2.2
	post := func(key, body string) ask { return ask{key: key, body: body} }
	for _, tt := range []struct {
		name string
		// before are sent first, and end with 201; outstanding is still being processed meanwhile.
		before      []ask
		outstanding bool
		send        ask
		status      int
		title       string
		effects     int
	}{
		{name: "2.1 a string is a key", send: post(key, `{}`), status: 201, effects: 1},
		{name: "2.1 more than one header", send: ask{header: http.Header{"Idempotency-Key": {key, key}}}, status: 400, title: "Idempotency-Key is not valid"},
		{name: "2.1 an integer is taken as a bare key", send: post(`42`, `{}`), status: 201, effects: 1},
		{name: "2.1 a list is no item", send: post(`"a", "b"`, `{}`), status: 400, title: "Idempotency-Key is not valid"},
		{name: "2.6 first request", send: post(key, `{"a":1}`), status: 201, effects: 1},
		{name: "2.6 retry after the first has ended", before: []ask{post(key, `{"a":1}`)}, send: post(key, `{"a":1}`), status: 201, effects: 1},
		{name: "2.6 retry before the first has ended", before: []ask{post(key, `{"a":1}`)}, outstanding: true, send: post(key, `{"a":1}`), status: 409, title: "A request is outstanding for this Idempotency-Key", effects: 1},
		{name: "2.6 another key", before: []ask{post(key, `{"a":1}`)}, send: post(`"k-2"`, `{"a":1}`), status: 201, effects: 2},
		{name: "2.7 missing", send: post("", `{}`), status: 400, title: "Idempotency-Key is missing"},
		{name: "2.7 reused with another payload", before: []ask{post(key, `{"a":1}`)}, send: post(key, `{"a":2}`), status: 422, title: "Idempotency-Key is already used", effects: 1},
		{name: "2.7 reused with another payload while outstanding", before: []ask{post(key, `{"a":1}`)}, outstanding: true, send: post(key, `{"a":2}`), status: 422, title: "Idempotency-Key is already used", effects: 1},
		{name: "2.7 corrected after a missing key", before: nil, send: post(key, `{"a":1}`), status: 201, effects: 1},
		{name: "PATCH", send: ask{method: "PATCH", key: key}, status: 201, effects: 1},
		{name: "PATCH without a key", send: ask{method: "PATCH"}, status: 400, title: "Idempotency-Key is missing"},
		{name: "GET needs no key", send: ask{method: "GET"}, status: 201, effects: 1},
		{name: "PUT is not asked for its key", before: []ask{{method: "PUT", key: key}}, send: ask{method: "PUT", key: key}, status: 201, effects: 2},
		{name: "DELETE is not asked for its key", send: ask{method: "DELETE", key: `"broken`}, status: 201, effects: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l ledger
			release, entered := make(chan struct{}), make(chan struct{}, 1)
			refunds := l.refunds()
			s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{Docs: docs}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				refunds(w, r)
				if tt.outstanding {
					entered <- struct{}{}
					<-release
				}
			}))
			ended := make(chan reply, len(tt.before))
			for _, b := range tt.before {
				if tt.outstanding {
					go func() { ended <- do(s.Client(), b.request(t.Context(), s.URL)) }()
					<-entered
				} else if r := b.send(t, s); r.status != http.StatusCreated {
					t.Fatalf("%+v", r)
				}
			}
			r := tt.send.send(t, s)
			close(release)
			if tt.outstanding {
				if first := <-ended; first.status != http.StatusCreated {
					t.Errorf("the first request: %+v", first)
				}
			}
			if r.status != tt.status || l.count() != tt.effects {
				t.Fatalf("%d with %d effects, want %d with %d: %s", r.status, l.count(), tt.status, tt.effects, r.body)
			}
			if tt.title == "" {
				return
			}
			p := r.problem(t)
			if p.Title != tt.title || p.Type != docs+"#"+p.Code || p.Status != tt.status || p.Detail == "" || p.Next == "" {
				t.Errorf("%+v", p)
			}
			if got := r.header.Get("Link"); got != `<`+docs+`>; rel="describedby"; type="text/html"` {
				t.Errorf("Link: %s", got)
			}
			if r.header.Get("Content-Language") != "en" {
				t.Errorf("Content-Language: %q", r.header.Get("Content-Language"))
			}
		})
	}
}

// S12.1: the policy, with its expiry, is published.
func TestThePolicyIsPublished(t *testing.T) {
	t.Parallel()
	m := middleware(t, memory.Open(memory.Options{}), idempotency.Options{Terms: effectonce.Terms{Results: 3600e9}, Docs: "https://example.com/keys"})
	p := m.Policy()
	if !p.Required || p.RetentionSeconds != 3600 || p.KeyBytesMax != 255 || len(p.Methods) != 2 || p.Header != "Idempotency-Key" {
		t.Errorf("%+v", p)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, nil)
	var published map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &published); err != nil || published["retention_seconds"] != 3600.0 || published["header"] != "Idempotency-Key" {
		t.Errorf("%s, %v", w.Body, err)
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	for name, o := range map[string]idempotency.Options{
		"a key":              {Terms: effectonce.Terms{Keyed: true}},
		"convergent":         {Terms: effectonce.Terms{Class: effectonce.ClassConvergent}},
		"managed":            {Terms: effectonce.Terms{Managed: true}},
		"a negative limit":   {RequestBytesMax: -1},
		"long keys":          {KeyBytesMax: 513},
		"negative retention": {Terms: effectonce.Terms{Results: -1}},
	} {
		if _, err := idempotency.New(guard, o); effectonce.CodeOf(err) != effectonce.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := idempotency.New(nil, idempotency.Options{}); effectonce.CodeOf(err) != effectonce.CodeInvalid {
		t.Errorf("no guard: %v", err)
	}
}

// Optional: without a key a request passes, and one with a key is guarded.
func TestKeysCanBeOptional(t *testing.T) {
	t.Parallel()
	var l ledger
	s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{Optional: true}), l.refunds())
	for _, a := range []ask{{}, {}, {key: "k"}, {key: "k"}} {
		if r := a.send(t, s); r.status != http.StatusCreated {
			t.Errorf("%+v", r)
		}
	}
	if l.count() != 3 {
		t.Errorf("%d effects", l.count())
	}
}
