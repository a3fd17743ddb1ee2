package general_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin/general"
)

// acme is a contract of its own, as a user would bring it.
const acme = `
contract: acme/v1
title: Acme payments
scope: [base_url, {part: account, in: header, name: Acme-Account, default: own}]
replay_mark: {header: Replayed, value: "true"}
sources:
  docs: {url: "https://acme.example/docs", checked: 2026-11-30, grade: official, says: what the test says}
operations:
  payments.create:
    method: POST
    path: /v1/orders/{order}/payments
    encoding: json
    key: {in: header, name: Idempotency-Key, length_max: 64, source: docs}
    retention: {at_least: 48h, starts: first_receipt, after: refused, source: docs}
    fingerprint: {provider: full, source: docs}
    replays: {success: original, errors: replayed, source: docs}
    stamp: {in: body, field: metadata.effectonce, path: metadata.effectonce, echoed: true, in_look_up: true, source: docs}
    reference: id
    look_ups:
      - name: list of the order
        path: /v1/orders/{path.order}/payments
        items: data
        match: stamp
        stamp: metadata.effectonce
        reference: id
        paging: {kind: cursor, parameter: after, next: next_cursor}
        consistency: strong
        lag: {at_most: 1s, source: docs}
        source: docs
    verdicts:
      - {when: {status: [200, 201]}, verdict: succeeded, source: docs}
      - {when: {status: 409, body: {error.code: in_progress}}, verdict: in_flight, source: docs}
      - {when: {status: 410, body: {error.code: key_expired}}, verdict: expired, source: docs}
      - {when: {status: 422, body: {error.code: key_reused}}, verdict: mismatch, reason: the key is on record with another body}
      - {when: {status: 402, body: {error.code: declined}}, verdict: rejected, authoritative: true, reason: declined, source: docs}
      - {when: {status: 400, body: {error.code: invalid}}, verdict: rejected, reason: refused as it stands, source: docs}
      - {when: {status: 429, body: {error.code: slow_down}}, verdict: throttled, reason: over the rate, source: docs}
      - {when: {status: 500-599}, verdict: unknown, reason: the outcome is not known}
    examples:
      - {name: new, status: 201, body: {id: p1, state: paid, metadata: {effectonce: s}}, want: succeeded, reference: p1}
      - {name: being processed, status: 409, body: {error: {code: in_progress}}, want: in_flight}
      - {name: an old key, status: 410, body: {error: {code: key_expired}}, want: expired}
      - {name: another body, status: 422, body: {error: {code: key_reused}}, want: mismatch}
      - {name: declined, status: 402, body: {error: {code: declined}}, want: rejected, authoritative: true}
      - {name: invalid, status: 400, body: {error: {code: invalid}}, want: rejected}
      - {name: too fast, status: 429, body: {error: {code: slow_down}}, want: throttled}
      - {name: a server error, status: 500, body: {error: {code: internal}}, want: unknown}
requests:
  - {name: a payment, method: POST, path: /v1/orders/7/payments, header: {Content-Type: application/json}, body: {amount: 480}, want: payments.create}
  - {name: a list, method: GET, path: /v1/orders/7/payments, want: read}
`

const acmePlays = `
contract: acme/v1
server_time: 0s
page: 2
operations:
  payments.create:
    id: "pay_{n}"
    requires: [body.amount]
    declines: {body.amount: "666"}
`

func acmeTwin(t *testing.T, plan string, change func(*general.Config)) running {
	t.Helper()
	c, err := contract.Parse("acme.yaml", []byte(acme))
	if err != nil {
		t.Fatal(err)
	}
	b, err := general.ParseBehaviour("acme.twin.yaml", []byte(acmePlays))
	if err != nil {
		t.Fatal(err)
	}
	s := subject{c, c.Operations["payments.create"], c.Requests[0].Request, b}
	return s.start(t, func(config *general.Config) {
		if config.Plan, err = general.ParsePlan(c, plan); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(config)
		}
	})
}

