package provider

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

const (
	testSecret = "sk_test_do_not_show_this"
	testStamp  = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"
	testKey    = "0d6f2d6e-1c1b-4d3a-9f1e-0a0b0c0d0e0f"
	refundArgs = `{"payment_intent":"pi_1","amount":{"minor":48000,"currency":"EUR"}}`
	ourRefund  = `{"id":"re_1","object":"refund","metadata":{"effectonce":"` + testStamp + `"}}`
)

func load(t testing.TB, name string) *contract.Contract {
	t.Helper()
	c, err := contract.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stripeOptions are those of a refund at base.
func stripeOptions(t testing.TB, base string) HTTPOptions {
	t.Helper()
	return HTTPOptions{
		Contract: load(t, "stripe/v1"), Operation: "refunds.create", BaseURL: base, Account: "acct_1",
		Credential: func(context.Context) (string, error) { return testSecret, nil },
		Body:       map[string]any{"payment_intent": "{payment_intent}", "amount": "{amount.minor}"},
	}
}

func newHTTP(t testing.TB, o HTTPOptions) *HTTP {
	t.Helper()
	h, err := NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func render(t testing.TB, h *HTTP, arguments string) []byte {
	t.Helper()
	request, err := h.Render(json.RawMessage(arguments))
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// aCall is a first attempt of the rendered arguments.
func aCall(t testing.TB, h *HTTP, arguments string) effectonce.Call {
	t.Helper()
	return effectonce.Call{
		Attempt: 1, DownstreamKey: testKey, Stamp: testStamp, Arguments: json.RawMessage(arguments),
		Request: render(t, h, arguments), SendWithin: 20 * time.Second,
	}
}

// do calls within a deadline.
func do(t testing.TB, h *HTTP, call effectonce.Call, timeout time.Duration) effectonce.End {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	end := h.Call(ctx, call)
	text, err := json.Marshal(end)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), testSecret) || strings.Contains(string(end.Result), testSecret) {
		t.Errorf("the end shows the credential: %s", text)
	}
	return end
}

func want(t testing.TB, end effectonce.End, verdict effectonce.Verdict, code string) {
	t.Helper()
	if end.Verdict != verdict || (code != "" && end.Failure.Code != code) {
		t.Errorf("got %s (%+v), want %s %s", end.Verdict, end.Failure, verdict, code)
	}
}

// serve starts an HTTP server with one answer for every request, and counts them.
func serve(t testing.TB, handler http.HandlerFunc) (*httptest.Server, *counter) {
	t.Helper()
	c := &counter{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading a request: %v", err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		c.add(r, string(body))
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return server, c
}

type counter struct {
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func (c *counter) add(r *http.Request, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	c.bodies = append(c.bodies, body)
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.requests)
}

func answerWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// rawServer accepts connections and hands each to serve, with its number from 1.
func rawServer(t testing.TB, serve func(conn net.Conn, n int)) (base string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for n := 1; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			running.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				serve(conn, n)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, conn := range open {
			conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return "http://" + l.Addr().String()
}

// readRequest reads a whole request from the wire.
func readRequest(conn net.Conn) (*http.Request, string, error) {
	r, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(r.Body)
	return r, string(body), err
}
