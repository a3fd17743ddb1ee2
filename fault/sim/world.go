package sim

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
	"github.com/effectonce/effectonce/store/memory"
)

// world is everything there is in a run. It belongs to one goroutine.
type world struct {
	setting Setting
	// afterCalls makes workers hand over after store calls as well as before them.
	afterCalls bool
	// rules are those to watch, nil for all.
	rules []string
	// trusting and unfenced take a rule out of the ports instead of the guard, to show that it is needed: an adapter that takes
	// a refusal in front of the provider for definitive although the network may deliver twice (S6.4), and a store that
	// applies what was computed from an older row (S5.1 I4).
	trusting, unfenced bool
	// overwriting and marking do the same to a journal whose second writer wins (S10.1), and to an inbox that marks an event as
	// seen before it is stored (S9.1).
	overwriting, marking bool

	now      time.Time
	store    *memory.Store
	provider *twin.Model
	workers  []*worker
	requests []*request
	tracks   []*track
	byKey    map[effectonce.Key]*track
	byStamp  map[string]*track
	person   *effectonce.Guard
	flows    []*flow
	events   []*event

	// logged is how many of the store's events have been checked.
	logged    int
	steps     int
	counts    Counts
	violation *Violation
}

var secret = []byte("the simulator's secret, 32 bytes")

func newWorld(s Setting) *world {
	w := &world{setting: s, now: beginning, provider: twin.NewModel(s.rules()), byKey: map[effectonce.Key]*track{}, byStamp: map[string]*track{}}
	w.store = memory.Open(memory.Options{Now: func() time.Time { return w.now }, Secret: secret})
	w.person = effectonce.New(personStore{Store: w.store, world: w}, effectonce.Options{Owner: "person", Logger: discard})
	for i := range s.Intents {
		t := &track{id: i + 1, intentID: "refund:ticket-" + strconv.Itoa(i+1)}
		key, err := effectonce.Identity{Tenant: effectonce.DefaultTenant, Tool: tool, Scope: effectonce.ScopeBusiness, IntentID: t.intentID}.Key()
		if err != nil {
			panic(err)
		}
		t.key = key
		w.tracks = append(w.tracks, t)
		w.byKey[key] = t
		w.byStamp[effectonce.StampOf(secret, key)] = t
	}
	w.addFlows()
	for i := range s.Workers {
		w.workers = append(w.workers, newWorker(w, i+1))
	}
	return w
}

// close ends all coroutines.
func (w *world) close() {
	for _, wk := range w.workers {
		if wk.next != nil {
			wk.stop()
			wk.cancel()
		}
	}
}

const (
	tool = "sim.refund"
	// freeText marks what a model says in its own words; it must never reach the provider (S5.1 I6).
	freeText = "in other words"
)

var business = json.RawMessage(`{"amount":100,"currency":"EUR","order":"8812"}`)

// intent is what an agent asks for; wording changes only what is free text (S2.3).
func (w *world) intent(t *track, wording int, mismatch bool) effectonce.Intent {
	in := effectonce.Intent{
		Tool: tool, ID: t.intentID, RequestScope: "account", Actor: "agent",
		Business:  business,
		Arguments: json.RawMessage(`{"amount":100.0,"currency":"EUR","order":"8812","reason":"` + freeText + ` ` + strconv.Itoa(wording) + `"}`),
		Terms:     w.setting.terms(),
		Limits:    w.setting.limits(),
	}
	if t.step != nil {
		in.Run, in.Step = t.step.run.name, t.step.name
	}
	if mismatch {
		in.Business = json.RawMessage(`{"amount":101,"currency":"EUR","order":"8812"}`)
	}
	return in
}

// wording is another one for each worker and process.
func (w *worker) wording() int { return 10*w.id + w.life }

// send puts a request on the way.
func (w *world) send(wk *worker, call effectonce.Call) *request {
	t := w.byKey[call.Key]
	r := &request{id: len(w.requests) + 1, track: t, call: call, body: string(call.Request), sent: w.now, stage: onTheWay, conn: &connection{}}
	w.requests = append(w.requests, r)
	w.noteSend(r)
	return r
}

// create and apply are the store's, with every commit checked.
func (w *world) create(wk *worker, ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	op, created, err := w.store.Create(ctx, t)
	w.noteRefusal(w.byKey[t.To.Key], err)
	w.noteWrite(wk, t.To.Key, err == nil && created)
	return op, created, err
}

