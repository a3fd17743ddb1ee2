package idempotency_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/idempotency"
)

// breaker stands between client and server. Of the requests on a kept connection it passes the first, and breaks the connection
// instead of answering the others: after the server answered.
type breaker struct {
	net.Listener
	server string

	mu       sync.Mutex
	requests int
}

func newBreaker(t *testing.T, server string) *breaker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{Listener: l, server: strings.TrimPrefix(server, "http://")}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.pass(c)
		}
	}()
	return b
}

func (b *breaker) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", b.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	request, answer := make([]byte, 64<<10), make([]byte, 64<<10)
	for n := 1; ; n++ {
		// The requests of these tests come in one piece, and so do the answers.
		read, err := client.Read(request)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.requests += bytes.Count(request[:read], []byte("\r\n\r\n"))
		b.mu.Unlock()
		if _, err := server.Write(request[:read]); err != nil {
			return
		}
		if read, err = server.Read(answer); err != nil || n > 1 {
			return
		}
		if _, err := client.Write(answer[:read]); err != nil {
			return
		}
	}
}

func (b *breaker) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

// S2.1, S12.1: Go's client sends a request with a key again, unasked, when a kept connection breaks before the answer. Without the
// middleware that is a second effect.
func TestGoSendsAKeyedRequestAgain(t *testing.T) {
	t.Parallel()
	client := func(b *breaker) (effect reply) {
		c := &http.Client{Transport: &http.Transport{}}
		warm := ask{method: http.MethodGet, path: "/warm"}
		if r := do(c, warm.request(t.Context(), "http://"+b.Addr().String())); r.err != nil {
			t.Fatal(r.err)
		}
		return do(c, ask{key: "k", body: `{"amount":480}`}.request(t.Context(), "http://"+b.Addr().String()))
	}
	t.Run("without the middleware", func(t *testing.T) {
		t.Parallel()
		var l ledger
		mux := http.NewServeMux()
		mux.Handle("/refunds", l.refunds())
		mux.HandleFunc("/warm", func(http.ResponseWriter, *http.Request) {})
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		b := newBreaker(t, s.URL)
		if r := client(b); r.status != http.StatusCreated || b.count() != 3 || l.count() != 2 {
			t.Errorf("%+v, %d requests on the wire, %d effects", r, b.count(), l.count())
		}
	})
	t.Run("with it", func(t *testing.T) {
		t.Parallel()
		eachStore(t, func(t *testing.T, store effectonce.Store) {
			var l ledger
			m := middleware(t, store, idempotency.Options{})
			mux := http.NewServeMux()
			mux.Handle("/refunds", m.Wrap(l.refunds()))
			mux.HandleFunc("/warm", func(http.ResponseWriter, *http.Request) {})
			s := httptest.NewServer(mux)
			t.Cleanup(s.Close)
			b := newBreaker(t, s.URL)
			r := client(b)
			if r.status != http.StatusCreated || r.header.Get("Idempotency-Replayed") != "true" || b.count() != 3 || l.count() != 1 {
				t.Errorf("%+v, %d requests on the wire, %d effects", r, b.count(), l.count())
			}
		})
	})
}

// S16.4: the answer is lost in its middle; the repeat gets it whole, and nothing runs again.
func TestAnAnswerLostInItsMiddleIsReplayed(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		body := strings.Repeat("0123456789", 50_000)
		s := serve(t, middleware(t, store, idempotency.Options{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.add("x")
			_, _ = io.WriteString(w, body)
		}))
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST /refunds HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n")
		if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
		if r := (ask{key: "k"}).send(t, s); r.body != body || r.header.Get("Idempotency-Replayed") != "true" || l.count() != 1 {
			t.Errorf("%d, %d bytes, %d effects", r.status, len(r.body), l.count())
		}
	})
}
