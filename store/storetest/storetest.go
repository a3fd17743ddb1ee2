// Package storetest is the conformance suite of the store port: every driver has to pass [Exercise]. It drives a store through
// the real state machine and checks what the port promises, also under concurrency and after errors.
package storetest

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// Open opens an empty store for a test, with the given clock; the test closes it. The suite may call it more than once in one
// test, each time for a store of its own.
type Open func(t *testing.T, now func() time.Time) effectonce.Store

// Exercise runs the suite.
func Exercise(t *testing.T, open Open) {
	t.Helper()
	for _, group := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"create", testCreate},
		{"twins", testTwins},
		{"holds", testHolds},
		{"apply", testApply},
		{"fields", testFields},
		{"values", testValues},
		{"events", testEvents},
		{"clock", testClock},
		{"extend", testExtend},
		{"due", testDue},
		{"list", testList},
		{"documents", testDocuments},
		{"secret", testSecret},
		{"errors", testErrors},
		{"linearizable", testLinearizable},
		{"aliases", testAliases},
		{"limits", testLimits},
		{"retention", testRetention},
		{"journal", testJournal},
		{"outbox", testOutbox},
		{"waiting", testWaiting},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			group.run(t, open)
		})
	}
}

// epoch is when the tests' clocks begin.
var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Clock is a clock that stands still until a test moves it.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// NewClock returns a clock at a fixed time.
func NewClock() *Clock { return &Clock{t: epoch} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Move moves it by d.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// fixture is a store with its clock.
type fixture struct {
	effectonce.Store
	t     *testing.T
	clock *Clock
}

func start(t *testing.T, open Open) fixture {
	t.Helper()
	c := NewClock()
	s := open(t, c.Now)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return fixture{Store: s, t: t, clock: c}
}

// intent is an operation's identity for a test, in its form before it is recorded.
func intent(id string) effectonce.Operation {
	op := effectonce.Operation{
		Tenant: "acme", Tool: "stripe.refund", Scope: effectonce.ScopeBusiness, IntentID: id,
		Business: []byte(`{"amount":480}`), Arguments: []byte(`{"amount":480}`), Actor: "agent-1", Terms: effectonce.DefaultTerms(),
	}
	op.Key = mustKey(op)
	return op
}

func mustKey(op effectonce.Operation) effectonce.Key {
	k, err := op.Identity().Key()
	if err != nil {
		panic(err)
	}
	return k
}

func (f fixture) next(op effectonce.Operation, c effectonce.Cause) effectonce.Transition {
	f.t.Helper()
	t, err := effectonce.Next(op, c, f.clock.Now())
	if err != nil {
		f.t.Fatalf("%T of a %s operation: %v", c, op.State, err)
	}
	return t
}

func (f fixture) recorded(op effectonce.Operation, claim bool) effectonce.Transition {
	f.t.Helper()
	return f.next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: claim, Owner: "worker-1"})
}

// create stores a new operation.
func (f fixture) create(op effectonce.Operation, claim bool) effectonce.Operation {
	f.t.Helper()
	got, created, err := f.Create(f.t.Context(), f.recorded(op, claim))
	if err != nil || !created {
		f.t.Fatalf("create %s: created %v, %v", op.IntentID, created, err)
	}
	return got
}

// apply stores a transition that must fit.
func (f fixture) apply(op effectonce.Operation, c effectonce.Cause) effectonce.Operation {
	f.t.Helper()
	got, err := f.Apply(f.t.Context(), f.next(op, c))
	if err != nil {
		f.t.Fatalf("apply %T: %v", c, err)
	}
	return got
}

func (f fixture) load(key effectonce.Key) effectonce.Operation {
	f.t.Helper()
	op, err := f.Load(f.t.Context(), key)
	if err != nil {
		f.t.Fatalf("load: %v", err)
	}
	return op
}

func succeeded(op effectonce.Operation) effectonce.AttemptEnded {
	return effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictSucceeded, Result: []byte(`{"ok":true}`), Reference: "re_1"}}
}

func rejected(op effectonce.Operation) effectonce.AttemptEnded {
	return effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictRejected, Failure: effectonce.Failure{Code: "card_declined"}}}
}

func unclear(op effectonce.Operation) effectonce.AttemptEnded {
	return effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: "timeout"}}}
}

func wantCode(t *testing.T, what string, err error, want effectonce.Code) {
	t.Helper()
	if e, ok := err.(*effectonce.Error); !ok || e.Code != want {
		t.Errorf("%s: got error %v (%T), want the code %s", what, err, err, want)
	}
}

// atOnce runs f in n goroutines that start together.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	gun := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gun
			f(i)
		})
	}
	close(gun)
	wg.Wait()
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s-%s", prefix, strconv.Itoa(i)) }
