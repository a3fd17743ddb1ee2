package policy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/effectonce/effectonce"
)

// Spec is a tool policy as it was written. The zero value of a field means that nothing was said.
type Spec struct {
	// Name is the tool's name.
	Name  string           `json:"name"`
	Class effectonce.Class `json:"class,omitempty"`
	Scope effectonce.Scope `json:"scope,omitempty"`
	// IntentID is the template of the intent id (S3.3); empty: the orchestrator gives the id.
	IntentID string `json:"intent_id,omitempty"`
	// Arguments names arguments; those it does not name are material (S4.3).
	Arguments map[string]Argument `json:"arguments,omitempty"`
	// Drop names further arguments that are recorded and otherwise ignored.
	Drop []string `json:"drop,omitempty"`
	// Resource is the template of what the operation acts on (S7.1).
	Resource string `json:"resource,omitempty"`
	// Call is what the provider adapter needs, as JSON; opaque here.
	Call json.RawMessage `json:"call,omitempty"`
	// Timeout bounds one call (S5.4).
	Timeout  Duration `json:"timeout,omitzero"`
	Lease    Lease    `json:"lease,omitzero"`
	Settle   Settle   `json:"settle,omitzero"`
	Retry    Retry    `json:"retry,omitzero"`
	Twins    Twins    `json:"twins,omitzero"`
	Contract *Effect  `json:"contract,omitempty"`
	// Approval holds every operation until a person approves (S7.6a).
	Approval bool `json:"approval,omitempty"`
	// AcceptReview says that a person will decide each ambiguous end (S11.2).
	AcceptReview bool `json:"accept_review,omitempty"`
	// ResendWhenAbsent lets a conclusively absent effect be sent again without a key (S7.3 line 10).
	ResendWhenAbsent bool `json:"resend_when_absent,omitempty"`
	// Expiry is how long an operation may stay pending (S7.5).
	Expiry    Duration  `json:"expiry,omitzero"`
	Retention Retention `json:"retention,omitzero"`
	// Limits are totals that operations count against (S8.3).
	Limits []Limit `json:"limits,omitempty"`
	// Compensate says how the effect is undone (S11.3); nil: it cannot be.
	Compensate *Compensate `json:"compensate,omitempty"`
}

// Compensate is the call that undoes an effect: Tool with Arguments, JSON whose texts are templates over what took effect:
// {argument}, {amount.minor}, {result.id}, {reference}, {key}.
type Compensate struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Kind is what an argument is for (S4.3).
type Kind string

// The kinds of arguments. Dropped is no kind that a policy can give: see the package comment.
const (
	KindIdentity Kind = "identity" // goes into the intent id
	KindMaterial Kind = "material" // is compared; what the policy does not name
	KindFree     Kind = "free"     // text: kept for the audit, neither compared nor sent
	KindDropped  Kind = "dropped"  // a key that the caller supplied
)

// Argument is what a policy says about one argument.
type Argument struct {
	Kind Kind `json:"kind,omitempty"`
	// Normalise is applied in order; an amount can only be the last.
	Normalise []Normaliser `json:"normalise,omitempty"`
	// Default, as JSON, stands in for an absent or null argument before it is normalised (S4.2).
	Default json.RawMessage `json:"default,omitempty"`
	// OneOf are the values that are allowed after normalisation, as JSON: text, numbers, true or false; none: any. It says what is
	// accepted, and nothing about identity.
	OneOf []json.RawMessage `json:"one_of,omitempty"`
	// Required refuses a call without the argument. What intent_id names is required anyway.
	Required bool `json:"required,omitempty"`
}

// Normaliser is one step of an argument's normalisation: a name that canon.ParseNormaliser knows, or amount.
type Normaliser struct {
	Name string `json:"name"`
	// Argument is the pattern of capture.
	Argument string `json:"argument,omitempty"`
	// Amount is set for the name amount only.
	Amount *Amount `json:"amount,omitempty"`
}

// Amount says how an amount of money is read. Either Currency or Code is set.
type Amount struct {
	// Currency names the argument that holds the currency.
	Currency string `json:"currency,omitempty"`
	// Code is a fixed ISO 4217 code.
	Code string `json:"code,omitempty"`
	// Unit is major (default: 480 is EUR 480.00) or minor (48000 is EUR 480.00).
	Unit string `json:"unit,omitempty"`
	// Negative allows amounts below zero.
	Negative bool `json:"negative,omitempty"`
}

// Lease shapes the lease of a claim (S5.4): the call's timeout plus Grace, or Heartbeat with extensions up to that.
type Lease struct {
	Grace     Duration `json:"grace,omitzero"`
	Heartbeat Duration `json:"heartbeat,omitzero"`
}

