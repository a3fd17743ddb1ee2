package idempotency_test

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
	"github.com/effectonce/effectonce/idempotency"
	"github.com/effectonce/effectonce/store/memory"
)

// S12.1, S7.10: the stored answer is replayed with its status, the headers of the list and the same bytes, and is marked.
func TestTheStoredAnswerIsReplayed(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		s := serve(t, middleware(t, store, idempotency.Options{}), l.refunds())
		first := ask{key: `"k-1"`, body: `{"amount":480,"currency":"EUR"}`}.send(t, s)
		if first.status != http.StatusCreated || first.header.Get("Idempotency-Replayed") != "" || first.header.Get("Set-Cookie") == "" {
			t.Fatalf("%d %v", first.status, first.header)
		}
		for _, again := range []ask{
			{key: `"k-1"`, body: `{"amount":480,"currency":"EUR"}`},
			{key: `k-1`, body: "{ \"currency\" : \"EUR\",\n \"amount\" : 4.8e2 }"},
		} {
			r := again.send(t, s)
			if !same(first, r) {
				t.Errorf("got %+v, the first answer was %+v", r, first)
			}
			if r.header.Get("Idempotency-Replayed") != "true" || r.header.Get("Effectonce-Next") != "use_result" || r.header.Get("Set-Cookie") != "" {
				t.Errorf("headers of the replay: %v", r.header)
			}
		}
		if n := l.count(); n != 1 {
			t.Errorf("%d effects", n)
		}
		op := operationOf(t, store)
		if op.Tool != "POST /refunds" || op.IntentID != "k-1" || op.Tenant != effectonce.DefaultTenant || op.Reference != "/refunds/re_1" || op.State != effectonce.StateSucceeded {
			t.Errorf("operation: %+v", op)
		}
		if strings.Contains(string(op.Business)+string(op.Arguments)+string(op.Request), "480") {
			t.Errorf("the store has a copy of the body: %s", op.Business)
		}
	})
}

// S12.1, S4.5, S16.8: another request under the same key is refused, and the refusal names what differs.
func TestAnotherRequestUnderTheSameKeyIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		first ask
		again ask
		field string
	}{
		{"another amount", ask{body: `{"amount":480}`}, ask{body: `{"amount":450}`}, "body.amount"},
		{"one member more", ask{body: `{"amount":480}`}, ask{body: `{"amount":480,"to":"x"}`}, "body.to"},
		{"another text", ask{contentType: "text/plain", body: "a"}, ask{contentType: "text/plain", body: "b"}, "body"},
		{"another array", ask{body: `[1]`}, ask{body: `[2]`}, "body"},
		{"no body", ask{body: `{}`}, ask{body: ``}, "body"},
		{"JSON that no double can carry", ask{body: `{"n":9007199254740993}`}, ask{body: `{"n":9007199254740992}`}, "body"},
		{"another query", ask{path: "/refunds?a=1"}, ask{path: "/refunds?a=2"}, "query"},
		{"another path", ask{path: "/refunds/1"}, ask{path: "/refunds/2"}, "path"},
		{"another content type", ask{body: "a", contentType: "text/plain"}, ask{body: "a", contentType: "text/csv"}, "content_type"},
		{"another content encoding", ask{body: "a"}, ask{body: "a", header: http.Header{"Content-Encoding": {"gzip"}}}, "content_encoding"},
		{"another named header", ask{header: http.Header{"X-Account": {"1"}}}, ask{header: http.Header{"X-Account": {"2"}}}, "header.X-Account"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l ledger
			s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{Headers: []string{"x-account"}}), l.refunds())
			tt.first.key, tt.again.key = "k", "k"
			if r := tt.first.send(t, s); r.status != http.StatusCreated {
				t.Fatalf("%+v", r)
			}
			r := tt.again.send(t, s)
			p := r.problem(t)
			if r.status != http.StatusUnprocessableEntity || p.Code != "payload_mismatch" || p.Next != effectonce.AdviceStop || !strings.Contains(strings.Join(p.Fields, " "), tt.field) {
				t.Errorf("%d %s", r.status, r.body)
			}
			if l.count() != 1 {
				t.Errorf("%d effects", l.count())
			}
		})
	}
}

