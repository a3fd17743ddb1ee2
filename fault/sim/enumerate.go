package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
)

// Small is a setting small enough to walk through all its schedules: two workers, one intent, ticks as in [SmallSetting], and
// bounds on how often each fault happens. Within the bounds nothing is left out: every order of every step of both workers, of the
// network, of the provider and of the clock.
type Small struct {
	Setting Setting
	// Ticks is how far the clock goes before everything settles. After the window and the conclusive look-up of a second
	// attempt nothing new can happen.
	Ticks int
	// Calls is how often each worker begins anew, crashes not counted.
	Calls int
	// Crashes of workers in all. Each lets its worker begin once more.
	Crashes int
	// Losses are requests or answers lost on the way; Blind are look-ups that are unavailable; Refusals are answers 401 in
	// front of the provider; Breaks are 500s, with the effect or without it.
	Losses, Blind, Refusals, Breaks int
	// Resends are the resends that a person permits; confirming and failing is free.
	Resends int
	// StatesMax ends the walk, which is then not complete; 0 for no limit.
	StatesMax int
}

// Tally is what came of an [Enumerate].
type Tally struct {
	// States are the different states that were seen, Ends those of them in which only settling was left, Runs how often a
	// schedule was executed from the beginning.
	States, Ends, Runs, Steps int
	// Again is how often a state was met again. Of these, Audited were looked at once more; Mistaken of them were not followed
	// by the same states as the first time, which must be none.
	Again, Audited, Mistaken int
	// Schedules is how many different schedules lead through these states, from the beginning to an end.
	Schedules float64
	// Complete says that no state was left out for StatesMax.
	Complete bool
	Elapsed  time.Duration
	Counts   Counts
	// Failure is the first schedule that broke a rule.
	Failure *Failure
}

// String is the tally in one line.
func (t Tally) String() string {
	all := "all"
	if !t.Complete {
		all = "NOT all"
	}
	return fmt.Sprintf("%s schedules: %.3g of them through %d states, %d ends, %d runs, %d steps, %d of %d audited states mistaken, in %s", all, t.Schedules, t.States, t.Ends, t.Runs, t.Steps, t.Mistaken, t.Audited, t.Elapsed.Round(time.Millisecond))
}

// Enumerate walks all schedules depth first. A state is reached by running its schedule again from the beginning, since a
// worker in the middle of a call cannot be copied; a state that was seen before, by its hash, is not walked through again. The hash
// covers the clock, the stored rows, the provider, what is on the way, and everything that each worker has observed in the call
// it is in, on which alone depends what it does next.
func Enumerate(s Small) Tally {
	begun := time.Now()
	e := &enumeration{small: s, seen: map[observed]node{}}
	e.tally.Complete = true
	first := e.start(nil)
	e.tally.Schedules = e.walk(nil, first, e.hash(first)).schedules
	e.tally.States = len(e.seen)
	e.tally.Elapsed = time.Since(begun)
	return e.tally
}

type enumeration struct {
	small Small
	seen  map[observed]node
	tally Tally
}

// node is a state that was walked through: the number of schedules from there to an end, and the hash of the states that
// follow it.
type node struct {
	schedules float64
	next      observed
}

// budget is what a schedule has used up.
type budget struct{ crashes, losses, blind, refusals, breaks, resends, ticks int }

// enumerated is a world on a schedule.
type enumerated struct {
	*world
	used budget
}

// start runs a schedule from the beginning.
func (e *enumeration) start(schedule []Choice) *enumerated {
	w := &enumerated{world: newWorld(e.small.Setting)}
	e.tally.Runs++
	for _, c := range schedule {
		e.step(w, c)
	}
	return w
}

func (e *enumeration) step(w *enumerated, c Choice) {
	e.tally.Steps++
	w.used.spend(c.Verb)
	w.take(c)
}

func (b *budget) spend(v Verb) {
	switch v {
	case verbCrash:
		b.crashes++
	case verbDrop, verbReset:
		b.losses++
	case verbBlind:
		b.blind++
	case verbDeny:
		b.refusals++
	case verbBreak, verbBreakAfter:
		b.breaks++
	case verbResend:
		b.resends++
	case verbTick:
		b.ticks++
	}
}

// walk goes through everything that can follow a schedule whose world and state are given.
func (e *enumeration) walk(schedule []Choice, w *enumerated, state observed) node {
	if w.violation != nil {
		e.fail(schedule, w)
	}
	if e.tally.Failure != nil {
		w.close()
		return node{}
	}
	if n, ok := e.seen[state]; ok {
		e.audit(schedule, w, n)
		return n
	}
	if e.small.StatesMax > 0 && len(e.seen) >= e.small.StatesMax {
		e.tally.Complete = false
		w.close()
		return node{}
	}
	e.seen[state] = node{}
	choices := e.choices(w)
	if len(choices) == 0 {
		e.end(schedule, w)
		e.seen[state] = node{schedules: 1}
		return e.seen[state]
	}
	var n node
	var follow []observed
	for i, c := range choices {
		next := append(schedule[:len(schedule):len(schedule)], c)
		if i == 0 {
			e.step(w, c)
		} else {
			w = e.start(next)
		}
		h := e.hash(w)
		follow = append(follow, h)
		n.schedules += e.walk(next, w, h).schedules
	}
	n.next = combine(follow)
	e.seen[state] = n
	return n
}

