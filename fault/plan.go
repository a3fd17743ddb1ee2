package fault

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// What is the kind of a fault.
type What string

// The faults.
const (
	Crash What = "crash" // the process gets SIGKILL
	Stop  What = "stop"  // the process gets SIGSTOP, until somebody sends SIGCONT
	Pause What = "pause" // this goroutine stands still, and does not notice what happens meanwhile
	Error What = "error" // before: nothing happened; after: it happened and its answer is lost
)

// When says on which side of its point a fault strikes.
type When string

// The sides.
const (
	Before When = "before"
	After  When = "after"
)

// Point names a place between the guard and what it talks to.
type Point string

// The points. Apply and send have a detail: apply:attempt_ended, send:POST, or * for any.
const (
	PointCreate Point = "create" // Store.Create: the claim
	PointApply  Point = "apply"  // Store.Apply, by the event's kind
	PointExtend Point = "extend" // Store.Extend: a heartbeat
	PointLoad   Point = "load"   // Store.Load
	PointDue    Point = "due"    // Store.Due
	PointCall   Point = "call"   // Provider.Call
	PointLookUp Point = "lookup" // Provider.LookUp
	PointSend   Point = "send"   // http.RoundTripper, by the request's method
)

var points = []Point{PointCreate, PointApply, PointExtend, PointLoad, PointDue, PointCall, PointLookUp, PointSend}

var eventKinds = []effectonce.EventKind{
	effectonce.EventRecorded, effectonce.EventClaimed, effectonce.EventTakenOver, effectonce.EventAttemptStarted,
	effectonce.EventAttemptEnded, effectonce.EventRuled, effectonce.EventParked, effectonce.EventEvidence,
	effectonce.EventResolved, effectonce.EventCancelled, effectonce.EventExpired, effectonce.EventPurged,
}

// Any is the detail that stands for each.
const Any = "*"

// Step is one fault: what, on which side of which point, and at which of its passages.
type Step struct {
	What What
	// For is the duration of a pause.
	For   time.Duration
	When  When
	Point Point
	// Detail is the event's kind of apply or the method of send, or Any; empty for the other points.
	Detail string
	// From and To count the passages of this side of the point, beginning with 1, both included; both 0 means each.
	From, To int
}

// Plan is a list of faults that prints and parses as one line, steps separated by semicolons:
//
//	crash after create; crash before apply:attempt_ended#2; error before apply:*#1-3; pause 5s before call#1
//
// A step is WHAT before|after POINT[:DETAIL][#COUNT]; WHAT is crash, stop, error or pause DURATION. Without a count it
// strikes each time. Each step counts for itself.
type Plan []Step

// String is the line that [ParsePlan] reads back as the same plan.
func (p Plan) String() string {
	steps := make([]string, len(p))
	for i, s := range p {
		steps[i] = s.String()
	}
	return strings.Join(steps, "; ")
}

// String is the step as it stands in a plan.
func (s Step) String() string {
	text := string(s.What)
	if s.What == Pause {
		text += " " + s.For.String()
	}
	text += " " + string(s.When) + " " + string(s.Point)
	if s.Detail != "" {
		text += ":" + s.Detail
	}
	switch {
	case s.From != s.To:
		text += fmt.Sprintf("#%d-%d", s.From, s.To)
	case s.From != 0:
		text += "#" + strconv.Itoa(s.From)
	}
	return text
}

// ParsePlan reads a plan; an empty line is an empty plan. Errors name the step and what would be right.
func ParsePlan(line string) (Plan, error) {
	var plan Plan
	for text := range strings.SplitSeq(line, ";") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		step, err := parseStep(text)
		if err != nil {
			return nil, fmt.Errorf("fault plan: step %q: %w", text, err)
		}
		plan = append(plan, step)
	}
	return plan, nil
}

// MustPlan is ParsePlan for plans that stand in the program; it panics on an error.
func MustPlan(line string) Plan {
	plan, err := ParsePlan(line)
	if err != nil {
		panic(err)
	}
	return plan
}

func parseStep(text string) (Step, error) {
	words := strings.Fields(text)
	s := Step{What: What(words[0])}
	words = words[1:]
	switch s.What {
	case Crash, Stop, Error:
	case Pause:
		if len(words) == 0 {
			return s, fmt.Errorf("pause needs a duration, as in %q", "pause 5s before call")
		}
		d, err := time.ParseDuration(words[0])
		if err != nil || d <= 0 {
			return s, fmt.Errorf("%q is no duration above zero", words[0])
		}
		s.For, words = d, words[1:]
	default:
		return s, fmt.Errorf("fault %q is none of crash, stop, pause, error", s.What)
	}
	if len(words) != 2 {
		return s, fmt.Errorf("want WHAT before|after POINT, as in %q", "crash after create")
	}
	s.When = When(words[0])
	if s.When != Before && s.When != After {
		return s, fmt.Errorf("side %q is neither before nor after", words[0])
	}
	return s, s.parsePoint(words[1])
}

func (s *Step) parsePoint(text string) error {
	name, count, counted := strings.Cut(text, "#")
	point, detail, detailed := strings.Cut(name, ":")
	s.Point, s.Detail = Point(point), detail
	if !slices.Contains(points, s.Point) {
		return fmt.Errorf("point %q is none of create, apply:KIND, extend, load, due, call, lookup, send:METHOD", point)
	}
	if err := s.checkDetail(detailed); err != nil {
		return err
	}
	if !counted {
		return nil
	}
	return s.parseCount(count)
}

func (s *Step) checkDetail(detailed bool) error {
	switch s.Point {
	case PointApply:
		if s.Detail != Any && !slices.Contains(eventKinds, effectonce.EventKind(s.Detail)) {
			return fmt.Errorf("apply needs the kind of an event or *, as in apply:attempt_ended")
		}
	case PointSend:
		if s.Detail == "" || s.Detail != strings.ToUpper(s.Detail) {
			return fmt.Errorf("send needs a method or *, as in send:POST")
		}
	default:
		if detailed {
			return fmt.Errorf("%s has no detail", s.Point)
		}
	}
	return nil
}

func (s *Step) parseCount(text string) error {
	first, last, isRange := strings.Cut(text, "-")
	var err error
	if s.From, err = parseNumber(first); err != nil {
		return err
	}
	s.To = s.From
	if !isRange {
		return nil
	}
	if s.To, err = parseNumber(last); err != nil {
		return err
	}
	if s.To < s.From {
		return fmt.Errorf("the range %s ends before it begins", text)
	}
	return nil
}

func parseNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("count %q is neither a number from 1 nor a range of two", text)
	}
	return n, nil
}

func (s Step) passes(w When, p Point, detail string) bool {
	return s.When == w && s.Point == p && (s.Detail == detail || s.Detail == Any)
}

func (s Step) counts(n int) bool { return s.From == 0 || s.From <= n && n <= s.To }
