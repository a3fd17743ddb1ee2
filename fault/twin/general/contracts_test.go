package general_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin/general"
)

// began is a moment at which tests begin.
var began = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const stamp = "5f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5"

// keyOf makes a downstream key in the form that an operation wants.
func keyOf(t *testing.T, o *contract.Operation, n int) string {
	t.Helper()
	if o.Key.Place == "" {
		return ""
	}
	var key effectonce.Key
	copy(key[:], fmt.Sprintf("key number %d of %s", n, o.Name))
	return effectonce.DownstreamKey(make([]byte, 32), key, 0, o.Key.Form)
}

// behaviours are the built-in behaviours by their contract's name.
func behaviours() map[string]general.Behaviour {
	found := map[string]general.Behaviour{}
	for _, b := range general.Builtin() {
		found[b.Contract] = b
	}
	return found
}

// subject is one operation of a built-in contract with a request of it, from the contract's own examples.
type subject struct {
	contract  *contract.Contract
	operation *contract.Operation
	request   contract.Request
	behaviour general.Behaviour
}

func subjects(t *testing.T) map[string]subject {
	t.Helper()
	all := map[string]subject{}
	plays := behaviours()
	for _, c := range contract.Builtin() {
		for _, r := range c.Requests {
			o := c.Operations[r.Want]
			if o == nil || o.Effect == contract.EffectRead {
				continue
			}
			name := c.Name + " " + o.Name
			if _, have := all[name]; !have {
				all[name] = subject{c, o, r.Request, plays[c.Name]}
			}
		}
	}
	return all
}

// running is a twin with a subject's requests.
type running struct {
	subject
	t    *testing.T
	twin *general.Server
}

func (s subject) start(t *testing.T, change func(*general.Config)) running {
	t.Helper()
	config := general.Config{Contract: s.contract, Behaviour: s.behaviour, Now: func() time.Time { return began }}
	if change != nil {
		change(&config)
	}
	server, err := general.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return running{s, t, server}
}

// injected is the subject's request with key and stamp.
func (r running) injected(n int) contract.Request {
	r.t.Helper()
	out, err := r.operation.Inject(r.request, keyOf(r.t, r.operation, n), stamp, began)
	if err != nil {
		r.t.Fatalf("inject: %v", err)
	}
	return out
}

// send sends a request and returns the answer; ok is false if the connection ended without one.
func (r running) send(request contract.Request) (answer contract.Response, ok bool) {
	r.t.Helper()
	target := request.Path
	if request.Query != "" {
		target += "?" + request.Query
	}
	wire := httptest.NewRequest(request.Method, target, strings.NewReader(string(request.Body)))
	wire.Header = request.Header.Clone()
	if wire.Header == nil {
		wire.Header = http.Header{}
	}
	if r.behaviour.Credential != "" {
		wire.Header.Set("Authorization", strings.TrimSuffix(r.behaviour.Credential, "*")+"test")
	}
	w := httptest.NewRecorder()
	defer func() {
		if thrown := recover(); thrown != nil && thrown != http.ErrAbortHandler {
			panic(thrown)
		} else if thrown != nil {
			answer, ok = contract.Response{}, false
		}
	}()
	r.twin.ServeHTTP(w, wire)
	return contract.Response{Status: w.Code, Header: w.Header(), Body: w.Body.Bytes()}, true
}

// must sends a request and returns its verdict.
func (r running) must(request contract.Request, resend bool) effectonce.End {
	r.t.Helper()
	answer, ok := r.send(request)
	if !ok {
		r.t.Fatal("no answer")
	}
	end := r.operation.Classify(answer, resend)
	if end.Verdict != effectonce.VerdictSucceeded {
		r.t.Logf("answered %d %s", answer.Status, answer.Body)
	}
	return end
}

func (r running) counts(want int, when string) {
	r.t.Helper()
	if got := r.twin.Ledger().Count; got != want {
		r.t.Errorf("%s there are %d effects, want %d", when, got, want)
	}
}

// find looks a subject's effect up as the guard would, with the first look-up that can.
func (r running) find(l *contract.LookUp, known contract.Known) effectonce.Finding {
	r.t.Helper()
	search, err := r.operation.Search(l, r.injected(1), known)
	if err != nil {
		r.t.Fatalf("search: %v", err)
	}
	for {
		request, more := search.Next()
		if !more {
			return search.Finding()
		}
		answer, ok := r.send(request)
		if !ok {
			search.Fail(http.ErrAbortHandler)
			continue
		}
		search.Take(answer)
	}
}

