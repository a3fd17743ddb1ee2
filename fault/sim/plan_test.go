package sim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlanPrintsAndParsesAsOneLine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		plan, _ := random(seed, Options{Kinds: Kinds})
		line := plan.String()
		if strings.Contains(line, "\n") {
			t.Fatalf("more than a line: %q", line)
		}
		back, err := ParsePlan(line)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plan, back); diff != "" {
			t.Fatalf("%s\n%s", line, diff)
		}
	}
}

func TestParsePlanSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"do:w1:o1", "SETTING | CHOICES"},
		{"| do:w1:o1", "kind="},
		{"kind=magic |", "none of"},
		{"kind=keyed colour=2 |", "not known"},
		{"kind=keyed pause=x |", "number"},
		{"kind=keyed workers=0 |", "workers"},
		{"kind=keyed retention=2 |", "retention"},
		{"kind=keyed | jump:w1", "begins with none of"},
		{"kind=keyed | do:w1", "parts"},
		{"kind=keyed | do:1:o1", "begins with w"},
		{"kind=keyed | tick:0", "number from 1"},
	} {
		if _, err := ParsePlan(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want it to say %q", c.line, err, c.want)
		}
	}
}

// A plan whose choices are taken out or make no sense still runs.
func TestReplaySkipsWhatIsNotPossible(t *testing.T) {
	t.Parallel()
	p, err := ParsePlan("kind=none | run:w1 deliver:m9 do:w7:o1 confirm:o1 do:w1:o1 do:w1:o1 finish:m1 crash:w2 tick:3")
	if err != nil {
		t.Fatal(err)
	}
	if r := Replay(p); r.Failure != nil {
		t.Fatal(r.Failure)
	}
}

// The same seed is the same schedule, and its plan replays to the same end.
func TestRunsAreDeterministic(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		plan, w := random(seed, Options{Kinds: Kinds})
		again, v := random(seed, Options{Kinds: Kinds})
		if diff := cmp.Diff(plan, again); diff != "" || w.story() != v.story() {
			t.Fatalf("seed %d is not the same twice\n%s", seed, diff)
		}
		if r := replay(plan, func(*world) {}); r.story() != w.story() {
			t.Fatalf("seed %d replays differently:\n%s\nreplayed:\n%s", seed, w.story(), r.story())
		}
	}
}

// Shrinking keeps what is needed to break the rule, and little else.
func TestShrink(t *testing.T) {
	t.Parallel()
	p := expand(t, "kind=keyed twice workers=3 | do:w2:o1 run:w2 crash:w2 tick:1 tick:2 do:w1:o1 run:w1*9 do:w3:o1 run:w3*2 twice:m1 tick:1 twice:m1 deny:m1 run:w1*3 do:w2:o1 deliver:m2 tick:1 finish:m2")
	short := shrink(p, func(p Plan) bool {
		return strings.Contains(p.String(), "twice:m1") && strings.Contains(p.String(), "tick:2")
	})
	if got, want := short.String(), "kind=keyed workers=3 twice | tick:2 twice:m1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if same := Shrink(p); len(same.Choices) != len(p.Choices) {
		t.Errorf("a plan that breaks nothing was shrunk to %s", same)
	}
}

// S5.1: a run whose plan breaks a rule says which, with the seed, a plan that repeats it, and what happened.
func TestFailureTellsHowToRepeatIt(t *testing.T) {
	t.Parallel()
	f := &Failure{Seed: 7, Violation: Violation{Rule: "I1", Detail: "operation 1 has 2 effects"}, Plan: Plan{Setting: SmallSetting(Keyed)}, Story: "what happened"}
	for _, want := range []string{"I1", "2 effects", "seed 7", "plan kind=keyed |", "what happened"} {
		if !strings.Contains(f.String(), want) {
			t.Errorf("%q is missing in %q", want, f)
		}
	}
}