// S4.2: differences of spelling are none.
func TestTheSameRequestInAnotherSpelling(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		first, again ask
	}{
		{"order, numbers and space", ask{body: `{"a":480,"b":"é"}`}, ask{body: "{\"b\":\"\\u00e9\" ,\n\"a\":4.8e2}"}},
		{"media type", ask{contentType: "application/json", body: `[1.0]`}, ask{contentType: "Application/JSON ", body: `[1]`}},
		{"a JSON subtype", ask{contentType: "application/merge-patch+json", body: `{"a":null}`}, ask{contentType: "application/merge-patch+json", body: `{ "a" : null }`}},
		{"parameters of the media type", ask{contentType: `text/plain;charset="utf-8"`}, ask{contentType: `text/plain; CHARSET=utf-8`}},
		{"a header that is not named", ask{header: http.Header{"X-Trace": {"1"}}}, ask{header: http.Header{"X-Trace": {"2"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l ledger
			s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{}), l.refunds())
			tt.first.key, tt.again.key = "k", "k"
			if a, b := tt.first.send(t, s), tt.again.send(t, s); !same(a, b) || l.count() != 1 {
				t.Errorf("%+v\n%+v\n%d effects", a, b, l.count())
			}
		})
	}
}

// S5.3, S5.5, S16.6: of 64 duplicates one runs; the others are told, or wait for its answer.
func TestConcurrentDuplicatesRunOnce(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, 20 * time.Second} {
		t.Run("wait "+wait.String(), func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, store effectonce.Store) {
				var l ledger
				refunds := l.refunds()
				others := make(chan struct{})
				s := serve(t, middleware(t, store, idempotency.Options{Wait: wait}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if wait == 0 {
						<-others
					}
					refunds(w, r)
				}))
				const n = 64
				replies := make(chan reply, n)
				for range n {
					go func() {
						replies <- do(s.Client(), ask{key: "k", body: `{"amount":480}`}.request(t.Context(), s.URL))
					}()
				}
				created := 0
				for i := range n {
					if wait == 0 && i == n-1 {
						close(others)
					}
					r := <-replies
					switch {
					case r.err != nil:
						t.Fatal(r.err)
					case r.status == http.StatusCreated:
						created++
					case wait == 0 && r.status == http.StatusConflict:
						if p := r.problem(t); p.Code != "conflict" || p.Next != effectonce.AdviceRetry || r.header.Get("Retry-After") == "" {
							t.Errorf("%+v %v", p, r.header)
						}
					default:
						t.Errorf("%d %s", r.status, r.body)
					}
				}
				if want := map[bool]int{true: 1, false: n}[wait == 0]; created != want || l.count() != 1 {
					t.Errorf("%d answers of %d, %d effects", created, want, l.count())
				}
			})
		})
	}
}

// S12.1, S3.1: one key of two tenants, or of two tools, is two operations.
func TestTenantsDoNotShareKeys(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		m := middleware(t, store, idempotency.Options{Tenant: func(r *http.Request) string { return r.Header.Get("X-Tenant") }})
		s := serve(t, m, l.refunds())
		for i, tenant := range []string{"a", "b"} {
			for range 2 {
				r := ask{key: "k", header: http.Header{"X-Tenant": {tenant}}, body: tenant}.send(t, s)
				if want := fmt.Sprintf(`{"id":"re_1","n":%d}`, i+1); r.status != http.StatusCreated || strings.TrimSpace(r.body) != want {
					t.Errorf("%s: %d %s, want %s", tenant, r.status, r.body, want)
				}
			}
		}
		if r := (ask{key: "k"}).send(t, s); r.status != http.StatusForbidden {
			t.Errorf("without a tenant: %d %s", r.status, r.body)
		}
		if r := (ask{key: "k", path: "/refunds/7", header: http.Header{"X-Tenant": {"a"}}, body: "a"}).send(t, s); r.status != http.StatusCreated {
			t.Errorf("another tool: %d %s", r.status, r.body)
		}
		if l.count() != 3 {
			t.Errorf("%d effects", l.count())
		}
	})
}

