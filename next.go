package effectonce

import (
	"fmt"
	"time"
)

// Next computes what a cause does to an operation at the moment now, by the store's clock: the state machine of S5, a pure
// and total function. The errors are [ErrStaleToken] and [ErrStaleVersion] for an actor that lost its standing,
// [ErrNotAllowed] where the state does not allow the cause, and [ErrInvalid] for an incomplete one. On an error nothing
// changes.
func Next(op Operation, cause Cause, now time.Time) (Transition, error) {
	m := move{t: Transition{From: op, To: op, At: now}, now: now}
	m.to = &m.t.To
	m.t.Event = Event{Key: op.Key, Kind: cause.kind(), From: op.State, Actor: op.Owner}

	var err error
	switch c := cause.(type) {
	case Recorded:
		err = m.recorded(c)
	case Claimed:
		err = m.claimed(c)
	case TakenOver:
		err = m.takenOver(c)
	case AttemptStarted:
		err = m.attemptStarted(c)
	case AttemptEnded:
		err = m.attemptEnded(c)
	case Ruled:
		err = m.ruled(c)
	case Parked:
		err = m.parked(c)
	case LateSuccess:
		err = m.lateSuccess(c)
	case Resolved:
		err = m.resolved(c)
	case Cancelled:
		err = m.cancelled(c)
	case Expired:
		err = m.expired()
	case Purged:
		err = m.purged()
	default:
		err = &Error{Code: CodeInternal, Detail: fmt.Sprintf("unknown cause %T", cause)}
	}
	if err != nil {
		return Transition{}, err
	}

	m.to.Version++
	e := &m.t.Event
	e.Key, e.Seq, e.At, e.To, e.Token, e.Epoch = m.to.Key, m.to.Version, now, m.to.State, m.to.Token, m.to.Epoch
	if e.Attempt == 0 {
		e.Attempt = m.to.Attempt
	}
	if e.Reason == "" {
		e.Reason = m.to.Reason
	}
	if e.Reference == "" && m.to.State == StateSucceeded {
		e.Reference = m.to.Reference
	}
	return m.t, nil
}

// move is a transition in the making.
type move struct {
	t   Transition
	to  *Operation
	now time.Time
}

func (m *move) recorded(c Recorded) error {
	if m.t.From.State != "" {
		return notAllowed(m.t.From, "recording")
	}
	op := c.Operation
	*m.to = op
	m.to.Version, m.to.Token = 0, 0
	m.to.CreatedAt = m.now
	m.to.State, m.to.Hold = StatePending, c.Hold
	m.t.Event.Actor = op.Actor
	if !op.Compensates.IsZero() {
		m.t.Event.Reason = "compensates " + op.Compensates.String()
		if op.Reason != "" {
			m.t.Event.Reason += ": " + op.Reason
		}
	}
	m.to.DueAt = m.now
	if c.Hold != HoldNone {
		m.to.DueAt = m.to.expiresAt()
		m.to.Reason = "held: " + string(c.Hold)
		return nil
	}
	if !c.Claim {
		m.parkPending()
		m.postpone(c.After, c.Reason)
		return nil
	}
	m.own(c.Owner)
	m.open()
	m.actor(op.Actor, c.Owner)
	return nil
}

// Hold turns the recording of an operation into that of a held one; it is for a store that finds, while it inserts, that
// the resource has a duplicate alarm (S7.1) or that the operation is a twin (S3.8).
func (t Transition) Hold(why Hold) Transition {
	op := t.To
	op.Owner, op.Token, op.Attempt, op.Spent = "", 0, 0, 0
	op.Open, op.OpenedAt, op.StartedAt, op.DueAt = false, time.Time{}, time.Time{}, time.Time{}
	m := move{t: Transition{To: op, At: t.At, Event: t.Event}, now: t.At}
	m.to = &m.t.To
	// The cause is the one that Next has just accepted, so it cannot be refused.
	_ = m.recorded(Recorded{Operation: op, Hold: why})
	m.to.Version = t.To.Version
	e := &m.t.Event
	e.To, e.Sends, e.Attempt, e.Token, e.Reason = m.to.State, false, 0, 0, m.to.Reason
	return m.t
}

