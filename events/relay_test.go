package events_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
)

// delivery is what a receiver got.
type delivery struct {
	ID, Subject, Seq, Type, ContentType, Body string
}

// receiver is a target of webhooks that keeps what it accepted.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []delivery
	// refuse decides on the status of an answer; 0 accepts.
	refuse func(delivery) int
}

func newReceiver(t *testing.T, refuse func(delivery) int) *receiver {
	r := &receiver{refuse: refuse}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		h := req.Header
		if h.Get("Webhook-Id") != strings.ReplaceAll(h.Get("Effectonce-Event-Id"), ".", "%2E") {
			t.Errorf("webhook-id %s of event %s", h.Get("Webhook-Id"), h.Get("Effectonce-Event-Id"))
		}
		d := delivery{h.Get("Effectonce-Event-Id"), h.Get("Effectonce-Subject"), h.Get("Effectonce-Seq"), h.Get("Effectonce-Type"), h.Get("Content-Type"), string(body)}
		if r.refuse != nil {
			if code := r.refuse(d); code != 0 {
				w.WriteHeader(code)
				return
			}
		}
		if signature := h.Get("Webhook-Signature"); signature != "" {
			key, _ := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
			mac := hmac.New(sha256.New, key)
			fmt.Fprintf(mac, "%s.%s.%s", h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"), body)
			if signature != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
				t.Errorf("the signature of %s does not hold", d.ID)
			}
		}
		r.mu.Lock()
		r.got = append(r.got, d)
		r.mu.Unlock()
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) deliveries(subject string) []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	var of []delivery
	for _, d := range r.got {
		if d.Subject == subject {
			of = append(of, d)
		}
	}
	return of
}

func (r *receiver) route(change ...func(*events.Route)) events.Route {
	rt := events.Route{Subjects: []string{">"}, Webhook: &events.Webhook{URL: r.URL}, Attempts: 3, Backoff: time.Millisecond, BackoffMax: 2 * time.Millisecond, Timeout: 5 * time.Second}
	for _, c := range change {
		c(&rt)
	}
	return rt
}

var fast = events.RelayOptions{Logger: quiet, Every: 5 * time.Millisecond}

func (f *fixture) queue(subject string) (effectonce.Queue, bool) {
	f.t.Helper()
	page, err := f.store.Queues(f.t.Context(), effectonce.QueueFilter{Subject: subject})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(page.Queues) == 0 {
		return effectonce.Queue{}, false
	}
	return page.Queues[0], true
}

// S9.2: in the order of each subject, with a stable id, signed; a second relay changes nothing.
func TestMessagesGoToWebhooksInOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := newReceiver(t, nil)
	secret := func(context.Context) (string, error) { return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", nil }
	routes := []events.Route{r.route(func(rt *events.Route) { rt.Webhook.Secret = secret })}
	const subjects, each = 10, 40
	var want [subjects][]delivery
	for i := range each {
		for s := range subjects {
			subject := fmt.Sprintf("orders.%d", s)
			if err := f.store.Append(t.Context(), effectonce.Message{Subject: subject, Type: "paid", Data: fmt.Appendf(nil, `{"n": %d}`, i)}); err != nil {
				t.Fatal(err)
			}
			want[s] = append(want[s], delivery{fmt.Sprintf("%s/%d", subject, i+1), subject, fmt.Sprint(i + 1), "paid", "application/json", fmt.Sprintf(`{"n": %d}`, i)})
		}
	}
	run(t, events.NewRelay(f.store, routes, fast).Run)
	run(t, events.NewRelay(f.store, routes, fast).Run)
	for s := range subjects {
		subject := fmt.Sprintf("orders.%d", s)
		eventually(t, subject+" is empty", func() bool { _, waits := f.queue(subject); return !waits })
		if diff := cmp.Diff(want[s], r.deliveries(subject)); diff != "" {
			t.Errorf("%s: %s", subject, diff)
		}
	}
}

