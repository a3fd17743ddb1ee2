package client_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
	"github.com/effectonce/effectonce/client"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/store/memory"
)

// S9.1, S9.2 over the wire.
func TestEventsOverTheWire(t *testing.T) {
	t.Parallel()
	store := memory.Open(memory.Options{})
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	guard := effectonce.New(store, effectonce.Options{Logger: log})
	inbox := events.NewInbox(guard, store, []events.Source{{Name: "shop", Verify: events.VerifyNone, Unsigned: true, EventID: "{header.x-id}"}}, events.Options{Logger: log})
	server := httptest.NewServer(api.New(api.Options{Guard: guard, Store: store, Inbox: inbox, Logger: log}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{Actor: "worker-7"})
	if err != nil {
		t.Fatal(err)
	}

	if _, ok, err := c.ClaimEvent(t.Context(), "shop"); ok || err != nil {
		t.Fatalf("an event out of nothing: %v %v", ok, err)
	}
	if _, _, err := c.ClaimEvent(t.Context(), "nobody"); !errors.Is(err, effectonce.ErrNotFound) {
		t.Errorf("an unknown source: %v", err)
	}
	for id, body := range map[string]string{"text": `{"a": 1}`, "bytes": "\xff\x00"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/inbox/shop", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Id", id)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		next, ok, err := c.ClaimEvent(t.Context(), "shop", client.WaitFor(time.Second))
		if err != nil || !ok || next.Event.ID != id || string(next.Event.Body) != body || next.Event.Run != "shop:"+id || next.Attempt != 1 || next.LeaseFor != time.Minute {
			t.Fatalf("%+v %v %v", next, ok, err)
		}
		o, err := c.Complete(t.Context(), next.Key, next.Token, []byte(`{}`), "")
		if err != nil || o.Operation.State != effectonce.StateSucceeded {
			t.Fatalf("%+v %v", o, err)
		}
	}

	for _, m := range []effectonce.Message{{Subject: "orders.1", ID: "a", Data: []byte(`{"n": 1}`)}, {Subject: "orders.1", ID: "b", ContentType: "text/plain", Data: []byte("hello")}} {
		if err := c.Append(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	_, messages, err := store.TakeQueue(t.Context(), time.Minute, 10)
	if err != nil || len(messages) != 2 || string(messages[0].Data) != `{"n":1}` && string(messages[0].Data) != `{"n": 1}` || string(messages[1].Data) != "hello" || messages[1].ContentType != "text/plain" {
		t.Errorf("%+v %v", messages, err)
	}
	if err := c.Append(t.Context(), effectonce.Message{Subject: "orders.1", Data: []byte(`{}`)}); !errors.Is(err, effectonce.ErrInvalid) {
		t.Errorf("without an id: %v", err)
	}
}
