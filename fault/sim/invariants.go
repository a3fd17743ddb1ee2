package sim

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
)

// Violation is a rule that did not hold.
type Violation struct {
	// Rule is I1 to I11 of S5.1, or another requirement's number.
	Rule   string
	Detail string
}

// Counts say what schedules have been through, so that a simulator that reaches nothing is noticed.
type Counts struct {
	Crashes, Sends, Effects, Decisions, Reviews, Late, Beats int
	// Refused counts operations that a limit refused; Asked how often a model was asked, Decided the decisions that were recorded, Lost
	// those that came second; Consumed the events that were done with.
	Refused, Asked, Decided, Lost, Consumed int
	// Lines counts the lines of the decision table that decided (S7.3).
	Lines [13]int
	// Verdicts counts how recorded attempts ended, States how operations did.
	Verdicts map[effectonce.Verdict]int
	States   map[effectonce.State]int
}

func (c *Counts) add(d Counts) {
	c.Crashes += d.Crashes
	c.Sends += d.Sends
	c.Effects += d.Effects
	c.Decisions += d.Decisions
	c.Reviews += d.Reviews
	c.Late += d.Late
	c.Beats += d.Beats
	c.Refused += d.Refused
	c.Asked += d.Asked
	c.Decided += d.Decided
	c.Lost += d.Lost
	c.Consumed += d.Consumed
	for i, n := range d.Lines {
		c.Lines[i] += n
	}
	if c.Verdicts == nil {
		c.Verdicts, c.States = map[effectonce.Verdict]int{}, map[effectonce.State]int{}
	}
	for v, n := range d.Verdicts {
		c.Verdicts[v] += n
	}
	for s, n := range d.States {
		c.States[s] += n
	}
}

// track is what the world knows about one operation from outside: what was sent, what took effect, who owns it.
type track struct {
	id       int
	intentID string
	key      effectonce.Key
	row      effectonce.Operation
	events   []effectonce.Event

	// holder is the process that committed the last claim or take-over, nil while nobody owns the operation.
	holder *holder
	sends  []*request
	// effects counts the ledger; effect is the first's name.
	effects int
	effect  string
	// received are the downstream keys that the provider has begun to process, with the first time each was received.
	received map[string]time.Time
	// permissions counts a person's permissions to resend that no attempt has spent.
	permissions int
	// waited is when an agent last came back for it while everything settles.
	waited time.Time
	// waiting says that it was pending, with time left before it expires, when everything began to settle.
	waiting bool
	// step is the place in a run for which the model may choose it, nil for none.
	step *step
	// refused says that the limit refused it, refusedAt how many audit lines there were then.
	refused   bool
	refusedAt int
}

type holder struct {
	worker *worker
	life   int
	token  int64
}

func (t *track) hash(o *observed) {
	o.number(t.permissions)
	o.bit(t.holder != nil)
	for _, r := range t.sends {
		o.number(r.call.Attempt)
		o.number(r.call.Epoch)
		o.bit(r.reached)
	}
}

func (w *world) violate(rule, format string, args ...any) {
	if w.violation == nil && (len(w.rules) == 0 || slices.Contains(w.rules, rule)) {
		w.violation = &Violation{Rule: rule, Detail: fmt.Sprintf(format, args...)}
	}
}

// noteWrite checks what a write to the store did: one event for a commit, nothing for a refusal, and only the owner moves what it
// owns. A nil worker is the person or a lease that was extended.
func (w *world) noteWrite(by *worker, key effectonce.Key, committed bool) {
	log := w.store.AllEvents()
	fresh := log[w.logged:]
	w.logged = len(log)
	t := w.byKey[key]
	if t == nil {
		w.noteEvent(w.event(key), by, committed, fresh)
		return
	}
	row, err := w.store.Load(context.Background(), key)
	if err != nil {
		if t.row.State != "" || committed {
			w.violate("I5", "operation %d vanished: %v", t.id, err)
		}
		return
	}
	before := t.row
	row.AsOf = time.Time{}
	t.row = row
	if !committed {
		before.DueAt = row.DueAt // a lease may have been extended, which is no transition
		if len(fresh) != 0 || before.State != "" && !reflect.DeepEqual(before, row) {
			w.violate("I4", "operation %d: a refused write changed it", t.id)
		}
		return
	}
	if len(fresh) != 1 {
		w.violate("I7", "operation %d: a transition left %d events", t.id, len(fresh))
		return
	}
	e := fresh[0]
	if e.Key != key || e.Seq != before.Version+1 || e.Seq != row.Version || e.From != before.State || e.To != row.State || !e.At.Equal(w.now) {
		w.violate("I7", "operation %d: event %d %s -> %s does not tell the transition from version %d %s to %d %s", t.id, e.Seq, e.From, e.To, before.Version, before.State, row.Version, row.State)
	}
	t.events = append(t.events, e)
	w.count(e, row)
	w.checkOwner(t, by, e)
	w.checkFinal(t, before, row)
	w.checkLimits()
	w.checkStep(t)
	if e.Sends {
		w.checkAttempt(t, before, e)
	}
	if row.State == effectonce.StateReview && before.State != effectonce.StateReview {
		w.checkReview(t, before, e)
	}
}

