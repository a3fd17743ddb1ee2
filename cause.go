package effectonce

import "time"

// Cause is what makes an operation move; [Next] says how. The concrete causes are the types of this file.
type Cause interface {
	// kind names the transition in the audit.
	kind() EventKind
}

// Recorded brings an operation into being: from none to pending, or to in_progress with its first attempt (S5.3).
type Recorded struct {
	// Operation carries identity, arguments, request, terms, stamp and downstream key; its life is filled in by Next.
	Operation Operation
	// Claim leases it in the same write and starts the first attempt; ignored while it is held.
	Claim bool
	Owner string
	// Hold makes it wait for a person.
	Hold Hold
	// After makes one that is not claimed wait so long before it is due, for a Reason.
	After  time.Duration
	Reason string
}

// Claimed leases a pending operation that is due, and starts an attempt.
type Claimed struct{ Owner, Actor string }

// TakenOver gives an unknown operation, or one whose lease ran out, to a new owner, who may only reconcile (S7.4, S7.8).
type TakenOver struct{ Owner, Actor string }

// AttemptStarted is the write before each send but the first: fenced, and spending a permission to resend if there is
// one (S5.10). With a permission, DownstreamKey is the key of the next epoch.
type AttemptStarted struct {
	Token         int64
	DownstreamKey string
	// Line is the line of the decision table that says so (S7.3).
	Line int
}

// AttemptEnded is the owner's record of its attempt's end.
type AttemptEnded struct {
	Token int64
	End   End
}

// Ruled is the owner's record of a reconciliation that ends its ownership without a send (S7.3).
type Ruled struct {
	Token   int64
	Ruling  Ruling
	Finding Finding
}

// Parked gives an operation back that this worker cannot execute or resend, because only the caller holds the effect
// (S3.10): it waits for the caller until the window closes. A pending one (Token is then ignored) waits for its provider; with After set so
// long, for a Reason, and is then due for whoever can run it.
type Parked struct {
	Token  int64
	After  time.Duration
	Reason string
}

// LateSuccess is a definite success from a worker that lost its lease (S5.8).
type LateSuccess struct {
	Attempt int
	Epoch   int
	End     End
	Actor   string
}

// Resolved is a person's decision on an operation in review (S7.6).
type Resolved struct {
	// Version is the one that the person saw.
	Version    int64
	Resolution Resolution
	Person     string
	Reason     string
	// Reference and Result are what the person confirms.
	Reference string
	Result    []byte
	// AcceptRisk allows an absent resolution before the settle time is over (S5.11).
	AcceptRisk bool
}

// Resolution is what a person decided.
type Resolution string

// The resolutions. The first four end a review, the last two a hold.
const (
	ResolveConfirmed    Resolution = "confirmed"
	ResolveAbsentFail   Resolution = "absent_fail"
	ResolveAbsentResend Resolution = "absent_resend"
	ResolveAbandoned    Resolution = "abandoned"
	ResolveApproved     Resolution = "approved"
	ResolveRejected     Resolution = "rejected"
)

// Resolutions lists all resolutions.
var Resolutions = []Resolution{ResolveConfirmed, ResolveAbsentFail, ResolveAbsentResend, ResolveAbandoned, ResolveApproved, ResolveRejected}

// Cancelled fails a pending operation because a successor takes its place (S3.7).
type Cancelled struct{ Actor, Reason string }

// Expired fails a pending operation that nobody ran in time (S7.5).
type Expired struct{}

func (Recorded) kind() EventKind       { return EventRecorded }
func (Claimed) kind() EventKind        { return EventClaimed }
func (TakenOver) kind() EventKind      { return EventTakenOver }
func (AttemptStarted) kind() EventKind { return EventAttemptStarted }
func (AttemptEnded) kind() EventKind   { return EventAttemptEnded }
func (Ruled) kind() EventKind          { return EventRuled }
func (Parked) kind() EventKind         { return EventParked }
func (LateSuccess) kind() EventKind    { return EventEvidence }
func (Resolved) kind() EventKind       { return EventResolved }
func (Cancelled) kind() EventKind      { return EventCancelled }
func (Expired) kind() EventKind        { return EventExpired }
func (Purged) kind() EventKind         { return EventPurged }

