package effectonce_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/effectonce/effectonce"
)

var epochStart = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func testTerms() effectonce.Terms {
	t := effectonce.DefaultTerms()
	t.Managed, t.Keyed, t.Retention = true, true, 24*time.Hour
	return t
}

func recordedAt(now time.Time, terms effectonce.Terms, claim bool, hold effectonce.Hold) effectonce.Transition {
	op := effectonce.Operation{
		Key: effectonce.Key{1}, Tenant: "default", Tool: "refund", Scope: effectonce.ScopeBusiness, IntentID: "i", Actor: "agent",
		Terms: terms, Stamp: "stamp", DownstreamKey: "dk0",
	}
	t, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: claim, Owner: "w1", Hold: hold}, now)
	if err != nil {
		panic(err)
	}
	return t
}

// everyOperation lists operations of each state in the shapes that matter to the rules.
func everyOperation(now time.Time) []effectonce.Operation {
	var ops []effectonce.Operation
	for _, state := range effectonce.States {
		for bits := range 1 << 7 {
			has := func(i int) bool { return bits>>i&1 == 1 }
			op := recordedAt(now.Add(-time.Hour), testTerms(), false, "").To
			op.State, op.Version, op.Token, op.Attempt, op.Spent = state, 5, 3, 2, 2
			op.Terms.Managed = has(6)
			op.DueAt = now.Add(time.Minute)
			if has(0) {
				op.DueAt = now.Add(-time.Minute)
			}
			op.Exposed = has(1)
			if op.Exposed {
				op.FirstSentAt, op.LastSentAt = now.Add(-50*time.Minute), now.Add(-40*time.Minute)
			}
			op.StartedAt = now.Add(-50 * time.Minute)
			if has(2) && state == effectonce.StateInProgress {
				op.Open, op.OpenedAt = true, now.Add(-time.Minute)
			}
			if has(3) {
				op.Evidence = &effectonce.Evidence{Attempt: 1, Reference: "re_1"}
			}
			if has(4) && (state == effectonce.StateInProgress || state == effectonce.StateUnknown) {
				op.Permission = &effectonce.Permission{Person: "ann", At: now}
			}
			if has(5) {
				op.Epoch = 1
			}
			if state == effectonce.StatePending && has(2) {
				op.Hold = effectonce.HoldTwin
			}
			if state.Final() || state == effectonce.StateReview {
				op.DueAt = time.Time{}
			}
			if state.Final() && has(0) {
				op.PurgeAt, op.Arguments, op.Result = now.Add(-time.Second), []byte("{}"), []byte("{}")
			}
			ops = append(ops, op)
		}
	}
	return ops
}

func everyCause() []effectonce.Cause {
	causes := []effectonce.Cause{
		effectonce.Recorded{Operation: effectonce.Operation{Key: effectonce.Key{1}, Terms: testTerms()}, Claim: true},
		effectonce.Claimed{Owner: "w2"}, effectonce.TakenOver{Owner: "w2"}, effectonce.Expired{}, effectonce.Cancelled{Actor: "agent", Reason: "other amount"}, effectonce.Purged{},
	}
	for _, token := range []int64{2, 3} {
		causes = append(causes, effectonce.AttemptStarted{Token: token}, effectonce.AttemptStarted{Token: token, DownstreamKey: "dk1"}, effectonce.Parked{Token: token})
		for _, v := range append(slices.Clone(effectonce.Verdicts), "nonsense") {
			for _, authoritative := range []bool{false, true} {
				causes = append(causes, effectonce.AttemptEnded{Token: token, End: effectonce.End{Verdict: v, Reference: "re_9", Authoritative: authoritative}})
			}
		}
		for _, do := range []effectonce.Do{effectonce.DoComplete, effectonce.DoSend, effectonce.DoWait, effectonce.DoReview, effectonce.DoFail, "nonsense"} {
			for _, found := range []effectonce.Found{effectonce.FoundNone, effectonce.FoundOne, effectonce.FoundMany, effectonce.FoundAbsent, effectonce.FoundUnavailable} {
				causes = append(causes, effectonce.Ruled{Token: token, Ruling: effectonce.Ruling{Do: do, Line: 12, Reason: "r"}, Finding: effectonce.Finding{Found: found, Reference: "re_9"}})
			}
		}
	}
	for _, ref := range []string{"", "re_1", "re_9"} {
		for _, epoch := range []int{0, 1} {
			causes = append(causes, effectonce.LateSuccess{Attempt: 1, Epoch: epoch, End: effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: ref}})
		}
	}
	for _, r := range append(slices.Clone(effectonce.Resolutions), "nonsense") {
		for _, version := range []int64{4, 5} {
			for _, risk := range []bool{false, true} {
				causes = append(causes, effectonce.Resolved{Version: version, Resolution: r, Person: "ann", Reason: "seen", Reference: "re_7", AcceptRisk: risk})
			}
		}
	}
	return causes
}

