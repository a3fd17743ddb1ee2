package effectonce

import (
	"hash/fnv"
	"time"
)

// Class says what a repeat of a tool does (S11.2).
type Class string

// The classes. A tool nobody classified is non_idempotent.
const (
	ClassReadOnly      Class = "read_only"      // no effect: not stored, not guarded
	ClassConvergent    Class = "convergent"     // repeats are harmless: applied again
	ClassNonIdempotent Class = "non_idempotent" // the machinery
)

// TwinPolicy says what happens to a new operation that looks like a recent one under another intent (S3.8).
type TwinPolicy string

// The twin policies. The zero value is off.
const (
	TwinOff    TwinPolicy = ""       // not looked for; costs nothing
	TwinAllow  TwinPolicy = "allow"  // marked
	TwinHold   TwinPolicy = "hold"   // marked, and held until a person approves
	TwinReject TwinPolicy = "reject" // refused; nothing is stored
)

// Terms are the rules of one operation: what the tool's policy and the provider's contract said at its first claim.
// They are stored with the operation and keep applying to it, so that no later change can widen what is allowed
// (S3.11). All durations are positive; zero means what its comment says.
type Terms struct {
	// Policy and Contract are the versions (digests) that the terms were made from, empty in library use without them.
	Policy   string `json:"policy,omitempty"`
	Contract string `json:"contract,omitempty"`

	Class Class `json:"class,omitempty"`

	// Managed says that Effectonce itself holds the provider: background workers may execute and resend. Where it is
	// false the effect is in the caller's hands, and an unresolved operation waits for the caller (S3.10).
	Managed bool `json:"managed,omitempty"`

	// CallTimeout bounds one call, counted from before the claim (S5.4).
	CallTimeout time.Duration `json:"call_timeout"`
	// Grace is added to CallTimeout for the lease, so that an answer in the last moment can still be recorded.
	Grace time.Duration `json:"grace"`
	// Heartbeat, if set, makes the lease this long and lets the owner extend it while it calls, so that a dead
	// owner is noticed early although calls are long (S5.4). Zero: the lease is CallTimeout + Grace, not extended.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`

	// Pause, Transit and Processing are the parts of the settle time (S5.11): the longest pause between a worker's last
	// check and its first byte, the longest transit, the provider's longest processing.
	Pause      time.Duration `json:"pause"`
	Transit    time.Duration `json:"transit"`
	Processing time.Duration `json:"processing"`

	// Keyed says that the provider dedupes by the downstream key, for Retention (zero or less: unpublished, so that no
	// resend can be justified; see Forever).
	Keyed     bool          `json:"keyed,omitempty"`
	Retention time.Duration `json:"retention,omitempty"`
	// Forever says that the provider remembers the key as long as the resource exists.
	Forever bool    `json:"forever,omitempty"`
	KeyForm KeyForm `json:"key_form,omitzero"`
	// Margin is added to Settle for the window (S7.2); the window's margin is never less than the settle time.
	Margin time.Duration `json:"margin,omitempty"`

	// LookUp says that the provider can be asked what an operation did; Lag is how far that view may be behind (S7.1).
	LookUp bool          `json:"look_up,omitempty"`
	Lag    time.Duration `json:"lag,omitempty"`
	// LagUnknown says that nobody published how far behind the view may be: it can find an effect, and its absence is never
	// conclusive (S14.5).
	LagUnknown bool `json:"lag_unknown,omitempty"`

	// Attempts and Within bound sends and total time (S7.7); Backoff and BackoffMax pace them.
	Attempts   int           `json:"attempts"`
	Within     time.Duration `json:"within"`
	Backoff    time.Duration `json:"backoff"`
	BackoffMax time.Duration `json:"backoff_max"`

	// ResendWhenAbsent lets a conclusively absent effect be sent again where no key protects it (S7.3 line 10).
	ResendWhenAbsent bool `json:"resend_when_absent,omitempty"`

	// Approval holds every operation until a person approves it (S7.6a).
	Approval bool `json:"approval,omitempty"`

	// Expiry is how long an operation may stay pending; then it fails visibly (S7.5).
	Expiry time.Duration `json:"expiry"`

	// Results is how long arguments, request and result are kept after the operation settled; zero: for ever (S13.1).
	Results time.Duration `json:"results,omitempty"`

	// Twins and TwinsWithin: the twin alert (S3.8).
	Twins       TwinPolicy    `json:"twins,omitempty"`
	TwinsWithin time.Duration `json:"twins_within,omitempty"`
}

