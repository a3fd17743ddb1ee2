package contract

import (
	"errors"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
)

const small = `contract: acme/v1
sources:
  page: {url: "https://acme.example/docs", checked: 2026-11-30, grade: official, says: it}
  blog: {url: "https://blog.example", checked: 2026-11-30, grade: reading, says: hearsay}
replay_mark: {header: Replayed, value: "yes"}
operations:
  pay:
    method: POST
    path: /pay
    encoding: json
    key: {in: header, name: Idempotency-Key, encoding: hex, length_max: 40, source: page}
    retention: {at_least: 24h, source: page}
    stamp: {in: body, field: ref, path: ref, source: page}
    reference: id
    look_up:
      path: /pays
      items: data
      stamp: ref
      reference: id
      paging: {kind: cursor, parameter: after, next: next}
      lag: {at_most: 10s, source: page}
      source: page
    verdicts:
      - {when: {status: [200, 201]}, verdict: succeeded, source: page}
      - {when: {status: 400}, verdict: rejected, source: page}
`

func TestSmallContractIsAccepted(t *testing.T) {
	t.Parallel()
	c, err := Parse("acme.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if terms := c.Operations["pay"].Terms(effectonce.DefaultTerms()); !terms.Keyed || terms.Retention == 0 || terms.LagUnknown {
		t.Errorf("%+v", terms)
	}
}

