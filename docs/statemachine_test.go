// Package docs_test keeps the documentation true: tables are compared with the program, links with files.
package docs_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// moment is a state of an operation in the exploration below, without what does not matter to where it can go.
type moment struct {
	state                                         effectonce.State
	hold                                          effectonce.Hold
	open, exposed, parked, evidence, perm, beyond bool
	epoch, spent                                  int
}

func momentOf(op effectonce.Operation, beyond bool) moment {
	return moment{op.State, op.Hold, op.Open, op.Exposed, op.Parked, op.Evidence != nil, op.Permission != nil, beyond, min(op.Epoch, 1), min(op.Spent, 3)}
}

// causes lists what can happen to an operation, by an actor that is up to date.
func causes(op effectonce.Operation) []effectonce.Cause {
	all := []effectonce.Cause{
		effectonce.Claimed{Owner: "w"}, effectonce.TakenOver{Owner: "w"}, effectonce.Cancelled{Actor: "ann", Reason: "changed"}, effectonce.Expired{}, effectonce.Purged{}, effectonce.Parked{Token: op.Token},
		effectonce.AttemptStarted{Token: op.Token, Line: 7}, effectonce.AttemptStarted{Token: op.Token, Line: 5, DownstreamKey: "next"},
		effectonce.LateSuccess{Attempt: 1, Epoch: 0, End: effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "late"}},
	}
	for _, v := range effectonce.Verdicts {
		for _, authoritative := range []bool{false, true} {
			all = append(all, effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: v, Reference: "re", Authoritative: authoritative}})
		}
	}
	for _, do := range []effectonce.Do{effectonce.DoComplete, effectonce.DoWait, effectonce.DoReview, effectonce.DoFail} {
		for _, found := range []effectonce.Found{effectonce.FoundNone, effectonce.FoundOne, effectonce.FoundMany} {
			if do == effectonce.DoFail && op.MaybeSent() {
				continue // the table never rules so (line 11)
			}
			all = append(all, effectonce.Ruled{Token: op.Token, Ruling: effectonce.Ruling{Do: do}, Finding: effectonce.Finding{Found: found, Reference: "re"}})
		}
	}
	for _, r := range effectonce.Resolutions {
		all = append(all, effectonce.Resolved{Version: op.Version, Resolution: r, Person: "ann", Reason: "seen", Reference: "re", AcceptRisk: true})
	}
	return all
}

// explore follows every cause from a new operation and returns the lines "from | event | to" that occur.
func explore(t *testing.T) []string {
	t.Helper()
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	lines := make(map[string]bool)
	seen := make(map[moment]bool)
	type place struct {
		op  effectonce.Operation
		now time.Time
	}
	var queue []place
	step := func(op effectonce.Operation, cause effectonce.Cause, now time.Time) {
		tr, err := effectonce.Next(op, cause, now)
		if err != nil {
			return
		}
		from := string(tr.Event.From)
		if from == "" {
			from = "none"
		}
		lines[fmt.Sprintf("%s | %s | %s", from, tr.Event.Kind, tr.To.State)] = true
		if m := momentOf(tr.To, now.Sub(start) > 24*time.Hour); !seen[m] {
			seen[m] = true
			queue = append(queue, place{tr.To, now})
		}
	}
	for _, managed := range []bool{false, true} {
		terms := effectonce.Terms{Managed: managed, Attempts: 3, Results: time.Hour}.WithDefaults()
		for _, hold := range []effectonce.Hold{effectonce.HoldNone, effectonce.HoldTwin} {
			for _, claim := range []bool{false, true} {
				op := effectonce.Operation{Key: effectonce.Key{1}, Actor: "agent", Terms: terms}
				step(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: claim, Owner: "w", Hold: hold}, start)
			}
		}
	}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for _, after := range []time.Duration{0, 2 * time.Minute, 25 * time.Hour} {
			for _, cause := range causes(p.op) {
				step(p.op, cause, p.now.Add(after))
			}
		}
	}
	var all []string
	for line := range lines {
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

// S5: the table of docs/state-machine.md is what Next does, no more and no less.
func TestStateMachineTable(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.Contains(line, "---") || strings.Contains(line, "| event |") {
			continue
		}
		for _, to := range strings.Split(cells[2], ",") {
			documented = append(documented, fmt.Sprintf("%s | %s | %s", strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), strings.TrimSpace(to)))
		}
	}
	slices.Sort(documented)
	real := explore(t)
	for _, line := range real {
		if !slices.Contains(documented, line) {
			t.Errorf("docs/state-machine.md lacks: %s", line)
		}
	}
	for _, line := range documented {
		if !slices.Contains(real, line) {
			t.Errorf("docs/state-machine.md has a line that never happens: %s", line)
		}
	}
}