// S9.2: a poison event is parked, visibly, and its subject waits; others go on; a person's retry brings it on, or discards it.
func TestAPoisonEventIsParkedAndItsSubjectWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var mu sync.Mutex
	poison := map[string]int{}
	healed := false
	r := newReceiver(t, func(d delivery) int {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(d.Body, "poison") && !healed {
			poison[d.ID]++
			return http.StatusInternalServerError
		}
		return 0
	})
	f.append("orders.1", "a", `{}`)
	f.append("orders.1", "b", `"poison"`)
	f.append("orders.1", "c", `{}`)
	f.append("orders.2", "d", `{}`)
	f.append("other.1", "e", `{}`)
	run(t, events.NewRelay(f.store, []events.Route{r.route(func(rt *events.Route) { rt.Subjects = []string{"orders.*"} })}, fast).Run)
	eventually(t, "it is parked", func() bool { q, _ := f.queue("orders.1"); return q.Parked })
	q, _ := f.queue("orders.1")
	if q.Head != "b" || q.Waiting != 2 || q.Attempts != 3 || q.Reason != "the answer was 500" {
		t.Errorf("%+v", q)
	}
	mu.Lock()
	if poison["b"] != 3 {
		t.Errorf("tried %d times, want 3", poison["b"])
	}
	healed = true
	mu.Unlock()
	eventually(t, "the other subject goes on", func() bool { _, waits := f.queue("orders.2"); return !waits })
	eventually(t, "what has no route is parked", func() bool { q, _ := f.queue("other.1"); return q.Parked && q.Reason == "no route" })
	f.append("orders.1", "later", `{}`)
	if err := f.store.Unpark(t.Context(), effectonce.DefaultTenant, "orders.1", "b", false); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the subject goes on", func() bool { _, waits := f.queue("orders.1"); return !waits })
	var ids []string
	for _, d := range r.deliveries("orders.1") {
		ids = append(ids, d.ID)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "later"}, ids); diff != "" {
		t.Error(diff)
	}
}

// S9.2: a target that hangs holds up its own subjects only.
func TestASlowTargetStopsNobodyElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := make(chan struct{})
	slow := newReceiver(t, func(delivery) int { <-release; return 0 })
	// Before the receiver is closed, which waits for its handlers.
	t.Cleanup(func() { close(release) })
	good := newReceiver(t, nil)
	for i := range 5 {
		f.append(fmt.Sprintf("slow.%d", i), "", `{}`)
	}
	for i := range 5 {
		f.append(fmt.Sprintf("good.%d", i), "", `{}`)
	}
	run(t, events.NewRelay(f.store, []events.Route{
		slow.route(func(rt *events.Route) {
			rt.Subjects = []string{"slow.>"}
			rt.Timeout = 300 * time.Millisecond
			rt.Attempts = 1
		}),
		good.route(),
	}, fast).Run)
	for i := range 5 {
		subject := fmt.Sprintf("good.%d", i)
		eventually(t, subject+" is delivered", func() bool { return len(good.deliveries(subject)) == 1 })
	}
	eventually(t, "the slow ones are parked", func() bool { q, _ := f.queue("slow.4"); return q.Parked && q.Reason == "time-out" })
}

// S9.2: pauses double up to their bound, and no earlier than the target asked for.
func TestTheBackOffOfARelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var at []time.Time
		transport := answering(func(*http.Request) *http.Response {
			at = append(at, time.Now())
			header := http.Header{}
			if len(at) == 4 {
				header.Set("Retry-After", "600")
			}
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: header, Body: http.NoBody}
		})
		f.append("orders.1", "", `{}`)
		rt := events.Route{Subjects: []string{">"}, Webhook: &events.Webhook{URL: "http://receiver.test"}, Attempts: 7, Backoff: 10 * time.Second, BackoffMax: 40 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- events.NewRelay(f.store, []events.Route{rt}, events.RelayOptions{Logger: quiet, Every: 100 * time.Millisecond, Transport: transport, Jitter: func() float64 { return 1 }}).Run(ctx)
		}()
		time.Sleep(time.Hour)
		cancel()
		<-done
		var pauses []time.Duration
		for i := 1; i < len(at); i++ {
			pauses = append(pauses, at[i].Sub(at[i-1]).Round(time.Second))
		}
		want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 600 * time.Second, 40 * time.Second, 40 * time.Second}
		if diff := cmp.Diff(want, pauses); diff != "" {
			t.Error(diff)
		}
		if q, _ := f.queue("orders.1"); !q.Parked || q.Attempts != 7 {
			t.Errorf("%+v", q)
		}
	})
}

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// A shutdown lets the call under way end, records it, and gives the rest back at once.
func TestAShutdownReturnsWhatWasTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := newReceiver(t, func(delivery) int {
		once.Do(func() { close(entered) })
		<-release
		return 0
	})
	for range 3 {
		f.append("orders.1", "", `{}`)
	}
	stop := run(t, events.NewRelay(f.store, []events.Route{r.route()}, fast).Run)
	<-entered
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	close(release)
	<-stopped
	delivered := int64(len(r.deliveries("orders.1")))
	q, _ := f.queue("orders.1")
	if delivered == 0 || q.Waiting != 3-delivered {
		t.Errorf("%d delivered, %d wait", delivered, q.Waiting)
	}
	if delivered < 3 {
		if _, messages, err := f.store.TakeQueue(t.Context(), time.Minute, 10); err != nil || int64(len(messages)) != q.Waiting {
			t.Errorf("the rest is not given back: %v", err)
		}
	}
}