// S14.5: the loader refuses dangerous declarations, and says where and what to do.
func TestRefused(t *testing.T) {
	t.Parallel()
	const rules = "      - {when: {status: 400}, verdict: rejected, source: page}\n"
	rule := func(s string) [2]string { return [2]string{rules, "      - " + s + "\n"} }
	for _, tt := range []struct {
		name    string
		replace [2]string
		want    string
	}{
		{"a time-out called rejected", rule("{when: {status: 504}, verdict: rejected, source: page}"), "acme.yaml:25:31: operations.pay.verdicts[1].verdict: calls a time-out rejected"},
		{"a time-out with evidence", rule("{when: {status: 408, body: {code: x}}, verdict: throttled, source: page}"), "calls a time-out throttled"},
		{"all server errors called rejected", rule("{when: {status: 500-599}, verdict: rejected, source: page}"), "calls a time-out rejected"},
		{"a server error called not executed", rule("{when: {status: 503}, verdict: throttled, source: page}"), "calls a server error throttled without evidence"},
		{"all client errors called rejected", rule("{when: {status: 400-499}, verdict: rejected, source: page}"), "operations.pay.verdicts[1].verdict"},
		{"every conflict called rejected", rule("{when: {status: 409}, verdict: rejected, source: page}"), "calls every conflict rejected"},
		{"a redirect called success", rule("{when: {status: 302}, verdict: succeeded, source: page}"), "calls a status outside 200 to 299 a success"},
		{"an error called success", rule("{when: {status: 409}, verdict: succeeded, source: page}"), "calls a status outside 200 to 299 a success"},
		{"a success called rejected", rule("{when: {status: 200}, verdict: rejected, source: page}"), "calls status 200 rejected"},
		{"an answer called not sent", rule("{when: {status: 400}, verdict: not_sent, source: page}"), "calls a request that was answered not sent"},
		{"rejected without a source", rule("{when: {status: 400}, verdict: rejected}"), "rejected needs a source"},
		{"rejected by hearsay", rule("{when: {status: 400}, verdict: rejected, source: blog}"), "rejected needs a source"},
		{"a 401 called authoritative", rule("{when: {status: 401}, verdict: rejected, authoritative: true, source: page}"), "is said of a check in front of the record of keys"},
		{"authoritative for unknown", rule("{when: {status: 400}, verdict: unknown, authoritative: true}"), "is only for rejected"},
		{"in flight at a server error", rule("{when: {status: 503}, verdict: in_flight, source: page}"), "says in_flight of a server error"},
		{"a verdict that there is not", rule("{when: {status: 400}, verdict: maybe, source: page}"), `"maybe" is not a verdict`},
		{"no status", rule("{when: {body: {code: x}}, verdict: rejected, source: page}"), "when.status: is missing"},
		{"a status that there is not", rule("{when: {status: 4xx}, verdict: rejected, source: page}"), "4xx is not a status"},
		{"a short key", [2]string{"length_max: 40", "length_max: 21"}, "acme.yaml:11:61: operations.pay.key.length_max: leaves 21 characters"},
		{"a prefix that eats the key", [2]string{"length_max: 40", "length_max: 40, prefix: aaaaaaaaaaaaaaaaaaaa"}, "leaves 20 characters"},
		{"a UUID that does not fit", [2]string{"encoding: hex, length_max: 40", "encoding: uuid, length_max: 30"}, "is too short for a UUID"},
		{"a window shorter than the call", [2]string{"at_least: 24h", "at_least: 60s"}, "the window of 1m0s is shorter than a call"},
		{"a window without a key", [2]string{"    key: {in: header, name: Idempotency-Key, encoding: hex, length_max: 40, source: page}\n", ""}, "there is no key that could be remembered"},
		{"a stamp that cannot be read back", [2]string{"field: ref, path: ref", "field: ref"}, "operations.pay.stamp.path: is missing"},
		{"a look-up without a stamp", [2]string{"    stamp: {in: body, field: ref, path: ref, source: page}\n", ""}, "looks for a stamp that the operation does not set"},
		{"a look-up that ignores the stamp", [2]string{"      stamp: ref\n", ""}, "operations.pay.look_up.stamp: is missing"},
		{"stamp in the key's place", [2]string{"{in: body, field: ref,", "{in: header, field: idempotency-key,"}, "is the place of the key"},
		{"an unknown field", [2]string{"reference: id\n    look", "referense: id\n    look"}, "acme.yaml:14:5: unknown field"},
		{"a field twice", [2]string{"    path: /pay\n", "    path: /pay\n    path: /pay2\n"}, "acme.yaml:10"},
		{"a source that there is not", [2]string{"24h, source: page", "24h, source: pag"}, `there is no source "pag"`},
		{"a source without a date", [2]string{"checked: 2026-11-30, grade: official", "grade: official"}, "sources.page.checked"},
		{"no syntax", [2]string{"operations:", "operations"}, "acme.yaml:"},
		{"no verdicts", [2]string{"operations:\n", "operations:\n  empty: {method: POST, path: /x, encoding: json}\n"}, "operations.empty.verdicts: is missing"},
		{"a read called an effect", [2]string{"method: POST", "method: GET"}, "has no effect that could be guarded"},
		{"an example that is not so", [2]string{rules, rules + "    examples:\n      - {name: oops, status: 400, want: succeeded}\n"}, `"oops" is classified as rejected`},
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
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}

// S14.5: a claim without a good source counts as unknown, and unknown fails closed.
func TestUnsourcedClaimsAreUnknown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		replace [2]string
		check   func(effectonce.Terms) bool
	}{
		{"retention", [2]string{"{at_least: 24h, source: page}", "{at_least: 24h}"}, func(t effectonce.Terms) bool { return t.Keyed && t.Retention == 0 && !t.Forever }},
		{"retention by hearsay", [2]string{"{at_least: 24h, source: page}", "{at_least: 24h, source: blog}"}, func(t effectonce.Terms) bool { return t.Retention == 0 }},
		{"forever", [2]string{"{at_least: 24h, source: page}", "{forever: true}"}, func(t effectonce.Terms) bool { return !t.Forever }},
		{"key", [2]string{"length_max: 40, source: page", "length_max: 40"}, func(t effectonce.Terms) bool { return !t.Keyed && t.Retention == 0 }},
		{"lag", [2]string{"{at_most: 10s, source: page}", "{at_most: 10s}"}, func(t effectonce.Terms) bool { return t.LagUnknown && t.Lag == 0 }},
		{"no lag", [2]string{"      lag: {at_most: 10s, source: page}\n", ""}, func(t effectonce.Terms) bool { return t.LagUnknown && t.Lag == 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse("acme.yaml", []byte(strings.Replace(small, tt.replace[0], tt.replace[1], 1)))
			if err != nil {
				t.Fatal(err)
			}
			if terms := c.Operations["pay"].Terms(effectonce.DefaultTerms()); !tt.check(terms) {
				t.Errorf("%+v", terms)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("contract: a/b\noperations: {x: {verdicts: [{when: {status: [1-, 200]}}]}}"))
	f.Add([]byte("a: &a [*a]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data)
		if (c == nil) == (err == nil) {
			t.Fatalf("contract %v, error %v", c, err)
		}
		if c != nil {
			for _, o := range c.Operations {
				o.Classify(Response{Status: 500, Body: data}, true)
			}
		}
	})
}

func FuzzClassify(f *testing.F) {
	f.Add(200, []byte(`{"id":"re_1","metadata":{"effectonce":"s"}}`), false, true)
	f.Add(400, []byte(`{"error":{"type":"invalid_request_error"}}`), true, false)
	c, err := Load("stripe/v1")
	if err != nil {
		f.Fatal(err)
	}
	o := c.Operations["refunds.create"]
	f.Fuzz(func(t *testing.T, status int, body []byte, resend, beginning bool) {
		end := o.Classify(Response{Status: status, Body: body, Beginning: beginning}, resend)
		if end.Verdict == effectonce.VerdictSucceeded && status/100 != 2 {
			t.Errorf("status %d succeeded", status)
		}
		if end.Verdict == effectonce.VerdictNotSent || end.Verdict == "" {
			t.Errorf("status %d is %q", status, end.Verdict)
		}
	})
}
