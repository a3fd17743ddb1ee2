package contract

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

const searched = `contract: acme/v3
api_version: Acme-Version
sources:
  page: {url: "https://acme.example/docs", checked: 2026-11-30, grade: official, says: it}
  blog: {url: "https://blog.example", checked: 2026-11-30, grade: reading, says: hearsay}
scope: [base_url, {part: account, in: header, name: Acme-Account}]
operations:
  pay:
    method: POST
    path: /orders/{order}/pays
    encoding: json
    key: {in: header, name: Idempotency-Key, source: page}
    stamp: {in: body, field: meta.ref, path: meta.ref, length_max: 32, source: page}
    verdicts: [{when: {status: 200}, verdict: succeeded, source: page}]
    look_ups:
      - {name: list, path: "/orders/{path.order}/pays", query: {customer: "{body.customer?}", note: "{body.note?}", since: "{first_sent}"}, items: data, stamp: meta.ref, reference: id, paging: {kind: cursor, parameter: after, next: next, more: more}, lag: {at_most: 10s, source: page}, horizon: 720h, source: page}
      - {name: key, method: POST, path: /find, encoding: form, body: {Action: Find, Filter.1: "{downstream_key}"}, answer: xml, match: key, items: set.item, key: tokens.item.token, reference: id, paging: {kind: none}, consistency: eventual, source: page}
      - {name: one, path: "/pays/{reference}", single: true, match: reference, stamp: meta.ref, reference: id, absent_status: [404], consistency: strong, source: page}
      - {name: graph, method: POST, path: /graphql, encoding: json, body: {query: "query { pays(tag: \"{stamp}\") { nodes { id } } }"}, items: data.pays.nodes, stamp: tag, reference: id, paging: {kind: none}, absent_means: unknown, source: page}
      - {name: nested, path: /groups, items: groups.pays, stamp: meta.ref, reference: id, paging: {kind: none}, consistency: strong, source: page}
`

var stampOfTest = strings.Repeat("0123456789abcdef", 4)

func searchOf(t *testing.T, name string, known Known) (*Search, *Operation) {
	t.Helper()
	c, err := Parse("acme.yaml", []byte(searched))
	if err != nil {
		t.Fatal(err)
	}
	o := c.Operations["pay"]
	for _, l := range o.LookUps {
		if l.Name == name {
			r := sent("POST", "/orders/a%20b/pays", asJSON, `{"customer":"c&1","amount":1}`, "Acme-Account", "acct", "Acme-Version", "7", "Authorization", "Bearer secret", "X-Other", "x")
			s, err := o.Search(l, r, known)
			if err != nil {
				t.Fatal(err)
			}
			return s, o
		}
	}
	t.Fatal("no look-up " + name)
	return nil, nil
}

func usual() Known {
	return Known{Key: "K", Stamp: stampOfTest, FirstSent: time.Unix(10_600, 0), Age: time.Hour}
}

// S7.1: a look-up asks for what the request says, under its account and version and without its credential.
func TestSearchRequest(t *testing.T) {
	t.Parallel()
	s, _ := searchOf(t, "list", usual())
	r, more := s.Next()
	if !more || r.Method != "GET" || r.Path != "/orders/a%20b/pays" || r.Query != "customer=c%261&since=10000" {
		t.Errorf("%+v", r)
	}
	if r.Header.Get("Acme-Account") != "acct" || r.Header.Get("Acme-Version") != "7" || r.Header.Get("Authorization") != "" || r.Header.Get("X-Other") != "" {
		t.Errorf("%v", r.Header)
	}
	s, _ = searchOf(t, "key", usual())
	if r, _ := s.Next(); r.Method != "POST" || string(r.Body) != "Action=Find&Filter.1=K" || r.Header.Get("Content-Type") != asForm {
		t.Errorf("%+v %s", r, r.Body)
	}
	s, _ = searchOf(t, "graph", usual())
	if r, _ := s.Next(); string(r.Body) != `{"query":"query { pays(tag: \"`+stampOfTest[:32]+`\") { nodes { id } } }"}` {
		t.Errorf("%s", r.Body)
	}
	known := usual()
	known.Reference = "p/1"
	s, _ = searchOf(t, "one", known)
	if r, _ := s.Next(); r.Path != "/pays/p%2F1" {
		t.Errorf("%+v", r)
	}
}

