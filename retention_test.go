package effectonce_test

import (
	"errors"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// settledAt returns an operation that succeeded at now, with a result.
func settledAt(t *testing.T, now time.Time, results time.Duration, forgetAt time.Time, reference string) effectonce.Operation {
	t.Helper()
	terms := testTerms()
	terms.Results = results
	op := recordedAt(now, terms, true, "").To
	op.ForgetAt = forgetAt
	op.Business, op.Arguments, op.Request = []byte(`{"a":1}`), []byte(`{"a":1}`), []byte(`{"a":1}`)
	tr, err := effectonce.Next(op, effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictSucceeded, Result: []byte(`{}`), Reference: reference}}, now)
	if err != nil {
		t.Fatal(err)
	}
	return tr.To
}

// S13.1: a purge leaves a tombstone that answers by its reference, or refuses as expired.
func TestPurgeLeavesATombstone(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string]error{"re_1": nil, "": effectonce.ErrExpired} {
		op := settledAt(t, epochStart, time.Hour, time.Time{}, reference)
		if want := epochStart.Add(time.Hour); !op.PurgeAt.Equal(want) {
			t.Fatalf("purge at %s, want %s", op.PurgeAt, want)
		}
		if _, err := effectonce.Next(op, effectonce.Purged{}, op.PurgeAt.Add(-time.Microsecond)); !errors.Is(err, effectonce.ErrNotAllowed) {
			t.Errorf("purged too early: %v", err)
		}
		tr, err := effectonce.Next(op, effectonce.Purged{}, op.PurgeAt)
		if err != nil {
			t.Fatal(err)
		}
		stone := tr.To
		if len(stone.Business)+len(stone.Arguments)+len(stone.Request)+len(stone.Result) != 0 || stone.ResultOmitted != effectonce.OmittedPurged {
			t.Errorf("something is left: %+v", stone)
		}
		if stone.Key != op.Key || stone.Fingerprint != op.Fingerprint || stone.State != op.State || stone.Reference != reference || !stone.PurgeAt.IsZero() {
			t.Errorf("the identity changed: %+v", stone)
		}
		if err := effectonce.OutcomeOf(stone, true).Err(); !errors.Is(err, want) {
			t.Errorf("reference %q: %v, want %v", reference, err, want)
		}
		if _, err := effectonce.Next(stone, effectonce.Purged{}, stone.PurgedAt.Add(time.Hour)); !errors.Is(err, effectonce.ErrNotAllowed) {
			t.Errorf("purged twice: %v", err)
		}
	}
}

// S13.2: an identity with an end is not recorded after it, and is looked at again when it may be forgotten.
func TestIdentityWithAnEnd(t *testing.T) {
	t.Parallel()
	end := epochStart.Add(24 * time.Hour)
	op := settledAt(t, epochStart, time.Hour, end, "re_1")
	tr, err := effectonce.Next(op, effectonce.Purged{}, op.PurgeAt)
	if err != nil {
		t.Fatal(err)
	}
	if !tr.To.PurgeAt.Equal(end) {
		t.Errorf("looked at again %s, want %s", tr.To.PurgeAt, end)
	}
	if kept := settledAt(t, epochStart, 48*time.Hour, end, ""); !kept.PurgeAt.Equal(end) {
		t.Errorf("a result outlives its identity: %s", kept.PurgeAt)
	}
	if late := settledAt(t, end.Add(time.Hour), 0, end, ""); !late.PurgeAt.Equal(end.Add(time.Hour)) {
		t.Errorf("settled after its end, looked at %s", late.PurgeAt)
	}
	recording := effectonce.Transition{To: effectonce.Operation{Key: effectonce.Key{1}, ForgetAt: end}}
	if err := recording.Admit(end.Add(-time.Microsecond)); err != nil {
		t.Error(err)
	}
	if err := recording.Admit(end); !errors.Is(err, effectonce.ErrExpired) {
		t.Errorf("recorded after the end of its identity: %v", err)
	}
}

// A refusal that is kept whole is purged like a result; what it means stays. (S13.1)
func TestPurgingTakesTheAnswerOfARefusal(t *testing.T) {
	t.Parallel()
	op := settledAt(t, epochStart, time.Hour, time.Time{}, "re_1")
	op.State, op.Result = effectonce.StateFailed, nil
	op.Failure = &effectonce.Failure{Code: "card_declined", Status: 402, Answer: `{"error":{}}`}
	tr, err := effectonce.Next(op, effectonce.Purged{}, op.PurgeAt)
	if err != nil {
		t.Fatal(err)
	}
	if f := tr.To.Failure; f.Answer != "" || f.Code != "card_declined" || f.Status != 402 {
		t.Errorf("the failure became %+v", *f)
	}
	if op.Failure.Answer == "" {
		t.Error("purging changed the operation that it was given")
	}
}
