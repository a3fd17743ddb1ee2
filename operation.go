package effectonce

import (
	"time"

	"github.com/effectonce/effectonce/canon"
)

// State is where an operation is in its life (S5).
type State string

// The states. The last three are final: they never change (S5.2).
const (
	StatePending    State = "pending"     // recorded; not started, or held
	StateInProgress State = "in_progress" // leased
	StateUnknown    State = "unknown"     // an attempt's outcome is ambiguous, or its worker died
	StateReview     State = "review"      // needs a person
	StateSucceeded  State = "succeeded"
	StateFailed     State = "failed"    // no effect
	StateAbandoned  State = "abandoned" // a person stopped; whether there was an effect is not known
)

// States lists all states in the order of the specification.
var States = []State{StatePending, StateInProgress, StateUnknown, StateReview, StateSucceeded, StateFailed, StateAbandoned}

// Final reports whether the state never changes again.
func (s State) Final() bool {
	return s == StateSucceeded || s == StateFailed || s == StateAbandoned
}

// Hold says why a pending operation waits for a person.
type Hold string

// The holds.
const (
	HoldNone      Hold = ""
	HoldApproval  Hold = "approval"  // the policy asks for it, or a superseding does (S7.6a, S3.7)
	HoldTwin      Hold = "twin"      // a possible repeat (S3.8)
	HoldDuplicate Hold = "duplicate" // the resource has a duplicate alarm (S7.1)
)

// Operation is the durable row that an intent becomes; there is one per key. It is a value: rules compute a new one,
// the store persists it. Slices in it are never written to after it was made.
type Operation struct {
	Key      Key
	Tenant   string
	Tool     string
	Scope    Scope
	Run      string
	Step     string
	IntentID string
	// Revision counts successors (S3.7); Supersedes is the predecessor and SupersedeReason why.
	Revision        int
	Supersedes      Key
	SupersedeReason string
	// Compensates is the operation that this one undoes (S11.3).
	Compensates Key
	// Aliases are further keys of the operation: those under the other live identity versions of its tool (S3.12).
	Aliases []Key
	// Actor is who recorded the intent.
	Actor string

	// Fingerprint is the hash of Business, the canonical business arguments (S4.1). Arguments is what the caller gave, free
	// text included; it is kept for the audit and never sent (S4.3).
	Fingerprint canon.Digest
	Business    []byte
	Arguments   []byte
	// Request is the frozen request and RequestScope where it is bound for: base URL, API version, account (S3.10).
	Request      []byte
	RequestScope string
	// Resource names what the operation acts on, for holds after a duplicate alarm (S7.1); empty: none.
	Resource string
	// Twin is the digest of what makes a twin (zero: none); TwinOf the recent operation this one resembles (S3.8).
	Twin   canon.Digest
	TwinOf Key
	// Limits are the totals that the operation counts against (S8.3).
	Limits []Limit

	Terms Terms

	// Stamp marks created resources, DownstreamKey goes to the provider; a new Epoch has a new downstream key (S3.9).
	Stamp         string
	DownstreamKey string
	Epoch         int

	State State
	// Hold is set only while pending.
	Hold Hold
	// Reason says why the operation is where it is, for people: "call timed out", "look-up found two".
	Reason string
	// Version grows by one with each transition; Token (the fencing token) with each change of owner.
	Version int64
	Token   int64
	Owner   string
	// DueAt is when the machine looks at the operation next: the end of the lease while in progress, the next try or
	// look while pending or unknown. It is zero in review and when final.
	DueAt time.Time
	// Parked says that the operation waits for its caller, who alone can run it; DueAt is then when it stops waiting.
	Parked bool

	// Attempt is the number of the last attempt; Spent how many count against the budget.
	Attempt int
	Spent   int
	// Open says that the last attempt's end is not recorded yet, and OpenedAt when it started.
	Open     bool
	OpenedAt time.Time
	// StartedAt is the start of the first attempt ever: the total time counts from it (S7.7).
	StartedAt time.Time
	// FirstSentAt is the start of the first ended attempt of this epoch that may have reached the provider (S7.2), LastSentAt of
	// the last one in any epoch. An open attempt counts as well: see FirstSent and LastSent.
	FirstSentAt time.Time
	LastSentAt  time.Time
	// Exposed says that an ended attempt may have had an effect.
	Exposed bool
	// Looks counts looks that waited, for their back-off.
	Looks int
	// TakenAt is when the present owner took over: a look-up by it cannot have begun earlier.
	TakenAt time.Time
	// LastVerdict is how the last attempt ended, StoredError that it said a repeat would only replay its error (S6.5), RetryAt the
	// earliest moment for another attempt by whoever holds the effect: what the provider asked for, or the back-off.
	LastVerdict Verdict
	StoredError bool
	RetryAt     time.Time
	// Permission is an unspent permission to resend (S7.6).
	Permission *Permission
	// Evidence is a late success that has not settled the operation (S5.8).
	Evidence *Evidence
	// Alarm says what people must look at even though the state is final: a contradiction or a duplicate.
	Alarm string

	// Result is the provider's answer as JSON; ResultDigest its SHA-256 even where ResultOmitted says why it is not kept (S6.8).
	Result        []byte
	ResultDigest  canon.Digest
	ResultOmitted string
	// Reference is the provider's id of what was created.
	Reference string
	// Proof says what a success or failure rests on (S5.1 I2, I3).
	Proof Proof
	// Failure is the provider's refusal, for failed.
	Failure *Failure

	CreatedAt time.Time
	SettledAt time.Time
	// ForgetAt is when the identity ends, zero for never (S13.2): after it nothing is recorded under the key, and the row may go.
	ForgetAt time.Time
	// PurgeAt is when a final operation is purged or forgotten, zero for never; PurgedAt when only its identity was left.
	PurgeAt  time.Time
	PurgedAt time.Time

	// AsOf is the store's clock when the row was read or written. It is not stored.
	AsOf time.Time
}