// DefaultTerms are the terms of a tool that nobody described: not idempotent, no key, no look-up. An ambiguous end of
// such an operation stops for a person.
func DefaultTerms() Terms {
	return Terms{
		Class:       ClassNonIdempotent,
		CallTimeout: 30 * time.Second,
		Grace:       30 * time.Second,
		Pause:       30 * time.Second,
		Transit:     30 * time.Second,
		Processing:  60 * time.Second,
		Attempts:    4,
		Within:      30 * time.Minute,
		Backoff:     2 * time.Second,
		BackoffMax:  time.Minute,
		Expiry:      24 * time.Hour,
	}
}

// WithDefaults fills what is zero and has a default from [DefaultTerms].
func (t Terms) WithDefaults() Terms {
	d := DefaultTerms()
	fill := func(v *time.Duration, by time.Duration) {
		if *v == 0 {
			*v = by
		}
	}
	if t.Class == "" {
		t.Class = d.Class
	}
	fill(&t.CallTimeout, d.CallTimeout)
	fill(&t.Grace, d.Grace)
	fill(&t.Pause, d.Pause)
	fill(&t.Transit, d.Transit)
	fill(&t.Processing, d.Processing)
	fill(&t.Within, d.Within)
	fill(&t.Backoff, d.Backoff)
	fill(&t.BackoffMax, d.BackoffMax)
	fill(&t.Expiry, d.Expiry)
	if t.Attempts == 0 {
		t.Attempts = d.Attempts
	}
	return t
}

// Check returns an [ErrInvalid] for terms that would be dangerous or cannot work, naming the field.
func (t Terms) Check() error {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{
		{"call_timeout", t.CallTimeout}, {"grace", t.Grace}, {"pause", t.Pause}, {"transit", t.Transit}, {"processing", t.Processing},
		{"within", t.Within}, {"backoff", t.Backoff}, {"backoff_max", t.BackoffMax}, {"expiry", t.Expiry},
	} {
		if f.d <= 0 {
			return invalid("terms."+f.name, "must be positive", "leave it out for the default")
		}
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"heartbeat", t.Heartbeat}, {"retention", t.Retention}, {"margin", t.Margin}, {"lag", t.Lag}, {"results", t.Results}, {"twins_within", t.TwinsWithin}} {
		if f.d < 0 {
			return invalid("terms."+f.name, "is negative", "leave it out for none")
		}
	}
	switch t.Class {
	case ClassReadOnly, ClassConvergent, ClassNonIdempotent:
	default:
		return invalid("terms.class", "is not a class", "use read_only, convergent or non_idempotent")
	}
	switch t.Twins {
	case TwinOff, TwinAllow, TwinHold, TwinReject:
	default:
		return invalid("terms.twins", "is not a twin policy", "use allow, hold, reject or leave it out")
	}
	if t.Attempts < 1 {
		return invalid("terms.attempts", "must be at least 1", "leave it out for the default")
	}
	if t.Keyed && !t.Forever && t.Retention > 0 && t.Retention <= t.CallTimeout+t.WindowMargin() {
		return invalid("terms.retention", "the provider forgets the key before a resend could finish", "shorten call_timeout or the settle times, or leave keyed out")
	}
	return nil
}

// Settle is the settle time (S5.11).
func (t Terms) Settle() time.Duration { return t.Pause + t.Transit + t.Processing }

// WindowMargin is the margin of the window, at least the settle time (S7.2).
func (t Terms) WindowMargin() time.Duration { return t.Settle() + t.Margin }

// Lease is the time for which a claim owns the operation (S5.4).
func (t Terms) Lease() time.Duration {
	if t.Heartbeat > 0 {
		return t.Heartbeat
	}
	return t.LeaseCap()
}

// LeaseCap bounds a lease with all its extensions, counted from the attempt's start.
func (t Terms) LeaseCap() time.Duration { return t.CallTimeout + t.Grace }

// backoff is the pause after the nth attempt or look: exponential with jitter between half and whole. The jitter comes
// from the key and n, so that it needs no randomness and two operations do not march in step.
func (t Terms) backoff(key Key, n int) time.Duration {
	d := t.Backoff
	for i := 1; i < n && d < t.BackoffMax; i++ {
		d *= 2
	}
	d = min(d, t.BackoffMax)
	h := fnv.New32a()
	h.Write(key[:])
	h.Write([]byte{byte(n)})
	return d/2 + time.Duration(uint64(d/2)*uint64(h.Sum32())>>32)
}
