package policy

import (
	"time"

	"github.com/effectonce/effectonce"
)

// twinsWithinDefault is how long an operation is recent where the policy does not say (S3.8).
const twinsWithinDefault = 24 * time.Hour

// Terms are the rules of an operation as far as the policy has them. What it does not say is zero: the contract or the
// default fills it.
func (t *Tool) Terms() effectonce.Terms {
	s := t.spec
	terms := effectonce.Terms{
		Policy:           t.Version,
		Class:            s.Class,
		CallTimeout:      time.Duration(s.Timeout),
		Grace:            time.Duration(s.Lease.Grace),
		Heartbeat:        time.Duration(s.Lease.Heartbeat),
		Pause:            time.Duration(s.Settle.Pause),
		Transit:          time.Duration(s.Settle.Transit),
		Processing:       time.Duration(s.Settle.Processing),
		Margin:           time.Duration(s.Settle.Margin),
		Attempts:         s.Retry.Attempts,
		Within:           time.Duration(s.Retry.Within),
		Backoff:          time.Duration(s.Retry.Backoff),
		BackoffMax:       time.Duration(s.Retry.BackoffMax),
		ResendWhenAbsent: s.ResendWhenAbsent,
		Approval:         s.Approval,
		Expiry:           time.Duration(s.Expiry),
		Results:          s.Retention.Result.Std(),
	}
	if terms.Class == "" {
		terms.Class = effectonce.ClassNonIdempotent
	}
	if e := s.Contract; e != nil {
		terms.Keyed, terms.Retention, terms.Forever, terms.KeyForm = e.Keyed, time.Duration(e.Retention), e.Forever, e.KeyForm
		terms.LookUp, terms.LagUnknown = e.LookUp, e.LookUp && e.Lag == nil
		if e.Lag != nil {
			terms.Lag = e.Lag.Std()
		}
	}
	switch {
	case s.Twins.Do == "off", terms.Class != effectonce.ClassNonIdempotent:
	case s.Twins.Do == "":
		terms.Twins = effectonce.TwinAllow
	default:
		terms.Twins = effectonce.TwinPolicy(s.Twins.Do)
	}
	if terms.Twins != effectonce.TwinOff {
		terms.TwinsWithin = time.Duration(s.Twins.Within)
		if terms.TwinsWithin == 0 {
			terms.TwinsWithin = twinsWithinDefault
		}
	}
	return terms
}
