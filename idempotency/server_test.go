package idempotency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/idempotency"
	"github.com/effectonce/effectonce/store/memory"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/sqlite"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(play(role))
	}
	pgtest.Main(m)
}

// eachStore runs a test over every store that there is.
func eachStore(t *testing.T, test func(t *testing.T, store effectonce.Store)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		test(t, memory.Open(memory.Options{}))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "effectonce.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, s)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		s, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, s)
	})
}

// ledger counts the effects of handlers, apart from what the middleware records.
type ledger struct {
	mu      sync.Mutex
	effects []string
}

func (l *ledger) add(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.effects = append(l.effects, what)
	return len(l.effects)
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.effects)
}

// refunds is a handler with an effect: it answers 201 with the request's body in its answer.
func (l *ledger) refunds() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n := l.add(string(body))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Location", "/refunds/re_1")
		w.Header().Set("Set-Cookie", "session=secret")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "re_1", "n": n})
	}
}

func middleware(t *testing.T, store effectonce.Store, o idempotency.Options) *idempotency.Middleware {
	t.Helper()
	guard := effectonce.New(store, effectonce.Options{Logger: quiet()})
	if o.Logger == nil {
		o.Logger = quiet()
	}
	m, err := idempotency.New(guard, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serve starts a real server with the handler behind the middleware at POST /refunds, and everything else beside it.
func serve(t *testing.T, m *idempotency.Middleware, h http.Handler) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/refunds", m.Wrap(h))
	mux.Handle("/refunds/{id}", m.Wrap(h))
	s := httptest.NewUnstartedServer(mux)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

func (r reply) problem(t *testing.T) idempotency.Problem {
	t.Helper()
	var p idempotency.Problem
	if r.header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %s is no problem: %s", r.status, r.header.Get("Content-Type"), r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("%v: %s", err, r.body)
	}
	return p
}

// ask is a request under a key.
type ask struct {
	method, path, key, contentType, body string
	header                               http.Header
}

func (a ask) request(ctx context.Context, base string) *http.Request {
	if a.method == "" {
		a.method = http.MethodPost
	}
	if a.path == "" {
		a.path = "/refunds"
	}
	if a.contentType == "" {
		a.contentType = "application/json"
	}
	r, err := http.NewRequestWithContext(ctx, a.method, base+a.path, strings.NewReader(a.body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", a.contentType)
	if a.key != "" {
		r.Header.Set("Idempotency-Key", a.key)
	}
	for name, values := range a.header {
		r.Header[name] = values
	}
	return r
}

func (a ask) send(t *testing.T, s *httptest.Server) reply {
	t.Helper()
	return do(s.Client(), a.request(t.Context(), s.URL))
}

// do sends a request. A failed one is a reply with an error.
func do(c *http.Client, r *http.Request) reply {
	resp, err := c.Do(r)
	if err != nil {
		return reply{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body), err}
}

// until asks again until the reply is as awaited.
func until(t *testing.T, what string, try func() (reply, bool)) reply {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(30 * time.Second)
	for {
		r, ok := try()
		if ok {
			return r
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s: still %d %s %v", what, r.status, r.body, r.err)
		}
	}
}

// same reports whether two replies are the same answer.
func same(a, b reply) bool {
	return a.err == nil && b.err == nil && a.status == b.status && bytes.Equal([]byte(a.body), []byte(b.body)) &&
		a.header.Get("Content-Type") == b.header.Get("Content-Type") && a.header.Get("Location") == b.header.Get("Location")
}

// operationOf is the only operation in the store.
func operationOf(t *testing.T, store effectonce.Store) effectonce.Operation {
	t.Helper()
	page, err := store.List(t.Context(), effectonce.Filter{})
	if err != nil || len(page.Operations) != 1 {
		t.Fatalf("%d operations, %v; want one", len(page.Operations), err)
	}
	op, err := store.Load(t.Context(), page.Operations[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	return op
}
