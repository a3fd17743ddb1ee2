package api

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
)

const githubSecret = "It's a Secret to Everybody"

// withEvents adds sources to the fixture: github, which signs, and shop, which does not.
func withEvents(t *testing.T, wrap func(effectonce.Store) effectonce.Store) *fixture {
	f := newFixture(t, wrap)
	f.server.inbox = events.NewInbox(f.guard, f.store, []events.Source{
		{Name: "github", Verify: events.VerifyGitHub, Secrets: []events.Secret{func(context.Context) (string, error) { return githubSecret, nil }}, Only: []string{"push", "issues"}},
		{Name: "shop", Verify: events.VerifyNone, Unsigned: true, EventID: "{id}", Run: "order:{order}"},
	}, events.Options{})
	return f
}

func fromGitHub(body, kind, id string) func(*http.Request) {
	mac := hmac.New(sha256.New, []byte(githubSecret))
	mac.Write([]byte(body))
	return func(r *http.Request) {
		r.Host = "hooks.example.com"
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		r.Header.Set("X-GitHub-Event", kind)
		r.Header.Set("X-GitHub-Delivery", id)
	}
}

// S9.1: a delivery is answered after the commit; a repeat is told that it is one; what is not signed leaves nothing.
func TestDeliveriesAreVerifiedAndRecordedOnce(t *testing.T) {
	t.Parallel()
	f := withEvents(t, nil)
	body := `{"zen": "Design for failure."}`
	f.send("POST", "/v1/inbox/github", body).want(t, http.StatusUnauthorized, "code=forbidden")
	f.send("POST", "/v1/inbox/github", body+" ", fromGitHub(body, "push", "d-1")).want(t, http.StatusUnauthorized)
	f.send("POST", "/v1/inbox/nobody", body).want(t, http.StatusNotFound)
	f.send("POST", "/v1/inbox/shop", `{"order": 7}`).want(t, http.StatusBadRequest, "code=intent_incomplete", "field=event_id")
	f.send("POST", "/v1/inbox/shop", `{"id": 7}`).want(t, http.StatusBadRequest, "field=run")
	f.send("POST", "/v1/inbox/shop", strings.Repeat(" ", events.BodyBytesMax+1)).want(t, http.StatusRequestEntityTooLarge)
	f.send("POST", "/v1/inbox/shop", "x", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }).want(t, http.StatusUnsupportedMediaType)
	f.send("POST", "/v1/inbox/github", body, fromGitHub(body, "star", "d-0")).want(t, http.StatusOK, "ignored=true")
	f.untouched()

	first := f.send("POST", "/v1/inbox/github", body, fromGitHub(body, "push", "d-1")).want(t, http.StatusAccepted, "event_id=d-1", "run=github:d-1", "state=pending", "duplicate=false")
	f.send("POST", "/v1/inbox/github", body, fromGitHub(body, "push", "d-1")).want(t, http.StatusOK, "duplicate=true", "key="+first.key())
	// A source that does not sign is reached from this machine only.
	f.send("POST", "/v1/inbox/shop", `{"id": 7, "order": 1}`, func(r *http.Request) { r.Host = "hooks.example.com" }).want(t, http.StatusForbidden)
	f.send("GET", "/v1/operations", "", func(r *http.Request) { r.Host = "hooks.example.com" }).want(t, http.StatusForbidden)
}

// S9.1: never an answer of success without a commit.
func TestADeliveryThatCannotBeStoredIsRefused(t *testing.T) {
	t.Parallel()
	f := withEvents(t, nil)
	if err := f.store.Close(); err != nil {
		t.Fatal(err)
	}
	f.send("POST", "/v1/inbox/shop", `{"id": 7, "order": 1}`).want(t, http.StatusServiceUnavailable, "code=store_unavailable")
}

// S9.1, S16.7: of many consumers one gets the event; lost, it is handed out again under the same run.
func TestEventsAreClaimed(t *testing.T) {
	t.Parallel()
	f := withEvents(t, nil)
	f.send("POST", "/v1/inbox/shop/claim", `{}`).want(t, http.StatusNoContent)
	f.send("POST", "/v1/inbox/nobody/claim", `{}`).want(t, http.StatusNotFound)
	f.send("POST", "/v1/inbox/shop", `{"id": 7, "order": 1, "text": "å"}`).want(t, http.StatusAccepted, "run=order:1")

	var mu sync.Mutex
	codes := map[int]int{}
	var got answered
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			a := f.send("POST", "/v1/inbox/shop/claim", fmt.Sprintf(`{"owner": "worker-%d"}`, i))
			mu.Lock()
			defer mu.Unlock()
			codes[a.code]++
			if a.code == http.StatusCreated {
				got = a
			}
		})
	}
	all.Wait()
	if codes[http.StatusCreated] != 1 || codes[http.StatusNoContent] != 9 {
		t.Fatalf("answers %v", codes)
	}
	got.want(t, http.StatusCreated, "run=order:1", "attempt=1", "lease_for=1m0s")
	if event := got.get("event").(map[string]any); event["id"] != "7" || event["body"] != `{"id": 7, "order": 1, "text": "å"}` || event["content_type"] != "application/json" {
		t.Errorf("%v", event)
	}
	f.later(2 * time.Minute)
	again := f.send("POST", "/v1/inbox/shop/claim?wait=1s", `{}`).want(t, http.StatusCreated, "run=order:1", "attempt=2", "key="+got.key())
	f.send("POST", "/v1/claims/"+got.key()+"/heartbeat", fmt.Sprintf(`{"token": %d}`, got.token())).want(t, http.StatusConflict, "code=stale_token")
	f.send("POST", "/v1/claims/"+again.key()+"/complete", fmt.Sprintf(`{"token": %d, "result": {"run": "done"}}`, again.token())).want(t, http.StatusOK, "state=succeeded")
	f.send("POST", "/v1/inbox/shop", `{"id": 7, "order": 1}`).want(t, http.StatusOK, "duplicate=true", "state=succeeded")
	f.send("POST", "/v1/inbox/shop/claim", `{}`).want(t, http.StatusNoContent)
}