// combine hashes states whatever their order.
func combine(states []observed) observed {
	slices.Sort(states)
	var o observed
	for _, h := range states {
		o.word(uint64(h))
	}
	return o
}

// auditEvery is how many states are met again between two that are looked at once more.
const auditEvery = 50

// audit looks at a state that was met again: what follows it must be what followed it the first time. That is what makes it
// right not to walk through it a second time.
func (e *enumeration) audit(schedule []Choice, w *enumerated, n node) {
	defer w.close()
	e.tally.Again++
	if e.tally.Again%auditEvery != 0 || n.next == 0 || !e.tally.Complete {
		return
	}
	e.tally.Audited++
	var follow []observed
	for _, c := range e.choices(w) {
		next := e.start(append(schedule[:len(schedule):len(schedule)], c))
		follow = append(follow, e.hash(next))
		next.close()
	}
	if combine(follow) != n.next {
		e.tally.Mistaken++
	}
}

// end lets everything settle where no choice is left.
func (e *enumeration) end(schedule []Choice, w *enumerated) {
	e.tally.Ends++
	w.quiesce()
	e.tally.Counts.add(w.counts)
	if w.violation != nil {
		e.fail(schedule, w)
	}
	w.close()
}

func (e *enumeration) fail(schedule []Choice, w *enumerated) {
	if e.tally.Failure == nil {
		plan := Plan{Setting: e.small.Setting, Choices: schedule}
		e.tally.Failure = &Failure{Violation: *w.violation, Plan: plan, Story: w.story()}
	}
}

func (e *enumeration) hash(w *enumerated) observed {
	o := w.hash()
	for _, n := range []int{w.used.crashes, w.used.losses, w.used.blind, w.used.refusals, w.used.breaks, w.used.resends, w.used.ticks} {
		o.number(n)
	}
	return o
}

// choices are all that can happen next.
func (e *enumeration) choices(w *enumerated) []Choice {
	s := e.small
	var all []Choice
	add := func(left bool, v Verb, a, b int) {
		if c := (Choice{Verb: v, A: a, B: b}); left && w.possible(c) {
			all = append(all, c)
		}
	}
	for _, wk := range w.workers {
		if wk.at == pointIdle {
			add(wk.calls < s.Calls+wk.life-1 && w.worthwhile(w.tracks[0]), verbDo, wk.id, 1)
			continue
		}
		add(true, verbRun, wk.id, 0)
		add(w.used.crashes < s.Crashes && !wk.fresh(), verbCrash, wk.id, 0)
		// An answer is lost only once there is one; before, the worker may wait.
		add(w.used.losses < s.Losses && wk.at == pointAnswer && wk.request.conn.answer != nil, verbReset, wk.id, 0)
		add(s.Setting.Lag > 0, verbFresh, wk.id, 0)
		add(w.used.blind < s.Blind, verbBlind, wk.id, 0)
	}
	for _, r := range w.requests {
		add(true, verbDeliver, r.id, 0)
		add(w.used.losses < s.Losses, verbDrop, r.id, 0)
		add(w.used.refusals < s.Refusals, verbDeny, r.id, 0)
		add(true, verbFinish, r.id, 0)
		add(w.used.breaks < s.Breaks, verbBreak, r.id, 0)
		add(w.used.breaks < s.Breaks, verbBreakAfter, r.id, 0)
	}
	for _, t := range w.tracks {
		add(true, verbConfirm, t.id, 0)
		add(w.early(t), verbAbsent, t.id, 0)
		add(w.used.resends < s.Resends && w.early(t), verbResend, t.id, 0)
	}
	if w.begun() {
		add(w.used.ticks < s.Ticks && !w.anyFresh(), verbTick, 1, 0)
	}
	return all
}

// begun: before anybody has begun, and after everything is over, the time makes no difference.
func (w *enumerated) begun() bool {
	for _, wk := range w.workers {
		if wk.at != pointIdle {
			return true
		}
	}
	return w.tracks[0].row.State != "" && !w.settled()
}

// fresh reports whether a worker has begun a call that has left no trace yet. To pause it there, or to crash it, is the same as
// that it begins later, or never.
func (w *worker) fresh() bool {
	return w.at == pointStore && (w.writes == effectonce.EventRecorded || w.writes == effectonce.EventTakenOver || w.writes == effectonce.EventClaimed)
}

func (w *enumerated) anyFresh() bool {
	for _, wk := range w.workers {
		if wk.fresh() {
			return true
		}
	}
	return false
}

// worthwhile reports whether a call would find anything to do; one that does not, changes nothing, and one that begins early
// and is paused is the same as one that begins when there is something to do.
func (w *enumerated) worthwhile(t *track) bool {
	return t.row.State == "" || !t.row.DueAt.IsZero() && !w.now.Before(t.row.DueAt)
}

// early: the person's decisions are tried at every moment.
func (w *enumerated) early(t *track) bool { return t.row.State == effectonce.StateReview }
