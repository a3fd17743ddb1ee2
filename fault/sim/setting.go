package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
)

// Tick is the unit of virtual time.
const Tick = time.Minute

// Kind is what a provider promises about repeats.
type Kind string

// The kinds of provider.
const (
	Keyed        Kind = "keyed"                // dedupes by key for its retention; no look-up
	KeyedLookUp  Kind = "keyed_look_up"        // and can be looked up
	KeyedStored  Kind = "keyed_stored_errors"  // keyed, and replays its own 500s (S6.5)
	LookUpResend Kind = "look_up_resend"       // look-up only, resend_when_absent (S7.3 line 10)
	LookUpOnly   Kind = "look_up"              // look-up only, never resent by the machine
	Neither      Kind = "none"                 // neither key nor look-up
	KeyedResend  Kind = "keyed_look_up_resend" // keyed, look-up, resend_when_absent
)

// Kinds lists all kinds.
var Kinds = []Kind{Keyed, KeyedLookUp, KeyedStored, LookUpResend, LookUpOnly, Neither, KeyedResend}

func (k Kind) known() error {
	if !slices.Contains(Kinds, k) {
		return fmt.Errorf("setting: kind %q is none of %v", k, Kinds)
	}
	return nil
}

func (k Kind) keyed() bool {
	return k == Keyed || k == KeyedLookUp || k == KeyedStored || k == KeyedResend
}

func (k Kind) lookUp() bool {
	return k == KeyedLookUp || k == LookUpResend || k == LookUpOnly || k == KeyedResend
}

func (k Kind) resends() bool { return k == LookUpResend || k == KeyedResend }

// Setting is the world a schedule runs in. Durations are in ticks; zero is shorter than a tick where the terms need a positive
// one.
type Setting struct {
	Kind    Kind
	Workers int
	// Intents is the number of intents; all have the same business arguments (S3.4).
	Intents                           int
	Call, Grace                       int
	Pause, Transit, Processing        int
	Lag, Retention                    int
	Attempts, Within, Expiry, Backoff int
	// Limit, if set, is how many operations together the one limit allows, of which each takes one, in a period of Per ticks (S8.3);
	// Per 0 is one without an end.
	Limit, Per int
	// Steps, if set, makes the intents those of the steps of runs, two of which the model may choose from for each step (S10).
	Steps int
	// Inbox starts each run by an incoming event (S9.1).
	Inbox bool
	// Heartbeat makes leases of two ticks that are extended (S5.4).
	Heartbeat bool
	// External leaves the effect to the callers (claims).
	External bool
	// Twice lets the network deliver a request twice. The provider's adapter then takes no refusal for definitive that came
	// from in front of the provider's record of the key (S6.4).
	Twice bool
}

// SmallSetting is the model of the schedules that broke earlier drafts: call timeout 1, lease 2, longest pause 2, processing 1,
// look-up lag 2, retention 8.
func SmallSetting(k Kind) Setting {
	return Setting{Kind: k, Workers: 2, Intents: 1, Call: 1, Grace: 1, Pause: 2, Processing: 1, Lag: 2, Retention: 8, Attempts: 3, Within: 20, Expiry: 30, Backoff: 1}
}

func ticks(n int) time.Duration { return time.Duration(n) * Tick }

// positive is n ticks, or a moment shorter than a tick.
func positive(n int) time.Duration {
	if n == 0 {
		return time.Millisecond
	}
	return ticks(n)
}

// terms are what an operation of this setting is claimed under.
func (s Setting) terms() effectonce.Terms {
	t := effectonce.Terms{
		Class: effectonce.ClassNonIdempotent, Managed: !s.External,
		CallTimeout: ticks(s.Call), Grace: positive(s.Grace),
		Pause: positive(s.Pause), Transit: positive(s.Transit), Processing: positive(s.Processing),
		Attempts: s.Attempts, Within: ticks(s.Within), Expiry: ticks(s.Expiry),
		Backoff: ticks(s.Backoff), BackoffMax: 2 * ticks(s.Backoff),
	}
	if s.Heartbeat {
		t.Heartbeat = 2 * Tick
	}
	if s.Kind.keyed() {
		t.Keyed, t.Retention = true, ticks(s.Retention)
	}
	if s.Kind.lookUp() {
		t.LookUp, t.Lag, t.ResendWhenAbsent = true, ticks(s.Lag), s.Kind.resends()
	}
	if s.Intents > 1 {
		t.Twins, t.TwinsWithin = effectonce.TwinAllow, ticks(s.Within)
	}
	return t
}