// Proof is what a final state rests on.
type Proof string

// The proofs.
const (
	ProofAnswer   Proof = "answer"   // the provider's answer to an attempt
	ProofLookUp   Proof = "look_up"  // a look-up found the stamp or reference
	ProofLate     Proof = "late"     // a success that came after its worker lost the lease (S5.8)
	ProofPerson   Proof = "person"   // a named person said so (S7.6)
	ProofNotSent  Proof = "not_sent" // provably nothing was ever sent
	ProofRejected Proof = "rejected" // the provider's definitive refusal
)

// Failure is a definitive refusal as the provider gave it, or why nothing was sent.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
	// Status is the HTTP status, 0 where there is none.
	Status int `json:"status,omitempty"`
	// Answer is the whole refusal, for a surface that gives it back as the provider gave it; at most FailureBytesMax bytes, empty where
	// nobody needs it. It is purged like a result.
	Answer string `json:"answer,omitempty"`
}

// Permission is a person's permission for one resend in a new epoch, good for exactly one attempt (S7.6).
type Permission struct {
	Person string `json:"person"`
	Reason string `json:"reason"`
	// Risk says that the settle time was not over and the person accepted that (S5.11).
	Risk bool `json:"risk,omitempty"`
	// At is when it was given.
	At time.Time `json:"at"`
}

// Evidence is a definite success that could not be written by its worker (S5.8).
type Evidence struct {
	Attempt      int          `json:"attempt"`
	Epoch        int          `json:"epoch"`
	Reference    string       `json:"reference,omitempty"`
	Result       []byte       `json:"result,omitempty"`
	ResultDigest canon.Digest `json:"result_digest,omitzero"`
	Omitted      string       `json:"omitted,omitempty"`
}

// LeaseOver reports whether the operation is in progress under a lease that ran out: whoever sees that may take it over
// to reconcile, never to resend (S7.8).
func (op Operation) LeaseOver(now time.Time) bool {
	return op.State == StateInProgress && !now.Before(op.DueAt)
}

// FirstSent is the start of this epoch's first attempt that may have reached the provider, zero if there is none.
// The window counts from it (S7.2).
func (op Operation) FirstSent() time.Time {
	if op.FirstSentAt.IsZero() && op.Open {
		return op.OpenedAt
	}
	return op.FirstSentAt
}

// LastSent is the start of the last attempt that may have reached the provider; the settle time counts from it (S5.11).
func (op Operation) LastSent() time.Time {
	if op.Open {
		return op.OpenedAt
	}
	return op.LastSentAt
}

// MaybeSent reports whether any attempt can have had an effect.
func (op Operation) MaybeSent() bool { return op.Exposed || op.Open }

// SettledBy is the moment after which nothing sent so far can still take effect (S5.11); zero if nothing was sent.
func (op Operation) SettledBy() time.Time {
	last := op.LastSent()
	if last.IsZero() {
		return time.Time{}
	}
	return last.Add(op.Terms.CallTimeout + op.Terms.Settle())
}

// WindowEnd is the last moment at which a resend with the same downstream key may still be decided: its call and the
// margin must fit before the provider forgets the key (S7.2). ok is false where no window justifies any resend.
func (op Operation) WindowEnd() (end time.Time, forever, ok bool) {
	t := op.Terms
	switch {
	case !t.Keyed, !t.Forever && t.Retention <= 0:
		return time.Time{}, false, false
	case t.Forever, op.FirstSent().IsZero():
		return time.Time{}, true, true
	}
	return op.FirstSent().Add(t.Retention - t.CallTimeout - t.WindowMargin()), false, true
}

// expiresAt is when a pending operation fails because nobody ran it (S7.5).
func (op Operation) expiresAt() time.Time { return op.CreatedAt.Add(op.Terms.Expiry) }

// nextStep is when the next step may be taken: by the machine, or, for a parked operation, by its caller.
func (op Operation) nextStep() time.Time {
	if op.Parked {
		return op.RetryAt
	}
	return op.DueAt
}

// waitsForCaller is the moment until which an unresolved operation waits for the caller that holds its effect: the end of
// the window, or of the total time where there is none (S3.10). Then it goes to review.
func (op Operation) waitsForCaller() time.Time {
	until := op.SettledBy()
	if limit := op.StartedAt.Add(op.Terms.Within); limit.After(until) {
		until = limit
	}
	if end, forever, ok := op.WindowEnd(); ok && !forever && end.After(until) {
		until = end
	}
	if p := op.Permission; p != nil && p.At.Add(op.Terms.Expiry).After(until) {
		until = p.At.Add(op.Terms.Expiry)
	}
	return until
}

// Identity returns what the key was computed from.
func (op Operation) Identity() Identity {
	return Identity{Tenant: op.Tenant, Tool: op.Tool, Scope: op.Scope, Run: op.Run, Step: op.Step, IntentID: op.IntentID, Revision: op.Revision}
}
