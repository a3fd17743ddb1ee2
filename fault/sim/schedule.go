package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Verb is what a choice of the scheduler does.
type Verb string

// The verbs. The letters say what a choice names: w a worker, o an intent's operation, r a run, m a request, and a plain number ticks.
const (
	verbDo       Verb = "do"       // w o: an agent calls Do
	verbWait     Verb = "wait"     // w o: and waits for the outcome
	verbMismatch Verb = "mismatch" // w o: an agent calls Do with other arguments
	verbRecord   Verb = "record"   // w o: an intent is recorded and nobody stays
	verbClaim    Verb = "claim"    // w o: an agent claims and executes by itself
	verbAgent    Verb = "agent"    // w r: an agent works on a run from its beginning
	verbEvent    Verb = "event"    // w r: the event that starts a run is delivered
	verbConsume  Verb = "consume"  // w: a consumer takes an event that waits
	verbWork     Verb = "work"     // w: the background loop takes one due operation

	verbRun    Verb = "run"    // w: on to where it hands over next
	verbFail   Verb = "fail"   // w: its store call fails before the commit
	verbLose   Verb = "lose"   // w: its store call commits and the answer is lost
	verbReset  Verb = "reset"  // w: its connection breaks while it waits for the provider
	verbFresh  Verb = "fresh"  // w: its look-up does not lag
	verbBlind  Verb = "blind"  // w: its look-up is unavailable
	verbBeat   Verb = "beat"   // w: its heartbeat fires
	verbCancel Verb = "cancel" // w: its caller gives up
	verbCrash  Verb = "crash"  // w: killed; the next call finds a new process
	verbDrain  Verb = "drain"  // w: shuts down; refuses new calls until killed

	verbDeliver    Verb = "deliver"    // m: the provider receives it
	verbTwice      Verb = "twice"      // m: the network makes a second copy
	verbDrop       Verb = "drop"       // m: lost
	verbDeny       Verb = "deny"       // m: answered 401 in front of the provider
	verbThrottle   Verb = "throttle"   // m: answered 429 in front of the provider
	verbFinish     Verb = "finish"     // m: takes effect and is answered
	verbDecline    Verb = "decline"    // m: refused by the provider for good
	verbBreak      Verb = "break"      // m: a 500 without effect
	verbBreakAfter Verb = "breakafter" // m: a 500 after the effect

	verbConfirm Verb = "confirm" // o: the person confirms the effect that is there
	verbAbsent  Verb = "absent"  // o: the person says absent, fail
	verbResend  Verb = "resend"  // o: the person says absent, resend
	verbAbandon Verb = "abandon" // o: the person stops it; whether there was an effect is not known
	verbStale   Verb = "stale"   // o: the person decides by an old version

	verbTick Verb = "tick" // n: the clock moves on
)

// verbs says what each verb names.
var verbs = map[Verb]string{
	verbDo: "wo", verbWait: "wo", verbMismatch: "wo", verbRecord: "wo", verbClaim: "wo", verbWork: "w",
	verbAgent: "wr", verbEvent: "wr", verbConsume: "w",
	verbRun: "w", verbFail: "w", verbLose: "w", verbReset: "w", verbFresh: "w", verbBlind: "w", verbBeat: "w", verbCancel: "w",
	verbCrash: "w", verbDrain: "w",
	verbDeliver: "m", verbTwice: "m", verbDrop: "m", verbDeny: "m", verbThrottle: "m", verbFinish: "m", verbDecline: "m",
	verbBreak: "m", verbBreakAfter: "m",
	verbConfirm: "o", verbAbsent: "o", verbResend: "o", verbAbandon: "o", verbStale: "o",
	verbTick: "n",
}

// Choice is one step of a schedule. Workers, operations and requests are counted from 1.
type Choice struct {
	Verb Verb
	// A is the worker, request, operation or number of ticks; B the operation where a worker is A.
	A, B int
}

// String is the choice as it stands in a plan: "do:w1:o1", "deliver:m2", "tick:3".
func (c Choice) String() string {
	names := verbs[c.Verb]
	if names == "n" {
		return string(c.Verb) + ":" + strconv.Itoa(c.A)
	}
	s := string(c.Verb) + ":" + names[:1] + strconv.Itoa(c.A)
	if len(names) > 1 {
		s += ":" + names[1:] + strconv.Itoa(c.B)
	}
	return s
}

func parseChoice(word string) (Choice, error) {
	parts := strings.Split(word, ":")
	names, ok := verbs[Verb(parts[0])]
	if !ok {
		known := make([]string, 0, len(verbs))
		for v := range verbs {
			known = append(known, string(v))
		}
		slices.Sort(known)
		return Choice{}, fmt.Errorf("plan: %q begins with none of %s", word, strings.Join(known, ", "))
	}
	if len(parts) != len(names)+1 {
		return Choice{}, fmt.Errorf("plan: %q needs %d parts after the verb", word, len(names))
	}
	c := Choice{Verb: Verb(parts[0])}
	for i, at := range []*int{&c.A, &c.B}[:len(names)] {
		text := parts[i+1]
		if name := names[i : i+1]; name != "n" {
			if !strings.HasPrefix(text, name) {
				return Choice{}, fmt.Errorf("plan: %q: part %d begins with %s, as in %s1", word, i+1, name, name)
			}
			text = text[1:]
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return Choice{}, fmt.Errorf("plan: %q: part %d needs a number from 1", word, i+1)
		}
		*at = n
	}
	return c, nil
}

// Plan is a schedule in its setting. It prints and parses as one line:
//
//	kind=keyed workers=2 | do:w1:o1 run:w1 crash:w1 tick:2 work:w2
//
// A choice that is not possible when its turn comes is skipped, so that a plan stays runnable when parts of it are taken out.
// After the last choice all faults stop, and everything runs until it is settled.
type Plan struct {
	Setting Setting
	Choices []Choice
}

// String is the line that [ParsePlan] reads back as the same plan.
func (p Plan) String() string {
	var b strings.Builder
	b.WriteString(p.Setting.String())
	b.WriteString(" |")
	for _, c := range p.Choices {
		b.WriteByte(' ')
		b.WriteString(c.String())
	}
	return b.String()
}

// ParsePlan reads a plan. Errors name the word and what would be right.
func ParsePlan(line string) (Plan, error) {
	left, right, ok := strings.Cut(line, "|")
	if !ok {
		return Plan{}, fmt.Errorf("plan: want SETTING | CHOICES, as in kind=keyed | do:w1:o1 run:w1")
	}
	setting, err := parseSetting(left)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Setting: setting}
	for _, word := range strings.Fields(right) {
		c, err := parseChoice(word)
		if err != nil {
			return Plan{}, err
		}
		p.Choices = append(p.Choices, c)
	}
	return p, nil
}