func (r running) with(body string, n int) contract.Request {
	request := r.request
	request.Header = request.Header.Clone()
	request.Body = []byte(body)
	out, err := r.operation.Inject(request, keyOf(r.t, r.operation, n), stamp, began)
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// The cases of a contract that a user brings are answered as its examples say. S14.5
func TestEachCaseIsAnsweredAsTheContractHasIt(t *testing.T) {
	t.Parallel()
	r := acmeTwin(t, "payments#9 instead status=429", nil)
	if end := r.must(r.with(`{"amount":480}`, 1), false); end.Verdict != effectonce.VerdictSucceeded || end.Reference != "pay_1" {
		t.Fatalf("%+v", end)
	}
	again, _ := r.send(r.with(`{"amount":480}`, 1))
	if again.Header.Get("Replayed") != "true" || r.operation.Classify(again, true).Reference != "pay_1" {
		t.Errorf("a repeat was answered %d %v %s", again.Status, again.Header, again.Body)
	}
	for _, c := range []struct {
		name, body string
		key        int
		want       effectonce.Verdict
		code       string
	}{
		{"another body", `{"amount":481}`, 1, effectonce.VerdictUnknown, "mismatch"},
		{"declined", `{"amount":666}`, 2, effectonce.VerdictRejected, ""},
		{"declined again", `{"amount":666}`, 2, effectonce.VerdictRejected, ""},
		{"invalid", `{"sum":1}`, 3, effectonce.VerdictRejected, ""},
	} {
		end := r.must(r.with(c.body, c.key), false)
		if end.Verdict != c.want || c.code != "" && end.Failure.Code != c.code {
			t.Errorf("%s: %+v", c.name, end)
		}
	}
	// The key of another account is another key.
	other := r.with(`{"amount":480}`, 1)
	other.Header.Set("Acme-Account", "a2")
	r.must(other, false)
	r.counts(2, "with the same key in another scope")
	if err := r.twin.Advance(48 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if end := r.must(r.with(`{"amount":480}`, 1), true); end.Failure.Code != "expired" {
		t.Errorf("an old key: %+v", end)
	}
	if end := r.must(r.with(`{"amount":480}`, 4), false); end.Verdict != effectonce.VerdictThrottled {
		t.Errorf("the ninth: %+v", end)
	}
	if answer, _ := r.send(contract.Request{Method: "DELETE", Path: "/v1/orders/7", Header: http.Header{}}); answer.Status != http.StatusNotFound {
		t.Errorf("what nobody described was answered %d", answer.Status)
	}
	r.counts(2, "at the end")
}

// A fault plan strikes as in the other twin, counted by operation. S14.5
func TestFaultsStrikeWhereThePlanSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, plan string
		// answered says whether the first request gets an answer, effects how many there are then, and after a repeat.
		answered          bool
		verdict           effectonce.Verdict
		effects, repeated int
	}{
		{"the answer is lost", "payments#1 after-effect drop", false, "", 1, 1},
		{"the connection is reset", "payments.create#1 after-effect reset", false, "", 1, 1},
		{"nothing arrives", "write#1 drop", false, "", 0, 1},
		{"it is broken off", "payments#1 before-effect drop", false, "", 0, 1},
		{"a gateway's error after the effect", "payments#1 after-effect status=502", true, effectonce.VerdictUnknown, 1, 1},
		{"a server error before the effect is on record", "payments#1 before-effect status=500", true, effectonce.VerdictUnknown, 0, 0},
		{"a server error after the effect is on record", "payments#1 after-effect status=500", true, effectonce.VerdictUnknown, 1, 1},
		{"no JSON", "any#1 after-effect garble", true, effectonce.VerdictUnknown, 1, 1},
		{"half of an answer", "payments#1 after-effect cut", false, "", 1, 1},
		{"somebody else's payment", "payments#1 after-effect foreign", true, effectonce.VerdictSucceeded, 1, 1},
		{"two copies", "payments#1 twice", true, effectonce.VerdictUnknown, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := acmeTwin(t, c.plan, nil)
			answer, ok := r.send(r.with(`{"amount":480}`, 1))
			if ok != c.answered {
				t.Fatalf("answered: %v, %d %s", ok, answer.Status, answer.Body)
			}
			if end := r.operation.Classify(answer, false); ok && end.Verdict != c.verdict {
				t.Errorf("it ended %s: %d %s", end.Verdict, answer.Status, answer.Body)
			}
			if strings.Contains(c.plan, "foreign") && !r.operation.Foreign(answer, stamp) {
				t.Error("the answer is not foreign")
			}
			r.counts(c.effects, "after the first request")
			r.send(r.with(`{"amount":480}`, 1))
			r.counts(c.repeated, "after a repeat")
			log := r.twin.Requests()
			if len(log.Requests[0].Faults) == 0 || log.Requests[0].Operation != "payments.create" {
				t.Errorf("the log says %+v", log.Requests[0])
			}
		})
	}
	c, err := contract.Parse("acme.yaml", []byte(acme))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := general.ParsePlan(c, "refunds#1 drop"); err == nil || !strings.Contains(err.Error(), "payments.create") {
		t.Errorf("a target that is none: %v", err)
	}
}