// legal is the table of S5: from each state, the states that a transition may lead to.
var legal = map[effectonce.State][]effectonce.State{
	"":                         {effectonce.StatePending, effectonce.StateInProgress},
	effectonce.StatePending:    {effectonce.StatePending, effectonce.StateInProgress, effectonce.StateFailed},
	effectonce.StateInProgress: {effectonce.StateSucceeded, effectonce.StateFailed, effectonce.StatePending, effectonce.StateUnknown, effectonce.StateInProgress, effectonce.StateReview},
	effectonce.StateUnknown:    {effectonce.StateInProgress, effectonce.StateReview, effectonce.StateSucceeded},
	effectonce.StateReview:     {effectonce.StateSucceeded, effectonce.StateFailed, effectonce.StateInProgress, effectonce.StateAbandoned, effectonce.StateReview},
	effectonce.StateSucceeded:  {effectonce.StateSucceeded},
	effectonce.StateFailed:     {effectonce.StateFailed},
	effectonce.StateAbandoned:  {effectonce.StateAbandoned},
}

// S5, S5.1, S5.2: every cause in every state is answered; what changes obeys the table and the invariants.
func TestNextOverItsWholeInputSpace(t *testing.T) {
	t.Parallel()
	now := epochStart
	moved, refused := 0, 0
	for _, op := range append(everyOperation(now), effectonce.Operation{}) {
		for _, cause := range everyCause() {
			tr, err := effectonce.Next(op, cause, now)
			if err != nil {
				var e *effectonce.Error
				if !errors.As(err, &e) {
					t.Fatalf("%T on %s: an untyped error: %v", cause, op.State, err)
				}
				if tr.To.Version != 0 || tr.Event.Kind != "" {
					t.Fatalf("%T on %s: an error and a transition", cause, op.State)
				}
				refused++
				continue
			}
			moved++
			if problem := broken(op, cause, tr); problem != "" {
				t.Fatalf("%s: %T %+v\non %+v\nto %+v", problem, cause, cause, op, tr.To)
			}
		}
	}
	t.Logf("%d transitions, %d refusals", moved, refused)
}

// broken says which rule a transition breaks, if any.
func broken(op effectonce.Operation, cause effectonce.Cause, tr effectonce.Transition) string {
	to := tr.To
	switch {
	case !slices.Contains(legal[op.State], to.State):
		return fmt.Sprintf("%q to %q is not in the table of S5", op.State, to.State)
	case to.Version != op.Version+1 || tr.Event.Seq != to.Version || tr.Event.From != op.State || tr.Event.To != to.State:
		return "not exactly one event and version for the transition (I7)"
	case to.Token < op.Token:
		return "the fencing token went back (I4)"
	case to.Key.IsZero(), op.Key != (effectonce.Key{}) && to.Key != op.Key:
		return "the identity changed (I5)"
	case to.State == effectonce.StateInProgress && to.DueAt.IsZero(), to.State == effectonce.StateUnknown && to.DueAt.IsZero():
		return "nobody will ever look at it again (I11)"
	case to.State.Final() && !to.DueAt.IsZero() || to.State == effectonce.StateReview && !to.DueAt.IsZero():
		return "the machine would touch what is final or a person's"
	case to.State.Final() && to.Permission != nil:
		return "a permission outlives the operation"
	case tr.Event.Sends && (to.State != effectonce.StateInProgress || !to.Open || to.Attempt != op.Attempt+1):
		return "a send without its attempt on record (S5.10)"
	case to.Epoch != op.Epoch && op.Permission == nil:
		return "a new epoch without a permission (S7.6)"
	}
	if stale(op, cause) {
		return "a stale token or version changed something (I4)"
	}
	if op.State.Final() {
		if _, purged := cause.(effectonce.Purged); purged {
			// What is kept besides the identity goes, and nothing else (S13.1, I5).
			op.Business, op.Arguments, op.Request, op.Result, op.ResultOmitted = nil, nil, nil, nil, to.ResultOmitted
			op.PurgeAt, op.PurgedAt = to.PurgeAt, to.PurgedAt
		}
		to.Evidence, to.Alarm, to.Version, op.Evidence, op.Alarm, op.Version = nil, "", 0, nil, "", 0
		if !reflect.DeepEqual(to, op) {
			return "a final state changed (S5.2)"
		}
		return ""
	}
	return unproved(op, cause, tr)
}

