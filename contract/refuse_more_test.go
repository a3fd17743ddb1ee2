package contract

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// S14.5: what is dangerous to believe of requests, keys, retention and look-ups is refused, with file, line, column, field and remedy.
func TestRefusedOfRequestsAndKeys(t *testing.T) {
	t.Parallel()
	const (
		rules     = "      - {when: {status: 400}, verdict: rejected, source: page}\n"
		key       = "key: {in: header, name: Idempotency-Key, encoding: hex, length_max: 40, source: page}"
		retention = "retention: {at_least: 24h, source: page}"
		lag       = "      lag: {at_most: 10s, source: page}\n"
		paging    = "paging: {kind: cursor, parameter: after, next: next}"
	)
	rule := func(s string) [2]string { return [2]string{rules, "      - " + s + "\n"} }
	operation := func(s string) [2]string { return [2]string{"operations:\n", "operations:\n  more: " + s + "\n"} }
	for _, tt := range []struct {
		name    string
		replace [2]string
		want    string
	}{
		{"unpublished with a time", [2]string{retention, "retention: {kind: unpublished, at_least: 24h, source: page}"}, "acme.yaml:12:17: operations.pay.retention.kind: is unpublished, and a time is stated"},
		{"best effort for ever", [2]string{retention, "retention: {kind: best_effort, forever: true, source: page}"}, "is best_effort, and a time is stated"},
		{"while active with a time", [2]string{retention, "retention: {kind: while_active, at_least: 1h, source: page}"}, "is while_active, and a time is stated"},
		{"a kind that there is not", [2]string{retention, "retention: {kind: long, source: page}"}, `"long" is not a kind`},
		{"at least nothing", [2]string{retention, "retention: {kind: at_least, source: page}"}, "retention.at_least: is missing"},
		{"a start that nobody declares", [2]string{retention, "retention: {at_least: 24h, starts: client_declared, source: page}"}, "is declared by the client, and no companion declares it"},
		{"a key that the provider would refuse by its characters", [2]string{key, "key: {in: header, name: K, encoding: uuid, charset: A-Z0-9, source: page}"}, "key.charset: does not accept a key such as"},
		{"a key that is too short for the provider", [2]string{key, "key: {in: header, name: K, encoding: hex(24), length_min: 32, source: page}"}, "is 32, and a key in this form has 24 characters"},
		{"a key in base32 of twenty characters", [2]string{key, "key: {in: header, name: K, encoding: base32(20), source: page}"}, "leaves 20 characters"},
		{"a key in a placeholder that is not there", [2]string{key, "key: {in: path, name: id, source: page}"}, "the path has no {id}"},
		{"a key in a variable of a form", [2]string{"encoding: json\n    " + key, "encoding: form\n    key: {in: graphql_variable, name: id, source: page}"}, "the body is no JSON"},
		{"a mail header nowhere", [2]string{key, "key: {in: mail_header, name: X-Key, source: page}"}, "say where the body holds the mail's headers"},
		{"a companion without a value", [2]string{key, "key: {in: header, name: K, companions: [{in: header, name: D}], source: page}"}, "companions[0].value: is missing"},
		{"another encoding than the body's", [2]string{key, "key: {in: body, name: k, also: [{in: form, name: k}], source: page}"}, "says form, and the encoding is another"},
		{"a stamp that is cut too short", [2]string{"{in: body, field: ref, path: ref, source: page}", "{in: body, field: ref, path: ref, length_max: 16, source: page}"}, "leaves 16 characters"},
		{"a POST called a read by nobody", operation("{method: POST, path: /search, effect: read}"), "a POST passes unguarded if it is called a read"},
		{"a POST called a read by hearsay", operation("{method: POST, path: /search, effect: read, effect_source: blog}"), "a POST passes unguarded if it is called a read"},
		{"a DELETE called a read", operation("{method: DELETE, path: /x, effect: read, effect_source: page}"), "calls a DELETE a read"},
		{"a read of what is not there", operation("{method: POST, path: /x, effect: read, effect_source: page, where: [{in: query, name: a, absent: true}]}"), "makes a read of what is not there"},
		{"convergent by nobody", operation("{method: PUT, path: /x, effect: convergent, encoding: json, verdicts: [{when: {status: 200}, verdict: succeeded, source: page}]}"), "is missing: what is called convergent is applied again without asking"},
		{"every DELETE called a read", [2]string{"operations:\n", "otherwise: {reads: [GET, DELETE]}\noperations:\n"}, "calls every DELETE a read"},
		{"a stand-in that is not there", [2]string{"operations:\n", "otherwise: {writes: other}\noperations:\n"}, `there is no operation "other"`},
		{"a placeholder twice", operation("{method: POST, path: \"/a/{x}/{x}\", effect: none, encoding: json, verdicts: [{when: {status: 200}, verdict: succeeded, source: page}]}"), "{x} is there twice"},
		{"a rest in the middle", operation("{method: POST, path: \"/a/{x...}/b\", effect: none, encoding: json, verdicts: [{when: {status: 200}, verdict: succeeded, source: page}]}"), "is not the last segment"},
		{"an operation like none", operation("{like: nobody}"), `there is no operation "nobody"`},
		{"a name that means something else", [2]string{"  pay:\n", "  read:\n"}, "has a name that means something else"},
		{"202 among others", [2]string{"status: [200, 201]}", "status: 200-299}"}, "calls 202 a success with others"},
		{"a 200 called rejected by its status alone", rule("{when: {status: 200}, verdict: rejected, source: page}"), "calls status 200 rejected"},
		{"a 202 called rejected by its body", rule("{when: {status: 202, body: {a: b}}, verdict: rejected, source: page}"), "calls status 202 rejected"},
		{"a key where it never arrives", [2]string{key, "key: {in: header, name: Host, encoding: hex, source: page}"}, "key.name: Host is set by the transport"},
		{"a key that a proxy takes out", [2]string{key, "key: {in: header, name: transfer-encoding, encoding: hex, source: page}"}, "it would not arrive"},
		{"a key in a header of effectonce", [2]string{key, "key: {in: header, name: Effectonce-Intent, encoding: hex, source: page}"}, "it would not arrive"},
		{"a server error rejected by anything", rule(`{when: {status: 500, body: {error.code: "*"}}, verdict: rejected, source: page}`), "calls a server error rejected without evidence"},
		{"a server error rejected by an empty text", rule(`{when: {status: 500, text: [""]}, verdict: rejected, source: page}`), "holds an empty text"},
		{"an error called a success by anything", rule(`{when: {status: 409, body: {a: "*"}}, verdict: succeeded, source: page}`), "calls a status outside 200 to 299 a success"},
		{"done elsewhere without a reference", rule("{when: {status: 409, body: {a: b}}, verdict: done_elsewhere}"), "say where the answer names the resource"},
		{"done elsewhere proved by hearsay", rule("{when: {status: 409, body: {a: b}}, verdict: done_elsewhere, reference: id, proves: key, source: blog}"), "succeeded needs a source"},
		{"done elsewhere proved by every conflict", rule("{when: {status: 409}, verdict: done_elsewhere, reference: id, proves: key, source: page}"), "calls a status outside 200 to 299 a success"},
		{"a proof of something else", rule("{when: {status: 409, body: {a: b}}, verdict: done_elsewhere, reference: id, proves: amount, source: page}"), "says key of an answer that is not done_elsewhere"},
		{"expired by nobody", rule("{when: {status: 412}, verdict: expired}"), "needs a source"},
		{"authoritative where errors are not stored", [2]string{rules, "      - {when: {status: 400}, verdict: rejected, authoritative: true, source: page}\n    replays: {errors: not_stored, source: page}\n"}, "is said of a provider whose errors are not_stored"},
		{"stored errors that run again", [2]string{rules, "      - {when: {status: 500}, verdict: unknown, stored_error: true}\n    replays: {errors: reexecuted, source: page}\n"}, "is said of a provider whose errors are reexecuted"},
		{"the body of an answer without structure", operation("{method: POST, path: /x, effect: none, encoding: json, answer: text, verdicts: [{when: {status: 200, body: {a: b}}, verdict: succeeded, source: page}]}"), "looks into an answer without structure"},
		{"absence without a known lag", [2]string{lag, "      absent_means: absent\n"}, "concludes absence, and nobody says how far the view may be behind"},
		{"absence by a lag of hearsay", [2]string{lag, "      lag: {at_most: 10s, source: blog}\n      absent_means: absent\n"}, "concludes absence"},
		{"a lag of an unknown consistency", [2]string{lag, lag + "      consistency: unknown\n"}, "is stated, and the consistency is unknown"},
		{"a 500 for absence", [2]string{paging, paging + "\n      absent_status: [500]"}, "takes 500 for absence"},
		{"a look-up that deletes", [2]string{"      path: /pays\n", "      path: /pays\n      method: DELETE\n"}, `"DELETE" is no way to ask`},
		{"a look-up by reference of a list", [2]string{"      path: /pays\n", "      path: /pays\n      match: reference\n"}, "asks for no reference"},
		{"a look-up by amount", [2]string{"      path: /pays\n", "      path: /pays\n      match: amount\n"}, "equal amounts are not identity"},
		{"a placeholder that nothing fills", [2]string{"      path: /pays\n", "      path: \"/pays/{order}\"\n"}, "has a placeholder {order} that nothing fills"},
		{"a compensation that is not there", [2]string{"    reference: id\n    look", "    compensation: {operation: undo, by: id, source: page}\n    reference: id\n    look"}, `there is no other operation "undo"`},
		{"a request that is something else", [2]string{"operations:\n", "requests: [{name: r, method: POST, path: /pay, body: {}, want: read}]\noperations:\n"}, `"r" is matched with pay, and read is expected`},
		{"a request that cannot take the key", [2]string{"operations:\n", "requests: [{name: r, method: POST, path: /pay, text: \"[1]\", header: {Content-Type: application/json}, want: pay}]\noperations:\n"}, "the body holds something at  that is no object"},
		{"a scope part that there is not", [2]string{"operations:\n", "scope: [{part: moon, in: header, name: M}]\noperations:\n"}, `"moon" is not a scope part`},
		{"a signature without a service", [2]string{"operations:\n", "signed: {kind: sigv4}\noperations:\n"}, "name the service"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(small, tt.replace[0], tt.replace[1], 1)
			if text == small {
				t.Fatal("the test replaces nothing")
			}
			_, err := Parse("acme.yaml", []byte(text))
			var problems Problems
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v\nwant %s", err, tt.want)
			}
			for _, p := range problems {
				if p.Line == 0 || p.Column == 0 || p.Remedy == "" {
					t.Errorf("%+v has no place or no remedy", p)
				}
			}
		})
	}
}