func (w *world) apply(wk *worker, ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	if w.unfenced && w.byKey[t.From.Key] != nil {
		t = unfence(t, w.byKey[t.From.Key].row)
	}
	op, err := w.store.Apply(ctx, t)
	w.noteWrite(wk, t.From.Key, err == nil)
	return op, err
}

// unfence pretends that a transition was computed from the row as it stands.
func unfence(t effectonce.Transition, row effectonce.Operation) effectonce.Transition {
	t.From = row
	t.To.Version = row.Version + 1
	t.Event.Seq, t.Event.From = t.To.Version, row.State
	return t
}

func (w *world) extend(ctx context.Context, key effectonce.Key, token int64, lease, limit time.Duration) (time.Duration, error) {
	left, err := w.store.Extend(ctx, key, token, lease, limit)
	if err == nil {
		w.counts.Beats++
	}
	w.noteWrite(nil, key, false)
	return left, err
}

// personStore reports what the person commits.
type personStore struct {
	*memory.Store
	world *world
}

func (s personStore) Apply(ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	return s.world.apply(nil, ctx, t)
}

// limit is the moment beyond which the clock cannot go before something else happens.
func (w *world) limit() (time.Time, bool) {
	var first time.Time
	found := false
	consider := func(at time.Time) {
		if !found || at.Before(first) {
			first, found = at, true
		}
	}
	for _, wk := range w.workers {
		if wk.at == pointSend {
			consider(wk.checked.Add(ticks(w.setting.Pause)))
		}
	}
	for _, r := range w.requests {
		if at, ok := r.bound(w.setting); ok {
			consider(at)
		}
	}
	return first, found
}

// room is by how many ticks, up to n, the clock can move on.
func (w *world) room(n int) int {
	at, ok := w.limit()
	if !ok {
		return n
	}
	return min(n, int(at.Sub(w.now)/Tick))
}

func (w *world) worker(n int) *worker {
	if n < 1 || n > len(w.workers) {
		return nil
	}
	return w.workers[n-1]
}

func (w *world) track(n int) *track {
	if n < 1 || n > len(w.tracks) {
		return nil
	}
	return w.tracks[n-1]
}

func (w *world) request(n int) *request {
	if n < 1 || n > len(w.requests) {
		return nil
	}
	return w.requests[n-1]
}

// possible reports whether a choice makes sense now.
func (w *world) possible(c Choice) bool {
	switch verbs[c.Verb] {
	case "n":
		return c.A > 0 && w.room(c.A) > 0
	case "w", "wo", "wr":
		return w.worker(c.A) != nil && w.possibleWorker(c, w.worker(c.A))
	case "m":
		r := w.request(c.A)
		return r != nil && w.possibleRequest(c.Verb, r)
	case "o":
		t := w.track(c.A)
		return t != nil && t.row.State == effectonce.StateReview && (c.Verb != verbConfirm || t.effects > 0) &&
			(c.Verb != verbAbsent && c.Verb != verbResend || t.effects == 0)
	}
	return false
}

func (w *world) possibleWorker(c Choice, wk *worker) bool {
	idle := wk.at == pointIdle
	switch c.Verb {
	case verbDo, verbWait, verbRecord:
		return idle && w.track(c.B) != nil && !w.setting.External && w.setting.Steps == 0
	case verbAgent:
		return idle && w.flow(c.B) != nil && !w.setting.Inbox
	case verbEvent:
		return idle && w.flow(c.B) != nil && w.setting.Inbox
	case verbConsume:
		return idle && w.anyTakable()
	case verbMismatch:
		return idle && w.track(c.B) != nil && !w.setting.External && w.setting.Steps == 0 && w.track(c.B).row.State != ""
	case verbClaim:
		return idle && w.track(c.B) != nil && w.setting.External
	case verbWork:
		return idle && w.anyDue()
	case verbRun:
		return !idle && (wk.at != pointAnswer || wk.request.conn.answer != nil || !w.now.Before(wk.deadline))
	case verbFail, verbLose:
		return wk.at == pointStore
	case verbReset:
		return wk.at == pointAnswer
	case verbFresh, verbBlind:
		return wk.at == pointLookUp
	case verbBeat:
		return wk.timer != nil && !w.now.Before(wk.timer.due)
	case verbCancel:
		return !idle
	case verbCrash:
		return !idle || wk.closed
	case verbDrain:
		return !wk.closed
	}
	return false
}

