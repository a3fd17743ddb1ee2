package fault_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/effectonce/effectonce/fault"
)

func TestPlanReads(t *testing.T) {
	t.Parallel()
	plan, err := fault.ParsePlan(" crash after create; crash before apply:attempt_ended#2 ;error before apply:*; pause 5s before call#1; stop after call#2-3;error after send:POST;")
	if err != nil {
		t.Fatal(err)
	}
	want := fault.Plan{
		{What: fault.Crash, When: fault.After, Point: fault.PointCreate},
		{What: fault.Crash, When: fault.Before, Point: fault.PointApply, Detail: "attempt_ended", From: 2, To: 2},
		{What: fault.Error, When: fault.Before, Point: fault.PointApply, Detail: fault.Any},
		{What: fault.Pause, For: 5 * time.Second, When: fault.Before, Point: fault.PointCall, From: 1, To: 1},
		{What: fault.Stop, When: fault.After, Point: fault.PointCall, From: 2, To: 3},
		{What: fault.Error, When: fault.After, Point: fault.PointSend, Detail: "POST"},
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Error(diff)
	}
	line := "crash after create; crash before apply:attempt_ended#2; error before apply:*; pause 5s before call#1; stop after call#2-3; error after send:POST"
	if plan.String() != line {
		t.Errorf("printed %q", plan)
	}
}

func TestPlanRefuses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"explode after create":          "none of crash",
		"crash":                         "crash after create",
		"crash during create":           "neither before nor after",
		"crash after birth":             "none of create",
		"crash after create:x":          "no detail",
		"crash after apply":             "apply:attempt_ended",
		"crash after apply:nothing":     "apply:attempt_ended",
		"error after send:post":         "send:POST",
		"crash after create#0":          "from 1",
		"crash after create#3-2":        "ends before",
		"pause before call":             "no duration",
		"pause":                         "needs a duration",
		"pause -1s before call":         "no duration",
		"crash after create#1 and more": "want WHAT",
	} {
		_, err := fault.ParsePlan(line)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

func TestPlanPrintsAndParsesAsOneLine(t *testing.T) {
	t.Parallel()
	step := rapid.Custom(func(t *rapid.T) fault.Step {
		s := fault.Step{
			What:  rapid.SampledFrom([]fault.What{fault.Crash, fault.Stop, fault.Pause, fault.Error}).Draw(t, "what"),
			When:  rapid.SampledFrom([]fault.When{fault.Before, fault.After}).Draw(t, "when"),
			Point: rapid.SampledFrom([]fault.Point{fault.PointCreate, fault.PointApply, fault.PointExtend, fault.PointLoad, fault.PointDue, fault.PointCall, fault.PointLookUp, fault.PointSend}).Draw(t, "point"),
		}
		if s.What == fault.Pause {
			s.For = time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "for"))
		}
		switch s.Point {
		case fault.PointApply:
			s.Detail = rapid.SampledFrom([]string{fault.Any, "claimed", "taken_over", "attempt_ended", "ruled"}).Draw(t, "kind")
		case fault.PointSend:
			s.Detail = rapid.SampledFrom([]string{fault.Any, "GET", "POST"}).Draw(t, "method")
		}
		if rapid.Bool().Draw(t, "counted") {
			s.From = rapid.IntRange(1, 9).Draw(t, "from")
			s.To = s.From + rapid.IntRange(0, 9).Draw(t, "more")
		}
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		plan := fault.Plan(rapid.SliceOfN(step, 0, 5).Draw(t, "plan"))
		again, err := fault.ParsePlan(plan.String())
		if err != nil {
			t.Fatal(err)
		}
		if len(plan)+len(again) > 0 && !cmp.Equal(plan, again) {
			t.Fatalf("%q became %q", plan, again)
		}
	})
}