// EventKind names a transition in the audit.
type EventKind string

// The kinds of events.
const (
	EventRecorded       EventKind = "recorded"
	EventClaimed        EventKind = "claimed"
	EventTakenOver      EventKind = "taken_over"
	EventAttemptStarted EventKind = "attempt_started"
	EventAttemptEnded   EventKind = "attempt_ended"
	EventRuled          EventKind = "ruled"
	EventParked         EventKind = "parked"
	EventEvidence       EventKind = "evidence"
	EventResolved       EventKind = "resolved"
	EventCancelled      EventKind = "cancelled"
	EventExpired        EventKind = "expired"
	EventPurged         EventKind = "purged"
)

// Event is one line of the audit: exactly one for each transition, in its transaction (S5.1 I7). Seq is the version that
// the transition made, so (key, seq) is unique. An attempt's row is the event that started it (S5.10).
type Event struct {
	Key     Key       `json:"key"`
	Seq     int64     `json:"seq"`
	At      time.Time `json:"at"`
	Kind    EventKind `json:"kind"`
	From    State     `json:"from,omitempty"`
	To      State     `json:"to"`
	Token   int64     `json:"token,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Epoch   int       `json:"epoch,omitempty"`
	Actor   string    `json:"actor,omitempty"`
	// Sends says that this event opens an attempt: a request follows it.
	Sends   bool    `json:"sends,omitempty"`
	Verdict Verdict `json:"verdict,omitempty"`
	Found   Found   `json:"found,omitempty"`
	// Line is the line of the decision table that decided (S7.3).
	Line       int        `json:"line,omitempty"`
	Resolution Resolution `json:"resolution,omitempty"`
	Reference  string     `json:"reference,omitempty"`
	// Reason is for people.
	Reason string `json:"reason,omitempty"`
	// Risk marks an accepted risk (S5.11, S7.3 line 10).
	Risk bool `json:"risk,omitempty"`
}

// Transition is one change of one operation, ready to be persisted with its event in one transaction. The store applies it
// if the row still has From's version, which is the fence: every change of owner is a new version (S5.1 I4).
type Transition struct {
	// From is the row as it was read, the zero value for a new operation.
	From Operation
	To   Operation
	// Event is the audit line.
	Event Event
	// At is the moment for which the transition was computed.
	At time.Time
}

// Stamp moves the transition to the moment at which the store persists it, by the store's clock: the times it sets keep
// their distance from At (S5.4). All are then as stores keep them: see [StoredTime].
func (t Transition) Stamp(now time.Time) Transition {
	now = StoredTime(now)
	shift := now.Sub(t.At)
	move := func(was, at time.Time) time.Time {
		if at.IsZero() || at.Equal(was) {
			return StoredTime(at)
		}
		return StoredTime(at.Add(shift))
	}
	from, to := t.From, t.To
	to.DueAt = move(from.DueAt, to.DueAt)
	to.OpenedAt = move(from.OpenedAt, to.OpenedAt)
	to.StartedAt = move(from.StartedAt, to.StartedAt)
	to.TakenAt = move(from.TakenAt, to.TakenAt)
	to.RetryAt = move(from.RetryAt, to.RetryAt)
	to.CreatedAt = move(from.CreatedAt, to.CreatedAt)
	to.SettledAt = move(from.SettledAt, to.SettledAt)
	to.PurgeAt = move(from.PurgeAt, to.PurgeAt)
	to.PurgedAt = move(from.PurgedAt, to.PurgedAt)
	to.ForgetAt = StoredTime(to.ForgetAt)
	to.FirstSentAt, to.LastSentAt = StoredTime(to.FirstSentAt), StoredTime(to.LastSentAt)
	to.AsOf = now
	t.To, t.At, t.Event.At = to, now, now
	return t
}
