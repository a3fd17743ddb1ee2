package provider

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// keyedOptions are those of a JSON API that takes the key where the test wants it.
func keyedOptions(t testing.TB, base string) HTTPOptions {
	t.Helper()
	lag := time.Second
	return HTTPOptions{
		Contract: load(t, "http/keyed"), BaseURL: base,
		Settings: contract.Settings{
			Path: "/v1/orders/{order_id}/payments", Retention: 24 * time.Hour, Reference: "id",
			Stamp: &contract.StampSetting{Field: "meta.ref"},
			LookUp: &contract.LookUpSetting{
				Path: "/v1/orders/{argument.order_id}/payments", Query: map[string]string{"currency": "{body.currency}", "ref": "{stamp}"},
				Items: "items", Paging: contract.Paging{Kind: contract.PagingNone}, Lag: &lag,
			},
		},
		Body: map[string]any{"total": "{amount.minor}", "currency": "{amount.currency}", "text": "Order {order_id}, {{paid}}", "note": "{note?}", "list": []any{1, true, "{order_id}"}},
	}
}

// S3.10: what is frozen, in full.
func TestFrozenRequest(t *testing.T) {
	t.Parallel()
	o := keyedOptions(t, "https://api.example.com/base/")
	o.Headers = map[string]string{"X-Order": "{order_id}"}
	o.Query = map[string]string{"dry": "no", "expand": "{expand?}"}
	h := newHTTP(t, o)
	f, err := parseFrozen(render(t, h, `{"order_id":"O 1/2","amount":{"minor":4800,"currency":"EUR"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := frozen{
		V: 1, Contract: "http/keyed", Version: h.Operation().Version, Operation: "call", Scope: h.Scope(), Method: "POST",
		Path: "/v1/orders/O%201%2F2/payments", Query: parts{{Text: "dry=no"}}, Encoding: "json",
		Headers: []frozenHeader{
			{"Content-Type", plain("application/json")}, {"Idempotency-Key", parts{{Insert: insertKey}}}, {"X-Order", plain("O 1/2")},
		},
		Body: parts{
			{Text: `{"currency":"EUR","list":[1,true,"O 1/2"],"meta":{"ref":"`}, {Insert: insertStamp},
			{Text: `"},"text":"Order O 1/2, {paid}","total":4800}`},
		},
		LookUp: &frozenLookUp{
			Path: plain("/v1/orders/O%201%2F2/payments"), Query: parts{{Text: "currency=EUR&ref="}, {Insert: insertStamp}},
			Headers: []frozenHeader{{"X-Order", plain("O 1/2")}}, Items: "items", Stamp: "meta.ref", Reference: "id",
			Paging: contract.Paging{Kind: contract.PagingNone},
		},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r, err := f.request(h.base, effectonce.Call{DownstreamKey: testKey, Stamp: `a"b`})
	if err != nil || r.URL.String() != "https://api.example.com/base/v1/orders/O%201%2F2/payments?dry=no" {
		t.Errorf("%v, %v", r, err)
	}
}

// C2, S3.9: a key or stamp that a model or a template supplied does not get through, wherever the contract has its place.
func TestSuppliedKeysAreOverwritten(t *testing.T) {
	t.Parallel()
	const evil = "supplied-by-a-model"
	arguments := `{"order_id":"o1","metadata":{"effectonce":"` + evil + `","Effectonce":"` + evil + `","kept":"yes"},"request_id":"` + evil + `","Request_ID":"` + evil + `"}`
	own := func(place contract.Place, encoding contract.Encoding) *HTTP {
		text := `contract: acme/v1
sources: {page: {url: "https://acme.example", checked: 2026-11-30, grade: official, says: it}}
operations:
  pay:
    method: POST
    path: /pay
    encoding: ` + string(encoding) + `
    key: {in: ` + string(place) + `, name: request_id, encoding: hex, source: page}
    stamp: {in: body, field: "metadata[effectonce]", path: metadata.effectonce, source: page}
    verdicts: [{when: {status: 200}, verdict: succeeded, source: page}]
`
		c, err := contract.Parse("acme.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o := HTTPOptions{Contract: c, BaseURL: "https://api.example.com"}
		if place == contract.PlaceQuery {
			o.Query = map[string]string{"Request_Id": "{request_id}"}
			o.Body = map[string]any{"metadata": "{metadata}"}
		}
		return newHTTP(t, o)
	}
	for _, tt := range []struct {
		place    contract.Place
		encoding contract.Encoding
	}{{contract.PlaceBody, contract.EncodingJSON}, {contract.PlaceBody, contract.EncodingForm}, {contract.PlaceQuery, contract.EncodingJSON}} {
		h := own(tt.place, tt.encoding)
		request := render(t, h, arguments)
		f, err := parseFrozen(request)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(request), evil) || !strings.Contains(string(request), "kept") {
			t.Errorf("%s %s: %s", tt.place, tt.encoding, request)
		}
		body, err := f.Body.filled(effectonce.Call{DownstreamKey: "KEY", Stamp: "STAMP"}, asIs)
		if err != nil || strings.Count(body, "STAMP") != 1 {
			t.Errorf("%s %s: body %s, %v", tt.place, tt.encoding, body, err)
		}
		query, err := f.Query.filled(effectonce.Call{DownstreamKey: "KEY"}, asIs)
		if err != nil || strings.Count(query+body, "KEY") != 1 {
			t.Errorf("%s %s: query %s, body %s, %v", tt.place, tt.encoding, query, body, err)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	const good = `"order_id":"o1","amount":{"minor":1,"currency":"EUR"}`
	for _, tt := range []struct {
		name, arguments, field string
		options                func(*HTTPOptions)
	}{
		{"not an object", `[]`, "arguments", nil},
		{"not JSON", `{`, "arguments", nil},
		{"a name twice", `{"a":1,"a":2}`, "arguments", nil},
		{"a missing argument", `{"order_id":"o1"}`, "body.currency", nil},
		{"an amount as text", `{"order_id":{"a":1},"amount":{"minor":1,"currency":"EUR"}}`, "path.order_id", nil},
		{"an empty path segment", `{"order_id":"","amount":{"minor":1,"currency":"EUR"}}`, "path.order_id", nil},
		{"a path upwards", `{"order_id":"..","amount":{"minor":1,"currency":"EUR"}}`, "path.order_id", nil},
		{"a header with a line break", `{` + good + `,"x":"a\r\nb: c"}`, "headers.X-X", func(o *HTTPOptions) { o.Headers = map[string]string{"X-X": "{x}"} }},
		{"no place for the stamp", `{` + good + `,"meta":"text"}`, "body.meta", func(o *HTTPOptions) { o.Body = nil }},
		{"brackets in a form's name", `{` + good + `,"metadata[effectonce]":"x"}`, "body.", func(o *HTTPOptions) { o.Body, o.Settings.Encoding = nil, contract.EncodingForm }},
		{"too large", `{` + good + `,"note":"` + strings.Repeat("n", requestBytesMax-200) + `"}`, "arguments", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := keyedOptions(t, "https://api.example.com")
			if tt.options != nil {
				tt.options(&o)
			}
			_, err := newHTTP(t, o).Render(json.RawMessage(tt.arguments))
			var e *effectonce.Error
			if !errors.As(err, &e) || e.Field != tt.field {
				t.Errorf("got %v, want field %s", err, tt.field)
			}
		})
	}
}

// S3.10: equal arguments give equal bytes; every string survives the form and JSON encodings and none can forge a gap or a field.
func TestRenderIsFaithful(t *testing.T) {
	t.Parallel()
	form := newHTTP(t, stripeOptions(t, "https://api.example.com"))
	jsonOptions := keyedOptions(t, "https://api.example.com")
	jsonOptions.Settings.Path, jsonOptions.Settings.LookUp = "/pay", nil
	jsonOptions.Body = map[string]any{"payment_intent": "{payment_intent}"}
	asJSON := newHTTP(t, jsonOptions)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"effectonce-gap-0-stamp", "effectonce-gap-0-", "{stamp}", "a&metadata[effectonce]=x", `","meta":{"ref":"x`, "effectonce-gap-0-effectonce-gap-1-downstream_key\"",
		})).Draw(t, "s")
		arguments, err := json.Marshal(map[string]any{"payment_intent": s, "amount": map[string]any{"minor": 5}})
		if err != nil {
			t.Fatal(err)
		}
		call := effectonce.Call{DownstreamKey: testKey, Stamp: testStamp}

		one, err := form.Render(arguments)
		if err != nil {
			t.Fatal(err)
		}
		two, err := form.Render(arguments)
		if err != nil || string(one) != string(two) {
			t.Fatalf("two renderings differ: %v", err)
		}
		f, err := parseFrozen(one)
		if err != nil {
			t.Fatal(err)
		}
		body, err := f.Body.filled(call, url.QueryEscape)
		if err != nil {
			t.Fatal(err)
		}
		fields, err := url.ParseQuery(body)
		if diff := cmp.Diff(url.Values{"amount": {"5"}, "payment_intent": {s}, "metadata[effectonce]": {testStamp}}, fields); diff != "" || err != nil {
			t.Fatalf("%v %s", err, diff)
		}

		one, err = asJSON.Render(arguments)
		if err != nil {
			t.Fatal(err)
		}
		if f, err = parseFrozen(one); err != nil {
			t.Fatal(err)
		}
		if body, err = f.Body.filled(call, inJSON); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if diff := cmp.Diff(map[string]any{"payment_intent": s, "meta": map[string]any{"ref": testStamp}}, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestBodyOfAllArguments(t *testing.T) {
	t.Parallel()
	server, seen := serve(t, answerWith(201, `{"id":7,"meta":{"ref":"`+testStamp+`"}}`))
	o := keyedOptions(t, server.URL)
	o.Body = nil
	o.Credential = func(context.Context) (string, error) { return testSecret + "\n", nil }
	h := newHTTP(t, o)
	end := do(t, h, aCall(t, h, `{"order_id":"o1","amount":{"currency":"EUR"},"currency":"EUR"}`), 5*time.Second)
	want(t, end, effectonce.VerdictSucceeded, "")
	if end.Reference != "7" {
		t.Errorf("reference %q", end.Reference)
	}
	if got := seen.bodies[0]; got != `{"amount":{"currency":"EUR"},"currency":"EUR","meta":{"ref":"`+testStamp+`"},"order_id":"o1"}` {
		t.Errorf("body %s", got)
	}
}
