package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// outbox is a fixture whose store keeps messages.
type outbox struct{ fixture }

func startOutbox(t *testing.T, open Open) outbox {
	t.Helper()
	f := start(t, open)
	return outbox{f}
}

func message(subject, data string) effectonce.Message {
	return effectonce.Message{Tenant: "acme", Subject: subject, Data: []byte(data)}
}

func (o outbox) append(messages ...effectonce.Message) {
	o.t.Helper()
	if err := o.Append(o.t.Context(), messages...); err != nil {
		o.t.Fatalf("append: %v", err)
	}
}

func (o outbox) take(limit int) (effectonce.Queue, []effectonce.Message) {
	o.t.Helper()
	q, messages, err := o.TakeQueue(o.t.Context(), time.Minute, limit)
	if err != nil {
		o.t.Fatalf("take: %v", err)
	}
	return q, messages
}

func (o outbox) give(q effectonce.Queue, r effectonce.Relayed) {
	o.t.Helper()
	if err := o.ReturnQueue(o.t.Context(), q, r); err != nil {
		o.t.Fatalf("return: %v", err)
	}
}

func (o outbox) nothingDue() {
	o.t.Helper()
	_, _, err := o.TakeQueue(o.t.Context(), time.Minute, 10)
	wantCode(o.t, "taking a queue", err, effectonce.CodeNotFound)
}

// queue returns what waits in a subject, the zero value for nothing.
func (o outbox) queue(subject string) effectonce.Queue {
	o.t.Helper()
	page, err := o.Queues(o.t.Context(), effectonce.QueueFilter{Subject: subject})
	if err != nil {
		o.t.Fatalf("queues: %v", err)
	}
	if len(page.Queues) == 0 {
		return effectonce.Queue{}
	}
	return page.Queues[0]
}

func bodies(messages []effectonce.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m.Data))
	}
	return strings.Join(all, " ")
}

