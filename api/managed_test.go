package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

const refund = `{"tool":"shop.refund","run":"r1","step":"s1","arguments":{"order_id":"o1","amount":480}}`

func TestManagedExecution(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)

	first := f.send("POST", "/v1/operations", refund).want(t, 200, "outcome=succeeded", "next=use_result", "replayed=false", "state=succeeded", "intent_id=refund:o1", "run=r1")
	if first.header.Get("Effectonce-Replayed") != "" {
		t.Error("a first answer is marked as a replay")
	}
	// S7.10: a replay is marked in the body and in a header.
	again := f.send("POST", "/v1/operations", refund).want(t, 200, "outcome=succeeded", "replayed=true", "key="+first.key())
	if again.header.Get("Effectonce-Replayed") != "true" {
		t.Error("a replay is not marked by the header")
	}
	if a, b := fmt.Sprint(first.get("result")), fmt.Sprint(again.get("result")); a != b {
		t.Errorf("results differ: %s, %s", a, b)
	}
	// S4.5
	p := f.send("POST", "/v1/operations", strings.Replace(refund, "480", "450", 1)).want(t, 422, "code=payload_mismatch", "next=stop_and_report", "fields=[amount]")
	if p.get("operation") != nil {
		t.Error("a mismatch shows the other operation's result")
	}
	if n := f.effects.Load(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
	f.send("GET", "/v1/operations/"+first.key(), "").want(t, 200, "outcome=succeeded", "managed=true", "scope=business", "proof=answer")
	ev := f.send("GET", "/v1/operations/"+first.key()+"/events", "").want(t, 200)
	if n := len(ev.get("events").([]any)); n != 2 {
		t.Errorf("%d events, want recorded and attempt_ended", n)
	}
}

func TestOutcomesAreAnswersNotErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tool   string
		behave func(context.Context, effectonce.Call) (any, error)
		code   int
		fields []string
	}{
		"a refusal is a failed operation": {"shop.refund", func(context.Context, effectonce.Call) (any, error) {
			return nil, effectonce.Rejected(errors.New("card declined"), true)
		}, 200, []string{"outcome=failed", "next=new_intent", "error=map[code:rejected message:card declined]"}},
		"an ambiguous end is unknown": {"shop.refund", func(context.Context, effectonce.Call) (any, error) {
			return nil, errors.New("timeout")
		}, 202, []string{"outcome=unknown", "next=wait"}},
		"nothing was sent": {"shop.refund", func(context.Context, effectonce.Call) (any, error) {
			return nil, effectonce.NotSent(errors.New("no route"))
		}, 202, []string{"outcome=pending", "next=wait"}},
		"a policy holds it": {"shop.held", nil, 202, []string{"outcome=awaiting_approval", "next=stop_and_report", "hold=approval"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.behaves(tt.behave)
			a := f.send("POST", "/v1/operations", strings.Replace(refund, "shop.refund", tt.tool, 1)).want(t, tt.code, tt.fields...)
			if tt.code == 202 && a.header.Get("Location") != "/v1/operations/"+a.key() {
				t.Errorf("Location is %q", a.header.Get("Location"))
			}
			if tt.code == 202 && a.get("next") == "wait" && a.header.Get("Retry-After") == "" {
				t.Error("there is no Retry-After")
			}
		})
	}
}

// S16.6, and field report B19: concurrent duplicates never surface as a server error.
func TestFiftyConcurrentFirstRequests(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{true, false} {
		t.Run(fmt.Sprintf("wait %t", wait), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			release := make(chan struct{})
			f.behaves(func(ctx context.Context, _ effectonce.Call) (any, error) {
				select {
				case <-release:
				case <-ctx.Done():
				}
				return map[string]any{"id": "re_1"}, nil
			})
			path := "/v1/operations"
			if wait {
				path += "?wait=30s"
			}
			answers := make([]answered, 50)
			var wg, started sync.WaitGroup
			for i := range answers {
				wg.Add(1)
				started.Add(1)
				go func() {
					defer wg.Done()
					started.Done()
					answers[i] = f.send("POST", path, refund)
				}()
			}
			started.Wait()
			close(release)
			wg.Wait()
			if n := f.effects.Load(); n != 1 {
				t.Fatalf("%d effects, want 1", n)
			}
			succeeded := 0
			for _, a := range answers {
				switch {
				case a.code == 200:
					succeeded++
					a.want(t, 200, "outcome=succeeded", "result=map[id:re_1]")
				case a.code == 409 && !wait:
					// Field report B31: the code says that this is no final refusal.
					a.want(t, 409, "code=conflict", "next=retry_after")
				default:
					t.Errorf("status %d: %s", a.code, a.raw)
				}
			}
			if wait && succeeded != 50 || succeeded < 1 {
				t.Errorf("%d callers got the result", succeeded)
			}
		})
	}
}