// Each operation of each built-in contract, with the contract's own example of a request: a success is one as the contract reads it, a repeat does
// what the contract says in its window and behind it, and the ledger counts what happened. S14.5
func TestEachBuiltInContractIsPlayed(t *testing.T) {
	t.Parallel()
	all := subjects(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := s.start(t, nil)
			if end := r.must(r.injected(1), false); end.Verdict != effectonce.VerdictSucceeded {
				t.Fatalf("the first request ended %s: %+v", end.Verdict, end.Failure)
			}
			r.counts(1, "after the first request")
			end := r.must(r.injected(1), true)
			switch s.operation.Effect {
			case contract.EffectKeyed:
				r.counts(1, "after a repeat in the window")
				if end.Verdict != effectonce.VerdictSucceeded {
					t.Errorf("the repeat ended %s", end.Verdict)
				}
				r.behindTheWindow()
				r.otherRequest()
			case contract.EffectConvergent:
				if got := r.twin.Ledger().Count; got > 2 {
					t.Errorf("%d effects of a state that was asked for twice", got)
				}
			default:
				r.counts(2, "after a repeat that nothing stops")
			}
		})
	}
}

// behindTheWindow repeats when the key is forgotten, and never before.
func (r running) behindTheWindow() {
	retention := r.operation.Retention
	window := retention.AtLeast
	if retention.Forever || retention.Kind == contract.RetentionLifetime {
		if err := r.twin.Advance(10_000 * time.Hour); err != nil {
			r.t.Fatal(err)
		}
		r.must(r.injected(1), true)
		r.counts(1, "after a repeat under a key that is never forgotten")
		return
	}
	if window == 0 {
		if window = r.behaviour.Window; window == 0 {
			window = 24 * time.Hour
		}
	}
	if err := r.twin.Advance(window - time.Second); err != nil {
		r.t.Fatal(err)
	}
	r.must(r.injected(1), true)
	r.counts(1, "a second before the key is forgotten")
	if err := r.twin.Advance(time.Second); err != nil {
		r.t.Fatal(err)
	}
	end := r.must(r.injected(1), true)
	if retention.After == "refused" {
		r.counts(1, "after a repeat under an old key, which is refused")
		if end.Verdict == effectonce.VerdictSucceeded {
			r.t.Error("an old key was answered with a success")
		}
		return
	}
	r.counts(2, "after a repeat under a forgotten key")
}

// otherRequest sends another request under a used key.
func (r running) otherRequest() {
	other := r.injected(2)
	before := r.twin.Ledger().Count
	r.must(other, false)
	if r.twin.Ledger().Count != before+1 {
		r.t.Fatal("a new key had no effect")
	}
	changed := other
	changed.Header = other.Header.Clone()
	switch {
	case r.operation.Fingerprint.Provider == "none", r.operation.Fingerprint.Provider == "vars":
		return
	case strings.HasPrefix(other.Header.Get("Content-Type"), "application/x-www-form-urlencoded"):
		changed.Body = append(slices.Clone(other.Body), "&twin_other=1"...)
	case len(other.Body) > 1 && other.Body[len(other.Body)-1] == '}':
		changed.Body = append(slices.Clone(other.Body[:len(other.Body)-1]), `,"twin_other":1}`...)
	default:
		return
	}
	end := r.must(changed, false)
	if end.Verdict == effectonce.VerdictSucceeded {
		r.t.Errorf("another request under a used key succeeded")
	}
	if r.twin.Ledger().Count != before+1 {
		r.t.Errorf("another request under a used key had an effect")
	}
}

