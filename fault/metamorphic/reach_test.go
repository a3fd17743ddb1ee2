package metamorphic_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/effectonce/effectonce"
)

// reach counts what workloads have been through, so that one that reaches nothing is noticed.
type reach map[string]int

func (r reach) note(a answer) {
	r.failure(a.Err)
	for _, one := range a.Said {
		switch one := one.(type) {
		case answer:
			r.note(one)
		case failure:
			r.failure(one)
		case effectonce.Operation:
			r.operation(one)
		case []effectonce.Operation:
			for _, op := range one {
				r.operation(op)
			}
		case []effectonce.Event:
			for _, e := range one {
				r["event "+string(e.Kind)]++
				r[fmt.Sprintf("line %d", e.Line)]++
				r["resolution "+string(e.Resolution)]++
			}
		case effectonce.Claim:
			r["task "+string(one.Do)]++
		}
	}
}

func (r reach) failure(f failure) {
	r["code "+string(f.Code)]++
	if f.Other != "" {
		r["raw error"]++
	}
}

func (r reach) operation(op effectonce.Operation) {
	r["state "+string(op.State)]++
	r["hold "+string(op.Hold)]++
	for name, is := range map[string]bool{
		"alarm": op.Alarm != "", "evidence": op.Evidence != nil, "purged": !op.PurgedAt.IsZero(), "twin": !op.TwinOf.IsZero(),
		"successor": op.Revision > 0, "epoch": op.Epoch > 0, "compensation": !op.Compensates.IsZero(), "aliases": len(op.Aliases) > 0,
	} {
		if is {
			r[name]++
		}
	}
}

// wanted is what a few workloads must have been through.
var wanted = func() []string {
	all := []string{"alarm", "evidence", "purged", "twin", "successor", "epoch", "compensation", "aliases"}
	for _, s := range effectonce.States {
		all = append(all, "state "+string(s))
	}
	for _, h := range []effectonce.Hold{effectonce.HoldApproval, effectonce.HoldTwin, effectonce.HoldDuplicate} {
		all = append(all, "hold "+string(h))
	}
	for _, k := range []effectonce.EventKind{
		effectonce.EventRecorded, effectonce.EventClaimed, effectonce.EventTakenOver, effectonce.EventAttemptStarted, effectonce.EventAttemptEnded,
		effectonce.EventRuled, effectonce.EventParked, effectonce.EventEvidence, effectonce.EventResolved, effectonce.EventCancelled,
		effectonce.EventExpired, effectonce.EventPurged,
	} {
		all = append(all, "event "+string(k))
	}
	for _, l := range []int{2, 3, 4, 5, 7, 8, 9, 10, 12} {
		all = append(all, fmt.Sprintf("line %d", l))
	}
	for _, r := range effectonce.Resolutions {
		all = append(all, "resolution "+string(r))
	}
	for _, task := range []effectonce.Task{effectonce.TaskExecute, effectonce.TaskLookUp, effectonce.TaskDone, effectonce.TaskWait, effectonce.TaskReview} {
		all = append(all, "task "+string(task))
	}
	for _, c := range []effectonce.Code{
		effectonce.CodeConflict, effectonce.CodeStaleToken, effectonce.CodeStaleVersion, effectonce.CodePayloadMismatch, effectonce.CodeTwinRejected,
		effectonce.CodeLimitExceeded, effectonce.CodeRunFinished, effectonce.CodeExpired, effectonce.CodeNotFound, effectonce.CodeNotAllowed, effectonce.CodeSupersede,
	} {
		all = append(all, "code "+string(c))
	}
	return all
}()

func (r reach) check(t *testing.T) {
	t.Helper()
	for _, what := range wanted {
		if r[what] == 0 {
			t.Errorf("no workload came to: %s", what)
		}
	}
	if r["raw error"] > 0 || r["code "+string(effectonce.CodeInternal)] > 0 {
		t.Errorf("%d errors are none of the project's, %d are internal", r["raw error"], r["code "+string(effectonce.CodeInternal)])
	}
}

func (r reach) String() string {
	var all []string
	for what, n := range r {
		all = append(all, fmt.Sprintf("%s: %d", what, n))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}
