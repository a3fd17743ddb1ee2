package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
)

// Options bound a [Run]. The zero value runs a thousand schedules.
type Options struct {
	// Schedules is how many to run, 0 for a thousand; Duration, if set, ends it earlier, in real time. With a Duration and no
	// Schedules there is no other limit.
	Schedules int
	Duration  time.Duration
	// Kinds are the providers to choose from; nil means all.
	Kinds []Kind
	// Parallel is how many schedules run at once, 0 for one for each processor.
	Parallel int
	// Rules are the numbers of those to watch; nil means all. A schedule goes on where another one is broken.
	Rules []string
	// NoShrink leaves a failing plan as it was found.
	NoShrink bool
}

// Report is what came of a [Run].
type Report struct {
	// Seed is the run's; the nth schedule has the seed Seed + n and can be run by itself.
	Seed      uint64
	Schedules int
	Steps     int
	Elapsed   time.Duration
	// Needed counts schedules in which a person decided something.
	Needed int
	Counts Counts
	// Failure is the failing schedule with the lowest seed that was found, nil if there is none.
	Failure *Failure
}

// Failure is a schedule in which a rule did not hold.
type Failure struct {
	Seed uint64
	Violation
	// Plan is the shortest failing plan that was found, and Story what happened in it.
	Plan  Plan
	Story string
}

// String tells the failure and how to repeat it.
func (f *Failure) String() string {
	return fmt.Sprintf("%s: %s\nseed %d\nplan %s\n%s", f.Rule, f.Detail, f.Seed, f.Plan, f.Story)
}