// Settle has the parts of the settle time and the window's extra margin (S5.11, S7.2).
type Settle struct {
	Pause      Duration `json:"pause,omitzero"`
	Transit    Duration `json:"transit,omitzero"`
	Processing Duration `json:"processing,omitzero"`
	Margin     Duration `json:"margin,omitzero"`
}

// Retry bounds attempts and total time and paces them (S7.7).
type Retry struct {
	Attempts   int      `json:"attempts,omitzero"`
	Within     Duration `json:"within,omitzero"`
	Backoff    Duration `json:"backoff,omitzero"`
	BackoffMax Duration `json:"backoff_max,omitzero"`
}

// Twins says what makes a twin, how long an operation is recent, and what then happens (S3.8). Without On it is the
// whole fingerprint; without Do the twin is allowed and marked.
type Twins struct {
	On     []string `json:"on,omitempty"`
	Within Duration `json:"within,omitzero"`
	Do     string   `json:"do,omitempty"`
}

// Effect is what the operator knows about an effect that the caller has itself (S14.5): an inline contract. It never
// comes from a request.
type Effect struct {
	// Keyed says that the effect dedupes by the downstream key, for Retention or, with Forever, as long as it exists.
	Keyed     bool     `json:"keyed,omitempty"`
	Retention Duration `json:"retention,omitzero"`
	Forever   bool     `json:"forever,omitempty"`
	// KeyForm is the form in which it wants the key.
	KeyForm effectonce.KeyForm `json:"key_form,omitzero"`
	// LookUp says that the caller can find out what an operation did; Lag how far that view may be behind. Where that is
	// not known (nil), absence is never concluded.
	LookUp bool      `json:"look_up,omitempty"`
	Lag    *Duration `json:"lag,omitempty"`
}

// Retention says how long results and identities are kept (S13).
type Retention struct {
	// Result is how long arguments, request and result are kept after an operation settled; zero: for ever.
	Result Duration `json:"result,omitzero"`
	// Identity says when identities end; nil: never.
	Identity *Identity `json:"identity,omitempty"`
	// Run is how long a run may last that still makes calls of an earlier period; zero: DefaultRun.
	Run Duration `json:"run,omitzero"`
}

// DefaultRun is how long a run may last where the policy does not say it.
const DefaultRun = Duration(7 * 24 * time.Hour)

// Identity says when an identity ends: For after the end of its business period (S13.2). Period is a template over placeholders of
// the intent id whose value is a day, month, quarter or year in UTC: 2026-11-30, 2026-11, 2026-Q4 or 2026.
type Identity struct {
	For    Duration `json:"for"`
	Period string   `json:"period"`
}

// Limit is a total that operations count against (S8.3). Name is a template. Amount and Max are whole numbers, or one placeholder
// whose value is one; an empty Amount counts operations.
type Limit struct {
	Name   string   `json:"name"`
	Amount string   `json:"amount,omitempty"`
	Max    string   `json:"max"`
	Per    Duration `json:"per,omitzero"`
}

// Duration is a time.Duration that is written as Go writes it, and also in days ("30d", "1d12h").
type Duration time.Duration

// DurationMax bounds a duration in a policy, so that sums of them cannot overflow.
const DurationMax = 3650 * 24 * time.Hour

var durationDays = regexp.MustCompile(`^([0-9]{1,5})d(.*)$`)

// ParseDuration reads a duration: Go's form, with days (of 24 hours) allowed in front. It must be positive and at most
// DurationMax.
func ParseDuration(s string) (Duration, error) {
	var total time.Duration
	rest := s
	if m := durationDays.FindStringSubmatch(s); m != nil {
		days, err := strconv.Atoi(m[1])
		if err != nil {
			return 0, fmt.Errorf("%.40q is not a duration", s)
		}
		total, rest = time.Duration(days)*24*time.Hour, m[2]
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%.40q is not a duration", s)
		}
		total = min(total, DurationMax) + min(d, DurationMax)
	}
	switch {
	case total <= 0:
		return 0, fmt.Errorf("%.40q is not a positive duration", s)
	case total > DurationMax:
		return 0, fmt.Errorf("%.40q is longer than 3650d", s)
	}
	return Duration(total), nil
}

// Std returns the time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns Go's form.
func (d Duration) String() string { return time.Duration(d).String() }

// Written is the duration as people write it in a policy: 30d, 1d12h, 2m30s.
func (d Duration) Written() string { return written(d.Std()) }

// MarshalText writes Go's form, which has one spelling per duration.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration reads, and "0s".
func (d *Duration) UnmarshalText(text []byte) error {
	if string(text) == "0s" {
		*d = 0
		return nil
	}
	parsed, err := ParseDuration(string(text))
	*d = parsed
	return err
}