// A key whose first request is being processed is in flight. S16.17
func TestAKeyInFlight(t *testing.T) {
	t.Parallel()
	r := acmeTwin(t, "payments#1 hold=1h", nil)
	first := make(chan contract.Response, 1)
	go func() {
		answer, _ := r.send(r.with(`{"amount":480}`, 1))
		first <- answer
	}()
	deadline := time.After(10 * time.Second)
	for r.twin.Requests().Total == 0 || r.twin.Requests().Requests[0].Outcome != "started" {
		select {
		case <-deadline:
			t.Fatal("the first request did not begin")
		case <-time.After(time.Millisecond):
		}
	}
	if end := r.must(r.with(`{"amount":480}`, 1), true); end.Verdict != effectonce.VerdictInFlight {
		t.Errorf("%+v", end)
	}
	r.twin.Close()
	if answer := <-first; answer.Status != http.StatusServiceUnavailable {
		t.Errorf("the first was answered %d", answer.Status)
	}
	r.counts(0, "of what was broken off")
}

// A twin that does not keep a promise. S14.5
func TestPromisesThatAreNotKept(t *testing.T) {
	t.Parallel()
	known := func(r running) contract.Known { return contract.Known{Stamp: stamp, Key: keyOf(r.t, r.operation, 1)} }
	for _, promise := range general.Promises {
		t.Run(string(promise), func(t *testing.T) {
			t.Parallel()
			r := acmeTwin(t, "", func(c *general.Config) { c.Breaks = promise })
			first := r.must(r.with(`{"amount":480}`, 1), false)
			switch promise {
			case general.BreaksDedupe:
				r.must(r.with(`{"amount":480}`, 1), true)
				r.counts(2, "after a repeat")
				if found := r.find(r.operation.LookUps[0], known(r)); found.Found != effectonce.FoundMany {
					t.Errorf("the look-up says %+v", found)
				}
				if got := r.twin.Ledger(); got.ByStamp[stamp] != 2 || len(got.ByKey) != 1 || len(got.ByBusiness) != 1 {
					t.Errorf("the ledger counts %v %v %v", got.ByStamp, got.ByKey, got.ByBusiness)
				}
			case general.BreaksRetention:
				if err := r.twin.Advance(24 * time.Hour); err != nil {
					t.Fatal(err)
				}
				if end := r.must(r.with(`{"amount":480}`, 1), true); end.Verdict == effectonce.VerdictSucceeded {
					t.Errorf("after half of the window: %+v", end)
				}
			case general.BreaksLookUp:
				if found := r.find(r.operation.LookUps[0], known(r)); found.Found != effectonce.FoundAbsent {
					t.Errorf("the look-up says %+v", found)
				}
			case general.BreaksStamp:
				if first.Verdict != effectonce.VerdictUnknown {
					t.Errorf("an answer without the stamp: %+v", first)
				}
				if found := r.find(r.operation.LookUps[0], known(r)); found.Found != effectonce.FoundAbsent {
					t.Errorf("the look-up says %+v", found)
				}
				if got := r.twin.Ledger().ByStamp[stamp]; got != 1 {
					t.Errorf("the ledger counts %d of the stamp: it is the truth, not the provider's view", got)
				}
			}
		})
	}
}