// S6.6: a client that hangs up does not change what happens.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	f.behaves(func(callCtx context.Context, _ effectonce.Call) (any, error) {
		cancel()
		if callCtx.Err() != nil {
			return nil, errors.New("the call was cancelled with its caller")
		}
		return map[string]any{"id": "re_1"}, nil
	})
	f.send("POST", "/v1/operations", refund, func(r *http.Request) { *r = *r.WithContext(ctx) })
	f.send("POST", "/v1/operations", refund).want(t, 200, "outcome=succeeded", "replayed=true")
	if n := f.effects.Load(); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestRecordOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", "/v1/operations?execute=false", refund).want(t, 202, "outcome=pending", "next=wait", "attempts=0")
	if n := f.effects.Load(); n != 0 {
		t.Fatalf("%d effects, want none", n)
	}
	f.send("POST", "/v1/operations", refund).want(t, 200, "outcome=succeeded")
}

func TestReadOnlyToolStoresNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", "/v1/operations", strings.Replace(refund, "shop.refund", "shop.read", 1)).want(t, 200, "outcome=succeeded", "key=")
	f.send("POST", "/v1/claims", strings.Replace(refund, "shop.refund", "shop.read", 1)).want(t, 400, "field=tool")
	f.untouched()
}

// S3.7
func TestSupersede(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.behaves(func(context.Context, effectonce.Call) (any, error) {
		return nil, effectonce.Rejected(errors.New("card declined"), true)
	})
	failed := f.send("POST", "/v1/operations", refund).want(t, 200, "outcome=failed")
	f.behaves(nil)
	successor := func(reason string) string {
		return strings.TrimSuffix(refund, "}") + fmt.Sprintf(`,"supersedes":{"key":%q,"reason":%q}}`, failed.key(), reason)
	}
	next := f.send("POST", "/v1/operations", successor("another card")).want(t, 200, "outcome=succeeded", "supersedes="+failed.key())
	if next.key() == failed.key() {
		t.Error("the successor has its predecessor's key")
	}
	// After a success a person approves: the actor who asked cannot.
	again := f.send("POST", "/v1/operations", strings.Replace(successor("more"), failed.key(), next.key(), 1)).want(t, 202, "outcome=awaiting_approval")
	f.send("POST", "/v1/operations/"+again.key()+"/resolve", `{"version":1,"resolution":"rejected","person":"mara","reason":"no"}`).want(t, 200, "outcome=failed")
	f.send("POST", "/v1/operations", strings.Replace(successor("x"), failed.key(), strings.Repeat("0", 64), 1)).want(t, 404, "code=not_found")
}

// S3.8
func TestTwinIsRejected(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	twin := strings.Replace(refund, "shop.refund", "shop.twin", 1)
	f.send("POST", "/v1/operations", twin).want(t, 200)
	f.send("POST", "/v1/operations", strings.Replace(twin, `"o1"`, `"o2"`, 1)).want(t, 409, "code=twin_rejected")
}

func TestContextReachesTheTemplate(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", "/v1/operations", `{"tool":"shop.refund","arguments":{"order_id":"o1"},"context":{"period":"2026-11"}}`).want(t, 200, "intent_id=refund:o1:2026-11")
}

func TestShuttingDown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	if err := f.guard.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := f.send("POST", "/v1/operations", refund).want(t, 503, "code=shutting_down", "next=retry_after")
	if a.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", a.header.Get("Retry-After"))
	}
	f.untouched()
}

// failing is a store whose calls fail while they are told to.
type failing struct {
	effectonce.Store
	mu            sync.Mutex
	create, apply error
}

func (s *failing) Create(ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.create != nil {
		return effectonce.Operation{}, false, s.create
	}
	return s.Store.Create(ctx, t)
}

func (s *failing) Apply(ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apply != nil {
		return effectonce.Operation{}, s.apply
	}
	return s.Store.Apply(ctx, t)
}