// Run walks random schedules. The same seed gives the same schedules, however many run at once.
func Run(seed uint64, o Options) Report {
	if o.Schedules == 0 && o.Duration == 0 {
		o.Schedules = 1000
	}
	if o.Parallel == 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	if len(o.Kinds) == 0 {
		o.Kinds = Kinds
	}
	begun := time.Now()
	total := Report{Seed: seed}
	var mu sync.Mutex
	next := uint64(0)
	draw := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		if total.Failure != nil || o.Schedules > 0 && next >= uint64(o.Schedules) || o.Duration > 0 && time.Since(begun) > o.Duration {
			return 0, false
		}
		next++
		return seed + next - 1, true
	}
	var running sync.WaitGroup
	for range o.Parallel {
		running.Go(func() {
			for {
				s, ok := draw()
				if !ok {
					return
				}
				plan, w := random(s, o)
				mu.Lock()
				total.add(s, plan, w)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	total.Elapsed = time.Since(begun)
	if f := total.Failure; f != nil {
		if !o.NoShrink {
			f.Plan = Shrink(f.Plan, o.Rules...)
		}
		if again := Replay(f.Plan, o.Rules...); again.Failure != nil {
			f.Violation, f.Story = again.Failure.Violation, again.Failure.Story
		}
	}
	return total
}

func (r *Report) add(seed uint64, plan Plan, w *world) {
	r.Schedules++
	r.Steps += w.steps
	r.Counts.add(w.counts)
	if w.counts.Decisions > 0 {
		r.Needed++
	}
	if w.violation != nil && (r.Failure == nil || seed < r.Failure.Seed) {
		r.Failure = &Failure{Seed: seed, Violation: *w.violation, Plan: plan, Story: w.story()}
	}
}

// Replay runs one plan and watches the given rules, or all.
func Replay(p Plan, rules ...string) Report {
	w := replay(p, func(w *world) { w.rules = rules })
	var r Report
	r.add(0, p, w)
	return r
}

func replay(p Plan, prepare func(*world)) *world {
	w := newWorld(p.Setting)
	w.afterCalls = afterCalls
	prepare(w)
	defer w.close()
	for _, c := range p.Choices {
		if w.violation != nil {
			break
		}
		w.take(c)
	}
	w.quiesce()
	return w
}

// random walks the schedule of a seed.
func random(seed uint64, o Options) (Plan, *world) {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	plan := Plan{Setting: randomSetting(rng, o.Kinds)}
	w := newWorld(plan.Setting)
	w.afterCalls, w.rules = afterCalls, o.Rules
	defer w.close()
	d := dice{rng: rng, world: w}
	for range 20 + rng.IntN(70) {
		c, ok := d.draw()
		if !ok || w.violation != nil {
			break
		}
		if w.take(c) {
			plan.Choices = append(plan.Choices, c)
		}
	}
	w.quiesce()
	return plan, w
}

// afterCalls: workers hand over after store calls too, in random schedules and replays.
const afterCalls = true

func randomSetting(rng *rand.Rand, kinds []Kind) Setting {
	s := SmallSetting(kinds[rng.IntN(len(kinds))])
	s.Workers = 2 + rng.IntN(2)
	if rng.IntN(4) == 0 {
		s.Intents = 2
	}
	if rng.IntN(2) == 0 {
		s.Call, s.Grace = 1+rng.IntN(3), 1+rng.IntN(2)
		s.Pause, s.Transit, s.Processing, s.Lag = rng.IntN(3), rng.IntN(2), rng.IntN(4), rng.IntN(4)
		s.Attempts, s.Within = 1+rng.IntN(4), 5+rng.IntN(30)
	}
	s.Retention = s.Call + s.Pause + s.Transit + s.Processing + 1 + rng.IntN(7)
	s.External = rng.IntN(6) == 0
	s.Twice = rng.IntN(5) == 0
	if rng.IntN(6) == 0 {
		s.Heartbeat = true
		s.Call = 3 + rng.IntN(3)
		s.Retention += s.Call
	}
	switch rng.IntN(8) {
	case 0:
		s.Intents = 2 + rng.IntN(2)
		s.Limit = 1 + rng.IntN(s.Intents-1)
		if rng.IntN(2) == 0 {
			s.Per = 2 + rng.IntN(20)
		}
	case 1:
		s.Steps, s.External = 1+rng.IntN(2), false
		s.Intents = s.Steps * alternatives
	case 2:
		s.Steps, s.External, s.Inbox = 1, false, true
		s.Intents = alternatives * (1 + rng.IntN(2))
	}
	return s
}

// dice draw the choices of a random schedule, by weight. Each schedule has its own mood: which faults it leans to, how fast the
// clock goes, and whether it keeps still while somebody is about to send.
type dice struct {
	rng     *rand.Rand
	world   *world
	choices []Choice
	weights []int
	total   int
	mood    int
	pace    int
	keen    bool
}

// hurried reports whether somebody is on the way to a send that time passing would only call off.
func (d *dice) hurried() bool {
	for _, wk := range d.world.workers {
		if wk.at == pointCheck || wk.at == pointAfter || wk.at == pointStore && wk.request == nil {
			return true
		}
	}
	return false
}

func (d *dice) add(weight int, c Choice) {
	if weight > 0 && d.world.possible(c) {
		d.choices = append(d.choices, c)
		d.weights = append(d.weights, weight)
		d.total += weight
	}
}

func (d *dice) draw() (Choice, bool) {
	if d.mood == 0 {
		d.mood, d.pace = 1+d.rng.IntN(3), []int{4, 8, 16, 32}[d.rng.IntN(4)]
		d.keen = d.rng.IntN(4) > 0
	}
	d.choices, d.weights, d.total = d.choices[:0], d.weights[:0], 0
	w := d.world
	for _, wk := range w.workers {
		d.addWorker(wk)
	}
	for _, r := range w.requests {
		if r.stage != over {
			d.addRequest(r)
		}
	}
	for _, t := range w.tracks {
		if t.row.State == effectonce.StateReview {
			d.add(4, Choice{Verb: verbConfirm, A: t.id})
			d.add(3, Choice{Verb: verbAbsent, A: t.id})
			d.add(6, Choice{Verb: verbResend, A: t.id})
			d.add(1, Choice{Verb: verbAbandon, A: t.id})
			d.add(1, Choice{Verb: verbStale, A: t.id})
		}
	}
	pace := d.pace
	if d.keen && d.hurried() {
		pace /= 8
	}
	d.add(pace, Choice{Verb: verbTick, A: 1})
	d.add(pace/2, Choice{Verb: verbTick, A: 2})
	d.add(pace/2, Choice{Verb: verbTick, A: 3 + d.rng.IntN(4)})
	d.add(pace/8, Choice{Verb: verbTick, A: 5 + d.rng.IntN(30)})
	if d.total == 0 {
		return Choice{}, false
	}
	n := d.rng.IntN(d.total)
	for i, weight := range d.weights {
		if n -= weight; n < 0 {
			return d.choices[i], true
		}
	}
	return Choice{}, false
}

func (d *dice) addWorker(wk *worker) {
	if wk.at == pointIdle {
		o := 1 + d.rng.IntN(len(d.world.tracks))
		d.add(8, Choice{Verb: verbDo, A: wk.id, B: o})
		d.add(1, Choice{Verb: verbWait, A: wk.id, B: o})
		d.add(1, Choice{Verb: verbMismatch, A: wk.id, B: o})
		if d.world.track(o).row.State == "" {
			d.add(4, Choice{Verb: verbRecord, A: wk.id, B: o})
		}
		d.add(8, Choice{Verb: verbClaim, A: wk.id, B: o})
		if n := len(d.world.flows); n > 0 {
			f := 1 + d.rng.IntN(n)
			d.add(8, Choice{Verb: verbAgent, A: wk.id, B: f})
			d.add(4, Choice{Verb: verbEvent, A: wk.id, B: f})
			d.add(8, Choice{Verb: verbConsume, A: wk.id})
		}
		d.add(6, Choice{Verb: verbWork, A: wk.id})
	}
	d.add(40, Choice{Verb: verbRun, A: wk.id})
	d.add(1, Choice{Verb: verbFail, A: wk.id})
	d.add(1, Choice{Verb: verbLose, A: wk.id})
	d.add(3*d.mood, Choice{Verb: verbReset, A: wk.id})
	d.add(6, Choice{Verb: verbFresh, A: wk.id})
	d.add(6, Choice{Verb: verbBlind, A: wk.id})
	d.add(10, Choice{Verb: verbBeat, A: wk.id})
	d.add(1, Choice{Verb: verbCancel, A: wk.id})
	if wk.at != pointIdle {
		d.add(1, Choice{Verb: verbCrash, A: wk.id})
	}
	if wk.closed || d.rng.IntN(16) == 0 {
		d.add(1, Choice{Verb: verbCrash, A: wk.id})
		d.add(1, Choice{Verb: verbDrain, A: wk.id})
	}
}

func (d *dice) addRequest(r *request) {
	for _, v := range []struct {
		verb   Verb
		weight int
	}{
		{verbDeliver, 20}, {verbDrop, 3}, {verbTwice, 10}, {verbDeny, 5}, {verbThrottle, 2},
		{verbFinish, 16}, {verbDecline, 1}, {verbBreak, 2}, {verbBreakAfter, 2},
	} {
		d.add(v.weight, Choice{Verb: v.verb, A: r.id})
	}
}