// S5.12, S15.2, I10: access is asked again before anything about an operation is told.
func TestAccessIsAskedBeforeAnAnswerIsShown(t *testing.T) {
	t.Parallel()
	var l ledger
	store := memory.Open(memory.Options{})
	s := serve(t, middleware(t, store, idempotency.Options{
		Actor: func(r *http.Request) string { return r.Header.Get("X-User") },
		Access: func(r *http.Request, op effectonce.Operation) error {
			if op.Actor != r.Header.Get("X-User") || r.Header.Get("X-Revoked") != "" {
				return errors.New("not yours")
			}
			return nil
		},
	}), l.refunds())
	mine := http.Header{"X-User": {"ann"}}
	if r := (ask{key: "k", header: mine, body: "1"}).send(t, s); r.status != http.StatusCreated {
		t.Fatalf("%+v", r)
	}
	for _, a := range []ask{
		{key: "k", header: http.Header{"X-User": {"bob"}}, body: "1"},
		{key: "k", header: http.Header{"X-User": {"bob"}}, body: "another"},
		{key: "k", header: http.Header{"X-User": {"ann"}, "X-Revoked": {"1"}}, body: "1"},
	} {
		r := a.send(t, s)
		p := r.problem(t)
		if r.status != http.StatusForbidden || p.Operation != "" || p.Outcome != "" || p.Fields != nil || strings.Contains(r.body, "re_1") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if r := (ask{key: "k", header: mine, body: "1"}).send(t, s); r.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%+v", r)
	}
	if l.count() != 1 {
		t.Errorf("%d effects", l.count())
	}
}

// S6.1, S7.6, S16.3: a handler that panics may have had its effect. The key answers 409 until a person decides.
func TestAPanicIsUnknownUntilAPersonDecides(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		m := middleware(t, store, idempotency.Options{Terms: quickTerms()})
		s := serve(t, m, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			l.add("charged")
			panic("after the effect")
		}))
		a := ask{key: "k", body: `{}`}
		// Go's client sends a request with a key again when a connection breaks, so the first thing it sees may be the refusal.
		if r := a.send(t, s); r.err == nil && r.status != http.StatusConflict {
			t.Fatalf("%+v", r)
		}
		r := until(t, "review", func() (reply, bool) {
			r := a.send(t, s)
			return r, r.status != http.StatusConflict || r.problem(t).Code == "in_review"
		})
		if p := r.problem(t); p.Next != effectonce.AdviceStop || p.Outcome != effectonce.OutcomeInReview {
			t.Errorf("%+v", p)
		}
		op := operationOf(t, store)
		guard := effectonce.New(store, effectonce.Options{})
		if _, err := guard.Resolve(t.Context(), op.Key, effectonce.Resolved{
			Version: op.Version, Resolution: effectonce.ResolveConfirmed, Person: "ann", Reason: "seen at the bank", Reference: "ch_1", Result: []byte(`{"id":"ch_1"}`),
		}); err != nil {
			t.Fatal(err)
		}
		if r := a.send(t, s); r.status != http.StatusOK || r.body != `{"id":"ch_1"}` || r.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%+v", r)
		}
		if l.count() != 1 {
			t.Errorf("%d effects", l.count())
		}
	})
}

