package integration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// The tests in sdk_*_test.go drive official SDKs, as they are published, at a double that others wrote where there is one: first directly, then
// through effectonce serve. The wire loses answers after the effect. The agent calls its tool again when the call failed, as agents do;
// each of its calls is a new call of the SDK, with whatever key that makes up.

// subject is an SDK with a double of its provider.
type subject struct {
	name string
	// wire stands before the double; daemon has it as the provider, on the route.
	wire   *wire
	daemon daemon
	route  string
	// path is what the provider's own base URL has besides its host.
	path string
	// once loses one answer only, where the SDK has no key, or a double that does not obey it: then its own repeats have effects. Otherwise all
	// answers are lost until the agent's first call has failed.
	once bool
	// call is one call of the tool with the SDK, at a base URL; the intent is empty without the proxy.
	call func(t *testing.T, base, about, intent string) error
	// effects counts at the double what it has done about something.
	effects func(t *testing.T, about string) int
	// prepare makes what a write is about, and returns its name; nil if that needs nothing.
	prepare func(t *testing.T, about string) string
	// calls is how often the agent calls at most; 0 means agentCalls.
	calls int
	// calm are the troubles that this SDK does not answer with a repeat.
	calm []trouble
	// settles says that an ambiguous end is settled without a person. Otherwise it has to stop for one, with one effect.
	settles bool
	// intent is the id under which the daemon records the write; nil if the caller names it.
	intent func(about string) string
}

// row is what happened about one fault.
type row struct {
	what            string
	direct, through int
	// lost are the answers that were lost.
	directLost, throughLost int
	// calls are those of the agent until it had an answer or gave up.
	directCalls, throughCalls int
	state, reason, last       string
}

const agentCalls = 5

// agentDoes calls the tool until it has an answer, at most that many times, or once more if nothing goes wrong. It says how often it called, how the last
// call ended, and how many answers were lost.
func (s *subject) agentDoes(t *testing.T, what trouble, base, about, intent string) (calls int, last error, lost int) {
	t.Helper()
	switch {
	case what == fine:
		s.wire.next(fine)
	case s.once:
		s.wire.next(fine, what)
	default:
		s.wire.next(what)
	}
	for calls < cmp.Or(s.calls, agentCalls) {
		calls++
		last = s.call(t, base, about, intent)
		if calls == 1 {
			lost = s.wire.losses()
			if !s.once {
				s.wire.next(fine)
			}
		}
		if last == nil && (what != fine || calls == 2) {
			break
		}
	}
	return calls, last, lost
}

// run goes through the faults one after the other and prints the table.
func (s *subject) run(t *testing.T) {
	t.Helper()
	var rows []row
	for _, what := range []trouble{fine, drop, reset, badGate, cut, slow} {
		r := row{what: string(what)}
		if what == fine {
			r.what = "nothing, but the agent asks twice"
		}
		name := strings.ReplaceAll(s.name+" "+string(what)+"x", " ", "-")
		about := s.about(t, name+"-direct")
		r.directCalls, _, r.directLost = s.agentDoes(t, what, s.wire.URL+s.path, about, "")
		r.direct = s.effects(t, about)

		about = s.about(t, name+"-through")
		intent := "write:" + about
		if s.intent != nil {
			intent = s.intent(about)
		}
		var last error
		r.throughCalls, last, r.throughLost = s.agentDoes(t, what, s.daemon.url+"/egress/"+s.route, about, intent)
		r.through, r.last = s.effects(t, about), "answer"
		r.state, r.reason = s.daemon.state(t, intent)
		if last != nil {
			r.last = strings.Join(strings.Fields(last.Error()), " ")
		}
		rows = append(rows, r)

		if r.through != 1 {
			t.Errorf("%s: %d effects through the proxy, want 1", r.what, r.through)
		}
		if calm := slices.Contains(s.calm, what); !calm && r.direct < 2 {
			t.Errorf("%s: %d effects without the proxy. The test expects that a fault doubles it: otherwise it shows nothing", r.what, r.direct)
		}
		switch settled := r.state == "succeeded" && last == nil; {
		case what == fine || s.settles:
			if !settled {
				t.Errorf("%s: %s (%s), and the agent got: %s", r.what, r.state, r.reason, r.last)
			}
		case !slices.Contains([]string{"succeeded", "unknown", "review"}, r.state):
			t.Errorf("%s: %s (%s), want success on record or a person's decision", r.what, r.state, r.reason)
		}
	}
	s.print(t, rows)
}

// noBreaker is for the daemon's configuration: so many ambiguous ends in a row would pause the calls.
const noBreaker = "\nbreaker: {off: true}"

func (s *subject) about(t *testing.T, name string) string {
	if s.prepare == nil {
		return name
	}
	return s.prepare(t, name)
}

func (s *subject) print(t *testing.T, rows []row) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 2, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: what goes wrong\tdirectly: lost\tcalls\teffects\tthrough: lost\tcalls\teffects\ton record\tthe agent has\n", s.name)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%.120s\n", r.what, r.directLost, r.directCalls, r.direct, r.throughLost, r.throughCalls, r.through, r.state, r.last)
	}
	_ = w.Flush()
	t.Log("\n" + text.String())
}

// tool is a policy with times that fit a test.
const tool = `
    call: {timeout: 8s}
    lease: {grace: 500ms}
    settle: {pause: 10ms, transit: 10ms, processing: 10ms}
    retry: {attempts: 12, backoff: 100ms, backoff_max: 1s}
`

// nodeCall calls an SDK for Node, in a process of its own.
func nodeCall(sdk string, timeout, patience time.Duration) func(*testing.T, string, string, string) error {
	return func(t *testing.T, base, about, intent string) error {
		t.Helper()
		job, err := json.Marshal(map[string]any{
			"sdk": sdk, "base": base, "about": about, "intent": intent, "timeout": timeout.Milliseconds(), "patience": patience.Milliseconds(),
		})
		if err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "node", "call.mjs", string(job))
		command.Dir = "sdks"
		out, err := command.Output()
		var how struct {
			Error  string `json:"error"`
			Status int    `json:"status"`
		}
		if err == nil {
			err = json.Unmarshal(out, &how)
		}
		if err != nil {
			t.Fatalf("%s: %v: %s", sdk, err, out)
		}
		if how.Error != "" {
			return fmt.Errorf("%d %s", how.Status, how.Error)
		}
		return nil
	}
}

func post(path string) func(*http.Request, string) bool {
	return func(r *http.Request, _ string) bool { return r.Method == http.MethodPost && r.URL.Path == path }
}
