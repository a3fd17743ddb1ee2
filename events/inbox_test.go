package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/store/memory"
	"github.com/effectonce/effectonce/worker"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func unsigned(name string, change ...func(*events.Source)) events.Source {
	s := events.Source{Name: name, Verify: events.VerifyNone, Unsigned: true, EventID: "{id}", Type: "{type}"}
	for _, c := range change {
		c(&s)
	}
	return s
}

type fixture struct {
	t      *testing.T
	offset atomic.Int64
	store  *memory.Store
	guard  *effectonce.Guard
	inbox  *events.Inbox
}

func newFixture(t *testing.T, sources ...events.Source) *fixture {
	f := &fixture{t: t}
	f.store = memory.Open(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(f.offset.Load())) }})
	f.guard = effectonce.New(f.store, effectonce.Options{Logger: quiet, Providers: func(op effectonce.Operation) effectonce.Provider { return f.inbox.Provider(op) }})
	f.inbox = events.NewInbox(f.guard, f.store, sources, events.Options{Logger: quiet})
	return f
}

func (f *fixture) receive(source, body string) events.Receipt {
	f.t.Helper()
	r, err := f.inbox.Receive(f.t.Context(), source, http.Header{"Content-Type": {"application/json"}}, []byte(body))
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) claim(source string) (events.Handed, bool) {
	f.t.Helper()
	h, ok, err := f.inbox.Claim(f.t.Context(), source, "consumer", 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return h, ok
}

func (f *fixture) complete(h events.Handed) {
	f.t.Helper()
	if _, err := f.guard.Settle(f.t.Context(), h.Claim.Operation.Key, h.Claim.Token, effectonce.End{Verdict: effectonce.VerdictSucceeded, Result: []byte(`{}`)}); err != nil {
		f.t.Fatal(err)
	}
}

// S9.1, S16.7: deliveries of one event, redelivered, with another body and at the same time, are one operation with one run.
func TestDeliveriesOfOneEventAreOneOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, unsigned("shop", func(s *events.Source) { s.Run = "order:{order}" }))
	var first, repeats atomic.Int32
	keys := make(chan effectonce.Key, 50)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			r := f.receive("shop", fmt.Sprintf(`{"id": "evt_1", "type": "paid", "order": "7", "delivery": %d}`, i))
			if r.Outcome.Replayed {
				repeats.Add(1)
			} else {
				first.Add(1)
			}
			if r.Event.Run != "order:7" {
				t.Errorf("run %s", r.Event.Run)
			}
			keys <- r.Outcome.Operation.Key
		})
	}
	all.Wait()
	close(keys)
	key := <-keys
	for k := range keys {
		if k != key {
			t.Fatal("two keys for one event")
		}
	}
	if first.Load() != 1 || repeats.Load() != 49 {
		t.Errorf("%d first deliveries, %d repeats", first.Load(), repeats.Load())
	}
	// A redelivery that would name another run gives the first one.
	if r := f.receive("shop", `{"id": "evt_1", "type": "paid", "order": "8"}`); r.Event.Run != "order:7" {
		t.Errorf("run %s after a redelivery, want that of the first", r.Event.Run)
	}
	h, ok := f.claim("shop")
	if !ok || h.Event.ID != "evt_1" || h.Event.Run != "order:7" || h.Claim.Operation.Attempt != 1 {
		t.Fatalf("%+v %v", h, ok)
	}
	if _, ok := f.claim("shop"); ok {
		t.Error("an event that somebody owns is handed out")
	}
	f.complete(h)
	if r := f.receive("shop", `{"id": "evt_1", "type": "paid", "order": "7"}`); !r.Outcome.Replayed || r.Outcome.Operation.State != effectonce.StateSucceeded {
		t.Errorf("a redelivery after the end: %+v", r.Outcome)
	}
	if _, ok := f.claim("shop"); ok {
		t.Error("a consumed event is handed out")
	}
}

// S9.1: the same id of another source is another event.
func TestAnIDIsUniqueInItsSource(t *testing.T) {
	t.Parallel()
	f := newFixture(t, unsigned("a"), unsigned("b"))
	if f.receive("a", `{"id": "1", "type": "x"}`).Outcome.Operation.Key == f.receive("b", `{"id": "1", "type": "x"}`).Outcome.Operation.Key {
		t.Error("events of two sources have one key")
	}
}

func TestWhatIsNotTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, unsigned("shop", func(s *events.Source) { s.Only = []string{"paid"} }), events.Source{Name: "orders", NATS: &events.Consumer{URL: "nats://127.0.0.1:1", Stream: "S", Consumer: "c"}})
	if r := f.receive("shop", `{"id": "1", "type": "viewed"}`); !r.Ignored {
		t.Errorf("%+v", r)
	}
	for name, c := range map[string]struct {
		source, body string
		code         effectonce.Code
		field        string
	}{
		"no id":          {"shop", `{"type": "paid"}`, effectonce.CodeIntentIncomplete, "event_id"},
		"no type":        {"shop", `{"id": "1"}`, effectonce.CodeIntentIncomplete, "type"},
		"no JSON":        {"shop", `id=1`, effectonce.CodeIntentIncomplete, "type"},
		"a long id":      {"shop", fmt.Sprintf(`{"type": "paid", "id": "%0600d"}`, 1), effectonce.CodeInvalid, "event_id"},
		"unknown source": {"nobody", `{}`, effectonce.CodeNotFound, "source"},
		"NATS over HTTP": {"orders", `{}`, effectonce.CodeNotFound, "source"},
	} {
		_, err := f.inbox.Receive(t.Context(), c.source, http.Header{}, []byte(c.body))
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
	if page, _ := f.store.List(t.Context(), effectonce.Filter{}); len(page.Operations) != 0 {
		t.Errorf("%d operations are stored", len(page.Operations))
	}
}

// S9.1: an event whose consumer died is handed out again under the same run, as the next attempt, and ends once.
func TestALostConsumersEventIsHandedOutAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, unsigned("shop"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- worker.New(f.guard, f.store, worker.Options{Logger: quiet}).Run(ctx) }()
		defer func() { cancel(); <-ended }()

		f.receive("shop", `{"id": "1", "type": "x"}`)
		one, ok := f.claim("shop")
		if !ok {
			t.Fatal("nothing was handed out")
		}
		time.Sleep(events.DefaultEventLease / 2)
		if _, ok := f.claim("shop"); ok {
			t.Fatal("an event under a lease was handed out")
		}
		if _, err := f.guard.Heartbeat(t.Context(), one.Claim.Operation.Key, one.Claim.Token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(events.DefaultEventLease - time.Second)
		if _, ok := f.claim("shop"); ok {
			t.Fatal("a heartbeat does not keep the lease")
		}
		time.Sleep(2 * time.Second)
		two, ok, err := f.inbox.Claim(t.Context(), "shop", "another", time.Minute)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		if two.Event.Run != one.Event.Run || two.Claim.Operation.Key != one.Claim.Operation.Key || two.Claim.Token <= one.Claim.Token || two.Claim.Operation.Attempt != 2 {
			t.Fatalf("first %+v, then %+v", one, two)
		}
		if _, err := f.guard.Settle(t.Context(), one.Claim.Operation.Key, one.Claim.Token, effectonce.End{Verdict: effectonce.VerdictUnknown}); !errors.Is(err, effectonce.ErrStaleToken) {
			t.Errorf("the first owner reports: %v", err)
		}
		// It did not go well: again, after a pause.
		if _, err := f.guard.Settle(t.Context(), two.Claim.Operation.Key, two.Claim.Token, effectonce.End{Verdict: effectonce.VerdictUnknown}); err != nil {
			t.Fatal(err)
		}
		if _, ok := f.claim("shop"); ok {
			t.Error("handed out again without a pause")
		}
		time.Sleep(time.Minute)
		three, ok := f.claim("shop")
		if !ok || three.Claim.Operation.Attempt != 3 {
			t.Fatalf("%+v %v", three, ok)
		}
		f.complete(three)
	})
}

// An event that never goes well is in review in the end, where people see it, and not lost; a person can hand it out again (S7.6).
func TestAnEventThatNeverGoesWellIsInReview(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, unsigned("shop"))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- worker.New(f.guard, f.store, worker.Options{Logger: quiet}).Run(ctx) }()
		defer func() { cancel(); <-ended }()
		key := f.receive("shop", `{"id": "1", "type": "x"}`).Outcome.Operation.Key
		for i := range events.DefaultEventAttempts {
			h, ok, err := f.inbox.Claim(t.Context(), "shop", "c", time.Hour)
			if err != nil || !ok {
				t.Fatalf("attempt %d: %v %v", i+1, ok, err)
			}
			if _, err := f.guard.Settle(t.Context(), key, h.Claim.Token, effectonce.End{Verdict: effectonce.VerdictUnknown}); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok, err := f.inbox.Claim(t.Context(), "shop", "c", 2*time.Hour); ok || err != nil {
			t.Fatalf("one attempt more: %v %v", ok, err)
		}
		o, err := f.guard.Wait(t.Context(), key, 0)
		if err != nil || o.Operation.State != effectonce.StateReview {
			t.Fatalf("%s %v", o.Operation.State, err)
		}
		if _, err := f.guard.Resolve(t.Context(), key, effectonce.Resolved{Version: o.Operation.Version, Resolution: effectonce.ResolveAbsentResend, Person: "mara", Reason: "the consumer is repaired"}); err != nil {
			t.Fatal(err)
		}
		h, ok, err := f.inbox.Claim(t.Context(), "shop", "c", time.Hour)
		if err != nil || !ok {
			t.Fatalf("after the person's permission: %v %v", ok, err)
		}
		f.complete(h)
	})
}

