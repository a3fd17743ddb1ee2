package events_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
)

// broker starts a NATS server with JetStream; port 0 takes a free one.
func broker(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	if port == 0 {
		port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("nats-server does not start")
	}
	return s
}

// jet is a JetStream client with a stream ORDERS for orders.>.
func jet(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	c, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Duplicates: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return js
}

func publish(t *testing.T, js jetstream.JetStream, subject, id, body string) {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !check() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not in time: " + what)
		}
	}
}

func (f *fixture) operations(tool string) []effectonce.Operation {
	f.t.Helper()
	page, err := f.store.List(f.t.Context(), effectonce.Filter{Tool: tool, Limit: effectonce.ListLimitMax})
	if err != nil {
		f.t.Fatal(err)
	}
	return page.Operations
}

// run runs until the end of the test.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = f(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func orders(url string, change ...func(*events.Source)) events.Source {
	s := events.Source{Name: "orders", NATS: &events.Consumer{URL: url, Stream: "ORDERS", Consumer: "effectonce"}}
	for _, c := range change {
		c(&s)
	}
	return s
}

// S9.1, S16.7: a message is acknowledged after the commit; redelivered, reordered and published again it is one event with one run.
func TestMessagesOfJetStreamAreEvents(t *testing.T) {
	t.Parallel()
	srv := broker(t, t.TempDir(), 0)
	js := jet(t, srv.ClientURL())
	f := newFixture(t, orders(srv.ClientURL()))
	brokers := events.NewBrokers(quiet)
	t.Cleanup(brokers.Close)

	// A consumer that took all messages and acknowledged none: they are delivered again, in whatever order.
	str, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := str.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "effectonce", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const n = 20
	for i := range n {
		publish(t, js, "orders.paid", fmt.Sprintf("paid-%d", i), fmt.Sprintf(`{"order": %d}`, i))
	}
	publish(t, js, "orders.shipped", "", `{}`)
	batch, err := consumer.Fetch(n)
	if err != nil {
		t.Fatal(err)
	}
	for msg := range batch.Messages() {
		_ = msg.InProgress()
	}
	for _, s := range f.inbox.Subscribers(brokers) {
		run(t, s.Run)
		run(t, s.Run) // two daemons
	}
	drained := func() bool {
		info, err := consumer.Info(t.Context())
		return err == nil && info.NumAckPending == 0 && info.NumPending == 0
	}
	eventually(t, "all messages are acknowledged", drained)
	// Published again after the stream's own window: another message, the same event.
	for i := range n {
		publish(t, js, "orders.paid", fmt.Sprintf("paid-%d", n-1-i), `{"again": true}`)
	}
	eventually(t, "the repeats are acknowledged", drained)
	ops := f.operations("inbox.orders")
	if len(ops) != n+1 {
		t.Fatalf("%d operations, want %d", len(ops), n+1)
	}
	runs := map[string]bool{}
	for _, op := range ops {
		runs[op.Run] = true
		e, err := events.EventOf(op)
		if err != nil || e.Type != "orders.paid" && e.Type != "orders.shipped" || strings.Contains(string(e.Body), "again") {
			t.Errorf("%+v %v", e, err)
		}
	}
	if len(runs) != n+1 || !runs["orders:paid-7"] {
		t.Errorf("runs %v", runs)
	}
}

// failing is a store whose writes fail for a while.
type failing struct {
	effectonce.Store
	down  atomic.Bool
	tries atomic.Int32
}

func (s *failing) Create(ctx context.Context, tr effectonce.Transition) (effectonce.Operation, bool, error) {
	if s.down.Load() {
		s.tries.Add(1)
		return effectonce.Operation{}, false, &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "down"}
	}
	return s.Store.Create(ctx, tr)
}

// S9.1: what cannot be stored is not acknowledged, and comes again.
func TestAMessageThatCannotBeStoredComesAgain(t *testing.T) {
	t.Parallel()
	srv := broker(t, t.TempDir(), 0)
	js := jet(t, srv.ClientURL())
	f := newFixture(t)
	store := &failing{Store: f.store}
	store.down.Store(true)
	f.guard = effectonce.New(store, effectonce.Options{Logger: quiet})
	f.inbox = events.NewInbox(f.guard, f.store, []events.Source{orders(srv.ClientURL())}, events.Options{Logger: quiet})
	brokers := events.NewBrokers(quiet)
	t.Cleanup(brokers.Close)
	publish(t, js, "orders.paid", "1", `{}`)
	run(t, f.inbox.Subscribers(brokers)[0].Run)
	eventually(t, "it is tried", func() bool { return store.tries.Load() > 0 })
	store.down.Store(false)
	eventually(t, "it is stored", func() bool { return len(f.operations("inbox.orders")) == 1 })
}

