//go:build unix

package s16_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
)

// patience is how long a test waits for something that has to happen.
const patience = time.Minute

// world is one test's store, clock, twin and processes.
type world struct {
	t    *testing.T
	kind kind
	// at is the store's place, a file or a URL.
	at    string
	clock string
	url   string
	twin  twin.Control
	store effectonce.Store

	offset time.Duration
	seq    int
	mu     sync.Mutex
	alive  map[string]bool
}

// newWorld starts a twin that plays the kind's provider, with the fault plan, beside an empty store.
func newWorld(t *testing.T, on driver, k kind, faults string) *world {
	t.Helper()
	return newWorldWith(t, on, k, k.rules(), faults)
}

func newWorldWith(t *testing.T, on driver, k kind, rules twin.Rules, faults string) *world {
	t.Helper()
	return newWorldAt(t, on.place(t), k, rules, faults)
}

func newWorldAt(t *testing.T, at string, k kind, rules twin.Rules, faults string) *world {
	t.Helper()
	w := &world{t: t, kind: k, at: at, clock: filepath.Join(t.TempDir(), "clock"), alive: map[string]bool{}}
	w.writeClock()
	p := w.start(spec{Role: roleTwin, Rules: rules, Faults: faults})
	w.url = p.ready()
	w.twin = twin.Control{BaseURL: w.url}
	store, err := openStore(t.Context(), w.at, movedClock{file: w.clock}.Now)
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	t.Cleanup(func() { _ = store.Close() })
	return w
}

func (w *world) writeClock() {
	w.t.Helper()
	next := w.clock + ".next"
	if err := os.WriteFile(next, []byte(strconv.FormatInt(int64(w.offset), 10)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(next, w.clock); err != nil {
		w.t.Fatal(err)
	}
}

// advance moves everybody's clock: the store's, the workers' and the twin's.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	if err := w.twin.Advance(w.t.Context(), d); err != nil {
		w.t.Fatal(err)
	}
	w.offset += d
	w.writeClock()
}

// agent starts a process that asks.
func (w *world) agent(plan string, asks ...ask) *process {
	w.t.Helper()
	return w.start(spec{Role: roleAgent, Plan: plan, Asks: asks})
}

// ask asks once, in a process of its own without faults, and returns the answer.
func (w *world) ask(a ask) answer {
	w.t.Helper()
	all := w.agent("", a).answers()
	if len(all) != 1 {
		w.t.Fatalf("%d answers to one ask", len(all))
	}
	return all[0]
}

// naive starts a process that sends without a guard.
func (w *world) naive(plan string) *process {
	w.t.Helper()
	return w.start(spec{Role: roleNaive, Plan: plan})
}

// naiveKeyed is one that always uses the same key.
func (w *world) naiveKeyed(plan string) *process {
	w.t.Helper()
	return w.start(spec{Role: roleNaive, Plan: plan, Key: "refund-of-ticket-5521"})
}

// worker starts a background worker.
func (w *world) worker(plan string) *process {
	w.t.Helper()
	p := w.start(spec{Role: roleWorker, Plan: plan})
	p.ready()
	return p
}

// ledger reads what happened at the provider.
func (w *world) ledger() twin.Ledger {
	w.t.Helper()
	ledger, err := w.twin.Ledger(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return ledger
}

// sends counts the requests for an effect that arrived at the provider.
func (w *world) sends() int {
	w.t.Helper()
	log, err := w.twin.Requests(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, r := range log.Requests {
		if r.Target == twin.TargetRefunds && !r.Copy {
			n++
		}
	}
	return n
}

func (w *world) wantEffects(n int) {
	w.t.Helper()
	if ledger := w.ledger(); ledger.Count != n {
		w.t.Errorf("%d effects at the provider, want %d: %+v", ledger.Count, n, ledger.Effects[:min(len(ledger.Effects), 4)])
	}
}

// operations lists what is stored, oldest first.
func (w *world) operations() []effectonce.Operation {
	w.t.Helper()
	page, err := w.store.List(w.t.Context(), effectonce.Filter{})
	if err != nil {
		w.t.Fatal(err)
	}
	ops := page.Operations
	for i, j := 0, len(ops)-1; i < j; i, j = i+1, j-1 {
		ops[i], ops[j] = ops[j], ops[i]
	}
	return ops
}

// one returns the only operation, and fails if there is none or there are several.
func (w *world) one() effectonce.Operation {
	w.t.Helper()
	ops := w.operations()
	if len(ops) != 1 {
		w.t.Fatalf("%d operations stored, want one", len(ops))
	}
	op, err := w.store.Load(w.t.Context(), ops[0].Key)
	if err != nil {
		w.t.Fatal(err)
	}
	return op
}

// events are the kinds of the operation's audit events in order, with what was found or said.
func (w *world) events(key effectonce.Key) []effectonce.Event {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

// until polls for what has to become true.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("it never happened: %s", what)
		}
	}
}

// untilDead lets time pass until the worker has been killed by its plan.
func (w *world) untilDead(p *process) {
	w.t.Helper()
	w.untilStruck(p)
	p.dead()
}

// untilStruck lets time pass until the worker's plan strikes.
func (w *world) untilStruck(p *process) {
	w.t.Helper()
	w.until("the worker's plan strikes", func() bool {
		select {
		case line, open := <-p.lines:
			if open {
				p.seen = append(p.seen, line)
			}
			if !open || strings.HasPrefix(line, struckLine) {
				return true
			}
		default:
		}
		w.pass()
		return false
	})
}

// settled lets time pass until every operation is final or in review. While a living process owns an operation its clock is
// left alone; otherwise it moves to the moment at which the next step is due.
func (w *world) settled() {
	w.t.Helper()
	w.until("all operations settle", func() bool { return !w.pass() })
}

// pass moves the clock to the next moment at which something is due, and reports whether any operation is still open.
func (w *world) pass() bool {
	w.t.Helper()
	open := false
	for _, listed := range w.operations() {
		op, err := w.store.Load(w.t.Context(), listed.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		if op.State.Final() || op.State == effectonce.StateReview || op.Hold != effectonce.HoldNone {
			continue
		}
		open = true
		if wait := op.DueAt.Sub(op.AsOf); wait > 0 && !w.owned(op) {
			w.advance(wait + time.Millisecond)
		}
	}
	return open
}

func (w *world) owned(op effectonce.Operation) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return op.State == effectonce.StateInProgress && w.alive[op.Owner]
}

// wantOne checks how the only operation stands.
func (w *world) wantOne(state effectonce.State) effectonce.Operation {
	w.t.Helper()
	op := w.one()
	if op.State != state {
		w.t.Errorf("the operation is %s (%s), want %s: %+v", op.State, op.Reason, state, w.events(op.Key))
	}
	w.wantOneEventPerTransition(op)
	return op
}

// wantOneEventPerTransition checks that the audit is whole (S5.1 I7).
func (w *world) wantOneEventPerTransition(op effectonce.Operation) {
	w.t.Helper()
	events := w.events(op.Key)
	if int64(len(events)) != op.Version {
		w.t.Errorf("%d events for version %d", len(events), op.Version)
	}
	for i, e := range events {
		if e.Seq != int64(i+1) {
			w.t.Errorf("event %d has seq %d", i+1, e.Seq)
		}
	}
}