// S7.1: found is what bears our stamp or key; absent is only what a whole, readable list does not hold; everything else is unavailable.
func TestSearchFinding(t *testing.T) {
	t.Parallel()
	ours := fmt.Sprintf(`{"id":"p1","meta":{"ref":%q}}`, stampOfTest[:32])
	again := strings.Replace(ours, "p1", "p2", 1)
	other := `{"id":"p9","meta":{"ref":"theirs"}}`
	plain := `{"id":"p1","meta":{}}`
	json := func(items, more, next string) string {
		return fmt.Sprintf(`{"data":[%s],"more":%s,"next":%q}`, items, more, next)
	}
	const ok = http.StatusOK
	for _, tt := range []struct {
		name, look string
		known      func(*Known)
		answers    []Response
		want       effectonce.Found
		reference  string
	}{
		{"one", "list", nil, []Response{{Status: ok, Body: []byte(json(other+","+ours, "false", ""))}}, effectonce.FoundOne, "p1"},
		{"one on the last page", "list", nil, []Response{{Status: ok, Body: []byte(json(other, "true", "c1"))}, {Status: ok, Body: []byte(json(ours, "false", ""))}}, effectonce.FoundOne, "p1"},
		{"one twice, since lists move", "list", nil, []Response{{Status: ok, Body: []byte(json(ours, "true", "c1"))}, {Status: ok, Body: []byte(json(ours, "false", ""))}}, effectonce.FoundOne, "p1"},
		{"many", "list", nil, []Response{{Status: ok, Body: []byte(json(ours+","+again, "false", ""))}}, effectonce.FoundMany, ""},
		{"none", "list", nil, []Response{{Status: ok, Body: []byte(json(other, "false", ""))}}, effectonce.FoundAbsent, ""},
		{"none, behind the horizon", "list", func(k *Known) { k.Age = 721 * time.Hour }, []Response{{Status: ok, Body: []byte(json(other, "false", ""))}}, effectonce.FoundUnavailable, ""},
		{"one by reference", "list", func(k *Known) { k.Reference = "p1" }, []Response{{Status: ok, Body: []byte(json(plain, "false", ""))}}, effectonce.FoundOne, "p1"},
		{"one by a doubtful reference", "list", func(k *Known) { k.Reference, k.Doubtful = "p1", true }, []Response{{Status: ok, Body: []byte(json(plain, "false", ""))}}, effectonce.FoundAbsent, ""},
		{"our reference with another stamp", "list", func(k *Known) { k.Reference = "p9" }, []Response{{Status: ok, Body: []byte(json(other, "false", ""))}}, effectonce.FoundAbsent, ""},
		{"a list that loops", "list", nil, []Response{{Status: ok, Body: []byte(json(other, "true", "c"))}, {Status: ok, Body: []byte(json(other, "true", "c"))}}, effectonce.FoundUnavailable, ""},
		{"more, and not where", "list", nil, []Response{{Status: ok, Body: []byte(json(other, "true", ""))}}, effectonce.FoundUnavailable, ""},
		{"more is not said", "list", nil, []Response{{Status: ok, Body: []byte(`{"data":[]}`)}}, effectonce.FoundUnavailable, ""},
		{"not read to its end", "list", nil, []Response{{Status: ok, Body: []byte(json(ours, "true", "c"))}}, effectonce.FoundUnavailable, ""},
		{"an item without an id", "list", nil, []Response{{Status: ok, Body: []byte(json(`{"meta":{}}`, "false", ""))}}, effectonce.FoundUnavailable, ""},
		{"no list", "list", nil, []Response{{Status: ok, Body: []byte(`{"more":false}`)}}, effectonce.FoundUnavailable, ""},
		{"404", "list", nil, []Response{{Status: 404, Body: []byte(json("", "false", ""))}}, effectonce.FoundUnavailable, ""},
		{"500", "list", nil, []Response{{Status: 500}}, effectonce.FoundUnavailable, ""},
		{"garbled", "list", nil, []Response{{Status: ok, Body: []byte(`{"data":[`)}}, effectonce.FoundUnavailable, ""},
		{"cut", "list", nil, []Response{{Status: ok, Beginning: true, Body: []byte(json(other, "false", ""))}}, effectonce.FoundUnavailable, ""},
		{"XML with one", "key", nil, []Response{{Status: ok, Body: []byte(`<R><set><item><id>r1</id><tokens><item><token>K</token></item></tokens></item></set></R>`)}}, effectonce.FoundOne, "r1"},
		{"XML with two, one ours", "key", nil, []Response{{Status: ok, Body: []byte(`<R><set><item><id>r0</id><tokens><item><token>X</token></item></tokens></item><item><id>r1</id><tokens><item><token>K</token></item></tokens></item></set></R>`)}}, effectonce.FoundOne, "r1"},
		{"XML with none", "key", nil, []Response{{Status: ok, Body: []byte(`<R><set/></R>`)}}, effectonce.FoundAbsent, ""},
		{"XML without the set", "key", nil, []Response{{Status: ok, Body: []byte(`<R><error/></R>`)}}, effectonce.FoundUnavailable, ""},
		{"XML that is cut", "key", nil, []Response{{Status: ok, Body: []byte(`<R><set></se`)}}, effectonce.FoundUnavailable, ""},
		{"the named one is ours", "one", func(k *Known) { k.Reference, k.Doubtful = "p1", true }, []Response{{Status: ok, Body: []byte(ours)}}, effectonce.FoundOne, "p1"},
		{"the named one shows nothing", "one", func(k *Known) { k.Reference, k.Doubtful = "p1", true }, []Response{{Status: ok, Body: []byte(plain)}}, effectonce.FoundUnavailable, ""},
		{"the named one is somebody else's", "one", func(k *Known) { k.Reference = "p9" }, []Response{{Status: ok, Body: []byte(other)}}, effectonce.FoundUnavailable, ""},
		{"the named one is gone", "one", func(k *Known) { k.Reference = "p1" }, []Response{{Status: 404}}, effectonce.FoundAbsent, ""},
		{"GraphQL with errors", "graph", nil, []Response{{Status: ok, Body: []byte(`{"errors":[{}],"data":{"pays":{"nodes":[]}}}`)}}, effectonce.FoundUnavailable, ""},
		{"GraphQL with nothing, which says nothing", "graph", nil, []Response{{Status: ok, Body: []byte(`{"data":{"pays":{"nodes":[]}}}`)}}, effectonce.FoundUnavailable, ""},
		{"GraphQL with one", "graph", nil, []Response{{Status: ok, Body: []byte(`{"data":{"pays":{"nodes":[{"id":"g1","tag":"` + stampOfTest[:32] + `"}]}}}`)}}, effectonce.FoundOne, "g1"},
		{"GraphQL without data", "graph", nil, []Response{{Status: ok, Body: []byte(`{"data":null}`)}}, effectonce.FoundUnavailable, ""},
		{"lists in a list", "nested", nil, []Response{{Status: ok, Body: []byte(`{"groups":[{"pays":[` + other + `]},{"pays":[` + ours + `]}]}`)}}, effectonce.FoundOne, "p1"},
		{"no lists in a list", "nested", nil, []Response{{Status: ok, Body: []byte(`{"groups":[]}`)}}, effectonce.FoundAbsent, ""},
		{"a group without its list", "nested", nil, []Response{{Status: ok, Body: []byte(`{"groups":[{}]}`)}}, effectonce.FoundUnavailable, ""},
		{"one group without its list", "nested", nil, []Response{{Status: ok, Body: []byte(`{"groups":[{"pays":[` + other + `]},{}]}`)}}, effectonce.FoundUnavailable, ""},
	} {
		known := usual()
		if tt.known != nil {
			tt.known(&known)
		}
		s, _ := searchOf(t, tt.look, known)
		for _, answer := range tt.answers {
			if _, more := s.Next(); !more {
				break
			}
			s.Take(answer)
		}
		if tt.name != "not read to its end" {
			s.Next()
		}
		f := s.Finding()
		if f.Found != tt.want || f.Reference != tt.reference {
			t.Errorf("%s: %s %q (%s), want %s %q", tt.name, f.Found, f.Reference, f.Detail, tt.want, tt.reference)
		}
	}
}