// S14.5, S7.2: only a sourced time or lifetime justifies a resend; a promise for small requests only is made to those.
func TestRetentionKindsInTerms(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct {
		retention time.Duration
		forever   bool
	}{
		"{at_least: 24h, source: page}":                    {24 * time.Hour, false},
		"{kind: at_least, at_least: 6m, source: page}":     {6 * time.Minute, false},
		"{kind: lifetime, source: page}":                   {0, true},
		"{forever: true, source: page}":                    {0, true},
		"{kind: lifetime, source: blog}":                   {0, false},
		"{kind: while_active, source: page}":               {0, false},
		"{kind: unpublished, source: page}":                {0, false},
		"{kind: best_effort, source: page}":                {0, false},
		"{at_least: 24h, body_bytes_max: 9, source: page}": {0, false},
	} {
		c, err := Parse("acme.yaml", []byte(strings.Replace(small, "{at_least: 24h, source: page}", kind, 1)))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if terms := c.Operations["pay"].Terms(effectonce.DefaultTerms()); terms.Retention != want.retention || terms.Forever != want.forever || !terms.Keyed {
			t.Errorf("%s: %+v", kind, terms)
		}
		if !strings.Contains(kind, "body_bytes_max") {
			continue
		}
		for body, retention := range map[string]time.Duration{`{"a":1}`: 24 * time.Hour, `{"a":1234}`: 0} {
			if terms := c.Operations["pay"].TermsOf(effectonce.DefaultTerms(), Request{Body: []byte(body)}); terms.Retention != retention {
				t.Errorf("%s: %+v", body, terms)
			}
		}
	}
}