// S7.6: a person who knows the answer can give it whole.
func TestAPersonCanGiveTheAnswer(t *testing.T) {
	t.Parallel()
	store := memory.Open(memory.Options{})
	s := serve(t, middleware(t, store, idempotency.Options{Terms: quickTerms()}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("x") }))
	a := ask{key: "k"}
	until(t, "review", func() (reply, bool) {
		r := a.send(t, s)
		return r, r.status == http.StatusConflict && r.problem(t).Code == "in_review"
	})
	op := operationOf(t, store)
	answer := idempotency.Answer{Status: http.StatusCreated, Header: http.Header{"Location": {"/refunds/7"}, "Set-Cookie": {"a=b"}}, Body: []byte("refunded")}
	_, err := effectonce.New(store, effectonce.Options{}).Resolve(t.Context(), op.Key, effectonce.Resolved{
		Version: op.Version, Resolution: effectonce.ResolveConfirmed, Person: "ann", Reason: "seen", Result: answer.Result(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := a.send(t, s); r.status != http.StatusCreated || r.body != "refunded" || r.header.Get("Location") != "/refunds/7" || r.header.Get("Set-Cookie") != "" {
		t.Errorf("%+v", r)
	}
}

// deaf is a store on which no lease can be extended.
type deaf struct{ effectonce.Store }

func (deaf) Extend(context.Context, effectonce.Key, int64, time.Duration, time.Duration) (time.Duration, error) {
	return 0, &effectonce.Error{Code: effectonce.CodeStaleToken}
}

// S5.8, S16.18: a handler that is slower than its lease was taken over. Its answer arrives as late evidence, and counts.
func TestASlowHandlersAnswerCountsAfterItsLease(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		terms := quickTerms()
		terms.Heartbeat, terms.Processing = 200*time.Millisecond, time.Minute
		started, released := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(released) })
		refunds := l.refunds()
		s := serve(t, middleware(t, deaf{store}, idempotency.Options{Terms: terms}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(started)
			<-released
			refunds(w, r)
		}))
		t.Cleanup(release)
		a := ask{key: "k", body: "x"}
		first := make(chan reply, 1)
		go func() { first <- do(s.Client(), a.request(t.Context(), s.URL)) }()
		<-started
		until(t, "the take-over", func() (reply, bool) {
			r := a.send(t, s)
			return r, r.status == http.StatusConflict && r.problem(t).Code == "unknown"
		})
		release()
		r := <-first
		if r.status != http.StatusCreated || r.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%+v", r)
		}
		if again := a.send(t, s); !same(r, again) || again.header.Get("Idempotency-Replayed") != "true" || l.count() != 1 {
			t.Errorf("%+v, %d effects", again, l.count())
		}
		if op := operationOf(t, store); op.Proof != effectonce.ProofLate {
			t.Errorf("proof: %s", op.Proof)
		}
	})
}

// quickTerms let tests reach the end of what takes minutes.
func quickTerms() effectonce.Terms {
	return effectonce.Terms{
		CallTimeout: 5 * time.Second, Grace: time.Second, Heartbeat: 500 * time.Millisecond, Backoff: 10 * time.Millisecond, BackoffMax: 20 * time.Millisecond,
		Pause: time.Millisecond, Transit: time.Millisecond, Processing: time.Millisecond, Within: time.Minute,
	}
}

// S7.1: a look-up tells what became of a request whose end is not known.
func TestALookUpTellsTheOutcome(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		terms := quickTerms()
		terms.Lag = time.Millisecond
		var mu sync.Mutex
		var asked idempotency.Query
		m := middleware(t, store, idempotency.Options{Terms: terms, LookUp: func(_ context.Context, q idempotency.Query) (idempotency.Answer, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = q
			return idempotency.Answer{Status: http.StatusCreated, Header: http.Header{"Location": {"/refunds/re_9"}}, Body: []byte("found")}, l.count() > 0, nil
		}})
		s := serve(t, m, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if call, ok := idempotency.Call(r.Context()); !ok || call.Stamp == "" || call.DownstreamKey == "" {
				t.Error("the handler has no stamp")
			}
			l.add("charged")
			panic(http.ErrAbortHandler)
		}))
		a := ask{key: `"k"`, body: `{"amount":1}`}
		r := until(t, "the answer", func() (reply, bool) {
			r := a.send(t, s)
			return r, r.status == http.StatusCreated
		})
		if r.body != "found" || r.header.Get("Location") != "/refunds/re_9" || l.count() != 1 {
			t.Errorf("%+v, %d effects", r, l.count())
		}
		mu.Lock()
		defer mu.Unlock()
		if asked.Key != "k" || asked.Call.Stamp == "" || asked.Request.ContentLength != int64(len(a.body)) {
			t.Errorf("asked about %+v", asked)
		}
		if op := operationOf(t, store); op.Proof != effectonce.ProofLookUp {
			t.Errorf("proof: %s", op.Proof)
		}
	})
}