// MarkTwin marks a recording as the twin of another operation, and holds or rejects it where its terms say so (S3.8). The
// error is [ErrTwinRejected] with the twin's key.
func (t Transition) MarkTwin(of Key) (Transition, error) {
	if t.To.Terms.Twins == TwinReject {
		return Transition{}, &Error{Code: CodeTwinRejected, Key: of, Detail: "operation " + of.Short() + " has the same business content under another intent"}
	}
	if t.To.Terms.Twins == TwinHold && t.To.Hold == HoldNone {
		t = t.Hold(HoldTwin)
	}
	t.To.TwinOf = of
	t.Event.Reason = "twin of " + of.String()
	return t, nil
}

func (m *move) claimed(c Claimed) error {
	op := m.t.From
	if op.State != StatePending {
		return notAllowed(op, "claiming")
	}
	if op.Hold != HoldNone {
		return &Error{Code: CodeHeld, Key: op.Key, Detail: "it is held: " + string(op.Hold)}
	}
	m.own(c.Owner)
	m.open()
	m.actor(c.Actor, c.Owner)
	return nil
}

func (m *move) takenOver(c TakenOver) error {
	op := m.t.From
	if op.State != StateUnknown && !op.LeaseOver(m.now) {
		if op.State == StateInProgress {
			return &Error{Code: CodeConflict, Key: op.Key, Detail: "somebody else holds the lease", RetryAfter: op.DueAt.Sub(m.now)}
		}
		return notAllowed(op, "taking over")
	}
	if op.Open {
		m.close(VerdictUnknown)
	}
	m.own(c.Owner)
	if op.Open {
		m.to.Reason = "the worker did not record the attempt's end"
	}
	m.to.TakenAt = m.now
	m.actor(c.Actor, c.Owner)
	return nil
}

func (m *move) attemptStarted(c AttemptStarted) error {
	op := m.t.From
	if err := m.owner(c.Token, "starting an attempt"); err != nil {
		return err
	}
	if op.Open {
		return notAllowed(op, "starting a second attempt at the same time")
	}
	if op.Evidence != nil {
		return &Error{Code: CodeStaleVersion, Key: op.Key, Detail: "evidence of a success arrived"}
	}
	if op.Permission != nil {
		if c.DownstreamKey == "" {
			return &Error{Code: CodeStaleVersion, Key: op.Key, Detail: "a permission to resend was given meanwhile"}
		}
		m.to.Epoch++
		m.to.DownstreamKey = c.DownstreamKey
		m.to.FirstSentAt = time.Time{}
		m.to.StoredError = false
		m.t.Event.Risk = op.Permission.Risk
		m.to.Permission = nil
	} else if c.DownstreamKey != "" {
		return &Error{Code: CodeStaleVersion, Key: op.Key, Detail: "the permission to resend was spent or cancelled"}
	}
	m.to.DueAt = m.now.Add(op.Terms.Lease())
	m.open()
	m.t.Event.Line = c.Line
	if c.Line == 10 {
		m.t.Event.Risk = true
	}
	return nil
}

func (m *move) attemptEnded(c AttemptEnded) error {
	op := m.t.From
	if err := m.owner(c.Token, "recording an end"); err != nil {
		return err
	}
	if !op.Open {
		return notAllowed(op, "recording an end without an attempt")
	}
	end := c.End
	m.t.Event.Verdict = end.Verdict
	m.t.Event.Reference = end.Reference
	// exposed before this attempt: what a refusal now cannot speak for, unless it is authoritative (S6.4).
	exposed := op.Exposed
	m.close(end.Verdict)
	m.to.StoredError = end.StoredError
	pause := m.pause(end.RetryAfter)
	m.to.RetryAt = m.now.Add(pause)
	reason := end.Failure.Message
	if reason == "" {
		reason = end.Failure.Code
	}

	switch end.Verdict {
	case VerdictSucceeded:
		m.succeed(ProofAnswer, end.Result, end.Reference, end.Omitted, end)
		return m.contradicting(op)
	case VerdictRejected:
		if !exposed || end.Authoritative {
			return m.failOrEvidence(end.Failure, ProofRejected)
		}
		reason = "refused, which says nothing about an earlier attempt: " + reason
	case VerdictNotSent, VerdictThrottled:
		if !exposed {
			if m.budgetLeft() {
				m.release(StatePending, pause, reason)
				m.parkPending()
				return nil
			}
			if end.Verdict == VerdictNotSent {
				return m.failOrEvidence(end.Failure, ProofNotSent)
			}
			if !op.Terms.LookUp {
				return m.failOrEvidence(end.Failure, ProofRejected)
			}
			// Something was sent, and something in between may have delivered it twice: look before giving up.
		}
	case VerdictInFlight:
		if m.timeLeft() {
			// Asking again spends no attempt, as long as there is total time: that bounds it.
			m.to.Spent--
		}
	}
	if m.settleByEvidence() {
		return nil
	}
	m.release(StateUnknown, pause, reason)
	return nil
}