func (w *world) count(e effectonce.Event, row effectonce.Operation) {
	w.counts.Lines[e.Line]++
	if w.counts.Verdicts == nil {
		w.counts.Verdicts, w.counts.States = map[effectonce.Verdict]int{}, map[effectonce.State]int{}
	}
	if e.Verdict != "" {
		w.counts.Verdicts[e.Verdict]++
	}
	if row.State == effectonce.StateReview && e.From != effectonce.StateReview {
		w.counts.Reviews++
	}
	if e.Kind == effectonce.EventEvidence {
		w.counts.Late++
	}
}

// checkOwner proves the fence without looking at tokens: whoever claimed or took over last, and still lives, is the only one
// whose owner's writes may be committed (S5.1 I4).
func (w *world) checkOwner(t *track, by *worker, e effectonce.Event) {
	switch e.Kind {
	case effectonce.EventRecorded, effectonce.EventClaimed, effectonce.EventTakenOver:
		if e.To == effectonce.StateInProgress {
			t.holder = &holder{worker: by, life: by.life, token: t.row.Token}
		}
	case effectonce.EventAttemptStarted, effectonce.EventAttemptEnded, effectonce.EventRuled, effectonce.EventParked:
		h := t.holder
		if h == nil || h.worker != by || h.life != by.life || h.token != e.Token {
			w.violate("I4", "operation %d: %s was committed by somebody who does not own it", t.id, e.Kind)
		}
	case effectonce.EventResolved:
		switch e.Resolution {
		case effectonce.ResolveAbsentResend:
			t.permissions++
		}
	}
	if t.row.State != effectonce.StateInProgress || e.Kind == effectonce.EventResolved {
		t.holder = nil
	}
}

// checkFinal proves I2, I3 and S5.2.
func (w *world) checkFinal(t *track, before, row effectonce.Operation) {
	if before.State.Final() && (row.State != before.State || row.Reference != before.Reference || !row.SettledAt.Equal(before.SettledAt)) {
		w.violate("S5.2", "operation %d: final state %s became %s", t.id, before.State, row.State)
	}
	if before.State.Final() || !row.State.Final() {
		return
	}
	w.counts.States[row.State]++
	switch row.State {
	case effectonce.StateSucceeded:
		if t.effects == 0 {
			w.violate("I2", "operation %d succeeded and the provider has no effect of it", t.id)
		}
		if t.effects == 1 && row.Reference != t.effect {
			w.violate("I2", "operation %d succeeded with reference %q and the effect is %q", t.id, row.Reference, t.effect)
		}
	case effectonce.StateFailed:
		if t.effects > 0 {
			w.violate("I3", "operation %d failed by %s and the provider has %d effects of it", t.id, row.Proof, t.effects)
		}
	}
}

// checkAttempt proves that what a new attempt rests on is true: no earlier one can have an effect besides it (S5.1 I8, S7.3).
func (w *world) checkAttempt(t *track, before effectonce.Operation, e effectonce.Event) {
	switch e.Line {
	case 0:
		for _, r := range t.sends {
			if r.stage != over || r.reached {
				w.violate("I8", "operation %d: attempt %d starts as if nothing had been sent, and attempt %d was", t.id, e.Attempt, r.call.Attempt)
			}
		}
	case 5:
		t.permissions--
		if t.permissions < 0 {
			w.violate("I8", "operation %d: attempt %d resends by a permission that was spent", t.id, e.Attempt)
		}
		w.checkAbsent(t, e)
	case 7:
		if !w.setting.Kind.keyed() {
			w.violate("I8", "operation %d: attempt %d is a keyed resend to a provider without keys", t.id, e.Attempt)
		}
	case 10:
		if !w.setting.Kind.resends() {
			w.violate("I8", "operation %d: attempt %d resends without the policy's leave", t.id, e.Attempt)
		}
		w.checkAbsent(t, e)
	default:
		w.violate("I8", "operation %d: attempt %d starts by line %d", t.id, e.Attempt, e.Line)
	}
}

