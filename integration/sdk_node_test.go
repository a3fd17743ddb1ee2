package integration

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
)

// route is a configuration with one provider and one route, on which an operation has a tool.
func route(contract, address, operation, more string) string {
	return noBreaker + `
providers:
  api: {contract: ` + contract + `, base_url: "` + address + `", credential: "env:HELD"` + more + `}
routes:
  - {path: api, provider: api, wait: 1s, accept_review: true, tools: {` + operation + `: api.write}}
tools:
  api.write:
    accept_review: true` + tool
}

// Slack has no key and no look-up. Its client repeats whatever does not answer 200, for half an hour: each lost answer is another message.
// S7.3, S14.4
func TestSlack(t *testing.T) {
	t.Parallel()
	npmPackages(t, "sdks")
	address := emulate(t, "slack")
	w := newWireFor(t, address, post("/api/chat.postMessage"))
	s := subject{
		name: "@slack/web-api (emulate)", wire: w, route: "api", once: true, calls: 2,
		daemon: serve(t, route("slack", w.URL, "chat.post_message", ""), "HELD=test_token_admin"),
		call:   nodeCall("slack", patience, patience*5/2),
		effects: func(t *testing.T, about string) int {
			var list struct {
				Channels []struct{ ID, Name string } `json:"channels"`
			}
			read(t, address+"/api/conversations.list", "test_token_admin", url.Values{}, &list)
			i := slices.IndexFunc(list.Channels, func(c struct{ ID, Name string }) bool { return c.Name == "orders" })
			if i < 0 {
				t.Fatal("there is no channel orders")
			}
			var history struct {
				Messages []struct{ Text string } `json:"messages"`
			}
			read(t, address+"/api/conversations.history", "test_token_admin", url.Values{"channel": {list.Channels[i].ID}, "limit": {"200"}}, &history)
			n := 0
			for _, m := range history.Messages {
				if m.Text == about {
					n++
				}
			}
			return n
		},
	}
	s.run(t)
}

// Resend obeys a key, which its client sets only if it is told one.
// S14.4
func TestResend(t *testing.T) {
	t.Parallel()
	npmPackages(t, "sdks")
	address := emulate(t, "resend")
	w := newWireFor(t, address, post("/emails"))
	s := subject{
		name: "resend (emulate)", wire: w, route: "api", once: true, settles: true,
		daemon: serve(t, route("resend", w.URL, "emails.send", ""), "HELD=re_held"),
		call:   nodeCall("resend", patience, patience*8),
		effects: func(t *testing.T, about string) int {
			var list struct {
				Data []struct{ Subject string } `json:"data"`
			}
			read(t, address+"/emails?limit=100", "re_held", nil, &list)
			n := 0
			for _, m := range list.Data {
				if m.Subject == about {
					n++
				}
			}
			return n
		},
	}
	s.run(t)
}

// GitHub has no key. Its client repeats most errors three times, and so makes further issues. Through the proxy the issue is found by the mark in its
// text.
// S7.3, S14.4
func TestOctokit(t *testing.T) {
	t.Parallel()
	npmPackages(t, "sdks")
	address := emulate(t, "github")
	w := newWireFor(t, address, post("/repos/agent/shop/issues"))
	s := subject{
		name: "octokit (emulate)", wire: w, route: "api", once: true, settles: true,
		// It takes half an answer for a whole one, and waits for a slow one.
		calm:   []trouble{cut, slow},
		daemon: serve(t, route("github/rest", w.URL, "issues.create", ""), "HELD=test_token_admin"),
		call:   nodeCall("octokit", patience, patience*15),
		effects: func(t *testing.T, about string) int {
			var issues []struct{ Title string }
			read(t, address+"/repos/agent/shop/issues?state=all&per_page=100", "test_token_admin", nil, &issues)
			n := 0
			for _, i := range issues {
				if i.Title == about {
					n++
				}
			}
			return n
		},
	}
	s.run(t)
}

// Square's keys are remembered for a time that nobody states, so nothing is sent again. The double is Effectonce's own twin of the contract.
// S7.3, S14.4
func TestSquare(t *testing.T) {
	t.Parallel()
	npmPackages(t, "sdks")
	twin := serving(t, t.TempDir(), nil, "twin", "square", "--listen", "127.0.0.1:0")
	w := newWireFor(t, twin.url, func(r *http.Request, _ string) bool {
		return r.Method == http.MethodPost && r.URL.Path == "/v2/payments"
	})
	before := 0
	s := subject{
		name: "square (effectonce twin)", wire: w, route: "api",
		daemon: serve(t, route("square", w.URL, "payments.create", ""), "HELD=held"),
		call:   nodeCall("square", patience, patience*20),
		effects: func(t *testing.T, _ string) int {
			var ledger struct{ Count int }
			read(t, twin.url+"/_twin/ledger", "", nil, &ledger)
			n := ledger.Count - before
			before = ledger.Count
			return n
		},
	}
	s.run(t)
}
