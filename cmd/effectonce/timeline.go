package main

import (
	"fmt"

	"github.com/effectonce/effectonce"
)

// sentence tells an audit event in plain words.
func sentence(e effectonce.Event) string {
	s := sentenceOf(e)
	if e.Reason != "" && e.Kind != effectonce.EventResolved {
		s += ": " + e.Reason
	}
	if e.From != e.To && e.From != "" {
		s += fmt.Sprintf(" (%s → %s)", e.From, e.To)
	}
	return printed(s)
}

func sentenceOf(e effectonce.Event) string {
	switch e.Kind {
	case effectonce.EventRecorded:
		s := "recorded"
		if e.Actor != "" {
			s += " by " + e.Actor
		}
		if e.Sends {
			s += fmt.Sprintf(", leased, and attempt %d begins", e.Attempt)
		}
		return s
	case effectonce.EventClaimed:
		return fmt.Sprintf("%s leases it and begins attempt %d", e.Actor, e.Attempt)
	case effectonce.EventTakenOver:
		return e.Actor + " takes it over, to find out what it did"
	case effectonce.EventAttemptStarted:
		s := fmt.Sprintf("attempt %d begins", e.Attempt)
		if e.Line > 0 {
			s += fmt.Sprintf(", by line %d of the decision table", e.Line)
		}
		if e.Risk {
			s += ", as an accepted risk"
		}
		return s
	case effectonce.EventAttemptEnded:
		return fmt.Sprintf("attempt %d ends: %s", e.Attempt, verdictWords(e))
	case effectonce.EventRuled:
		return rulingWords(e)
	case effectonce.EventParked:
		return "nobody but its caller can run it: it waits for the caller"
	case effectonce.EventEvidence:
		return fmt.Sprintf("a late success of attempt %d arrives%s", e.Attempt, referenceWords(e))
	case effectonce.EventResolved:
		s := fmt.Sprintf("%s decides: %s", e.Actor, e.Resolution)
		if e.Reference != "" {
			s += ", effect " + e.Reference
		}
		if e.Risk {
			s += ", accepting the risk that what was sent still takes effect"
		}
		if e.Reason != "" {
			s += fmt.Sprintf(" (%q)", e.Reason)
		}
		return s
	case effectonce.EventCancelled:
		return "a successor is recorded in its place: it is cancelled, nothing was sent"
	case effectonce.EventExpired:
		return "nobody ran it in time: it expires"
	case effectonce.EventPurged:
		return "kept long enough: all but its identity and reference is purged"
	}
	return string(e.Kind)
}

func verdictWords(e effectonce.Event) string {
	switch e.Verdict {
	case effectonce.VerdictSucceeded:
		return "the provider confirms" + referenceWords(e)
	case effectonce.VerdictRejected:
		return "the provider refuses"
	case effectonce.VerdictNotSent:
		return "nothing was sent"
	case effectonce.VerdictThrottled:
		return "the provider did not execute it"
	case effectonce.VerdictInFlight:
		return "the provider is still working on it"
	case effectonce.VerdictUnknown:
		return "what it did is not known"
	}
	return string(e.Verdict)
}

func rulingWords(e effectonce.Event) string {
	s := "decided"
	switch e.Found {
	case effectonce.FoundOne:
		s = "the look-up finds the effect" + referenceWords(e)
	case effectonce.FoundMany:
		s = "the look-up finds more than one effect"
	case effectonce.FoundAbsent:
		s = "the look-up finds nothing"
	case effectonce.FoundUnavailable:
		s = "the look-up has no answer"
	}
	if e.Line > 0 {
		s += fmt.Sprintf(", line %d of the decision table", e.Line)
	}
	return s
}

func referenceWords(e effectonce.Event) string {
	if e.Reference == "" {
		return ""
	}
	return ", effect " + e.Reference
}