func (m *move) ruled(c Ruled) error {
	if err := m.owner(c.Token, "recording a reconciliation"); err != nil {
		return err
	}
	if m.t.From.Open {
		return notAllowed(m.t.From, "reconciling during an attempt")
	}
	m.t.Event.Found, m.t.Event.Line = c.Finding.Found, c.Ruling.Line
	reason := c.Ruling.Reason
	if c.Finding.Detail != "" {
		reason += ": " + c.Finding.Detail
	}
	switch c.Ruling.Do {
	case DoComplete:
		if c.Finding.Found == FoundOne {
			m.succeed(ProofLookUp, c.Finding.Result, c.Finding.Reference, c.Finding.Omitted, End{Digest: c.Finding.Digest})
			return nil
		}
		if !m.settleByEvidence() {
			return invalid("ruling", "completes without a finding or evidence", "")
		}
	case DoWait:
		m.to.Looks++
		m.release(StateUnknown, max(c.Ruling.After, time.Millisecond), reason)
	case DoReview:
		if c.Finding.Found == FoundMany {
			m.to.Alarm = "duplicate: the look-up found more than one"
		}
		m.release(StateReview, 0, reason)
	case DoFail:
		if m.to.LastVerdict == VerdictThrottled {
			return m.failOrEvidence(Failure{Code: "not_executed", Message: reason}, ProofRejected)
		}
		return m.failOrEvidence(Failure{Code: "not_sent", Message: reason}, ProofNotSent)
	default:
		return invalid("ruling", fmt.Sprintf("%q does not end an ownership", c.Ruling.Do), "")
	}
	return nil
}

func (m *move) parked(c Parked) error {
	if m.t.From.State == StatePending && c.After > 0 {
		m.to.Parked = false
		m.parkPending()
		m.postpone(c.After, c.Reason)
		return nil
	}
	if m.t.From.State == StatePending {
		m.to.Parked = true
		m.to.DueAt = m.now.Add(m.to.Terms.Within)
		if end := m.to.expiresAt(); end.Before(m.to.DueAt) {
			m.to.DueAt = end
		}
		m.to.Reason = "waits for its provider"
		return nil
	}
	if err := m.owner(c.Token, "parking"); err != nil {
		return err
	}
	op := m.t.From
	if op.Open {
		return notAllowed(op, "parking during an attempt")
	}
	until := op.waitsForCaller()
	if !until.After(m.now) {
		return notAllowed(op, "waiting any longer for the caller")
	}
	m.release(StateUnknown, until.Sub(m.now), "waits for the caller, who holds the effect")
	m.to.Parked = true
	return nil
}

// failureSuperseded is the failure of an operation that was cancelled for its successor.
const failureSuperseded = "superseded"

func (m *move) cancelled(c Cancelled) error {
	if m.t.From.State != StatePending {
		return notAllowed(m.t.From, "cancelling")
	}
	m.t.Event.Actor = c.Actor
	m.fail(Failure{Code: failureSuperseded, Message: c.Reason}, ProofNotSent)
	return nil
}

func (m *move) expired() error {
	op := m.t.From
	if op.State != StatePending {
		return notAllowed(op, "expiring")
	}
	if m.now.Before(op.expiresAt()) {
		return &Error{Code: CodeNotAllowed, Key: op.Key, Detail: "it has not expired yet"}
	}
	m.t.Event.Actor = "effectonce"
	m.fail(Failure{Code: "expired", Message: "nobody ran it before it expired"}, ProofNotSent)
	return nil
}

