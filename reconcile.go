package effectonce

import "time"

// Situation is everything that the choice after an ambiguous end depends on, as values: the input of [Reconcile]. [Situate]
// makes it from an operation, a look-up's answer and the store's clock.
type Situation struct {
	ScopeChanged     bool  // the operation's scope is not the provider's current one (S3.10)
	Convergent       bool  // repeats are harmless (S11.1)
	Found            Found // what the look-up said; none if there is no look-up
	Evidence         bool  // a late success is stored (S5.8)
	OlderEvidence    bool  // a late success of an older epoch is stored: there may be two effects (S5.8)
	Permission       bool  // an unspent permission to resend (S7.6)
	InFlight         bool  // the provider said in_flight and its wait is not over
	TimeLeft         bool  // total time left (S7.7)
	Keyed            bool  // the provider dedupes by the downstream key
	WindowOpen       bool  // a resend can finish inside the window with its margin (S7.2)
	AttemptsLeft     bool  // attempts left (S7.7)
	OnlyReplay       bool  // the contract says that only a stored error would be replayed (S6.5)
	SettleOver       bool  // nothing sent so far can still take effect (S5.11)
	LookUp           bool  // a look-up exists whose absence is, or may still become, conclusive
	Conclusive       bool  // an absence seen by this look-up is conclusive (S7.1)
	ResendWhenAbsent bool  // the policy's recorded risk (S7.3 line 10)
	NeverSent        bool  // provably nothing was ever sent
}

// Do is what a ruling says to do.
type Do string

// The rulings.
const (
	DoComplete Do = "complete" // with what was found, or with the evidence
	DoSend     Do = "send"     // with the same downstream key, or in a new epoch if Ruling.NewEpoch
	DoWait     Do = "wait"     // and look again; spends no attempt
	DoReview   Do = "review"
	DoFail     Do = "fail"
)

// Ruling is a line of the decision table.
type Ruling struct {
	Do   Do
	Line int
	// NewEpoch sends under a new downstream key; only line 5 does.
	NewEpoch bool
	// Risk is to be marked in the audit as an accepted risk (line 10).
	Risk bool
	// After is the wait of DoWait. Reconcile leaves it 0; Rule fills it in.
	After  time.Duration
	Reason string
}

// Reconcile is the decision table of S7.3: what to do with an operation whose outcome is not known. It is pure and total; the
// first line that matches wins.
func Reconcile(s Situation) Ruling {
	absent := s.Found == FoundAbsent
	switch {
	case s.ScopeChanged:
		return Ruling{Do: DoReview, Line: 1, Reason: "the provider's scope changed since the request was frozen; there it remembers nothing"}
	case s.Evidence, s.OlderEvidence && s.Found == FoundOne:
		// Before line 2 as well: every start of an attempt consults the evidence (S5.8).
		return Ruling{Do: DoComplete, Line: 3, Reason: "a late success is on record"}
	case s.OlderEvidence:
		return Ruling{Do: DoReview, Line: 12, Reason: "a late success of an older epoch is on record: two effects are possible"}
	case s.Convergent && s.AttemptsLeft:
		return Ruling{Do: DoSend, Line: 2, Reason: "convergent: applied again"}
	case s.Found == FoundOne:
		return Ruling{Do: DoComplete, Line: 3, Reason: "found"}
	case s.Found == FoundMany:
		return Ruling{Do: DoReview, Line: 4, Reason: "the look-up found more than one effect"}
	case s.Permission:
		return Ruling{Do: DoSend, Line: 5, NewEpoch: true, Reason: "a person permitted one resend"}
	case s.InFlight && s.TimeLeft:
		return Ruling{Do: DoWait, Line: 6, Reason: "the provider is still working on it"}
	case s.Keyed && s.WindowOpen && s.AttemptsLeft && !s.OnlyReplay:
		return Ruling{Do: DoSend, Line: 7, Reason: "the provider still remembers the key"}
	case !s.SettleOver, s.LookUp && absent && !s.Conclusive:
		return Ruling{Do: DoWait, Line: 8, Reason: "what was sent may still take effect or become visible"}
	case s.Found == FoundUnavailable && s.TimeLeft:
		return Ruling{Do: DoWait, Line: 9, Reason: "the look-up is unavailable"}
	case s.LookUp && absent && s.AttemptsLeft && s.ResendWhenAbsent:
		return Ruling{Do: DoSend, Line: 10, Risk: true, Reason: "conclusively absent; the policy accepts the risk of a resend"}
	case s.NeverSent && !s.AttemptsLeft, s.NeverSent && !s.TimeLeft:
		return Ruling{Do: DoFail, Line: 11, Reason: "nothing was ever executed and the budget is spent"}
	}
	return Ruling{Do: DoReview, Line: 12, Reason: s.why()}
}