// S7.1: a view that ends before the effect can be looked for concludes nothing.
func TestLookUpTerms(t *testing.T) {
	t.Parallel()
	const lag = "      lag: {at_most: 10s, source: page}\n"
	for replacement, unknown := range map[string]bool{
		lag:                                   false,
		lag + "      horizon: 10m\n":          true,
		lag + "      horizon: 720h\n":         false,
		lag + "      absent_means: unknown\n": true,
		"      consistency: strong\n":         false,
		"      consistency: eventual\n":       true,
		"":                                    true,
		lag + "      consistency: eventual\n": false,
		"      lag: {at_most: 10s, source: blog}\n": true,
	} {
		c, err := Parse("acme.yaml", []byte(strings.Replace(small, lag, replacement, 1)))
		if err != nil {
			t.Errorf("%q: %v", replacement, err)
			continue
		}
		if terms := c.Operations["pay"].Terms(effectonce.DefaultTerms()); !terms.LookUp || terms.LagUnknown != unknown {
			t.Errorf("%q: %+v", replacement, terms)
		}
	}
	// Nothing is known without a sourced consistency.
	c, err := Parse("acme.yaml", []byte(strings.Replace(strings.Replace(small, lag, "      consistency: strong\n", 1), "      source: page\n    verdicts", "    verdicts", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if terms := c.Operations["pay"].Terms(effectonce.DefaultTerms()); !terms.LagUnknown {
		t.Errorf("%+v", terms)
	}
}

// S6.3, S6.4: answers of other kinds. A named resource is a success only where a source says that it is this key's; a key that is too old refuses
// this send only.
func TestClassifyMeanings(t *testing.T) {
	t.Parallel()
	rules := `      - {when: {status: 409, body: {code: proved}}, verdict: done_elsewhere, reference: links.id, proves: key, source: page}
      - {when: {status: 409, body: {code: exists}}, verdict: done_elsewhere, reference: links.id}
      - {when: {status: 412, header: {Result: rejected}}, verdict: expired, source: page}
      - {when: {status: 422, text: [other body, another body]}, verdict: mismatch}
      - {when: {status: 200, body: {ok: "false", errors.code: [LIMIT]}}, verdict: throttled, source: page}
      - {when: {status: 429, attempt: after_unknown}, verdict: unknown}
      - {when: {status: 429, attempt: first}, verdict: throttled, source: page}
`
	text := strings.Replace(small, "    verdicts:\n", "    verdicts:\n"+rules, 1)
	c, err := Parse("acme.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := c.Operations["pay"]
	for _, tt := range []struct {
		name      string
		status    int
		body      string
		resend    bool
		verdict   effectonce.Verdict
		code      string
		reference string
		omitted   string
	}{
		{"proved", 409, `{"code":"proved","links":{"id":"p1"}}`, true, effectonce.VerdictSucceeded, "", "p1", OmittedNamed},
		{"proved and not named", 409, `{"code":"proved"}`, true, effectonce.VerdictUnknown, "done_elsewhere", "", ""},
		{"named", 409, `{"code":"exists","links":{"id":"p1"}}`, false, effectonce.VerdictUnknown, "done_elsewhere", "p1", ""},
		{"too old", 412, `{}`, true, effectonce.VerdictRejected, "expired", "", ""},
		{"another body", 422, `that is another body`, false, effectonce.VerdictUnknown, "mismatch", "", ""},
		{"a limit in one of several errors", 200, `{"ok":false,"errors":[{"code":"A"},{"code":"LIMIT"}]}`, false, effectonce.VerdictThrottled, "throttled", "", ""},
		{"too many at first", 429, ``, false, effectonce.VerdictThrottled, "throttled", "", ""},
		{"too many later", 429, ``, true, effectonce.VerdictUnknown, "unknown", "", ""},
	} {
		r := Response{Status: tt.status, Header: map[string][]string{"Result": {"rejected"}}, Body: []byte(tt.body)}
		end := o.Classify(r, tt.resend)
		if end.Verdict != tt.verdict || end.Failure.Code != tt.code || end.Reference != tt.reference || end.Omitted != tt.omitted || end.Authoritative {
			t.Errorf("%s: %+v", tt.name, end)
		}
	}
}

func TestClassifyXML(t *testing.T) {
	t.Parallel()
	c, err := Load("aws/ec2")
	if err != nil {
		t.Fatal(err)
	}
	o := c.Operations["run_instances"]
	for _, tt := range []struct {
		name, body string
		status     int
		beginning  bool
		verdict    effectonce.Verdict
		reference  string
	}{
		{"whole", `<?xml version="1.0"?><R xmlns="x"><reservationId>r-1</reservationId></R>`, 200, false, effectonce.VerdictSucceeded, "r-1"},
		{"a beginning", `<R><reservationId>r-1</reservationId><instancesSet><item>`, 200, true, effectonce.VerdictSucceeded, "r-1"},
		{"a beginning too short", `<R><requestId>q</requestId><reserv`, 200, true, effectonce.VerdictSucceeded, ""},
		{"cut", `<R><reservationId>r-1</reservationId><instancesSet><item>`, 200, false, effectonce.VerdictUnknown, ""},
		{"an entity bomb", `<!DOCTYPE a [<!ENTITY b "bbbb">]><R><reservationId>&b;</reservationId></R>`, 200, false, effectonce.VerdictUnknown, ""},
		{"nested without end", strings.Repeat("<a>", 5000), 200, false, effectonce.VerdictUnknown, ""},
		{"nothing", ``, 200, false, effectonce.VerdictUnknown, ""},
		{"two errors, one of which is the limit", `<R><Errors><Error><Code>A</Code></Error><Error><Code>RequestLimitExceeded</Code></Error></Errors></R>`, 503, false, effectonce.VerdictThrottled, ""},
	} {
		end := o.Classify(Response{Status: tt.status, Body: []byte(tt.body), Beginning: tt.beginning}, false)
		if end.Verdict != tt.verdict || end.Reference != tt.reference {
			t.Errorf("%s: %+v", tt.name, end)
		}
	}
}

// Settings fill what a contract leaves open, also for requests of the provider's own client.
func TestWith(t *testing.T) {
	t.Parallel()
	keyed, err := Load("http/keyed")
	if err != nil {
		t.Fatal(err)
	}
	with, err := keyed.With(Settings{Retention: 48 * time.Hour, KeyHeader: "X-Key"})
	if err != nil {
		t.Fatal(err)
	}
	o, ok := with.Match(sent("PUT", "/anything", asJSON, "{}"))
	if !ok || o.Retention.AtLeast != 48*time.Hour || o.Key.Name != "X-Key" || o.Version == keyed.Version {
		t.Errorf("%+v %t", o, ok)
	}
	one, err := keyed.With(Settings{Path: "/pay", Retention: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := one.Match(sent("POST", "/pay", asJSON, "{}")); !ok {
		t.Error("the operator's path is not matched")
	}
	if _, ok := one.Match(sent("POST", "/other", asJSON, "{}")); ok {
		t.Error("another path is matched")
	}
	stripe, err := Load("stripe/v1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stripe.With(Settings{Retention: time.Hour}); !errors.Is(err, effectonce.ErrInvalid) {
		t.Errorf("a fact that the contract states itself: %v", err)
	}
	ec2, err := Load("aws/ec2")
	if err != nil {
		t.Fatal(err)
	}
	vouched, err := ec2.With(Settings{Retention: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if terms := vouched.Operations["run_instances"].Terms(effectonce.DefaultTerms()); terms.Retention != 24*time.Hour {
		t.Errorf("%+v", terms)
	}
	if _, err := ec2.Resolve("run_instances", Settings{}); !errors.Is(err, effectonce.ErrInvalid) {
		t.Errorf("an operation that only a signed client can send: %v", err)
	}
}

// Whatever a request is: no panic, a request is not changed, and the key gets in without changing the business.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/graphql", "", asJSON, []byte(`{"query":"mutation { pay(input: $input) { id } }"}`))
	f.Add("POST", "/f", "Action=Run", asForm, []byte(`a=1&Action=Run`))
	f.Add("POST", "/mail", "", asJSON, []byte(`{"Headers":[{"Name":"A"}]}`))
	f.Add("PUT", "/u/x", "", asJSON, []byte(`{"":{"":[{}]}}`))
	f.Add("POST", "/h", "a=b", asJSON, []byte(`{"meta":{"REF":1,"a":[1,{"b":null}]}}`))
	c := wiredContract(f)
	f.Fuzz(func(t *testing.T, method, path, query, contentType string, body []byte) {
		r := sent(method, path, contentType, string(body))
		r.Query = query
		o, ok := c.Match(r)
		if !ok || o.Effect == EffectRead {
			return
		}
		o.ScopeOf(r)
		before, err := o.Business(r)
		if err != nil {
			return
		}
		got, err := o.Inject(r, "KKKK", stampOfTest, time.Unix(1, 0))
		if err != nil {
			return
		}
		if string(r.Body) != string(body) {
			t.Fatal("the request that was given changed")
		}
		after, err := o.Business(got)
		if err != nil || string(before) != string(after) {
			t.Fatalf("%s: %s, and with the key %s (%v)\n%s %s\n%s %s", o.Name, before, after, err, r.Path, r.Body, got.Path, got.Body)
		}
		if key, _ := o.ClientKey(got); o.Key.Place != "" && o.Key.Place != PlaceMailHeader && key != "KKKK" {
			t.Fatalf("%s: the key is %q in %s", o.Name, key, got.Body)
		}
	})
}