// checkAbsent proves that a resend that rests on absence comes when nothing has happened and nothing can still happen.
func (w *world) checkAbsent(t *track, e effectonce.Event) {
	if t.effects > 0 {
		w.violate("I8", "operation %d: attempt %d by line %d although there is an effect", t.id, e.Attempt, e.Line)
	}
	for _, r := range t.sends {
		if r.stage != over {
			w.violate("I8", "operation %d: attempt %d by line %d although attempt %d can still take effect", t.id, e.Attempt, e.Line, r.call.Attempt)
		}
	}
}

// checkReview proves that nobody is called needlessly: with a keyed provider inside its window, or a look-up that answers
// and a policy that resends, a person is called only when the budget is spent (S16, last paragraph).
func (w *world) checkReview(t *track, before effectonce.Operation, e effectonce.Event) {
	s, terms := w.setting, before.Terms
	if s.External {
		return // its caller may simply not come back
	}
	if t.permissions > 0 && before.Permission != nil && e.Found != effectonce.FoundMany && t.row.Evidence == nil {
		w.violate("S7.6", "operation %d: it is back in review with a permission to resend that nobody has used", t.id)
	}
	if ev := t.row.Evidence; ev != nil && ev.Epoch == t.row.Epoch && e.Found != effectonce.FoundMany {
		w.violate("S5.8", "operation %d: a person is called although a success is stored", t.id)
	}
	if before.Epoch > 0 || t.spent() >= terms.Attempts || before.StoredError || e.Found == effectonce.FoundMany {
		return
	}
	if s.Kind.keyed() && s.Kind != KeyedStored {
		first, ok := t.firstSent()
		last := first.Add(terms.Retention - terms.CallTimeout - terms.Settle())
		if !ok || w.now.Before(last) {
			w.violate("S16", "operation %d: a person is called although the provider still knows the key", t.id)
		}
	}
	if s.Kind == LookUpResend && e.Found == effectonce.FoundAbsent {
		w.violate("S16", "operation %d: a person is called although the look-up is conclusive", t.id)
	}
}

// spent counts the attempts that the budget must bear (S7.7): asking again while the provider says in_flight is free as long
// as there is total time, and so is all waiting.
func (t *track) spent() int {
	n, free := 0, 0
	var first time.Time
	for _, e := range t.events {
		if e.Sends {
			n++
			if first.IsZero() {
				first = e.At
			}
		}
		if e.Verdict == effectonce.VerdictInFlight && e.At.Before(first.Add(t.row.Terms.Within)) {
			free++
		}
	}
	return n - free
}

// firstSent is the start of the first attempt of which a byte may have left: the window counts from it (S7.2).
func (t *track) firstSent() (time.Time, bool) {
	ended := map[int]effectonce.Verdict{}
	for _, e := range t.events {
		if e.Kind == effectonce.EventAttemptEnded {
			ended[e.Attempt] = e.Verdict
		}
	}
	for _, e := range t.events {
		if e.Sends && ended[e.Attempt] != effectonce.VerdictNotSent && ended[e.Attempt] != effectonce.VerdictThrottled {
			return e.At, true
		}
	}
	return time.Time{}, false
}

// noteSend checks a request as its first byte leaves.
func (w *world) noteSend(r *request) {
	t := r.track
	w.counts.Sends++
	on := false
	for _, e := range t.events {
		on = on || e.Sends && e.Attempt == r.call.Attempt && e.Epoch == r.call.Epoch
	}
	for _, earlier := range t.sends {
		if earlier.call.Attempt == r.call.Attempt {
			on = false
		}
	}
	if !on {
		w.violate("S5.10", "operation %d: attempt %d is sent without a committed attempt of its own", t.id, r.call.Attempt)
	}
	if strings.Contains(r.body, freeText) || strings.Contains(string(r.call.Arguments), freeText) {
		w.violate("I6", "operation %d: free text is sent to the provider", t.id)
	}
	if len(t.sends) > 0 && t.sends[0].body != r.body || r.body != string(business) {
		w.violate("S3.10", "operation %d: attempt %d sends other bytes", t.id, r.call.Attempt)
	}
	t.sends = append(t.sends, r)
}