func (w *world) possibleRequest(v Verb, r *request) bool {
	switch v {
	case verbDeliver:
		return r.deliverable(w.setting)
	case verbDrop, verbDeny, verbThrottle:
		return r.stage == onTheWay
	case verbTwice:
		return r.stage == onTheWay && w.setting.Twice && !r.copied
	case verbFinish, verbDecline, verbBreak, verbBreakAfter:
		return r.stage == processing
	}
	return false
}

func (w *world) anyDue() bool {
	for _, t := range w.tracks {
		if !t.row.DueAt.IsZero() && !w.now.Before(t.row.DueAt) {
			return true
		}
	}
	for _, e := range w.events {
		if !e.row.DueAt.IsZero() && !w.now.Before(e.row.DueAt) {
			return true
		}
	}
	return false
}

// take does what a choice says, if it is possible.
func (w *world) take(c Choice) bool {
	if !w.possible(c) {
		return false
	}
	w.steps++
	switch verbs[c.Verb] {
	case "n":
		w.now = w.now.Add(ticks(w.room(c.A)))
	case "w", "wo", "wr":
		w.takeWorker(c, w.worker(c.A))
	case "m":
		w.takeRequest(c.Verb, w.request(c.A))
	case "o":
		w.decide(c.Verb, w.track(c.A))
	}
	w.check()
	return true
}

func (w *world) takeWorker(c Choice, wk *worker) {
	t := w.track(c.B)
	switch c.Verb {
	case verbDo:
		wk.begin(t, func(ctx context.Context) { wk.do(ctx, t, false) })
	case verbWait:
		wk.begin(t, func(ctx context.Context) { wk.do(ctx, t, false, effectonce.WaitFor(3*Tick)) })
	case verbMismatch:
		wk.begin(t, func(ctx context.Context) { wk.do(ctx, t, true) })
	case verbRecord:
		wk.begin(t, func(ctx context.Context) { _, _ = wk.guard.Record(ctx, w.intent(t, wk.wording(), false)) })
	case verbClaim:
		wk.begin(t, func(ctx context.Context) { wk.claimed(ctx, t); wk.keptSuccess() })
	case verbAgent:
		f := w.flow(c.B)
		wk.begin(nil, func(ctx context.Context) { wk.agent(ctx, f) })
	case verbEvent:
		e := w.flow(c.B).event
		wk.begin(nil, func(ctx context.Context) { wk.receive(ctx, e) })
	case verbConsume:
		wk.begin(nil, wk.consume)
	case verbWork:
		wk.begin(nil, wk.work)
	case verbRun:
		wk.run(orderRun)
	case verbFail:
		wk.run(orderFail)
	case verbLose:
		wk.run(orderLose)
	case verbReset:
		wk.run(orderReset)
	case verbFresh:
		wk.run(orderFresh)
	case verbBlind:
		wk.run(orderBlind)
	case verbBeat:
		wk.beat()
	case verbCancel:
		wk.cancel()
		wk.saw.text("cancelled")
	case verbCrash:
		w.counts.Crashes++
		wk.crash()
	case verbDrain:
		// A done context makes it return at once; what is under way goes on.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = wk.guard.Drain(ctx)
		wk.closed = true
	}
}

// do is an agent's call, whose answer is checked.
func (w *worker) do(ctx context.Context, t *track, mismatch bool, opts ...effectonce.Option) {
	out, err := w.guard.Do(ctx, w.world.intent(t, w.wording(), mismatch), workerProvider{worker: w}, opts...)
	w.world.noteAnswer(t, mismatch, out, err)
	w.keptSuccess()
}

// work is the background loop's step.
func (w *worker) work(ctx context.Context) {
	due, err := w.storeView().Due(ctx, 1)
	if err != nil || len(due) == 0 {
		return
	}
	w.busy = w.world.byKey[due[0].Key]
	_, _ = w.guard.Work(ctx, due[0])
	w.keptSuccess()
}

func (w *world) takeRequest(v Verb, r *request) {
	switch v {
	case verbDeliver:
		w.deliver(r)
	case verbDrop:
		r.stage = over
	case verbTwice:
		w.copyOf(r)
	case verbDeny:
		w.refuse(r, statusDenied)
	case verbThrottle:
		w.refuse(r, statusThrottled)
	case verbFinish:
		w.finish(r, twin.Take)
	case verbDecline:
		w.finish(r, twin.Decline)
	case verbBreak:
		w.finish(r, twin.BreakBefore)
	case verbBreakAfter:
		w.finish(r, twin.BreakAfter)
	}
}
