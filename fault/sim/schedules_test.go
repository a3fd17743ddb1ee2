package sim

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// named are the schedules that broke earlier drafts of the protocol, each with the rule taken out that prevents it. In the plans a
// word like run:w1*4 stands for four of them.
var named = []struct {
	name  string
	fault string
	rules []string
	plan  string
}{
	{
		name:  "1 the key expires while a resend is on its way",
		fault: "no margin", rules: []string{"I1"},
		plan: "kind=keyed | do:w1:o1 run:w1*4 deliver:m1 finish:m1 reset:w1 run:w1*2 tick:6 do:w2:o1 run:w2*9 tick:2 run:w2 deliver:m2 finish:m2",
	},
	{
		name:  "2 absent was seen before the effect and is used after it",
		fault: "absence judged by when it is used", rules: []string{"I1"},
		plan: "kind=look_up_resend | do:w1:o1 run:w1*3 tick:2 do:w2:o1 run:w2*5 run:w1 deliver:m1 finish:m1 tick:5 run:w2*7 deliver:m2 finish:m2",
	},
	{
		name:  "3 the lag is counted too early",
		fault: "absent trusted before the lag", rules: []string{"I1"},
		plan: "kind=look_up_resend transit=1 | do:w1:o1 run:w1*3 tick:2 run:w1 tick:1 deliver:m1 tick:1 finish:m1 tick:1 do:w2:o1 run:w2*12 deliver:m2 finish:m2",
	},
	{
		name:  "4 a person says absent while the request is still at the provider",
		fault: "no settle time", rules: []string{"I3"},
		plan: "kind=none processing=3 | do:w1:o1 run:w1*4 deliver:m1 crash:w1 tick:2 do:w2:o1 run:w2*8 absent:o1 finish:m1",
	},
	{
		name:  "4 and permits a resend",
		fault: "no settle time", rules: []string{"I1"},
		plan: "kind=none processing=3 | do:w1:o1 run:w1*4 deliver:m1 crash:w1 tick:2 do:w2:o1 run:w2*8 resend:o1 do:w2:o1 run:w2*10 deliver:m2 finish:m1 finish:m2",
	},
	{
		name:  "5 in flight, and the answer is lost for good",
		fault: "in-flight waits have no end", rules: []string{"I11"},
		plan: "kind=keyed | do:w1:o1 run:w1*4 deliver:m1 reset:w1 run:w1*2 tick:1 do:w2:o1 run:w2*10 deliver:m2 run:w2*3 finish:m1",
	},
	{
		name:  "6 a permission to resend, and no look-up",
		fault: "permission to resend after review", rules: []string{"S7.6"},
		plan: "kind=none | do:w1:o1 run:w1*4 drop:m1 crash:w1 tick:5 do:w2:o1 run:w2*8 resend:o1 do:w2:o1 run:w2*10 deliver:m2 finish:m2",
	},
	{
		name:  "7 recorded, and the agent leaves",
		fault: "pending operations are left to their agents", rules: []string{"S7.5"},
		plan: "kind=keyed | record:w1:o1 run:w1*2",
	},
	{
		name:  "8 a late success while another attempt is open",
		fault: "evidence is not consulted again", rules: []string{"S5.8"},
		plan: "kind=keyed | do:w1:o1 run:w1*4 deliver:m1 finish:m1 tick:2 do:w2:o1 run:w2*10 run:w1*9 drop:m2 tick:2 reset:w2 run:w2*3 tick:2",
	},
	{
		name:  "9 waiting spends the attempts",
		fault: "waiting spends attempts", rules: []string{"S16"},
		plan: "kind=look_up_resend | do:w1:o1 run:w1*2 crash:w1",
	},
	{
		name:  "11 a late success of a convergent tool while another attempt is open",
		fault: "a convergent tool is applied beside evidence", rules: []string{"S9.1"},
		plan: "kind=look_up_resend intents=2 call=2 transit=1 processing=0 lag=0 retention=11 attempts=2 within=5 steps=1 inbox | event:w1:r1 run:w1 consume:w2 run:w1 run:w2*5 tick:5 consume:w1 run:w1*12 crash:w1",
	},
}

// expand reads a plan whose words may be repeated with *n.
func expand(t *testing.T, line string) Plan {
	t.Helper()
	setting, choices, _ := strings.Cut(line, "|")
	var words []string
	for _, word := range strings.Fields(choices) {
		word, times, repeated := strings.Cut(word, "*")
		n := 1
		if repeated {
			var err error
			if n, err = strconv.Atoi(times); err != nil {
				t.Fatal(err)
			}
		}
		words = append(words, slices.Repeat([]string{word}, n)...)
	}
	p, err := ParsePlan(setting + "| " + strings.Join(words, " "))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// S5.11, S6.4, S7.1 to S7.7: each schedule is harmless with its rule, and breaks without it.
func TestNamedSchedules(t *testing.T) {
	t.Parallel()
	for _, s := range named {
		t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p := expand(t, s.plan)
			if r := Replay(p); r.Failure != nil {
				t.Fatalf("with the rule: %s", r.Failure)
			}
			rule, _, _, out := planted(t, s.fault, s.rules, "-sim.plan="+p.String())
			if !slices.Contains(s.rules, rule) {
				t.Fatalf("without the rule %q is found broken, want one of %v\n%s", rule, s.rules, out)
			}
		})
	}
}

// S6.4, schedule 10: one POST is delivered twice, one copy is answered 401 and the other takes effect. The rule is the adapter's: a
// refusal in front of the provider is not definitive where the network may deliver twice.
func TestScheduleOfOneRequestDeliveredTwice(t *testing.T) {
	t.Parallel()
	p := expand(t, "kind=keyed twice | do:w1:o1 run:w1*4 twice:m1 deny:m1 run:w1*3 deliver:m2 finish:m2")
	for _, trusting := range []bool{false, true} {
		w := replay(p, func(w *world) { w.trusting = trusting })
		if failed := w.violation != nil && w.violation.Rule == "I3"; failed != trusting {
			t.Errorf("trusting %v: %+v\n%s", trusting, w.violation, w.story())
		}
	}
}

// S5.1 I4: the store's fence is needed as well as the guard's.
func TestStoreWithoutFence(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20000) {
		plan, w := random(seed, Options{Kinds: Kinds})
		if w.violation != nil {
			t.Fatalf("with the fence: %+v", w.violation)
		}
		if w = replay(plan, func(w *world) { w.unfenced = true }); w.violation != nil {
			t.Logf("%s after %d schedules: %s", w.violation.Rule, seed+1, w.violation.Detail)
			return
		}
	}
	t.Error("a store without a fence is not noticed")
}

// S10.1, S9.1: a journal whose second writer wins, and an inbox that marks an event as seen before it is stored, are noticed.
func TestWrongJournalAndInbox(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, rule string
		spoil      func(*world)
	}{
		{"the second decision wins", "I9", func(w *world) { w.overwriting = true }},
		{"an event is marked as seen before it is stored", "S9.1", func(w *world) { w.marking = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20000) {
				plan, w := random(seed, Options{Kinds: Kinds})
				if w.violation != nil {
					t.Fatalf("as it is: %+v", w.violation)
				}
				if len(w.flows) == 0 {
					continue
				}
				if w = replay(plan, c.spoil); w.violation != nil {
					if w.violation.Rule != c.rule {
						t.Errorf("%s is found broken, want %s: %s", w.violation.Rule, c.rule, w.violation.Detail)
					}
					t.Logf("%s after %d schedules: %s", w.violation.Rule, seed+1, w.violation.Detail)
					return
				}
			}
			t.Error("nobody notices")
		})
	}
}