// Look-ups page to the end, lag, and meet what is not ours. S7.1
func TestLookUpsPageLagAndMeetOthers(t *testing.T) {
	t.Parallel()
	r := acmeTwin(t, "lookup#1 status=503; lookup#4 drop", nil)
	known := contract.Known{Stamp: stamp, Key: keyOf(t, r.operation, 1)}
	l := r.operation.LookUps[0]
	r.must(r.with(`{"amount":480}`, 1), false)
	foreign := general.Resource{Operation: "payments.create", Path: "/v1/orders/7/payments", Body: json.RawMessage(`{"amount":1}`), Stamp: strings.Repeat("f", 64), Count: 5}
	if made, err := r.twin.Add(foreign); err != nil || len(made) != 5 || !made[0].Around {
		t.Fatalf("%v %v", made, err)
	}
	if found := r.find(l, known); found.Found != effectonce.FoundUnavailable {
		t.Errorf("in an outage: %+v", found)
	}
	if found := r.find(l, known); found.Found != effectonce.FoundUnavailable || !strings.Contains(found.Detail, "2 pages") {
		t.Errorf("with an outage on the third page: %+v", found)
	}
	if found := r.find(l, known); found.Found != effectonce.FoundOne || found.Reference != "pay_1" || !strings.Contains(found.Detail, "3 pages, 6 items") {
		t.Errorf("to the end: %+v", found)
	}
	foreign.Stamp, foreign.Count = stamp, 1
	r.twin.SetLag(time.Minute)
	if _, err := r.twin.Add(foreign); err != nil {
		t.Fatal(err)
	}
	if found := r.find(l, known); found.Found != effectonce.FoundAbsent {
		t.Errorf("within the lag: %+v", found)
	}
	if err := r.twin.Advance(time.Minute); err != nil {
		t.Fatal(err)
	}
	if found := r.find(l, known); found.Found != effectonce.FoundMany {
		t.Errorf("two with our stamp: %+v", found)
	}
	if _, err := r.twin.Add(general.Resource{Operation: "nothing"}); err == nil {
		t.Error("an operation that is not there was added to")
	}
}

// The control plane over a real connection, and a stop. S14.5
func TestTheControlPlane(t *testing.T) {
	t.Parallel()
	r := acmeTwin(t, "", nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.twin.Serve(ctx, l) }()
	url := "http://" + l.Addr().String() + "/_twin/"
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"faults", "write#1 drop", 200},
		{"faults", `{"plan": "lookup#* status=500"}`, 200},
		{"faults", "refunds#1 drop", 400},
		{"clock", `{"advance": "1h"}`, 200},
		{"clock", "-1h", 400},
		{"lag", "10s", 200},
		{"lag", `{"log": "10s"}`, 400},
		{"resources", `{"operation": "payments.create", "path": "/v1/orders/7/payments", "body": {"amount": 1}}`, 200},
		{"resources", `{"operation": "none"}`, 400},
		{"nothing", "", 404},
		{"reset", "", 200},
	} {
		answer, err := http.Post(url+c.path, "", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != c.want {
			t.Errorf("POST %s %s was answered %d, want %d", c.path, c.body, answer.StatusCode, c.want)
		}
	}
	for _, path := range []string{"health", "ledger", "requests", "clock", "faults"} {
		answer, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 200 {
			t.Errorf("GET %s was answered %d", path, answer.StatusCode)
		}
	}
	r.counts(0, "after the reset")
	stop()
	if err := <-served; err != nil {
		t.Errorf("a stop: %v", err)
	}
}

// What is wrong with a behaviour file is said with its place.
func TestBehavioursThatAreRefused(t *testing.T) {
	t.Parallel()
	c, err := contract.Parse("acme.yaml", []byte(acme))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []struct{ file, want string }{
		{"errors: {nonsense: {status: 400}}", "errors.nonsense is no case"},
		{"errors: {mismatch: {status: 99}}", "status"},
		{"operations: {payments.create: {again: perhaps}}", "again"},
		{"operations: {payments.create: {compares: half}}", "compares"},
		{"unknown: 1", "unknown"},
		{"contract: other", "that of contract other"},
		{"operations: {refunds: {}}", "no operation"},
	} {
		parsed, err := general.ParseBehaviour("b.yaml", []byte(b.file))
		if err == nil {
			_, err = general.New(general.Config{Contract: c, Behaviour: parsed})
		}
		if err == nil || !strings.Contains(err.Error(), b.want) {
			t.Errorf("%s: %v", b.file, err)
		}
	}
	if _, err := general.New(general.Config{Contract: c, Breaks: "everything"}); err == nil {
		t.Error("a promise that is none was taken")
	}
	if _, err := general.New(general.Config{}); err == nil {
		t.Error("no contract was taken")
	}
}