// why says which doors were closed, for the person who gets the review.
func (s Situation) why() string {
	switch {
	case s.Convergent:
		return "convergent, and the attempts are spent"
	case s.Found == FoundUnavailable:
		return "the look-up stayed unavailable and no resend is safe"
	case s.OnlyReplay:
		return "the provider stored an error under the key and would only replay it"
	case s.Found == FoundAbsent:
		return "the look-up shows no effect, and nothing allows a resend"
	case s.Keyed && !s.WindowOpen:
		return "the provider may have forgotten the key; a resend could take effect again"
	case s.Keyed:
		return "the attempts are spent and the outcome is not known"
	}
	return "the provider has neither a key nor a look-up that could tell"
}

// Situate describes an operation whose owner looked it up. scope is the provider's current scope; began is a moment, by the
// store's clock, at or before which the look-up began; now is the store's clock.
func Situate(op Operation, f Found, scope string, began, now time.Time) Situation {
	t := op.Terms
	end, forever, window := op.WindowEnd()
	settled := op.SettledBy()
	left := now.Before(op.StartedAt.Add(t.Within)) || op.StartedAt.IsZero()
	return Situation{
		ScopeChanged:     scope != op.RequestScope,
		Convergent:       t.Class == ClassConvergent,
		Found:            f,
		Evidence:         op.Evidence != nil && op.Evidence.Epoch == op.Epoch,
		OlderEvidence:    op.Evidence != nil && op.Evidence.Epoch < op.Epoch,
		Permission:       op.Permission != nil,
		InFlight:         op.LastVerdict == VerdictInFlight && now.Before(op.RetryAt),
		TimeLeft:         left,
		Keyed:            t.Keyed,
		WindowOpen:       window && (forever || now.Before(end)),
		AttemptsLeft:     op.Spent < t.Attempts,
		OnlyReplay:       op.StoredError,
		SettleOver:       !now.Before(settled),
		LookUp:           t.LookUp && (!t.LagUnknown || left),
		Conclusive:       !t.LagUnknown && !began.Before(settled.Add(t.Lag)),
		ResendWhenAbsent: t.ResendWhenAbsent,
		NeverSent:        !op.MaybeSent() && op.FirstSentAt.IsZero(),
	}
}

// Rule situates and reconciles, and says how long a wait is.
func Rule(op Operation, f Found, scope string, began, now time.Time) Ruling {
	r := Reconcile(Situate(op, f, scope, began, now))
	if r.Do != DoWait {
		return r
	}
	pause := op.Terms.backoff(op.Key, op.Looks+1)
	switch {
	case r.Line == 6:
		r.After = op.RetryAt.Sub(now)
	case r.Line == 8 && !op.Terms.LookUp:
		r.After = op.SettledBy().Sub(now)
	case r.Line == 8 && op.Terms.LagUnknown:
		r.After = pause
	case r.Line == 8:
		// Look again early, since the effect may appear; but not much before the moment at which absence counts.
		r.After = min(pause, max(op.SettledBy().Add(op.Terms.Lag).Sub(now), time.Millisecond))
	default:
		r.After = pause
	}
	r.After = max(r.After, time.Millisecond)
	return r
}