// noteReceive checks a request as the provider gets it.
func (w *world) noteReceive(r *request) {
	if r.track.row.State == "" {
		w.violate("S3.5", "operation %d is not stored and the provider is called", r.track.id)
	}
}

// noteStarted checks a request that the provider takes for a new one.
func (w *world) noteStarted(r *request) {
	t := r.track
	if !w.setting.Kind.keyed() {
		return
	}
	if t.received == nil {
		t.received = map[string]time.Time{}
	}
	first, again := t.received[r.call.DownstreamKey]
	if !again {
		t.received[r.call.DownstreamKey] = w.now
		return
	}
	if w.now.Sub(first) < ticks(w.setting.Retention) {
		return
	}
	for _, e := range t.events {
		if e.Sends && e.Attempt == r.call.Attempt && e.Line == 10 {
			return
		}
	}
	w.violate("I8", "operation %d: attempt %d reaches the provider after it forgot the key", t.id, r.call.Attempt)
}

// noteEffect counts the ledger.
func (w *world) noteEffect(r *request, e twin.Effect) {
	t := w.byStamp[e.Stamp]
	if t == nil || t != r.track {
		w.violate("S3.9", "effect %s bears no operation's stamp", e.ID)
		return
	}
	w.counts.Effects++
	t.effects++
	if t.effects == 1 {
		t.effect = e.ID
	}
	if t.effects > 1 {
		w.violate("I1", "operation %d has %d effects", t.id, t.effects)
	}
	if s := t.step; s != nil {
		if s.effects++; s.effects > 1 {
			w.violate("S10.1", "run %d: %s has %d effects", s.run.id, s.name, s.effects)
		}
	}
	if s := w.setting; s.Limit > 0 && s.Per == 0 && w.counts.Effects > s.Limit {
		w.violate("S8.3", "there are %d effects, and the limit is %d", w.counts.Effects, s.Limit)
	}
	if t.row.State == effectonce.StateFailed {
		w.violate("I3", "operation %d had failed by %s and takes effect", t.id, t.row.Proof)
	}
}

// noteAnswer checks what an agent was told.
func (w *world) noteAnswer(t *track, mismatch bool, out effectonce.Outcome, err error) {
	if mismatch && (err == nil || errors.Is(err, effectonce.ErrFailed)) {
		w.violate("S4.5", "operation %d: other arguments were answered %v", t.id, err)
	}
	if err == nil && (t.row.State != effectonce.StateSucceeded || out.Operation.Reference != t.row.Reference) {
		w.violate("I2", "operation %d: an agent was told success and it is %s", t.id, t.row.State)
	}
	if errors.Is(err, effectonce.ErrFailed) && t.row.State != effectonce.StateFailed {
		w.violate("I3", "operation %d: an agent was told failure and it is %s", t.id, t.row.State)
	}
	if effectonce.CodeOf(err) == effectonce.CodeInternal && err != nil {
		w.violate("S7.10", "operation %d: an agent was answered an unexpected error: %v", t.id, err)
	}
}

// keptSuccess checks, when a call returns, that a success which it was given is not lost (S5.8).
func (w *worker) keptSuccess() {
	t := w.busy
	if w.success == "" || w.troubled {
		return
	}
	if !t.row.State.Final() && t.row.Evidence == nil {
		w.world.violate("S5.8", "operation %d: a success was given to worker %d and is lost", t.id, w.id)
	}
}

// check looks at what no single write shows.
func (w *world) check() {
	for _, t := range w.tracks {
		if t.row.State == effectonce.StateSucceeded && t.effects == 0 {
			w.violate("I2", "operation %d succeeded without an effect", t.id)
		}
		if t.row.State == effectonce.StateInProgress && t.row.DueAt.IsZero() {
			w.violate("I11", "operation %d is in progress without an end of its lease", t.id)
		}
	}
}