// S9.2: a message without an id is not lost and does not block: it is recorded, held, and a person lets it through.
func TestAMessageThatCannotBeReadIsHeld(t *testing.T) {
	t.Parallel()
	srv := broker(t, t.TempDir(), 0)
	js := jet(t, srv.ClientURL())
	f := newFixture(t, orders(srv.ClientURL(), func(s *events.Source) { s.EventID = "{id}"; s.Only = []string{"orders.paid"} }))
	brokers := events.NewBrokers(quiet)
	t.Cleanup(brokers.Close)
	publish(t, js, "orders.paid", "", `no JSON`)
	publish(t, js, "orders.paid", "", fmt.Sprintf(`{"id": "%0600d"}`, 1))
	publish(t, js, "orders.viewed", "", `{"id": "ignored"}`)
	publish(t, js, "orders.paid", "", `{"id": "good"}`)
	run(t, f.inbox.Subscribers(brokers)[0].Run)
	eventually(t, "all are recorded", func() bool { return len(f.operations("inbox.orders")) == 3 })
	held := 0
	for _, op := range f.operations("inbox.orders") {
		if op.Hold != effectonce.HoldApproval {
			continue
		}
		held++
		e, err := events.EventOf(op)
		if err != nil || e.Problem == "" || !strings.HasPrefix(e.ID, "ORDERS%unreadable:") || len(e.Body) == 0 {
			t.Errorf("%+v %v", e, err)
		}
		if string(e.Body) == "no JSON" {
			if _, err := f.guard.Resolve(t.Context(), op.Key, effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveApproved, Person: "mara", Reason: "an old client"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if held != 2 {
		t.Errorf("%d are held, want 2", held)
	}
	seen := map[string]bool{}
	for h, ok := f.claim("orders"); ok; h, ok = f.claim("orders") {
		seen[string(h.Event.Body)] = true
		f.complete(h)
	}
	if len(seen) != 2 || !seen["no JSON"] || !seen[`{"id": "good"}`] {
		t.Errorf("handed out: %v", seen)
	}
}

// A server that cannot be reached is tried again, and one that comes back is used again.
func TestNATSMayComeLaterAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := broker(t, dir, 0)
	js := jet(t, first.ClientURL())
	port := first.Addr().(*net.TCPAddr).Port
	publish(t, js, "orders.paid", "1", `{}`)
	url := first.ClientURL()
	first.Shutdown()
	first.WaitForShutdown()

	f := newFixture(t, orders(url))
	brokers := events.NewBrokers(quiet)
	t.Cleanup(brokers.Close)
	run(t, f.inbox.Subscribers(brokers)[0].Run)
	eventually(t, "the address is seen to be down", func() bool { return len(brokers.Down()) == 1 })
	broker(t, dir, port)
	eventually(t, "the event is taken", func() bool { return len(f.operations("inbox.orders")) == 1 && len(brokers.Down()) == 0 })
}

// S9.2: to JetStream, in order, acknowledged, under a stable id that the stream itself dedupes by.
func TestMessagesGoToJetStream(t *testing.T) {
	t.Parallel()
	srv := broker(t, t.TempDir(), 0)
	js := jet(t, srv.ClientURL())
	f := newFixture(t)
	for i := range 5 {
		f.append("orders.1", "", fmt.Sprintf(`{"n": %d}`, i))
	}
	f.append("nowhere.1", "", `{}`)
	f.append("orders. 2", "", `{}`)
	brokers := events.NewBrokers(quiet)
	t.Cleanup(brokers.Close)
	run(t, events.NewRelay(f.store, []events.Route{{Subjects: []string{">"}, NATS: &events.Publisher{URL: srv.ClientURL()}, Attempts: 2, Backoff: time.Millisecond, BackoffMax: time.Millisecond, Timeout: 5 * time.Second}},
		events.RelayOptions{Logger: quiet, Every: 5 * time.Millisecond, Brokers: brokers}).Run)
	eventually(t, "what can be published is", func() bool {
		page, err := f.store.Queues(t.Context(), effectonce.QueueFilter{})
		return err == nil && len(page.Queues) == 2 && page.Queues[0].Parked && page.Queues[1].Parked
	})
	page, _ := f.store.Queues(t.Context(), effectonce.QueueFilter{})
	for _, q := range page.Queues {
		if q.Subject == "nowhere.1" && !strings.Contains(q.Reason, "no stream") || q.Subject == "orders. 2" && !strings.Contains(q.Reason, "none of NATS") {
			t.Errorf("%+v", q)
		}
	}
	str, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		m, err := str.GetMsg(t.Context(), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject != "orders.1" || string(m.Data) != fmt.Sprintf(`{"n": %d}`, i) || m.Header.Get(jetstream.MsgIDHeader) != fmt.Sprintf("orders.1/%d", i+1) || m.Header.Get("Effectonce-Seq") != fmt.Sprint(i+1) {
			t.Errorf("message %d: %+v", i+1, m)
		}
	}
	if _, err := str.GetMsg(t.Context(), 6); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("a sixth message: %v", err)
	}
}

func (f *fixture) append(subject, id, data string) {
	f.t.Helper()
	if err := f.store.Append(f.t.Context(), effectonce.Message{Subject: subject, ID: id, Data: []byte(data)}); err != nil {
		f.t.Fatal(err)
	}
}
