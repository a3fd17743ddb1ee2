package contract

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const wired = `contract: acme/v2
sources:
  page: {url: "https://acme.example/docs", checked: 2026-11-30, grade: official, says: it}
scope: [base_url, {part: account, in: header, name: Acme-Account, default: main}, {part: region, in: host, name: "api.{r}.acme.example"}]
operations:
  header:
    {method: POST, path: /h, encoding: json, key: {in: header, name: Idempotency-Key, source: page}, stamp: {in: body, field: meta.ref, path: meta.ref}, verdicts: &ok [{when: {status: 200}, verdict: succeeded, source: page}]}
  json:
    {method: POST, path: "/j/{order}/pays", encoding: json, key: {in: body_json, name: idempotency_key, companions: [{in: body, name: enforce, value: true}], source: page}, verdicts: *ok}
  form:
    {method: POST, path: /f, encoding: form, where: [{in: form, name: Action, value: Run}], key: {in: body_form, name: ClientToken, source: page}, stamp: {in: body, field: "metadata[effectonce]", path: metadata.effectonce}, verdicts: *ok}
  form_read: {method: POST, path: /f, effect: read, effect_source: page, where: [{in: form, name: Action, value: ["Describe*", List]}]}
  target:
    {method: POST, path: /t, encoding: json, where: [{in: header, name: X-Target, value: Svc.Start}], key: {in: body, name: name, source: page}, verdicts: *ok}
  query:
    {method: DELETE, path: "/q/{id}", key: {in: query, name: requestId, source: page}, verdicts: *ok}
  upsert:
    {method: PUT, path: "/u/{key}", encoding: json, key: {in: path, name: key, source: page}, verdicts: *ok}
  dated:
    method: POST
    path: /d
    encoding: json
    key: {in: header, name: Repeatability-Request-ID, companions: [{in: header, name: Repeatability-First-Sent, first_sent: http}], source: page}
    verdicts: *ok
  refund_create:
    {method: POST, path: /graphql, encoding: json, where: [{in: graphql, name: refundCreate}], key: {in: graphql_directive, name: idempotent, argument: key, source: page}, verdicts: *ok}
  pay:
    {method: POST, path: /graphql, encoding: json, where: [{in: graphql, name: pay}], key: {in: graphql_variable, name: input.id, source: page}, verdicts: *ok}
  queries: {method: POST, path: /graphql, effect: read, effect_source: page, where: [{in: graphql, value: query}]}
  mail:
    {method: POST, path: /mail, encoding: json, key: {in: mail_header, name: X-Key, at: Headers, list: true, source: page}, verdicts: *ok}
  rest:
    {method: POST, path: "/rest/{path...}", encoding: json, effect: none, verdicts: *ok}
  cancel:
    {method: POST, path: "/v/{id}:cancel", encoding: json, effect: none, verdicts: *ok}
  get_effect:
    {method: GET, path: /f, encoding: form, where: [{in: query, name: Action, value: Run}], effect: none, verdicts: *ok}
`

func wiredContract(t testing.TB) *Contract {
	t.Helper()
	c, err := Parse("acme.yaml", []byte(wired))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	asJSON = "application/json"
	asForm = "application/x-www-form-urlencoded"
)

