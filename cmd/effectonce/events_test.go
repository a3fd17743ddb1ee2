package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// consumerCommand is the name of a program of the tests: a consumer of events that makes one refund for each.
const consumerCommand = "event-consumer"

// consumeEvents claims events of the daemon, has the refund of each made, and reports. The run does its steps under the event's run, so
// that whoever goes on with it after a crash finds them done.
func consumeEvents() {
	url := os.Args[1]
	post := func(path, body string) (int, []byte) {
		r, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			return 0, nil
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return r.StatusCode, b
	}
	for {
		code, b := post("/v1/inbox/orders/claim?wait=1s", `{"owner": "consumer"}`)
		if code != http.StatusCreated {
			if code == 0 {
				<-time.After(50 * time.Millisecond) // the daemon is being restarted
			}
			continue
		}
		var next struct {
			Event struct{ Body string }
			Run   string
			Key   string
			Token int64
		}
		var order struct{ Order int }
		if json.Unmarshal(b, &next) != nil || json.Unmarshal([]byte(next.Event.Body), &order) != nil {
			continue
		}
		refund := fmt.Sprintf(`{"tool": "stripe.refund", "run": %q, "arguments": {"order_id": "order-%d", "ticket_id": "ticket-%d", "payment_intent": "pi_1", "amount": "4.80"}}`, next.Run, order.Order, order.Order)
		if code, _ := post("/v1/operations?wait=10s", refund); code != http.StatusOK {
			post("/v1/claims/"+next.Key+"/unknown", fmt.Sprintf(`{"token": %d, "error": {"code": "refund", "message": "not done"}}`, next.Token))
			continue
		}
		post("/v1/claims/"+next.Key+"/complete", fmt.Sprintf(`{"token": %d, "result": {"refunded": true}}`, next.Token))
	}
}

func natsServer(t *testing.T) (*server.Server, jetstream.JetStream) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("nats-server does not start")
	}
	c, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Duplicates: 100 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	return s, js
}

// addConfig appends sections to the configuration in dir.
func addConfig(t *testing.T, dir, text string) {
	t.Helper()
	file := filepath.Join(dir, configFile)
	before, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(before, text...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// operationsOf lists the operations of a tool, nil if the daemon does not answer.
func operationsOf(url, tool string) []map[string]any {
	r, err := http.Get(url + "/v1/operations?limit=500&tool=" + tool)
	if err != nil {
		return nil
	}
	defer r.Body.Close()
	var list struct{ Operations []map[string]any }
	if json.NewDecoder(r.Body).Decode(&list) != nil {
		return nil
	}
	return list.Operations
}

// S16.7, S16.20: triggers are published again, in another order and at the same time, while the daemon that takes them and the
// consumers that work them are killed again and again: each order has one run and one refund.
func TestTriggersStartOneRun(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		triggers(t)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		triggers(t, "--store", pgtest.URL(t))
	})
}

// triggers is the test with daemons on the store that args name.
func triggers(t *testing.T, args ...string) {
	broker, js := natsServer(t)
	dir, ledger := withTwin(t, "")
	addConfig(t, dir, fmt.Sprintf("\ninbox:\n  orders:\n    nats: {url: %q, stream: ORDERS, consumer: effectonce}\n    lease: 1s\n", broker.ClientURL()))
	const orders = 12
	var publishing sync.WaitGroup
	for range 4 {
		publishing.Go(func() {
			for _, i := range rand.Perm(orders) {
				m := nats.NewMsg("orders.returned")
				m.Data = fmt.Appendf(nil, `{"order": %d, "nonce": %d}`, i, rand.Int())
				m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("returned-%d", i))
				if _, err := js.PublishMsg(context.WithoutCancel(t.Context()), m); err != nil {
					t.Error(err)
				}
			}
		})
	}
	daemon := serve(t, dir, args...)
	// The daemon listens at one address, whichever process it is.
	address := strings.TrimPrefix(daemon.url, "http://")
	consumers := make([]*process, 2)
	for i := range consumers {
		consumers[i] = startConsumer(t, daemon.url)
	}
	done := func() int {
		n := 0
		for _, op := range operationsOf("http://"+address, "inbox.orders") {
			if op["state"] == "succeeded" {
				n++
			}
		}
		return n
	}
	for round := range 4 {
		want := (round + 1) * orders / 5
		eventually(t, "some events are consumed", func() bool { return done() >= want })
		consumers[round%2].kill()
		consumers[round%2] = startConsumer(t, "http://"+address)
		if round%2 == 1 {
			daemon.kill()
			daemon = start(t, dir, []string{"STRIPE_KEY=sk_test"}, append([]string{"serve", "--listen", address}, args...)...)
		}
	}
	publishing.Wait()
	eventually(t, "all events are consumed", func() bool { return done() == orders })
	str, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all messages are acknowledged", func() bool {
		c, err := str.Consumer(t.Context(), "effectonce")
		return err == nil && c.CachedInfo().NumAckPending == 0 && c.CachedInfo().NumPending == 0
	})
	runs := map[string]bool{}
	for _, op := range operationsOf(daemon.url, "inbox.orders") {
		runs[fmt.Sprint(op["run"])] = true
	}
	if len(runs) != orders || len(operationsOf(daemon.url, "inbox.orders")) != orders {
		t.Errorf("%d runs of %d orders: %v", len(runs), orders, runs)
	}
	if got := effects(t, ledger); got != orders {
		t.Errorf("%d refunds of %d orders", got, orders)
	}
}