// testOutbox proves S9.2 as far as the store goes.
func testOutbox(t *testing.T, open Open) {
	t.Run("messages come in the order of their subject, numbered, with a stable id", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		full := effectonce.Message{Tenant: "acme", Subject: "a", ID: "evt_1", Type: "refund.settled", ContentType: "text/plain", Data: []byte{0, 1, 255}}
		o.append(full, message("a", `{"n":2}`))
		o.clock.Move(time.Second)
		o.append(message("a", `{"n":3}`))
		q, got := o.take(10)
		full.Seq, full.At = 1, epoch
		equal(t, "messages", got, []effectonce.Message{full,
			{Tenant: "acme", Subject: "a", ID: "a/2", ContentType: "application/json", Data: []byte(`{"n":2}`), Seq: 2, At: epoch},
			{Tenant: "acme", Subject: "a", ID: "a/3", ContentType: "application/json", Data: []byte(`{"n":3}`), Seq: 3, At: epoch.Add(time.Second)}})
		if q.Tenant != "acme" || q.Subject != "a" || q.Waiting != 3 || q.Head != "evt_1" || !q.AsOf.Equal(o.clock.Now()) || !q.DueAt.Equal(o.clock.Now().Add(time.Minute)) {
			t.Errorf("%+v", q)
		}
		o.clock.Move(time.Minute)
		if _, again := o.take(2); len(again) != 2 || again[1].ID != "a/2" {
			t.Errorf("again: %v", again)
		}
	})

	t.Run("numbers go on after the queue was empty", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		for i := range 3 {
			o.append(message("a", fmt.Sprint(i)))
			q, got := o.take(10)
			if len(got) != 1 || got[0].Seq != int64(i)+1 || bodies(got) != fmt.Sprint(i) {
				t.Errorf("round %d: %+v", i, got)
			}
			o.give(q, effectonce.Relayed{Delivered: 1})
			o.nothingDue()
			if q := o.queue("a"); q.Waiting != 0 {
				t.Errorf("an empty queue is listed: %+v", q)
			}
		}
	})

	t.Run("one bad message stores none", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		for field, bad := range map[string]effectonce.Message{
			"subject": {Tenant: "acme"}, "data": {Subject: "a", Data: bytes.Repeat([]byte("x"), effectonce.MessageBytesMax+1)}, "id": {Subject: "a", ID: " x"},
		} {
			err := o.Append(t.Context(), message("a", "1"), bad)
			wantCode(t, field, err, effectonce.CodeInvalid)
		}
		o.nothingDue()
		o.append()
		o.append(effectonce.Message{Subject: "a", Data: bytes.Repeat([]byte("x"), effectonce.MessageBytesMax)})
		if _, got := o.take(1); len(got) != 1 || got[0].Tenant != effectonce.DefaultTenant || len(got[0].Data) != effectonce.MessageBytesMax {
			t.Error("a large message, or the default tenant")
		}
	})

	t.Run("an id that waits already is not stored again", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		m := message("a", "1")
		m.ID = "evt"
		atOnce(16, func(int) {
			if err := o.Append(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
		elsewhere, different, foreign := m, m, m
		elsewhere.Subject, different.Data, foreign.Tenant = "b", []byte("2"), "other"
		for what, other := range map[string]effectonce.Message{"another subject": elsewhere, "other data": different} {
			if err := o.Append(t.Context(), message("c", "before it"), other); !errors.Is(err, effectonce.ErrPayloadMismatch) {
				t.Errorf("%s under an id that waits: %v", what, err)
			}
		}
		o.append(m, m, foreign)
		if a, b := o.queue("a"), o.queue("b"); a.Waiting != 1 && a.Waiting != 2 || b.Waiting != 0 {
			t.Errorf("%d and %d wait", a.Waiting, b.Waiting)
		}
		page, err := o.Queues(t.Context(), effectonce.QueueFilter{})
		if err != nil || len(page.Queues) != 2 || page.Queues[0].Waiting != 1 || page.Queues[1].Tenant != "other" {
			t.Fatalf("%+v, %v", page.Queues, err)
		}
		for range 2 {
			q, _ := o.take(1)
			o.give(q, effectonce.Relayed{Delivered: 1})
		}
		o.append(m)
		if _, got := o.take(1); len(got) != 1 || got[0].Seq != 2 {
			t.Errorf("after its delivery it is a new one: %+v", got)
		}
	})

	t.Run("a lease keeps others away until it ends, and then it fences its holder", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		o.append(message("a", "1"), message("a", "2"))
		slow, _ := o.take(10)
		o.clock.Move(time.Minute - time.Microsecond)
		o.append(message("a", "3"))
		o.nothingDue()
		o.clock.Move(time.Microsecond)
		quick, got := o.take(10)
		if quick.Token <= slow.Token || bodies(got) != "1 2 3" || quick.Attempts != 0 {
			t.Fatalf("token %d after %d, %s, attempts %d", quick.Token, slow.Token, bodies(got), quick.Attempts)
		}
		err := o.ReturnQueue(t.Context(), slow, effectonce.Relayed{Delivered: 2})
		wantCode(t, "the slow one", err, effectonce.CodeStaleToken)
		o.give(quick, effectonce.Relayed{Delivered: 1})
		// An answer can be lost; a repeat removes nothing more.
		err = o.ReturnQueue(t.Context(), quick, effectonce.Relayed{Delivered: 1})
		wantCode(t, "returning twice", err, effectonce.CodeStaleToken)
		if _, got := o.take(10); bodies(got) != "2 3" {
			t.Errorf("left are %s", bodies(got))
		}
		err = o.ReturnQueue(t.Context(), effectonce.Queue{Tenant: "acme", Subject: "nowhere", Token: 1}, effectonce.Relayed{})
		wantCode(t, "a queue that is not there", err, effectonce.CodeStaleToken)
	})

	t.Run("a head that fails is tried again later, and what waits behind it waits", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		o.append(message("a", "1"), message("a", "2"), message("a", "3"))
		q, _ := o.take(10)
		o.give(q, effectonce.Relayed{Delivered: 1, Reason: "503", Again: 10 * time.Second})
		if q = o.queue("a"); q.Attempts != 1 || q.Reason != "503" || q.Waiting != 2 || q.Head != "a/2" || q.Parked || !q.DueAt.Equal(o.clock.Now().Add(10*time.Second)) {
			t.Errorf("%+v", q)
		}
		o.append(message("a", "4"))
		o.nothingDue()
		o.clock.Move(10 * time.Second)
		q, got := o.take(1)
		if bodies(got) != "2" || q.Attempts != 1 || q.Reason != "503" {
			t.Errorf("%s, %+v", bodies(got), q)
		}
		o.give(q, effectonce.Relayed{Reason: "500", Again: time.Second})
		if q = o.queue("a"); q.Attempts != 2 || q.Reason != "500" {
			t.Errorf("%+v", q)
		}
		o.clock.Move(time.Second)
		q, _ = o.take(1)
		o.give(q, effectonce.Relayed{Delivered: 1})
		if q = o.queue("a"); q.Attempts != 0 || q.Reason != "" || q.Waiting != 2 || !q.DueAt.Equal(o.clock.Now()) {
			t.Errorf("%+v", q)
		}
	})

	t.Run("a parked head waits for a person", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		o.append(message("a", "1"), message("a", "2"), message("b", "1"))
		park := func() {
			t.Helper()
			q, _ := o.take(10)
			o.give(q, effectonce.Relayed{Reason: "410 gone", Park: true, Again: time.Second})
		}
		park()
		o.append(message("a", "3"))
		o.clock.Move(100 * time.Hour)
		q, _ := o.take(10)
		if q.Subject != "b" {
			t.Errorf("took %s", q.Subject)
		}
		o.give(q, effectonce.Relayed{Delivered: 1})
		o.nothingDue()
		page, err := o.Queues(t.Context(), effectonce.QueueFilter{Parked: true})
		if err != nil || len(page.Queues) != 1 || page.Queues[0].Waiting != 3 || !page.Queues[0].Parked || !page.Queues[0].DueAt.IsZero() || page.Queues[0].Attempts != 1 {
			t.Errorf("%+v, %v", page, err)
		}

		unpark := func(subject, head string, discard bool) error {
			return o.Unpark(t.Context(), "acme", subject, head, discard)
		}
		wantCode(t, "another head", unpark("a", "a/2", false), effectonce.CodeStaleVersion)
		wantCode(t, "an empty queue", unpark("b", "b/1", false), effectonce.CodeNotFound)
		wantCode(t, "no queue", unpark("c", "c/1", false), effectonce.CodeNotFound)
		if err := unpark("a", "a/1", false); err != nil {
			t.Fatal(err)
		}
		wantCode(t, "one that is not parked", unpark("a", "a/1", false), effectonce.CodeNotAllowed)
		if q := o.queue("a"); q.Parked || q.Attempts != 0 || q.Reason != "" || !q.DueAt.Equal(o.clock.Now()) {
			t.Errorf("%+v", q)
		}
		park()
		if err := unpark("a", "a/1", true); err != nil {
			t.Fatal(err)
		}
		q, got := o.take(10)
		if bodies(got) != "2 3" {
			t.Errorf("left are %s", bodies(got))
		}
		o.give(q, effectonce.Relayed{Delivered: 1, Reason: "410", Park: true})
		if err := unpark("a", "a/3", true); err != nil {
			t.Fatal(err)
		}
		o.nothingDue()
		o.append(message("a", "4"))
		if _, got := o.take(10); len(got) != 1 || got[0].Seq != 4 {
			t.Errorf("%+v", got)
		}
	})

	t.Run("the queue longest due comes first", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		for _, subject := range []string{"c", "a", "b"} {
			o.append(message(subject, "1"))
			o.clock.Move(time.Second)
		}
		for _, want := range []string{"c", "a", "b"} {
			if q, _ := o.take(1); q.Subject != want {
				t.Errorf("took %s, want %s", q.Subject, want)
			}
		}
		o.nothingDue()
	})

	t.Run("queues are listed in the order of tenant and subject", func(t *testing.T) {
		t.Parallel()
		o := startOutbox(t, open)
		for _, subject := range []string{"b", "Orders.2", "a", "orders.1"} {
			o.append(message(subject, "1"), effectonce.Message{Tenant: "zeta", Subject: subject})
		}
		q, _ := o.take(1)
		o.give(q, effectonce.Relayed{Delivered: 1})
		names := func(f effectonce.QueueFilter) []string {
			t.Helper()
			var all []string
			for {
				page, err := o.Queues(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				for _, q := range page.Queues {
					all = append(all, q.Tenant+" "+q.Subject)
				}
				if f.After = page.Next; f.After == "" {
					return all
				}
			}
		}
		var want []string
		for _, tenant := range []string{"acme", "zeta"} {
			for _, subject := range []string{"Orders.2", "a", "b", "orders.1"} {
				if tenant != q.Tenant || subject != q.Subject {
					want = append(want, tenant+" "+subject)
				}
			}
		}
		if got := names(effectonce.QueueFilter{}); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := names(effectonce.QueueFilter{Limit: 2}); !slices.Equal(got, want) {
			t.Errorf("in pages: got %v, want %v", got, want)
		}
		if got := names(effectonce.QueueFilter{Tenant: "zeta", Text: "ORDERS"}); !slices.Equal(got, []string{"zeta Orders.2", "zeta orders.1"}) && q.Tenant == "acme" {
			t.Errorf("by text: %v", got)
		}
		_, err := o.Queues(t.Context(), effectonce.QueueFilter{Limit: effectonce.ListLimitMax + 1})
		wantCode(t, "a limit over the maximum", err, effectonce.CodeInvalid)
	})

	t.Run("relays that fail and die deliver everything at least once and in order", func(t *testing.T) {
		t.Parallel()
		relayAll(startOutbox(t, open))
	})
}