func sent(method, path, contentType, body string, header ...string) Request {
	r := Request{Method: method, Header: http.Header{}, Body: []byte(body)}
	r.Path, r.Query, _ = strings.Cut(path, "?")
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// S14.4, S14.5: a request is the operation that describes it; a write that nobody described is none, and no spelling makes a read of it.
func TestMatch(t *testing.T) {
	t.Parallel()
	c := wiredContract(t)
	for _, tt := range []struct {
		name string
		r    Request
		want string // "" for unknown, read for an undescribed read
	}{
		{"method and path", sent("POST", "/h", asJSON, "{}"), "header"},
		{"a slash at the end", sent("POST", "/h/", asJSON, "{}"), "header"},
		{"an encoded letter", sent("POST", "/%68", asJSON, "{}"), "header"},
		{"a placeholder", sent("POST", "/j/a%20b/pays", asJSON, "{}"), "json"},
		{"an encoded slash in a placeholder", sent("POST", "/j/a%2Fb/pays", asJSON, "{}"), ""},
		{"dot segments", sent("POST", "/j/../h", asJSON, "{}"), ""},
		{"dot segments of a read", sent("GET", "/x/%2e%2e/h", "", ""), ""},
		{"an empty segment", sent("POST", "//h", asJSON, "{}"), ""},
		{"a path parameter", sent("POST", "/h;a=b", asJSON, "{}"), ""},
		{"another case", sent("POST", "/H", asJSON, "{}"), ""},
		{"an undescribed read", sent("GET", "/h", "", ""), "read"},
		{"a HEAD", sent("HEAD", "/anything", "", ""), "read"},
		{"a read that a header makes a write", sent("GET", "/h", "", "", "X-HTTP-Method-Override", "POST"), ""},
		{"a read that a parameter makes a write", sent("GET", "/h?_method=delete", "", ""), ""},
		{"an undescribed write", sent("DELETE", "/h", "", ""), ""},
		{"an unheard-of method", sent("MERGE", "/h", "", ""), ""},
		{"a form's action", sent("POST", "/f", asForm, "Action=Run&X=1"), "form"},
		{"a form's action in the query", sent("POST", "/f?Action=Run", asForm, "X=1"), "form"},
		{"a reading action", sent("POST", "/f", asForm, "Action=DescribeThings"), "form_read"},
		{"a reading action in full", sent("POST", "/f", asForm, "Action=List"), "form_read"},
		{"a longer action is another one", sent("POST", "/f", asForm, "Action=Lists"), ""},
		{"two actions", sent("POST", "/f", asForm, "Action=DescribeThings&Action=Run"), "form"},
		{"two actions, one in the query", sent("POST", "/f?Action=Run", asForm, "Action=DescribeThings"), "form"},
		{"an action under another case", sent("POST", "/f", asForm, "action=Run"), "form"},
		{"a form that breaks", sent("POST", "/f", asForm, "Action=List&x=%zz"), ""},
		{"a form with semicolons", sent("POST", "/f", asForm, "Action=List;Action=Run"), ""},
		{"a reading action of a body that is not there", sent("POST", "/f?Action=List", asForm, ""), ""},
		{"no action", sent("POST", "/f", asForm, "X=1"), ""},
		{"an action of a GET", sent("GET", "/f?Action=Run", "", ""), "get_effect"},
		{"a header", sent("POST", "/t", "application/x-amz-json-1.0", "{}", "X-Target", "Svc.Start"), "target"},
		{"another header", sent("POST", "/t", asJSON, "{}", "X-Target", "Svc.Other"), ""},
		{"a mutation", sent("POST", "/graphql", asJSON, `{"query":"mutation M($i: I!) { refundCreate(input: $i) { id } }"}`), "refund_create"},
		{"a query", sent("POST", "/graphql", asJSON, `{"query":"{ shop { name } }"}`), "queries"},
		{"a query beside a mutation", sent("POST", "/graphql", asJSON, `{"query":"query A { shop } mutation B { pay { id } }","operationName":"B"}`), "pay"},
		{"which of two is not said", sent("POST", "/graphql", asJSON, `{"query":"query A { shop } mutation B { pay { id } }"}`), ""},
		{"two mutations in one", sent("POST", "/graphql", asJSON, `{"query":"mutation { pay { id } refundCreate { id } }"}`), ""},
		{"a mutation under an alias", sent("POST", "/graphql", asJSON, `{"query":"mutation { pay: refundCreate { id } }"}`), ""},
		{"a mutation in a fragment", sent("POST", "/graphql", asJSON, `{"query":"mutation { ...F } fragment F on Mutation { pay { id } }"}`), ""},
		{"a batch", sent("POST", "/graphql", asJSON, `[{"query":"{ shop }"},{"query":"mutation { pay { id } }"}]`), ""},
		{"a document twice", sent("POST", "/graphql", asJSON, `{"query":"{ shop }","query":"mutation { pay { id } }"}`), ""},
		{"a mutation in a comment", sent("POST", "/graphql", asJSON, `{"query":"# mutation { pay }\n{ shop }"}`), "queries"},
		{"a mutation in a block string", sent("POST", "/graphql", asJSON, `{"query":"{ shop(q: \"\"\"} \\\"\"\" mutation { pay }\"\"\") { a } }"}`), "queries"},
		{"a block string without end", sent("POST", "/graphql", asJSON, `{"query":"{ shop(q: \"\"\"} ) { a } }"}`), ""},
		{"a mutation in a string", sent("POST", "/graphql", asJSON, `{"query":"{ shop(q: \"} mutation { pay }\") { a } }"}`), "queries"},
		{"the rest of a path", sent("POST", "/rest/a/b/c", asJSON, "{}"), "rest"},
		{"a verb behind a colon", sent("POST", "/v/7:cancel", asJSON, "{}"), "cancel"},
	} {
		o, ok := c.Match(tt.r)
		got := ""
		if ok {
			got = o.Name
			if o.Name == "" && o.Effect == EffectRead {
				got = "read"
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// S3.9: the key is set over whatever the client made up, every other byte stays, and the request is the same business.
func TestInject(t *testing.T) {
	t.Parallel()
	c := wiredContract(t)
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		r    Request
		want Request
	}{
		{"a header", sent("POST", "/h", asJSON, `{ "a" : 1.50, "meta": {"x":1} }`, "idempotency-key", "sdk"), sent("POST", "/h", asJSON, `{ "a" : 1.50, "meta": {"ref":"S","x":1} }`, "Idempotency-Key", "K")},
		{"a stamp in an object that is not there", sent("POST", "/h", asJSON, `{}`), sent("POST", "/h", asJSON, `{"meta":{"ref":"S"}}`, "Idempotency-Key", "K")},
		{"a stamp in null", sent("POST", "/h", asJSON, `{"meta":null}`), sent("POST", "/h", asJSON, `{"meta":{"ref":"S"}}`, "Idempotency-Key", "K")},
		{"a field and a companion", sent("POST", "/j/1/pays", asJSON, `{"idempotency_key":"sdk", "z":[1,2]}`), sent("POST", "/j/1/pays", asJSON, `{"enforce":true,"idempotency_key":"K", "z":[1,2]}`)},
		{"a field under another case", sent("POST", "/j/1/pays", asJSON, `{"Idempotency_Key":"sdk","z":1}`), sent("POST", "/j/1/pays", asJSON, `{"enforce":true,"idempotency_key":"K","z":1}`)},
		{"a large number stays", sent("POST", "/j/1/pays", asJSON, `{"n":9007199254740993}`), sent("POST", "/j/1/pays", asJSON, `{"enforce":true,"idempotency_key":"K","n":9007199254740993}`)},
		{"no body", sent("POST", "/j/1/pays", asJSON, ``), sent("POST", "/j/1/pays", asJSON, `{"enforce":true,"idempotency_key":"K"}`)},
		{"a form", sent("POST", "/f", asForm, `Action=Run&b=%7e+x&ClientToken=sdk&a=`), sent("POST", "/f", asForm, `Action=Run&b=%7e+x&ClientToken=K&a=&metadata%5Beffectonce%5D=S`)},
		{"a form with the key twice and in the query", sent("POST", "/f?clienttoken=q&v=1", asForm, `ClientToken=a&Action=Run&ClientToken=b`), sent("POST", "/f?v=1", asForm, `ClientToken=K&Action=Run&metadata%5Beffectonce%5D=S`)},
		{"a parameter", sent("DELETE", "/q/1?a=%41&requestId=sdk", "", ""), sent("DELETE", "/q/1?a=%41&requestId=K", "", "")},
		{"a path", sent("PUT", "/u/sdk", asJSON, `{}`), sent("PUT", "/u/K", asJSON, `{}`)},
		{"the first send's time", sent("POST", "/d", asJSON, `{}`), sent("POST", "/d", asJSON, `{}`, "Repeatability-Request-ID", "K", "Repeatability-First-Sent", "Mon, 30 Nov 2026 12:00:00 GMT")},
		{"a directive", sent("POST", "/graphql", asJSON, `{"query":"mutation { refundCreate(input: {a: 1}) { id } }"}`), sent("POST", "/graphql", asJSON, `{"query":"mutation { refundCreate(input: {a: 1}) @idempotent(key: \"K\") { id } }"}`)},
		{"a directive that is there", sent("POST", "/graphql", asJSON, `{"query":"mutation { refundCreate(input: {a: 1}) @idempotent(key: \"sdk\") { id } }"}`), sent("POST", "/graphql", asJSON, `{"query":"mutation { refundCreate(input: {a: 1}) @idempotent(key: \"K\") { id } }"}`)},
		{"a directive with a variable", sent("POST", "/graphql", asJSON, `{"query":"mutation M($k: String!) { refundCreate @idempotent(key: $k) { id } }","variables":{"k":"sdk"}}`), sent("POST", "/graphql", asJSON, `{"query":"mutation M($k: String!) { refundCreate @idempotent(key: $k) { id } }","variables":{"k":"K"}}`)},
		{"a variable", sent("POST", "/graphql", asJSON, `{"query":"mutation { pay(input: $input) { id } }","variables":{"input":{"n":1}}}`), sent("POST", "/graphql", asJSON, `{"query":"mutation { pay(input: $input) { id } }","variables":{"input":{"id":"K","n":1}}}`)},
		{"a mail header in a list", sent("POST", "/mail", asJSON, `{"Headers":[{"Name":"x-key","Value":"sdk"},{"Name":"A","Value":"b"}]}`), sent("POST", "/mail", asJSON, `{"Headers":[{"Name":"A","Value":"b"},{"Name":"X-Key","Value":"K"}]}`)},
		{"a mail header in no list", sent("POST", "/mail", asJSON, `{"To":"a"}`), sent("POST", "/mail", asJSON, `{"Headers":[{"Name":"X-Key","Value":"K"}],"To":"a"}`)},
		{"a mail header in an object", sent("POST", "/mail", asJSON, `{"Headers":{"A":"b"}}`), sent("POST", "/mail", asJSON, `{"Headers":{"X-Key":"K","A":"b"}}`)},
	} {
		o, ok := c.Match(tt.r)
		if !ok {
			t.Errorf("%s: not matched", tt.name)
			continue
		}
		before := string(tt.r.Body)
		got, err := o.Inject(tt.r, "K", "S", at)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got.Path != tt.want.Path || got.Query != tt.want.Query || string(got.Body) != string(tt.want.Body) {
			t.Errorf("%s:\ngot  %s?%s %s\nwant %s?%s %s", tt.name, got.Path, got.Query, got.Body, tt.want.Path, tt.want.Query, tt.want.Body)
		}
		for name := range tt.want.Header {
			if got.Header.Get(name) != tt.want.Header.Get(name) || len(got.Header.Values(name)) != 1 {
				t.Errorf("%s: %s is %q", tt.name, name, got.Header.Values(name))
			}
		}
		if string(tt.r.Body) != before {
			t.Errorf("%s: the request that was given changed", tt.name)
		}
		a, err1 := o.Business(tt.r)
		b, err2 := o.Business(got)
		if err1 != nil || err2 != nil || string(a) != string(b) {
			t.Errorf("%s: business %s (%v), afterwards %s (%v)", tt.name, a, err1, b, err2)
		}
		if again, err := o.Inject(got, "K", "S", at); err != nil || string(again.Body) != string(got.Body) || again.Query != got.Query {
			t.Errorf("%s: a second time %s (%v)", tt.name, again.Body, err)
		}
	}
}

// A request that has no place for the key as it is must not be sent.
func TestInjectRefuses(t *testing.T) {
	t.Parallel()
	c := wiredContract(t)
	for name, r := range map[string]Request{
		"a compressed body":          sent("POST", "/j/1/pays", asJSON, "\x1f\x8b", "Content-Encoding", "gzip"),
		"a form where JSON is due":   sent("POST", "/j/1/pays", asForm, "a=1"),
		"JSON where a form is due":   sent("POST", "/f?Action=Run", asJSON, "{}"),
		"a list":                     sent("POST", "/j/1/pays", asJSON, "[1]"),
		"no JSON":                    sent("POST", "/j/1/pays", asJSON, "{"),
		"a field twice":              sent("POST", "/j/1/pays", asJSON, `{"a":1,"a":2}`),
		"the stamp's object in case": sent("POST", "/h", asJSON, `{"Meta":{"x":1}}`),
		"text in the stamp's object": sent("POST", "/h", asJSON, `{"meta":"x"}`),
		"a part of several":          sent("POST", "/j/1/pays", "multipart/form-data; boundary=x", "--x--"),
	} {
		o, ok := c.Match(r)
		if !ok {
			continue
		}
		if got, err := o.Inject(r, "K", "S", time.Time{}); err == nil {
			t.Errorf("%s: %s", name, got.Body)
		}
	}
	o := c.Operations["header"]
	if _, err := o.Inject(sent("POST", "/h", asJSON, "{}"), "", "S", time.Time{}); err == nil {
		t.Error("no key was sent")
	}
	if _, err := o.Inject(sent("POST", "/h", asJSON, "{}"), "K\r\nX: y", "S", time.Time{}); err == nil {
		t.Error("a key with a line break was sent")
	}
}

func TestInjectDropsChecksums(t *testing.T) {
	t.Parallel()
	o := wiredContract(t).Operations["json"]
	got, err := o.Inject(sent("POST", "/j/1/pays", asJSON, "{}", "Content-MD5", "x", "Content-Length", "2"), "K", "", time.Time{})
	if err != nil || got.Header.Get("Content-MD5") != "" || got.Header.Get("Content-Length") != "38" {
		t.Errorf("%v %v %d", got.Header, err, len(got.Body))
	}
}

// S4: what a client makes up for each call is no business; what a person meant is.
func TestBusiness(t *testing.T) {
	t.Parallel()
	c := wiredContract(t)
	business := func(r Request) string {
		o, ok := c.Match(r)
		if !ok {
			t.Fatalf("%+v is not matched", r)
		}
		b, err := o.Business(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	same := func(name string, a, b Request) {
		if business(a) != business(b) {
			t.Errorf("%s: %s, %s", name, business(a), business(b))
		}
	}
	other := func(name string, a, b Request) {
		if business(a) == business(b) {
			t.Errorf("%s: both are %s", name, business(a))
		}
	}
	same("another key", sent("POST", "/h", asJSON, `{"a":1}`, "Idempotency-Key", "1", "User-Agent", "x"), sent("POST", "/h", asJSON, `{ "a": 1.0 }`, "Idempotency-Key", "2"))
	same("the order of fields", sent("POST", "/f", asForm, "Action=Run&a=1&b=2&ClientToken=1"), sent("POST", "/f", asForm, "b=2&a=%31&Action=Run"))
	same("parts of another boundary", sent("POST", "/rest/x", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n"),
		sent("POST", "/rest/x", "multipart/form-data; boundary=yy", "--yy\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--yy--\r\n"))
	other("another amount", sent("POST", "/h", asJSON, `{"a":1}`), sent("POST", "/h", asJSON, `{"a":2}`))
	other("another large number", sent("POST", "/h", asJSON, `{"a":9007199254740993}`), sent("POST", "/h", asJSON, `{"a":9007199254740992}`))
	other("another account", sent("POST", "/h", asJSON, `{"a":1}`, "Acme-Account", "a"), sent("POST", "/h", asJSON, `{"a":1}`, "Acme-Account", "b"))
	other("another path", sent("POST", "/j/1/pays", asJSON, `{}`), sent("POST", "/j/2/pays", asJSON, `{}`))
	other("a field twice", sent("POST", "/f", asForm, "Action=Run&a=1"), sent("POST", "/f", asForm, "Action=Run&a=1&a=2"))
	other("other bytes", sent("POST", "/rest/x", "application/octet-stream", "a"), sent("POST", "/rest/x", "application/octet-stream", "b"))
	if got := business(sent("POST", "/j/1/pays", asJSON, `{"amount":480,"idempotency_key":"x"}`)); got != `{"body":{"amount":480},"method":"POST","path":"/j/1/pays"}` {
		t.Error(got)
	}
}

func TestClientKey(t *testing.T) {
	t.Parallel()
	c := wiredContract(t)
	o := c.Operations["header"]
	for key, minted := range map[string]bool{"9b2f6f1e-1c3d-4a5b-8c7d-0e1f2a3b4c5d": true, "refund-order-1042": false} {
		if got, m := o.ClientKey(sent("POST", "/h", asJSON, "{}", "Idempotency-Key", key)); got != key || m != minted {
			t.Errorf("%s: %s %t", key, got, m)
		}
	}
	if got, _ := o.ClientKey(sent("POST", "/h", asJSON, "{}")); got != "" {
		t.Error(got)
	}
}

// S3.10
func TestScopeOf(t *testing.T) {
	t.Parallel()
	c := wiredContract(t)
	r := sent("POST", "/h", asJSON, "{}", "Acme-Account", "a b")
	r.Host = "api.eu-1.acme.example:443"
	if got, missing := c.Operations["header"].ScopeOf(r); got != "account=a+b region=eu-1" || len(missing) != 1 || missing[0] != ScopeBaseURL {
		t.Error(got, missing)
	}
	if got, missing := c.Operations["header"].ScopeOf(sent("POST", "/h", asJSON, "{}")); got != "account=main" || len(missing) != 2 {
		t.Error(got, missing)
	}
	if got := credentialScope("AWS4-HMAC-SHA256 Credential=AK/20261130/eu-west-1/ec2/aws4_request, SignedHeaders=host, Signature=x", "region"); got != "eu-west-1" {
		t.Error(got)
	}
}