// own makes owner the leaseholder under a new fencing token.
func (m *move) own(owner string) {
	m.to.State = StateInProgress
	m.to.Hold = HoldNone
	m.to.Parked = false
	m.to.Reason = ""
	m.to.Owner = owner
	m.to.Token++
	m.to.DueAt = m.now.Add(m.to.Terms.Lease())
	m.t.Event.Actor = owner
}

func (m *move) actor(actor, owner string) {
	if actor == "" {
		actor = owner
	}
	m.t.Event.Actor = actor
}

// owner checks that the fencing token is the current one (S5.1 I4).
func (m *move) owner(token int64, what string) error {
	op := m.t.From
	if op.State != StateInProgress || token != op.Token {
		return &Error{Code: CodeStaleToken, Key: op.Key, Detail: fmt.Sprintf("%s with token %d, the operation is %s under token %d", what, token, op.State, op.Token)}
	}
	return nil
}

// open starts an attempt: from here on it may reach the provider (S5.10).
func (m *move) open() {
	m.to.Attempt++
	m.to.Spent++
	m.to.Open = true
	m.to.OpenedAt = m.now
	m.to.LastVerdict = ""
	m.to.RetryAt = time.Time{}
	if m.to.StartedAt.IsZero() {
		m.to.StartedAt = m.now
	}
	m.t.Event.Sends = true
}

// close ends the open attempt. Unless it certainly had no effect, the window and the settle time count from its start.
func (m *move) close(v Verdict) {
	op := m.t.From
	m.to.Open = false
	m.to.OpenedAt = time.Time{}
	m.to.LastVerdict = v
	if v == VerdictNotSent || v == VerdictThrottled {
		return
	}
	m.to.LastSentAt = op.OpenedAt
	if m.to.FirstSentAt.IsZero() {
		m.to.FirstSentAt = op.OpenedAt
	}
	if v != VerdictRejected {
		m.to.Exposed = true
	}
}

// release gives up the lease; the operation is due after a pause (0: never by itself).
func (m *move) release(to State, after time.Duration, reason string) {
	m.to.State = to
	m.to.Owner = ""
	if to == StateReview {
		m.to.Permission = nil
	}
	m.to.Reason = reason
	m.to.DueAt = time.Time{}
	if after > 0 {
		m.to.DueAt = m.now.Add(after)
	}
}

// pause is the longer of what the provider asked for and the back-off.
func (m *move) pause(asked time.Duration) time.Duration {
	return max(asked, m.to.Terms.backoff(m.to.Key, m.to.Spent))
}

// parkPending leaves a pending operation that nobody but its caller can run to the caller until it expires.
func (m *move) parkPending() {
	if m.to.Terms.Managed {
		return
	}
	m.to.Parked = true
	m.to.DueAt = m.to.expiresAt()
}

// postpone makes a pending operation due later, for whoever can run it.
func (m *move) postpone(after time.Duration, reason string) {
	if after <= 0 {
		return
	}
	m.to.Reason = reason
	m.to.RetryAt = m.now.Add(after)
	if m.to.Parked {
		return
	}
	m.to.DueAt = m.to.RetryAt
	if end := m.to.expiresAt(); end.Before(m.to.DueAt) {
		m.to.DueAt = end
	}
}

func (m *move) timeLeft() bool { return m.now.Before(m.to.StartedAt.Add(m.to.Terms.Within)) }

func (m *move) budgetLeft() bool { return m.to.Spent < m.to.Terms.Attempts && m.timeLeft() }

func (m *move) succeed(p Proof, result []byte, reference, omitted string, end End) {
	m.settle(StateSucceeded, p)
	m.to.Result, m.to.Reference, m.to.ResultOmitted, m.to.ResultDigest = result, reference, omitted, end.Digest
	m.to.Reason = ""
}

func (m *move) fail(f Failure, p Proof) {
	m.settle(StateFailed, p)
	m.to.Failure = &f
	m.to.Reason = f.Message
}

func (m *move) settle(s State, p Proof) {
	m.release(s, 0, "")
	m.to.Hold = HoldNone
	m.to.Parked = false
	m.to.RetryAt = time.Time{}
	m.to.Proof = p
	m.to.SettledAt = m.now
	m.to.PurgeAt = m.purgeAt()
	m.to.Permission = nil
}