// relayAll lets eight writers append while four relays deliver, of which each now and then fails, or dies with what it has.
func relayAll(o outbox) {
	const writers, each, subjects, relays = 8, 25, 3, 4
	var mu sync.Mutex
	delivered := map[string][]int64{}
	firsts := 0
	deliver := func(m effectonce.Message) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(delivered[m.Subject], m.Seq) {
			firsts++
		}
		delivered[m.Subject] = append(delivered[m.Subject], m.Seq)
	}
	done := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return firsts == writers*each
	}
	deadline := time.Now().Add(30 * time.Second)
	atOnce(writers+relays, func(i int) {
		if i < writers {
			for n := range each {
				if err := o.Append(o.t.Context(), message(numbered("s", n%subjects), "x")); err != nil {
					o.t.Error(err)
					return
				}
			}
			return
		}
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		for !done() && time.Now().Before(deadline) {
			q, messages, err := o.TakeQueue(o.t.Context(), time.Minute, 1+rng.IntN(5))
			if effectonce.CodeOf(err) == effectonce.CodeNotFound {
				// What a dead relay has left comes back when its lease is over.
				o.clock.Move(time.Second)
				continue
			}
			if err != nil {
				o.t.Error(err)
				return
			}
			n := rng.IntN(len(messages) + 1)
			r := effectonce.Relayed{Delivered: n}
			if n < len(messages) {
				r.Reason = "503"
			}
			for _, m := range messages[:n] {
				deliver(m)
			}
			if rng.IntN(8) == 0 {
				continue // dead
			}
			if err := o.ReturnQueue(o.t.Context(), q, r); err != nil && effectonce.CodeOf(err) != effectonce.CodeStaleToken {
				o.t.Error(err)
			}
		}
	})
	if !done() {
		o.t.Fatalf("%d of %d were delivered", firsts, writers*each)
	}
	// Dead relays and slow ones repeat; nothing is delivered before what precedes it.
	for subject, all := range delivered {
		high := int64(0)
		for _, seq := range all {
			if seq > high+1 {
				o.t.Errorf("%s: %d was delivered before %d", subject, seq, high+1)
			}
			high = max(high, seq)
		}
	}
}
