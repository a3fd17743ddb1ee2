package metamorphic_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// command is one step of a workload. What its numbers mean depends on the verb; each is taken modulo the choices that there are, so
// that every command is possible at any time.
type command struct {
	verb string
	args []int
}

// verb is a kind of command.
type verb struct {
	weight int
	// spans say how many choices each argument has.
	spans []int
	do    func(*system, []int) answer
}

// verbs are all commands but tick, which is not the stores'.
var verbs = map[string]verb{
	"do":         {14, []int{intents, len(ends), len(findings)}, (*system).do},
	"mismatch":   {2, []int{intents}, (*system).mismatch},
	"hangup":     {2, []int{intents, len(ends)}, (*system).hangUp},
	"record":     {5, []int{intents}, (*system).record},
	"claim":      {10, []int{intents}, (*system).claim},
	"settle":     {10, []int{intents, 4, len(ends)}, (*system).settle},
	"looked":     {8, []int{intents, 4, len(findings)}, (*system).lookedUp},
	"beat":       {3, []int{intents, 4}, (*system).beat},
	"resolve":    {10, []int{intents, 6, 4, 4}, (*system).resolve},
	"supersede":  {5, []int{intents, 2, 2}, (*system).supersede},
	"compensate": {2, []int{intents, len(ends)}, (*system).compensate},
	"work":       {12, []int{5, len(ends), len(findings)}, (*system).work},
	"stale":      {3, []int{intents, len(ends)}, (*system).stale},
	"park":       {2, []int{intents, 3}, (*system).park},
	"waiting":    {2, []int{len(tools), 4}, (*system).waiting},
	"list":       {3, []int{8, 5}, (*system).list},
	"document":   {1, []int{3}, (*system).document},
	"limits":     {2, []int{3}, (*system).limits},
	"decide":     {6, []int{4, 5, 4}, (*system).decide},
	"decision":   {2, []int{4, 5}, (*system).decision},
	"runs":       {1, []int{4, 3}, (*system).runs},
	"append":     {6, []int{4, 3, 3}, (*system).append},
	"take":       {6, []int{3, 3}, (*system).take},
	"return":     {5, []int{4, 4, 3}, (*system).giveBack},
	"unpark":     {3, []int{4, 2, 2}, (*system).unpark},
	"queues":     {1, []int{4, 3}, (*system).queues},
	"purge":      {3, []int{4}, (*system).purge},
	"forget":     {2, []int{4}, (*system).forget},
}

const tickWeight = 14

// ticks are the steps of the clock. Some are no whole number of anything.
var ticks = []time.Duration{
	time.Microsecond, 137*time.Millisecond + 13*time.Microsecond, time.Second, 5 * time.Second, 20 * time.Second, time.Minute,
	3 * time.Minute, 20 * time.Minute, 2 * time.Hour, 23 * time.Hour, 26 * time.Hour, 40 * 24 * time.Hour,
}

// names are the verbs in a fixed order, so that a seed means the same workload every time.
var names = func() (all []string) {
	for name := range verbs {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}()

func randomCommand(rng *rand.Rand) command {
	total := tickWeight
	for _, name := range names {
		total += verbs[name].weight
	}
	n := rng.IntN(total) - tickWeight
	if n < 0 {
		return command{"tick", []int{min(rng.IntN(len(ticks)), rng.IntN(len(ticks)), rng.IntN(len(ticks)))}}
	}
	for _, name := range names {
		v := verbs[name]
		if n -= v.weight; n < 0 {
			c := command{verb: name}
			for _, span := range v.spans {
				c.args = append(c.args, rng.IntN(span))
			}
			return c
		}
	}
	panic("unreachable")
}

// String is the command as it stands in a plan: "settle:3:0:1".
func (c command) String() string {
	s := c.verb
	for _, a := range c.args {
		s += ":" + strconv.Itoa(a)
	}
	return s
}

// plan is a workload on one line.
type plan []command

// String is the line that parsePlan reads back.
func (p plan) String() string {
	words := make([]string, len(p))
	for i, c := range p {
		words[i] = c.String()
	}
	return strings.Join(words, " ")
}

func parsePlan(line string) (plan, error) {
	var p plan
	for _, word := range strings.Fields(line) {
		parts := strings.Split(word, ":")
		v, ok := verbs[parts[0]]
		want := len(v.spans)
		if parts[0] == "tick" {
			ok, want = true, 1
		}
		if !ok || len(parts) != want+1 {
			return nil, fmt.Errorf("plan: %q is no command with %d numbers", word, want)
		}
		c := command{verb: parts[0]}
		for _, text := range parts[1:] {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return nil, fmt.Errorf("plan: %q: %q is not a number", word, text)
			}
			c.args = append(c.args, n)
		}
		p = append(p, c)
	}
	return p, nil
}

func randomPlan(seed uint64, length int) plan {
	rng := rand.New(rand.NewPCG(seed, 0x3e7a))
	p := make(plan, length)
	for i := range p {
		p[i] = randomCommand(rng)
	}
	return p
}

// shorten takes commands out of a plan for as long as it still fails: large pieces first.
func shorten(p plan, until time.Time, fails func(plan) bool) plan {
	for size := max(len(p)/2, 1); ; {
		shorter := false
		for at := 0; at+size <= len(p); {
			if time.Now().After(until) {
				return p
			}
			if less := slices.Concat(p[:at], p[at+size:]); fails(less) {
				p, shorter = less, true
				continue
			}
			at += size
		}
		switch {
		case size > 1:
			size = max(size/2, 1)
		case !shorter:
			return p
		}
	}
}