func stale(op effectonce.Operation, cause effectonce.Cause) bool {
	switch c := cause.(type) {
	case effectonce.AttemptStarted:
		return c.Token != op.Token
	case effectonce.AttemptEnded:
		return c.Token != op.Token
	case effectonce.Ruled:
		return c.Token != op.Token
	case effectonce.Parked:
		return c.Token != op.Token && op.State != effectonce.StatePending
	case effectonce.Resolved:
		return c.Version != op.Version
	}
	return false
}

// unproved says which final state lacks what it must rest on (I2, I3).
func unproved(op effectonce.Operation, cause effectonce.Cause, tr effectonce.Transition) string {
	_, person := cause.(effectonce.Resolved)
	switch tr.To.State {
	case effectonce.StateSucceeded:
		end, ended := cause.(effectonce.AttemptEnded)
		ruled, looked := cause.(effectonce.Ruled)
		_, late := cause.(effectonce.LateSuccess)
		byAnswer := ended && end.End.Verdict == effectonce.VerdictSucceeded
		byLook := looked && ruled.Finding.Found == effectonce.FoundOne
		if !byAnswer && !byLook && !late && !person && op.Evidence == nil {
			return "succeeded without evidence (I2)"
		}
	case effectonce.StateFailed:
		end, ended := cause.(effectonce.AttemptEnded)
		authoritative := ended && end.End.Verdict == effectonce.VerdictRejected && end.End.Authoritative
		ruled, looked := cause.(effectonce.Ruled)
		nothing := looked && ruled.Ruling.Do == effectonce.DoFail
		if op.Exposed && !person && !authoritative && !nothing && op.State != effectonce.StatePending {
			return "failed although an attempt may have had an effect (I3)"
		}
	case effectonce.StatePending:
		if op.State == effectonce.StateInProgress && op.Exposed {
			return "pending although an attempt may have had an effect (S5)"
		}
	case effectonce.StateAbandoned:
		if !person {
			return "abandoned by nobody"
		}
	}
	return ""
}

// S5.4: the transition's times move with the store's clock, and the stored ones stay.
func TestStampMovesOnlyWhatTheTransitionSet(t *testing.T) {
	t.Parallel()
	skewed := epochStart.Add(-time.Hour)
	tr := recordedAt(skewed, testTerms(), true, "").Stamp(epochStart)
	op := tr.To
	for name, got := range map[string]time.Time{"created_at": op.CreatedAt, "opened_at": op.OpenedAt, "started_at": op.StartedAt, "event": tr.Event.At} {
		if !got.Equal(epochStart) {
			t.Errorf("%s is %s", name, got)
		}
	}
	if want := epochStart.Add(op.Terms.Lease()); !op.DueAt.Equal(want) {
		t.Errorf("the lease ends %s, want %s", op.DueAt, want)
	}
	end, err := effectonce.Next(op, effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictUnknown}}, skewed)
	if err != nil {
		t.Fatal(err)
	}
	if got := end.Stamp(epochStart.Add(time.Minute)).To; !got.FirstSentAt.Equal(epochStart) || !got.CreatedAt.Equal(epochStart) {
		t.Errorf("first_sent_at %s and created_at %s moved", got.FirstSentAt, got.CreatedAt)
	}
}

// S7.1, S3.8: a held recording sends nothing and waits for a person.
func TestHoldTakesBackTheClaim(t *testing.T) {
	t.Parallel()
	terms := testTerms()
	terms.Twins = effectonce.TwinHold
	for name, tr := range map[string]effectonce.Transition{
		"duplicate": recordedAt(epochStart, terms, true, "").Hold(effectonce.HoldDuplicate),
		"twin":      mustTwin(t, recordedAt(epochStart, terms, true, "")),
	} {
		op := tr.To
		if op.State != effectonce.StatePending || op.Hold == "" || op.Open || op.Token != 0 || op.Attempt != 0 || op.Version != 1 || tr.Event.Sends || tr.Event.To != effectonce.StatePending {
			t.Errorf("%s: %+v %+v", name, op, tr.Event)
		}
		if _, err := effectonce.Next(op, effectonce.Claimed{Owner: "w"}, epochStart); !errors.Is(err, effectonce.ErrHeld) {
			t.Errorf("%s: claimed although held: %v", name, err)
		}
	}
	terms.Twins = effectonce.TwinReject
	if _, err := recordedAt(epochStart, terms, true, "").MarkTwin(effectonce.Key{2}); !errors.Is(err, effectonce.ErrTwinRejected) {
		t.Error(err)
	}
}