// A second request under a key of each built-in contract, while the first one is being processed, has no effect and is no success; where the contract knows an
// answer for that, it is that one. S16.17
func TestAKeyOfEachBuiltInContractInFlight(t *testing.T) {
	t.Parallel()
	all := subjects(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		if s.operation.Effect != contract.EffectKeyed {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := general.ParsePlan(s.contract, "write#1 hold=1h")
			if err != nil {
				t.Fatal(err)
			}
			r := s.start(t, func(c *general.Config) { c.Plan = plan })
			ended := make(chan bool)
			go func() {
				defer close(ended)
				r.send(r.injected(1))
			}()
			deadline := time.After(20 * time.Second)
			for r.twin.Requests().Total == 0 || r.twin.Requests().Requests[0].Outcome != "started" {
				select {
				case <-deadline:
					t.Fatal("the first request did not begin")
				case <-time.After(time.Millisecond):
				}
			}
			end := r.must(r.injected(1), true)
			known := slices.ContainsFunc(s.operation.Examples, func(e contract.Example) bool { return e.Want == effectonce.VerdictInFlight })
			if end.Verdict == effectonce.VerdictSucceeded || known && end.Verdict != effectonce.VerdictInFlight {
				t.Errorf("the second request ended %s", end.Verdict)
			}
			r.counts(0, "while the first is being processed")
			r.twin.Close()
			<-ended
		})
	}
}

// Each look-up of each built-in contract finds what was done, on whatever page it is, once its lag is over. S7.1
func TestEachLookUpFindsWhatWasDone(t *testing.T) {
	t.Parallel()
	all := subjects(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s := all[name]
		for _, l := range s.operation.LookUps {
			t.Run(name+" "+l.Name, func(t *testing.T) {
				t.Parallel()
				r := s.start(t, func(c *general.Config) { c.Behaviour.Page, c.Behaviour.LookUpLag = 2, 30*time.Second })
				key := keyOf(t, s.operation, 1)
				end := r.must(r.injected(1), false)
				known := contract.Known{Key: key, Stamp: stamp, Reference: end.Reference}
				if found := r.find(l, known); found.Found == effectonce.FoundOne {
					t.Errorf("it was found within the lag: %s", found.Detail)
				}
				if err := r.twin.Advance(30 * time.Second); err != nil {
					t.Fatal(err)
				}
				// Others of the same form, so that it is on the third page, if the list is not filtered by what is looked for.
				if s.operation.Effect != contract.EffectConvergent {
					for range 5 {
						if _, err := r.twin.Add(resource(r, "")); err != nil {
							t.Fatal(err)
						}
					}
					if err := r.twin.Advance(30 * time.Second); err != nil {
						t.Fatal(err)
					}
				}
				found := r.find(l, known)
				if found.Found != effectonce.FoundOne || found.Reference == "" {
					t.Errorf("it was not found: %+v", found)
				}
			})
		}
	}
}

// resource is the subject's request as one that goes around the guard.
func resource(r running, stamp string) general.Resource {
	body := r.request.Body
	if len(body) > 0 && strings.HasPrefix(r.request.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		body = fmt.Appendf(nil, "%q", body)
	}
	return general.Resource{Operation: r.operation.Name, Path: r.request.Path, Query: r.request.Query, Body: body, Stamp: stamp}
}

// Somebody else than the guard looks up too: with filters that the launch did not name, and with a token that is not its own. S14.5
func TestEC2IsAskedByAnotherClient(t *testing.T) {
	t.Parallel()
	r := subjects(t)["aws/ec2 run_instances"].start(t, nil)
	form := func(body string) contract.Response {
		t.Helper()
		answer, ok := r.send(contract.Request{Method: "POST", Path: "/", Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, Body: []byte(body)})
		if !ok || answer.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", body, answer.Status, answer.Body)
		}
		return answer
	}
	launch := form("Action=RunInstances&ImageId=ami-1&ClientToken=t-1")
	if again := form("Action=RunInstances&ImageId=ami-1&ClientToken=t-1"); string(again.Body) != string(launch.Body) {
		t.Errorf("a repeat was answered %s", again.Body)
	}
	ask := "Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=client-token&Filter.1.Value.1="
	if found := form(ask + "t-1"); !strings.Contains(string(found.Body), "<reservationSet><item>") {
		t.Errorf("its token finds %s", found.Body)
	}
	if found := form(ask + "t-2"); !strings.Contains(string(found.Body), "<reservationSet/>") {
		t.Errorf("another token finds %s", found.Body)
	}
	if all := form("Action=DescribeInstances"); strings.Count(string(all.Body), "<reservationId>") != 1 {
		t.Errorf("without a filter there is %s", all.Body)
	}
}
