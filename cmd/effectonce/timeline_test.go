package main

import (
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
)

func TestEveryEventIsTold(t *testing.T) {
	t.Parallel()
	base := effectonce.Event{Actor: "worker-1", Attempt: 2, From: effectonce.StateUnknown, To: effectonce.StateInProgress}
	for _, tt := range []struct {
		name string
		make func(*effectonce.Event)
		want string
	}{
		{"recorded", func(e *effectonce.Event) { e.Kind, e.Sends, e.From = effectonce.EventRecorded, true, "" }, "recorded by worker-1, leased, and attempt 2 begins"},
		{"claimed", func(e *effectonce.Event) { e.Kind = effectonce.EventClaimed }, "worker-1 leases it and begins attempt 2 (unknown → in_progress)"},
		{"taken over", func(e *effectonce.Event) { e.Kind = effectonce.EventTakenOver }, "worker-1 takes it over"},
		{"started", func(e *effectonce.Event) { e.Kind, e.Line, e.Risk = effectonce.EventAttemptStarted, 10, true }, "attempt 2 begins, by line 10 of the decision table, as an accepted risk"},
		{"ended", func(e *effectonce.Event) {
			e.Kind, e.Verdict, e.Reason = effectonce.EventAttemptEnded, effectonce.VerdictUnknown, "call timed out"
		}, "attempt 2 ends: what it did is not known: call timed out"},
		{"confirmed", func(e *effectonce.Event) {
			e.Kind, e.Verdict, e.Reference = effectonce.EventAttemptEnded, effectonce.VerdictSucceeded, "re_1"
		}, "the provider confirms, effect re_1"},
		{"ruled", func(e *effectonce.Event) { e.Kind, e.Found, e.Line = effectonce.EventRuled, effectonce.FoundAbsent, 8 }, "the look-up finds nothing, line 8 of the decision table"},
		{"parked", func(e *effectonce.Event) { e.Kind = effectonce.EventParked }, "it waits for the caller"},
		{"evidence", func(e *effectonce.Event) { e.Kind, e.Reference = effectonce.EventEvidence, "re_2" }, "a late success of attempt 2 arrives, effect re_2"},
		{"resolved", func(e *effectonce.Event) {
			e.Kind, e.Resolution, e.Reason = effectonce.EventResolved, effectonce.ResolveAbandoned, "enough"
		}, `worker-1 decides: abandoned ("enough")`},
		{"cancelled", func(e *effectonce.Event) { e.Kind = effectonce.EventCancelled }, "a successor is recorded in its place: it is cancelled, nothing was sent"},
		{"expired", func(e *effectonce.Event) { e.Kind = effectonce.EventExpired }, "nobody ran it in time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := base
			tt.make(&e)
			if got := sentence(e); !strings.Contains(got, tt.want) {
				t.Errorf("%q, want it to say %q", got, tt.want)
			}
		})
	}
	for _, v := range effectonce.Verdicts {
		if got := verdictWords(effectonce.Event{Verdict: v}); got == string(v) {
			t.Errorf("verdict %s has no words", v)
		}
	}
}

// Text that a model wrote cannot move the cursor or hide what stands before it.
func TestTextOfOthersIsShownAndNotObeyed(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain, ünïcode":       "plain, ünïcode",
		"\x1b[2Jgone":          "\uFFFD[2Jgone",
		"a\nb\tc":              "a\uFFFDb\uFFFDc",
		"paid \u202Eton\u202C": "paid \uFFFDton\uFFFD",
	} {
		if got := printed(in); got != want {
			t.Errorf("printed(%q) = %q, want %q", in, got, want)
		}
	}
}