// S16.14: the answer says whether a request can have left.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	down := &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "busy"}
	t.Run("before the effect", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, func(s effectonce.Store) effectonce.Store { return &failing{Store: s, create: down} })
		f.send("POST", "/v1/operations", refund).want(t, 503, "code=store_unavailable", "sent=no", "next=retry_after")
		if n := f.effects.Load(); n != 0 {
			t.Errorf("%d effects, want none", n)
		}
	})
	t.Run("for good", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, func(s effectonce.Store) effectonce.Store {
			return &failing{Store: s, create: &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: "the file is read-only"}}
		})
		f.send("POST", "/v1/operations", refund).want(t, 500, "code=store_broken", "detail=the file is read-only")
	})
	t.Run("an unforeseen error tells nothing", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t, func(s effectonce.Store) effectonce.Store {
			return &failing{Store: s, create: errors.New("secret driver text")}
		})
		if a := f.send("POST", "/v1/operations", refund).want(t, 500, "code=internal"); strings.Contains(a.raw, "secret") {
			t.Errorf("the answer shows a raw error: %s", a.raw)
		}
	})
}

func TestDefectIsAProblem(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.send("POST", "/v1/operations", strings.Replace(refund, "shop.refund", "shop.note", 1)).want(t, 400, "code=intent_incomplete", "field=intent_id")
	f.send("POST", "/v1/claims", strings.Replace(refund, "shop.refund", "shop.panic", 1)).want(t, 500, "code=internal")
}

func TestWaitOfARead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	entered, release := make(chan struct{}), make(chan struct{})
	f.behaves(func(context.Context, effectonce.Call) (any, error) {
		close(entered)
		<-release
		return map[string]any{"id": "re_1"}, nil
	})
	done := make(chan answered)
	go func() { done <- f.send("POST", "/v1/operations", refund) }()
	<-entered
	op := f.send("POST", "/v1/operations", refund).want(t, 409, "code=conflict")
	f.send("GET", "/v1/operations/"+op.key()+"?wait=1ms", "").want(t, 200, "outcome=in_progress", "next=retry_after")
	// Whoever stops waiting, or is made to by a shutdown, is told how it stands.
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	f.send("GET", "/v1/operations/"+op.key()+"?wait=30s", "", func(r *http.Request) { *r = *r.WithContext(gone) }).want(t, 200, "outcome=in_progress")
	f.send("POST", "/v1/operations?wait=30s", refund, func(r *http.Request) { *r = *r.WithContext(gone) }).want(t, 409, "code=conflict")
	waited := make(chan answered)
	go func() {
		waited <- f.send("GET", "/v1/operations/"+op.key(), "", func(r *http.Request) { r.Header.Set("Prefer", "respond-async, wait=30") })
	}()
	close(release)
	(<-done).want(t, 200, "outcome=succeeded")
	select {
	case a := <-waited:
		a.want(t, 200, "outcome=succeeded")
	case <-time.After(20 * time.Second):
		t.Fatal("the reader was not told")
	}
}

// S3.7: by force a successor takes the place of what was only recorded, which then can no longer run, and a person approves it.
func TestSupersedingByForceCancelsAPendingPredecessor(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	before := f.send("POST", "/v1/operations?execute=false", refund).want(t, 202, "outcome=pending")
	successor := func(force string) string {
		return strings.Replace(strings.TrimSuffix(refund, "}"), "480", "450", 1) + fmt.Sprintf(`,"supersedes":{"key":%q,"reason":"only part was broken"%s}}`, before.key(), force)
	}
	f.send("POST", "/v1/operations", successor("")).want(t, 409, "code=supersede_refused", "field=supersedes.key")
	next := f.send("POST", "/v1/operations", successor(`,"force":true`)).want(t, 202, "outcome=awaiting_approval", "supersedes="+before.key())
	f.send("GET", "/v1/operations/"+before.key(), "").want(t, 200, "outcome=failed")
	if a := f.send("GET", "/v1/operations/"+before.key()+"/events", "").want(t, 200); !strings.Contains(a.raw, `"kind":"cancelled"`) {
		t.Errorf("the audit of the predecessor is %s", a.raw)
	}
	f.send("GET", "/v1/operations/"+next.key(), "").want(t, 200, "supersedes_reason=only part was broken", "revision=1")
	if n := f.effects.Load(); n != 0 {
		t.Errorf("%d effects before anybody approved", n)
	}
}