func startConsumer(t *testing.T, url string) *process {
	t.Helper()
	cmd := exec.Command(consumerCommand, url)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}

// hooks is a receiver of webhooks that writes down what it gets, before it answers.
type hooks struct {
	*httptest.Server
	mu     sync.Mutex
	ids    []string
	status map[string]int
	stall  map[string]chan struct{}
}

func newHooks(t *testing.T) *hooks {
	h := &hooks{status: map[string]int{}, stall: map[string]chan struct{}{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Webhook-Id")
		h.mu.Lock()
		h.ids = append(h.ids, id)
		code, stall := h.status[id], h.stall[id]
		h.mu.Unlock()
		if stall != nil {
			<-stall
		}
		if code != 0 {
			w.WriteHeader(code)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hooks) got() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.ids...)
}

func (h *hooks) answers(id string, code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status[id] = code
}

func appendMessage(t *testing.T, url, subject, id string) {
	t.Helper()
	if code, got := ask(t, url+"/v1/outbox", fmt.Sprintf(`{"subject": %q, "id": %q, "data": {}}`, subject, id)); code != http.StatusAccepted {
		t.Fatalf("append: %d %v", code, got)
	}
}

// S9.2: a relay that is killed after a delivery and before it recorded it delivers again: at least once, in order, under the same ids.
func TestARelayThatIsKilledDeliversAgainInOrder(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		killedRelay(t)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		killedRelay(t, "--store", pgtest.URL(t))
	})
}

// killedRelay is the test with daemons on the store that args name.
func killedRelay(t *testing.T, args ...string) {
	h := newHooks(t)
	stall := make(chan struct{})
	h.stall["b"] = stall
	var once sync.Once
	release := func() { once.Do(func() { close(stall) }) }
	t.Cleanup(release)
	dir := t.TempDir()
	addConfig(t, dir, fmt.Sprintf("outbox:\n  - {subjects: [\"orders.*\"], webhook: {url: %q}, timeout: 1s}\n", h.URL))
	first := serve(t, dir, args...)
	for _, id := range []string{"a", "b", "c"} {
		appendMessage(t, first.url, "orders.1", id)
	}
	eventually(t, "b is delivered, and not answered", func() bool { ids := h.got(); return len(ids) > 0 && ids[len(ids)-1] == "b" })
	first.kill()
	h.mu.Lock()
	delete(h.stall, "b")
	h.mu.Unlock()
	release()
	second := serve(t, dir, args...)
	eventually(t, "the rest is delivered", func() bool {
		r, err := http.Get(second.url + "/v1/outbox/orders.1")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		return r.StatusCode == http.StatusNotFound
	})
	ids := h.got()
	// What a killed relay had delivered comes again; what follows never comes before what precedes it.
	last := map[string]int{}
	firstAt := map[string]int{}
	for i, id := range ids {
		if _, ok := firstAt[id]; !ok {
			firstAt[id] = i
		}
		last[id] = i
	}
	if len(last) != 3 || firstAt["a"] > firstAt["b"] || firstAt["b"] > firstAt["c"] || last["b"] > firstAt["c"] || firstAt["b"] == last["b"] {
		t.Errorf("delivered in the order %v", ids)
	}
}