// A waiting consumer gets an event as soon as it comes.
func TestAConsumerWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, unsigned("shop"))
		begin := time.Now()
		go func() {
			time.Sleep(10 * time.Second)
			f.receive("shop", `{"id": "1", "type": "x"}`)
		}()
		_, ok, err := f.inbox.Claim(t.Context(), "shop", "c", time.Minute)
		if err != nil || !ok || time.Since(begin) > 11*time.Second {
			t.Errorf("%v %v after %s", ok, err, time.Since(begin))
		}
		if _, ok, _ := f.inbox.Claim(t.Context(), "shop", "c", time.Second); ok {
			t.Error("an event out of nothing")
		}
	})
}

// S9.1: pushed to a consumer until it answers 2xx; whatever else it answers, the event is not lost.
func TestEventsArePushed(t *testing.T) {
	t.Parallel()
	answers := []int{500, 400, 409, 429, 302, 200}
	var calls atomic.Int32
	var mu sync.Mutex
	var seen []http.Header
	var bodies []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		seen, bodies = append(seen, r.Header.Clone()), append(bodies, string(body))
		mu.Unlock()
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(answers[min(int(calls.Add(1)), len(answers))-1])
	}))
	defer target.Close()
	secret := func(context.Context) (string, error) { return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", nil }
	f := newFixture(t, unsigned("shop", func(s *events.Source) { s.Deliver = &events.Webhook{URL: target.URL, Secret: secret} }))
	key := f.receive("shop", `{"id": "1", "type": "x"}`).Outcome.Operation.Key
	if _, ok := f.claim("shop"); ok {
		t.Error("an event that is pushed is handed out too")
	}
	deadline := time.Now().Add(time.Minute)
	for {
		op, err := f.store.Load(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if op.State == effectonce.StateSucceeded {
			break
		}
		if time.Now().After(deadline) || op.State.Final() {
			t.Fatalf("%s after %d calls", op.State, calls.Load())
		}
		f.offset.Add(int64(10 * time.Minute))
		f.push(key)
	}
	if len(seen) != len(answers) {
		t.Fatalf("%d calls, want %d", len(seen), len(answers))
	}
	for i, h := range seen {
		if bodies[i] != `{"id": "1", "type": "x"}` || h.Get("Effectonce-Event-Id") != "1" || h.Get("Effectonce-Run") != "shop:1" || h.Get("Effectonce-Attempt") != fmt.Sprint(i+1) ||
			h.Get("Idempotency-Key") != seen[0].Get("Idempotency-Key") || h.Get("Idempotency-Key") == "" || h.Get("Webhook-Id") != "1" || h.Get("Webhook-Signature") == "" {
			t.Errorf("call %d: %v %s", i+1, h, bodies[i])
		}
	}
}

// push takes the step that is due, as the worker does.
func (f *fixture) push(key effectonce.Key) {
	op, err := f.store.Load(f.t.Context(), key)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.guard.Work(f.t.Context(), op); err != nil {
		f.t.Fatal(err)
	}
}

// S9.1: in the caller's transaction the record and the change are one.
func TestReceivingInATransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	e := events.Event{Source: "shop", ID: "1", Body: []byte("{}")}
	consumed := 0
	receive := func(fail error) (effectonce.Outcome, error) {
		return events.ReceiveTx(t.Context(), f.guard, plainTx{f.store}, e, func(context.Context) (any, error) {
			consumed++
			return map[string]int{"n": consumed}, fail
		})
	}
	if _, err := events.ReceiveTx(t.Context(), f.guard, plainTx{f.store}, events.Event{ID: "1"}, nil); !errors.Is(err, effectonce.ErrInvalid) {
		t.Errorf("without a source: %v", err)
	}
	o, err := receive(nil)
	if err != nil || o.Operation.Run != "shop:1" {
		t.Fatal(o, err)
	}
	o, err = receive(nil)
	if err != nil || !o.Replayed || consumed != 1 {
		t.Errorf("the repeat: %v, replayed %v, consumed %d times", err, o.Replayed, consumed)
	}
	var result struct{ N int }
	if err := json.Unmarshal(o.Operation.Result, &result); err != nil || result.N != 1 {
		t.Errorf("%s", o.Operation.Result)
	}
}

// plainTx is the store as a transaction that commits at once; that transactions are whole is the drivers' business, and tested there.
type plainTx struct{ *memory.Store }

func (plainTx) Savepoint(_ context.Context, f func() error) error { return f() }
