package twin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Target says which requests a step counts.
type Target string

// The targets.
const (
	TargetRefunds Target = "refunds" // POST /v1/refunds
	TargetLookup  Target = "lookup"  // every GET under /v1/
	TargetAny     Target = "any"     // everything under /v1/
)

// When says where in a request's life a fault strikes.
type When string

// The moments.
const (
	// Instead: the request reaches nothing, neither authentication nor the key's record.
	Instead When = "instead"
	// BeforeEffect: processing began and ends without effect; the key is forgotten, unless the fault is a stored 500.
	BeforeEffect When = "before-effect"
	// AfterEffect: the effect happened and, for a keyed provider, is on record; only the answer suffers.
	AfterEffect When = "after-effect"
)

// What is the kind of a fault.
type What string

// The faults. With a duration: hang, slow, hold. With a code: status.
const (
	// Drop closes the connection without an answer.
	Drop What = "drop"
	// Reset closes it with a TCP reset.
	Reset What = "reset"
	// Hang answers nothing for its duration or until the client is gone, then closes.
	Hang What = "hang"
	// Status answers this code. A 500 before or after the effect is the provider's own: it is on record under the key where
	// the rules store errors. Every other code comes from a machine in front of it, and leaves the record alone.
	Status What = "status"
	// Cut sends half of the answer and closes.
	Cut What = "cut"
	// Garble answers 200 with a body that is no JSON.
	Garble What = "garble"
	// Foreign answers 200 with somebody else's refund.
	Foreign What = "foreign"
	// Slow delays: before the effect the request's arrival, although its sender may be gone; after it the answer.
	Slow What = "slow"
	// Twice delivers the request twice, as a proxy might: one copy is answered 401, the other takes effect. With
	// a hold, the 401 comes at once and the effect follows.
	Twice What = "twice"
	// Hold makes processing take this long, with the key in flight.
	Hold What = "hold"
)

// Step is one fault: which requests, when, what.
type Step struct {
	Target Target
	// From and To count the target's requests since the plan was set or the twin was reset, beginning with 1,
	// both included; both 0 means each.
	From, To int
	When     When
	What     What
	// For is the duration of hang, slow and hold.
	For time.Duration
	// Code is that of status.
	Code int
}

// Plan is a list of faults that prints and parses as one line, steps separated by semicolons:
//
//	refunds#1 after-effect drop; refunds#2-3 before-effect status=503; lookup#* instead status=500; refunds#1 hold=2s
//
// A step is TARGET#COUNT [WHEN] WHAT. Without WHEN, hold, twice are before-effect, slow is after-effect, the rest is
// instead. Holds, slows and twice of several steps combine; of the other faults the first that matches strikes.
type Plan []Step

// ParsePlan reads a plan; an empty line is an empty plan. Errors name the step and what would be right.
func ParsePlan(line string) (Plan, error) {
	return ParsePlanOf(line, []Target{TargetRefunds, TargetLookup, TargetAny})
}

// ParsePlanOf is ParsePlan for a provider with these targets. [TargetLookup] stands for requests without an effect.
func ParsePlanOf(line string, targets []Target) (Plan, error) {
	var plan Plan
	for text := range strings.SplitSeq(line, ";") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		step, err := parseStep(text, targets)
		if err != nil {
			return nil, fmt.Errorf("step %q: %w", text, err)
		}
		plan = append(plan, step)
	}
	return plan, nil
}

// String is the line that ParsePlan reads back as the same plan.
func (p Plan) String() string {
	steps := make([]string, len(p))
	for i, s := range p {
		steps[i] = s.String()
	}
	return strings.Join(steps, "; ")
}

