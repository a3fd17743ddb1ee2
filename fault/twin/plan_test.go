package twin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParsePlan(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line string
		want Plan
	}{
		{"", nil},
		{" ; ", nil},
		{"refunds#1 after-effect drop", Plan{{Target: TargetRefunds, From: 1, To: 1, When: AfterEffect, What: Drop}}},
		{"refunds#2 before-effect status=503;", Plan{{Target: TargetRefunds, From: 2, To: 2, When: BeforeEffect, What: Status, Code: 503}}},
		{"refunds#* after-effect hang=40s", Plan{{Target: TargetRefunds, When: AfterEffect, What: Hang, For: 40 * time.Second}}},
		{"lookup#1 status=500", Plan{{Target: TargetLookup, From: 1, To: 1, When: Instead, What: Status, Code: 500}}},
		{"refunds#1 hold=2s", Plan{{Target: TargetRefunds, From: 1, To: 1, When: BeforeEffect, What: Hold, For: 2 * time.Second}}},
		{"any#2-4 slow=1ms; refunds#1 twice", Plan{
			{Target: TargetAny, From: 2, To: 4, When: AfterEffect, What: Slow, For: time.Millisecond},
			{Target: TargetRefunds, From: 1, To: 1, When: BeforeEffect, What: Twice},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			got, err := ParsePlan(tt.line)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParsePlanRefuses(t *testing.T) {
	t.Parallel()
	for line, word := range map[string]string{
		"refunds#1":                          "want TARGET#COUNT",
		"refunds#1 after-effect drop please": "want TARGET#COUNT",
		"charges#1 drop":                     "none of refunds, lookup, any",
		"refunds drop":                       "count is missing",
		"refunds#0 drop":                     "count",
		"refunds#-1 drop":                    "count",
		"refunds#3-2 drop":                   "ends before it begins",
		"refunds#1 explode":                  "none of drop",
		"refunds#1 sometimes drop":           "none of instead",
		"refunds#1 hang":                     "duration",
		"refunds#1 hang=-1s":                 "duration",
		"refunds#1 status=99":                "200 to 599",
		"refunds#1 drop=1":                   "no value",
		"refunds#1 after-effect hold=1s":     "before-effect",
		"refunds#1 instead slow=1s":          "slow can be",
		"lookup#1 twice":                     "a look-up has none",
	} {
		_, err := ParsePlan("any#9 drop; " + line)
		if err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: %v, want it refused naming the step and %q", line, err, word)
		}
	}
}

func TestPlanRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var plan Plan
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			s := Step{
				Target: rapid.SampledFrom([]Target{TargetRefunds, TargetLookup, TargetAny}).Draw(t, "target"),
				When:   rapid.SampledFrom([]When{Instead, BeforeEffect, AfterEffect}).Draw(t, "when"),
				What: rapid.SampledFrom([]What{Drop, Reset, Hang, Status, Cut, Garble, Foreign, Slow, Twice, Hold}).
					Draw(t, "what"),
			}
			if rapid.Bool().Draw(t, "counted") {
				s.From = rapid.IntRange(1, 100).Draw(t, "from")
				s.To = s.From + rapid.IntRange(0, 3).Draw(t, "more")
			}
			switch s.What {
			case Hang, Slow, Hold:
				s.For = time.Duration(rapid.Int64Range(1, int64(48*time.Hour)).Draw(t, "for"))
			case Status:
				s.Code = rapid.IntRange(200, 599).Draw(t, "code")
			}
			if s.check() != nil {
				continue
			}
			plan = append(plan, s)
		}
		line := plan.String()
		if strings.Contains(line, "\n") {
			t.Fatalf("more than one line: %q", line)
		}
		got, err := ParsePlan(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if diff := cmp.Diff(plan, got); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", line, diff)
		}
	})
}

func FuzzParsePlan(f *testing.F) {
	f.Add("refunds#1 after-effect drop; refunds#2-3 before-effect status=503; lookup#* status=500")
	f.Fuzz(func(t *testing.T, line string) {
		plan, err := ParsePlan(line)
		if err != nil {
			return
		}
		again, err := ParsePlan(plan.String())
		if err != nil || again.String() != plan.String() {
			t.Fatalf("%q prints as %q, which reads as %q (%v)", line, plan, again, err)
		}
	})
}