// S10.3, S11.3: a run shows the event that began it, and undoing the run does not stumble over it.
func TestARunShowsItsEvent(t *testing.T) {
	t.Parallel()
	f := withEvents(t, nil)
	f.send("POST", "/v1/inbox/shop", `{"id": 7, "order": 1}`).want(t, http.StatusAccepted)
	h := f.send("POST", "/v1/inbox/shop/claim", `{}`).want(t, http.StatusCreated)
	if a := f.send("GET", "/v1/runs/order%3A1", "").want(t, http.StatusOK); !strings.Contains(a.raw, "inbox.shop") {
		t.Errorf("%s", a.raw)
	}
	undo := f.send("POST", "/v1/runs/order%3A1/undo", `{"reason": "the wrong order", "person": "mara"}`).want(t, http.StatusOK, "complete=true")
	if !strings.Contains(undo.raw, "the event that the run began with") {
		t.Errorf("%s", undo.raw)
	}
	// The second attempt's definite refusal says that the event must not be tried again, whatever the first did.
	f.later(2 * time.Minute)
	h = f.send("POST", "/v1/inbox/shop/claim", `{}`).want(t, http.StatusCreated, "attempt=2", "key="+h.key())
	f.send("POST", "/v1/claims/"+h.key()+"/reject", fmt.Sprintf(`{"token": %d, "authoritative": true, "error": {"code": "no_such_order"}}`, h.token())).want(t, http.StatusOK, "state=failed")
	f.send("POST", "/v1/inbox/shop/claim", `{}`).want(t, http.StatusNoContent)
}

// Whoever could record under the tool of a source could forge its events.
func TestToolsOfEventsAreReserved(t *testing.T) {
	t.Parallel()
	f := withEvents(t, nil)
	for _, path := range []string{"/v1/claims", "/v1/explain"} {
		f.send("POST", path, `{"tool": "inbox.github", "intent_id": "d-1", "arguments": {"source": "github", "event_id": "d-1"}}`).want(t, http.StatusBadRequest, "field=tool")
	}
	f.untouched()
}

// S9.2: what waits is visible, and a person decides about what is parked.
func TestTheOutboxIsShownAndRetried(t *testing.T) {
	t.Parallel()
	f := withEvents(t, nil)
	for _, body := range []string{
		`{"subject": "orders.1", "id": "a", "type": "paid", "data": {"n": 1}}`,
		`{"subject": "orders.1", "id": "b", "data": {"n": 2}}`,
		`{"subject": "orders.1", "id": "b", "data": {"n": 2}}`,
		`{"subject": "a/b c", "id": "c", "content_type": "text/plain", "data": "hello"}`,
	} {
		f.send("POST", "/v1/outbox", body).want(t, http.StatusAccepted)
	}
	f.send("POST", "/v1/outbox", `{"subject": "x", "id": "d", "content_type": "text/plain", "data": {}}`).want(t, http.StatusBadRequest, "field=data")
	f.send("POST", "/v1/outbox", `{"subject": "x", "data": {}}`).want(t, http.StatusBadRequest, "field=id")
	f.send("GET", "/v1/outbox/a%2Fb%20c", "").want(t, http.StatusOK, "subject=a/b c", "waiting=1", "head=c")
	f.send("GET", "/v1/outbox/orders.1", "").want(t, http.StatusOK, "waiting=2", "head=a", "parked=false")
	f.send("GET", "/v1/outbox/none", "").want(t, http.StatusNotFound)
	f.send("POST", "/v1/outbox/retry", `{"subject": "orders.1", "head": "a", "person": "mara"}`).want(t, http.StatusConflict, "code=not_allowed")

	for {
		q, _, err := f.store.TakeQueue(t.Context(), time.Minute, 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.store.ReturnQueue(t.Context(), q, effectonce.Relayed{Reason: "the answer was 500", Park: q.Subject == "orders.1", Again: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if q.Subject == "orders.1" {
			break
		}
	}
	list := f.send("GET", "/v1/outbox?parked=true", "").want(t, http.StatusOK)
	if queues := list.get("queues").([]any); len(queues) != 1 || queues[0].(map[string]any)["reason"] != "the answer was 500" {
		t.Errorf("%s", list.raw)
	}
	if text := f.send("GET", "/metrics", "").raw; !strings.Contains(text, "\neffectonce_outbox_parked 1\n") || !strings.Contains(text, "\neffectonce_outbox_subjects 2\n") {
		t.Errorf("%s", text)
	}
	f.send("POST", "/v1/outbox/retry", `{"subject": "orders.1", "head": "b", "person": "mara"}`).want(t, http.StatusConflict, "code=stale_version")
	f.send("POST", "/v1/outbox/retry", `{"subject": "orders.1", "head": "a", "person": "mara", "discard": true}`).want(t, http.StatusBadRequest, "field=reason")
	f.send("POST", "/v1/outbox/retry", `{"subject": "orders.1", "head": "a", "person": "mara", "discard": true, "reason": "a test order"}`).want(t, http.StatusOK, "discarded=true")
	f.send("GET", "/v1/outbox/orders.1", "").want(t, http.StatusOK, "waiting=1", "head=b", "parked=false", "attempts=0")
}