// String is the step as it stands in a plan.
func (s Step) String() string {
	count := "*"
	switch {
	case s.From != s.To:
		count = fmt.Sprintf("%d-%d", s.From, s.To)
	case s.From != 0:
		count = strconv.Itoa(s.From)
	}
	what := string(s.What)
	switch s.What {
	case Hang, Slow, Hold:
		what += "=" + s.For.String()
	case Status:
		what += "=" + strconv.Itoa(s.Code)
	}
	return fmt.Sprintf("%s#%s %s %s", s.Target, count, s.When, what)
}

func (s Step) matches(t Target, n int) bool {
	return s.Target == t && (s.From == 0 || s.From <= n && n <= s.To)
}

func parseStep(text string, targets []Target) (Step, error) {
	fields := strings.Fields(text)
	if len(fields) != 2 && len(fields) != 3 {
		return Step{}, fmt.Errorf("want TARGET#COUNT [WHEN] WHAT, as in %q", "refunds#1 after-effect drop")
	}
	var s Step
	if err := s.parseTarget(fields[0], targets); err != nil {
		return Step{}, err
	}
	if err := s.parseWhat(fields[len(fields)-1]); err != nil {
		return Step{}, err
	}
	s.When = usualWhen(s.What)
	if len(fields) == 3 {
		s.When = When(fields[1])
	}
	return s, s.check()
}

func (s *Step) parseTarget(text string, targets []Target) error {
	target, count, ok := strings.Cut(text, "#")
	s.Target = Target(target)
	if !slices.Contains(targets, s.Target) {
		var names []string
		for _, t := range targets {
			names = append(names, string(t))
		}
		return fmt.Errorf("target %q is none of %s", target, strings.Join(names, ", "))
	}
	if !ok {
		return fmt.Errorf("the count is missing: %s#1, %s#2-3 or %s#*", target, target, target)
	}
	if count == "*" {
		return nil
	}
	first, last, isRange := strings.Cut(count, "-")
	var err error
	if s.From, err = parseCount(first); err != nil {
		return err
	}
	s.To = s.From
	if !isRange {
		return nil
	}
	if s.To, err = parseCount(last); err != nil {
		return err
	}
	if s.To < s.From {
		return fmt.Errorf("the range %s ends before it begins", count)
	}
	return nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("count %q is neither *, a number from 1, nor a range of two", text)
	}
	return n, nil
}

func (s *Step) parseWhat(text string) error {
	name, value, hasValue := strings.Cut(text, "=")
	s.What = What(name)
	switch s.What {
	case Hang, Slow, Hold:
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s needs a duration above zero, as in %s=2s", name, name)
		}
		s.For = d
		return nil
	case Status:
		code, err := strconv.Atoi(value)
		if err != nil || code < 200 || code > 599 {
			return fmt.Errorf("status needs a code from 200 to 599, as in status=503")
		}
		s.Code = code
		return nil
	case Drop, Reset, Cut, Garble, Foreign, Twice:
		if hasValue {
			return fmt.Errorf("%s takes no value", name)
		}
		return nil
	default:
		return fmt.Errorf("%q is none of drop, reset, hang=, status=, cut, garble, foreign, slow=, twice, hold=", name)
	}
}

func usualWhen(w What) When {
	switch w {
	case Hold, Twice:
		return BeforeEffect
	case Slow:
		return AfterEffect
	default:
		return Instead
	}
}

// check refuses combinations that mean nothing.
func (s Step) check() error {
	switch s.When {
	case Instead, BeforeEffect, AfterEffect:
	default:
		return fmt.Errorf("moment %q is none of instead, before-effect, after-effect", s.When)
	}
	switch {
	case (s.What == Hold || s.What == Twice) && s.When != BeforeEffect:
		return fmt.Errorf("%s can only be before-effect", s.What)
	case (s.What == Hold || s.What == Twice) && s.Target == TargetLookup:
		return fmt.Errorf("%s needs a request that has an effect; a look-up has none", s.What)
	case s.What == Slow && s.When == Instead:
		return fmt.Errorf("slow can be before-effect (the arrival) or after-effect (the answer)")
	}
	return nil
}
