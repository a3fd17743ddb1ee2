package sim

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

var (
	seedFlag     = flag.Uint64("sim.seed", 1, "seed of the simulator's first schedule")
	durationFlag = flag.Duration("sim.duration", 0, "how long the simulator runs; 0 for a fixed number of schedules")
	schedules    = flag.Int("sim.schedules", 0, "how many schedules the simulator runs; 0 for as many as fit, or a few thousand")
	rulesFlag    = flag.String("sim.rules", "", "the only rules to watch, separated by commas")
	kindsFlag    []Kind
	planFlag     = flag.String("sim.plan", "", "a plan to replay instead")
)

func init() {
	flag.Func("sim.kind", "a kind of provider to simulate; may be repeated, none for all", func(s string) error {
		kindsFlag = append(kindsFlag, Kind(s))
		return Kind(s).known()
	})
}

// S5.1, S16: no schedule breaks an invariant.
func TestSimulator(t *testing.T) {
	var rules []string
	if *rulesFlag != "" {
		rules = strings.Split(*rulesFlag, ",")
	}
	if *planFlag != "" {
		p, err := ParsePlan(*planFlag)
		if err != nil {
			t.Fatal(err)
		}
		r := Replay(p, rules...)
		if r.Failure != nil {
			t.Logf("found rule=%s schedules=1 plan=%s", r.Failure.Rule, r.Failure.Plan)
			t.Fatalf("%s", r.Failure)
		}
		t.Logf("%d steps, nothing broken\n%s", r.Steps, replay(p, func(*world) {}).story())
		return
	}
	o := Options{Schedules: *schedules, Duration: *durationFlag, Rules: rules, Kinds: kindsFlag}
	if o.Schedules == 0 && o.Duration == 0 {
		o.Schedules = 5000
		if raced {
			o.Schedules = 500
		}
	}
	r := Run(*seedFlag, o)
	if r.Failure != nil {
		t.Logf("found rule=%s schedules=%d plan=%s", r.Failure.Rule, r.Schedules, r.Failure.Plan)
		t.Fatalf("%s\nrepeat: go test ./fault/sim -run TestSimulator -sim.plan=%q", r.Failure, r.Failure.Plan)
	}
	perMinute := float64(r.Schedules) / r.Elapsed.Minutes()
	t.Logf("%d schedules of %d steps on average in %s, %.0f a minute; a person was needed in %d", r.Schedules, r.Steps/max(r.Schedules, 1), r.Elapsed.Round(time.Millisecond), perMinute, r.Needed)
	t.Logf("%+v", r.Counts)
	if r.Schedules >= 2000 && len(rules) == 0 && len(kindsFlag) == 0 {
		checkReach(t, r.Counts)
	}
}

// checkReach fails if the schedules did not reach what they are for. Of the decision table, lines 1, 4 and 11 need what a provider within its contract in one scope never shows.
func checkReach(t *testing.T, c Counts) {
	t.Helper()
	for _, line := range []int{2, 3, 5, 7, 8, 9, 10, 12} {
		if c.Lines[line] == 0 {
			t.Errorf("line %d of the decision table was never reached", line)
		}
	}
	for _, v := range effectonce.Verdicts {
		if c.Verdicts[v] == 0 {
			t.Errorf("no attempt ended %s", v)
		}
	}
	for _, s := range effectonce.States {
		if s.Final() && c.States[s] == 0 {
			t.Errorf("no operation %s", s)
		}
	}
	if c.Refused == 0 || c.Decided == 0 || c.Lost == 0 || c.Consumed == 0 {
		t.Errorf("no operation was refused by a limit, no decision came second, or no event was done with: %+v", c)
	}
	if c.Late == 0 || c.Beats == 0 || c.Decisions == 0 {
		t.Errorf("no late success, no heartbeat or no decision of a person: %+v", c)
	}
}