// rules are what the provider keeps.
func (s Setting) rules() twin.Rules {
	r := twin.Rules{Kind: twin.NoDedupe, Processing: ticks(s.Processing)}
	switch {
	case s.Kind.keyed():
		r.Kind, r.Retention, r.LookupLag = twin.Keyed, ticks(s.Retention), ticks(s.Lag)
		r.StoresErrors = s.Kind == KeyedStored
	case s.Kind.lookUp():
		r.Kind, r.LookupLag = twin.LookupOnly, ticks(s.Lag)
	}
	return r
}

// check refuses a setting that cannot run.
func (s Setting) check() error {
	if err := s.Kind.known(); err != nil {
		return err
	}
	if s.Workers < 1 || s.Intents < 1 || s.Workers > 9 || s.Intents > 9 {
		return fmt.Errorf("setting: between 1 and 9 workers and intents, not %d and %d", s.Workers, s.Intents)
	}
	if n := s.runs() * s.Steps * alternatives; s.Steps > 0 && (s.External || n != s.Intents) || s.Inbox && s.Steps == 0 {
		return fmt.Errorf("setting: steps go with %d intents for each step of a run, and without external; inbox goes with steps", alternatives)
	}
	if err := s.terms().Check(); err != nil {
		return fmt.Errorf("setting: %w", err)
	}
	return s.rules().Validate()
}

// runs is how many runs the intents are of.
func (s Setting) runs() int {
	if s.Steps == 0 {
		return 0
	}
	return max(s.Intents/(s.Steps*alternatives), 1)
}

// numbers are the numeric fields by their names in a plan.
func (s *Setting) numbers() []number {
	return []number{
		{"workers", &s.Workers}, {"intents", &s.Intents}, {"call", &s.Call}, {"grace", &s.Grace}, {"pause", &s.Pause},
		{"transit", &s.Transit}, {"processing", &s.Processing}, {"lag", &s.Lag}, {"retention", &s.Retention},
		{"attempts", &s.Attempts}, {"within", &s.Within}, {"expiry", &s.Expiry}, {"backoff", &s.Backoff},
		{"limit", &s.Limit}, {"per", &s.Per}, {"steps", &s.Steps},
	}
}

type number struct {
	name string
	at   *int
}

func (s *Setting) flags() []switched {
	return []switched{{"heartbeat", &s.Heartbeat}, {"external", &s.External}, {"twice", &s.Twice}, {"inbox", &s.Inbox}}
}

type switched struct {
	name string
	at   *bool
}

// String is the setting as it stands in a plan: what differs from [SmallSetting].
func (s Setting) String() string {
	small := SmallSetting(s.Kind)
	usual := small.numbers()
	b := []string{"kind=" + string(s.Kind)}
	for i, n := range s.numbers() {
		if *n.at != *usual[i].at {
			b = append(b, n.name+"="+strconv.Itoa(*n.at))
		}
	}
	for _, f := range s.flags() {
		if *f.at {
			b = append(b, f.name)
		}
	}
	return strings.Join(b, " ")
}

// parseSetting reads what String prints.
func parseSetting(text string) (Setting, error) {
	words := strings.Fields(text)
	if len(words) == 0 || !strings.HasPrefix(words[0], "kind=") {
		return Setting{}, fmt.Errorf("setting: begins with kind=, as in kind=keyed")
	}
	s := SmallSetting(Kind(strings.TrimPrefix(words[0], "kind=")))
	for _, word := range words[1:] {
		if err := s.set(word); err != nil {
			return Setting{}, err
		}
	}
	return s, s.check()
}

func (s *Setting) set(word string) error {
	name, value, _ := strings.Cut(word, "=")
	for _, f := range s.flags() {
		if f.name == word {
			*f.at = true
			return nil
		}
	}
	for _, n := range s.numbers() {
		if n.name != name {
			continue
		}
		v, err := strconv.Atoi(value)
		if err != nil || v < 0 || v > 1000 {
			return fmt.Errorf("setting: %s needs a number from 0 to 1000", name)
		}
		*n.at = v
		return nil
	}
	return fmt.Errorf("setting: %q is not known", word)
}