// S9.2: what cannot be delivered is parked and shown, its subject waits, others go on, and a person decides on the command line.
func TestParkedMessagesOnTheCommandLine(t *testing.T) {
	t.Parallel()
	h := newHooks(t)
	h.answers("poison", http.StatusTeapot)
	h.answers("worse", http.StatusTeapot)
	dir := t.TempDir()
	addConfig(t, dir, fmt.Sprintf("outbox:\n  - {subjects: [\"orders.*\"], webhook: {url: %q}, attempts: 2, backoff: 10ms, backoff_max: 10ms}\n", h.URL))
	p := serve(t, dir)
	say := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := answer(t, nil, "", append(append([]string{"outbox"}, args...), "--server", p.url)...)
		if code != want {
			t.Fatalf("outbox %v: exit code %d\n%s%s", args, code, out, errs)
		}
		return out + errs
	}
	if got := say(0, "ls"); got != "Nothing waits.\n" {
		t.Errorf("%q", got)
	}
	for _, id := range []string{"poison", "worse", "after"} {
		appendMessage(t, p.url, "orders.1", id)
	}
	appendMessage(t, p.url, "orders.2", "other")
	appendMessage(t, p.url, "elsewhere", "lost")
	eventually(t, "both are parked", func() bool { return strings.Count(say(0, "ls", "--parked"), "PARKED") == 2 })
	if got := say(0, "show", "orders.1"); !strings.Contains(got, "poison") || !strings.Contains(got, "418") {
		t.Errorf("%s", got)
	}
	if got := say(0, "ls", "--json"); !strings.Contains(got, `"reason": "no route"`) || strings.Contains(got, "orders.2") {
		t.Errorf("%s", got)
	}
	say(4, "show", "orders.2")
	say(2, "retry", "orders.1", "--discard", "--person", "mara", "--reason", "x")
	say(2, "retry", "orders.1", "--discard", "--head", "poison", "--person", "mara")
	say(5, "retry", "orders.1", "--head", "worse", "--person", "mara")
	h.answers("poison", 0)
	if got := say(0, "retry", "orders.1", "--person", "mara"); !strings.Contains(got, "poison is tried again") {
		t.Errorf("%s", got)
	}
	eventually(t, "the next one is parked", func() bool { return strings.Contains(say(0, "ls", "--parked"), "worse") })
	if got := say(0, "retry", "orders.1", "--discard", "--head", "worse", "--person", "mara", "--reason", "a test order"); !strings.Contains(got, "worse is discarded") {
		t.Errorf("%s", got)
	}
	eventually(t, "the subject goes on", func() bool { ids := h.got(); return ids[len(ids)-1] == "after" })
	if diff := cmp.Diff([]string{"poison", "poison", "poison", "worse", "worse", "after"}, without(h.got(), "other")); diff != "" {
		t.Error(diff)
	}
	if code := p.signal(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.Contains(p.stderr.String(), "person=mara") {
		t.Errorf("the log does not name the person:\n%s", p.stderr)
	}
}

func without(all []string, one string) []string {
	var rest []string
	for _, s := range all {
		if s != one {
			rest = append(rest, s)
		}
	}
	return rest
}

// A daemon serves although NATS cannot be reached, and says so.
func TestAServerThatCannotBeReachedIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := unusedAddress(t)
	addConfig(t, dir, fmt.Sprintf("inbox:\n  orders:\n    nats: {url: \"nats://%s\", stream: ORDERS, consumer: effectonce}\n", address))
	p := serve(t, dir)
	eventually(t, "readiness names it", func() bool {
		r, err := http.Get(p.url + "/readyz")
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal("not ready", err)
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return bytes.Contains(b, []byte(address))
	})
	if code, _ := ask(t, p.url+"/v1/claims", `{"tool": "x", "intent_id": "x:1", "arguments": {}}`); code != http.StatusCreated {
		t.Errorf("status %d", code)
	}
}