func TestSearchFails(t *testing.T) {
	t.Parallel()
	s, o := searchOf(t, "list", usual())
	s.Next()
	s.Fail(errors.New("no answer"))
	if f := s.Finding(); f.Found != effectonce.FoundUnavailable || !strings.Contains(f.Detail, "no answer") {
		t.Errorf("%+v", f)
	}
	if _, more := s.Next(); more {
		t.Error("goes on after a failure")
	}
	for _, l := range o.LookUps {
		_, err := o.Search(l, sent("POST", "/orders/1/pays", asJSON, "{}"), Known{})
		if err == nil && l.Name != "graph" && l.Name != "nested" {
			t.Errorf("%s: asks for nothing", l.Name)
		}
	}
	s, _ = searchOf(t, "list", usual())
	for n := 0; n < searchPagesMax; n++ {
		s.Next()
		s.Take(Response{Status: 200, Body: []byte(fmt.Sprintf(`{"data":[],"more":true,"next":"c%d"}`, n))})
	}
	if _, more := s.Next(); more || s.Finding().Found != effectonce.FoundUnavailable {
		t.Errorf("a list without an end: %+v", s.Finding())
	}
}

func TestCombine(t *testing.T) {
	t.Parallel()
	f := func(found effectonce.Found, reference string) effectonce.Finding {
		return effectonce.Finding{Found: found, Reference: reference}
	}
	const one, many, absent, unavailable = effectonce.FoundOne, effectonce.FoundMany, effectonce.FoundAbsent, effectonce.FoundUnavailable
	for _, tt := range []struct {
		findings []effectonce.Finding
		want     effectonce.Found
	}{
		{nil, unavailable},
		{[]effectonce.Finding{f(absent, ""), f(unavailable, "")}, absent},
		{[]effectonce.Finding{f(unavailable, ""), f(absent, "")}, unavailable},
		{[]effectonce.Finding{f(absent, ""), f(one, "a")}, one},
		{[]effectonce.Finding{f(one, "a"), f(one, "a")}, one},
		{[]effectonce.Finding{f(one, "a"), f(one, "b")}, many},
		{[]effectonce.Finding{f(one, "a"), f(absent, "")}, one},
		{[]effectonce.Finding{f(one, "a"), f(many, "")}, many},
		{[]effectonce.Finding{f(many, ""), f(one, "a")}, many},
	} {
		if got := Combine(tt.findings...); got.Found != tt.want {
			t.Errorf("%+v: %s, want %s", tt.findings, got.Found, tt.want)
		}
	}
}