// S6.2: a handler that says that nothing happened runs again; one that answers 500 does not.
func TestNotSentRunsAgainAndErrorsDoNot(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var tries, l ledger
		s := serve(t, middleware(t, store, idempotency.Options{Terms: quickTerms()}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/refunds/5" {
				l.add("half")
				http.Error(w, "broken", http.StatusInternalServerError)
				return
			}
			if tries.add("try") < 3 {
				idempotency.NotSent(r.Context())
				http.Error(w, "the bank is closed", http.StatusServiceUnavailable)
				return
			}
			l.refunds()(w, r)
		}))
		a := ask{key: "k"}
		if r := a.send(t, s); r.status != http.StatusServiceUnavailable || strings.TrimSpace(r.body) != "the bank is closed" || r.header.Get("Idempotency-Replayed") != "" {
			t.Fatalf("%+v", r)
		}
		until(t, "the third try", func() (reply, bool) {
			r := a.send(t, s)
			if r.status == http.StatusConflict {
				if p := r.problem(t); p.Code != "pending" || p.Next != effectonce.AdviceRetry {
					t.Errorf("%+v", p)
				}
			}
			return r, r.status == http.StatusCreated
		})
		if tries.count() != 3 || l.count() != 1 {
			t.Errorf("%d tries, %d effects", tries.count(), l.count())
		}

		b := ask{key: "k", path: "/refunds/5"}
		first, again := b.send(t, s), b.send(t, s)
		if !same(first, again) || first.status != http.StatusInternalServerError || again.header.Get("Idempotency-Replayed") != "true" || l.count() != 2 {
			t.Errorf("%+v\n%+v", first, again)
		}
	})
}

// S6.6: the handler goes on, and its answer is recorded, whatever became of the caller.
func TestTheHandlerOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		started, gone := make(chan struct{}), make(chan struct{})
		handled := make(chan error, 1)
		s := serve(t, middleware(t, store, idempotency.Options{Terms: quickTerms()}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(started)
			<-gone
			handled <- r.Context().Err()
			l.refunds()(w, r)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		a := ask{key: "k", body: "x"}
		left := make(chan reply)
		go func() { left <- do(s.Client(), a.request(ctx, s.URL)) }()
		<-started
		cancel()
		if r := <-left; r.err == nil {
			t.Fatalf("%+v", r)
		}
		close(gone)
		if err := <-handled; err != nil {
			t.Errorf("the handler's context: %v", err)
		}
		until(t, "the answer", func() (reply, bool) {
			r := a.send(t, s)
			return r, r.status == http.StatusCreated && r.header.Get("Idempotency-Replayed") == "true"
		})
		if l.count() != 1 {
			t.Errorf("%d effects", l.count())
		}
	})
}

// S5.4: the terms bound the handler's context.
func TestTheTermsBoundTheHandler(t *testing.T) {
	t.Parallel()
	terms := quickTerms()
	terms.CallTimeout = 50 * time.Millisecond
	s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{Terms: terms}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		http.Error(w, r.Context().Err().Error(), http.StatusGatewayTimeout)
	}))
	if r := (ask{key: "k"}).send(t, s); r.status != http.StatusGatewayTimeout || !strings.Contains(r.body, "deadline") {
		t.Errorf("%+v", r)
	}
}

// S13.1, S16.10: what was kept long enough is not shown and does not run again, whether or not it was purged.
func TestExpiredAnswersNeverRunAgain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	store := memory.Open(memory.Options{Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }})
	var l ledger
	s := serve(t, middleware(t, store, idempotency.Options{Terms: effectonce.Terms{Results: 24 * time.Hour}}), l.refunds())
	a := ask{key: "k", body: "x"}
	if r := a.send(t, s); r.status != http.StatusCreated || r.header.Get("Idempotency-Retention") != "86400" {
		t.Fatalf("%+v", r)
	}
	if r := a.send(t, s); r.header.Get("Idempotency-Replayed") != "true" || r.header.Get("Idempotency-Retention") != "86400" {
		t.Fatalf("%+v", r)
	}
	mu.Lock()
	now = now.Add(25 * time.Hour)
	mu.Unlock()
	for _, purged := range []bool{false, true} {
		if purged {
			op := operationOf(t, store)
			tr, err := effectonce.Next(op, effectonce.Purged{}, op.AsOf)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Apply(t.Context(), tr); err != nil {
				t.Fatal(err)
			}
		}
		r := a.send(t, s)
		if p := r.problem(t); r.status != http.StatusGone || p.Code != "expired" || p.Next != effectonce.AdviceStop || p.Reference != "/refunds/re_1" {
			t.Errorf("purged %t: %d %s", purged, r.status, r.body)
		}
		if r := (ask{key: "k", body: "other"}).send(t, s); r.status != http.StatusUnprocessableEntity {
			t.Errorf("purged %t: %d %s", purged, r.status, r.body)
		}
	}
	if l.count() != 1 {
		t.Errorf("%d effects", l.count())
	}
}