func mustTwin(t *testing.T, tr effectonce.Transition) effectonce.Transition {
	t.Helper()
	tr, err := tr.MarkTwin(effectonce.Key{2})
	if err != nil {
		t.Fatal(err)
	}
	if tr.To.TwinOf != (effectonce.Key{2}) {
		t.Error("the twin is not named")
	}
	return tr
}

// S5.1: the invariants along random lives, not only single steps.
func TestRandomLivesKeepTheInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := epochStart
		tr := recordedAt(now, testTerms(), rapid.Bool().Draw(t, "claim"), "")
		op := tr.To
		exposed := false
		// sent is the latest epoch in which an attempt may have reached the provider.
		sent := -1
		causes := everyCause()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "seconds")) * time.Second)
			cause := rapid.SampledFrom(causes).Draw(t, "cause")
			switch c := cause.(type) {
			case effectonce.AttemptEnded:
				c.Token = op.Token
				cause = c
				exposed = exposed || op.Open && op.State == effectonce.StateInProgress && (c.End.Verdict == effectonce.VerdictUnknown || c.End.Verdict == effectonce.VerdictInFlight)
			case effectonce.Ruled:
				c.Token, c.Ruling = op.Token, effectonce.Rule(op, c.Finding.Found, op.RequestScope, op.TakenAt, now)
				cause = c
			case effectonce.AttemptStarted:
				c.Token = op.Token
				if effectonce.Rule(op, effectonce.FoundNone, op.RequestScope, op.TakenAt, now).Do != effectonce.DoSend {
					continue
				}
				cause = c
			case effectonce.Resolved:
				c.Version = op.Version
				cause = c
			}
			next, err := effectonce.Next(op, cause, now)
			if err != nil {
				continue
			}
			if problem := broken(op, cause, next); problem != "" {
				t.Fatalf("%s: %T on %s", problem, cause, op.State)
			}
			if op.Open && !next.To.Open && next.To.LastVerdict != effectonce.VerdictNotSent && next.To.LastVerdict != effectonce.VerdictThrottled {
				sent = op.Epoch
			}
			op = next.To
			if op.State == effectonce.StateFailed && exposed && op.Proof == effectonce.ProofNotSent {
				t.Fatalf("failed as not sent after an exposed attempt")
			}
			if (op.Open || sent == op.Epoch) && op.FirstSent().IsZero() {
				t.Fatalf("exposed without a start for the window (S7.2)")
			}
		}
	})
}

// S7.3, S5.8: what the decision table says can be done: no ruling is refused by the state machine, or its owner would decide the same
// again and again (I11).
func TestRulingsCanBeCarriedOut(t *testing.T) {
	t.Parallel()
	now := epochStart
	rulings := 0
	for _, op := range everyOperation(now) {
		if op.State != effectonce.StateInProgress || op.Open {
			continue
		}
		for _, class := range []effectonce.Class{effectonce.ClassNonIdempotent, effectonce.ClassConvergent} {
			for _, spent := range []int{1, 9} {
				for _, found := range []effectonce.Found{effectonce.FoundNone, effectonce.FoundOne, effectonce.FoundMany, effectonce.FoundAbsent, effectonce.FoundUnavailable} {
					op.Terms.Class, op.Spent = class, spent
					r := effectonce.Rule(op, found, op.RequestScope, now, now)
					var cause effectonce.Cause = effectonce.Ruled{Token: op.Token, Ruling: r, Finding: effectonce.Finding{Found: found, Reference: "re_9"}}
					if r.Do == effectonce.DoSend {
						start := effectonce.AttemptStarted{Token: op.Token, Line: r.Line}
						if op.Permission != nil {
							start.DownstreamKey = "dk1"
						}
						cause = start
					}
					rulings++
					if _, err := effectonce.Next(op, cause, now); err != nil {
						t.Fatalf("%+v by line %d with %q found is refused: %v\non %+v", r.Do, r.Line, found, err, op)
					}
				}
			}
		}
	}
	t.Logf("%d rulings", rulings)
}
