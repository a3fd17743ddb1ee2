package provider

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// closedAddress is one where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	return address
}

// S6.2: not_sent only where no byte of the request can have left.
func TestNotSent(t *testing.T) {
	t.Parallel()
	tls := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") }))
	t.Cleanup(tls.Close)
	silent := rawServer(t, func(conn net.Conn, _ int) { _, _ = io.Copy(io.Discard, conn) })
	resets := rawServer(t, func(conn net.Conn, _ int) { _ = conn.(*net.TCPConn).SetLinger(0) })
	noName := http.DefaultTransport.(*http.Transport).Clone()
	noName.DialContext = (&net.Dialer{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no resolver here")
	}}}).DialContext
	for _, tt := range []struct {
		name, base string
		transport  http.RoundTripper
		timeout    time.Duration
	}{
		{"connection refused", "http://" + closedAddress(t), nil, 5 * time.Second},
		{"no such name", "http://provider.invalid", noName, 5 * time.Second},
		{"an unknown certificate", tls.URL, nil, 5 * time.Second},
		{"no TLS server", strings.Replace(resets, "http:", "https:", 1), nil, 5 * time.Second},
		{"a TLS handshake that never ends", strings.Replace(silent, "http:", "https:", 1), nil, 200 * time.Millisecond},
		{"a refusal seen through another transport", "http://" + closedAddress(t), wrapped{http.DefaultTransport}, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := stripeOptions(t, tt.base)
			o.Transport = tt.transport
			h := newHTTP(t, o)
			want(t, do(t, h, aCall(t, h, refundArgs), tt.timeout), effectonce.VerdictNotSent, "not_connected")
		})
	}
}

// wrapped hides what kind of transport it is.
type wrapped struct{ next http.RoundTripper }

func (w wrapped) RoundTrip(r *http.Request) (*http.Response, error) { return w.next.RoundTrip(r) }

// broken fails without having told anything.
type broken struct{ err error }

func (b broken) RoundTrip(*http.Request) (*http.Response, error) { return nil, b.err }

// S6.1: everything else is unknown.
func TestUnknownWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		serve func(conn net.Conn)
	}{
		{"closed after the request", func(conn net.Conn) { _, _, _ = readRequest(conn) }},
		{"reset after the request", func(conn net.Conn) { _, _, _ = readRequest(conn); _ = conn.(*net.TCPConn).SetLinger(0) }},
		{"reset in the middle of the request", func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 20))
			_ = conn.(*net.TCPConn).SetLinger(0)
		}},
		{"no answer in time", func(conn net.Conn) { _, _, _ = readRequest(conn); _, _ = io.Copy(io.Discard, conn) }},
		{"half a status line", func(conn net.Conn) { _, _, _ = readRequest(conn); _, _ = io.WriteString(conn, "HTTP/1.1 2") }},
		{"no HTTP", func(conn net.Conn) { _, _, _ = readRequest(conn); _, _ = io.WriteString(conn, "hello\r\n\r\n") }},
		{"half a body", func(conn net.Conn) {
			_, _, _ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"+ourRefund)
		}},
		{"a body that never ends", func(conn net.Conn) {
			_, _, _ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"+ourRefund)
			_, _ = io.Copy(io.Discard, conn)
		}},
		{"a refusal with half a body", func(conn net.Conn) {
			_, _, _ = readRequest(conn)
			_, _ = io.WriteString(conn, "HTTP/1.1 429 Slow down\r\nContent-Length: 500\r\n\r\n{")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var connections atomic.Int32
			base := rawServer(t, func(conn net.Conn, n int) {
				connections.Store(int32(n))
				tt.serve(conn)
			})
			h := newHTTP(t, stripeOptions(t, base))
			want(t, do(t, h, aCall(t, h, refundArgs), 400*time.Millisecond), effectonce.VerdictUnknown, "")
			if connections.Load() != 1 {
				t.Errorf("%d connections", connections.Load())
			}
		})
	}
	for name, err := range map[string]error{
		"a transport that tells nothing":        errors.New("something broke"),
		"a transport that says cancelled":       context.Canceled,
		"a transport that claims a failed dial": &net.OpError{Op: "dial", Err: errors.New("refused")},
	} {
		o := stripeOptions(t, "http://127.0.0.1:1")
		o.Transport = broken{err}
		h := newHTTP(t, o)
		if end := do(t, h, aCall(t, h, refundArgs), time.Second); end.Verdict != effectonce.VerdictUnknown {
			t.Errorf("%s: %+v", name, end)
		}
	}
}

// reuseServer answers look-ups on a connection that it keeps, and closes a connection after it has read a POST on it that is
// not the connection's first request. It counts the POSTs.
func reuseServer(t *testing.T) (base string, posts *atomic.Int32) {
	t.Helper()
	posts = &atomic.Int32{}
	base = rawServer(t, func(conn net.Conn, _ int) {
		reader := bufio.NewReader(conn)
		for n := 0; ; n++ {
			r, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			body := `{"data":[],"has_more":false}`
			if r.Method == http.MethodPost {
				posts.Add(1)
				if n > 0 {
					return
				}
				body = ourRefund
			}
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: "+itoa(len(body))+"\r\n\r\n"+body); err != nil {
				return
			}
		}
	})
	return base, posts
}

func itoa(n int) string {
	return strings.TrimLeft(string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)}), "0")
}

// DESIGN 4, schedule 10: net/http sends a POST with an idempotency key again when a reused connection breaks; the control
// shows that it does, and the provider does not.
func TestNoSilentResend(t *testing.T) {
	t.Parallel()
	t.Run("control: a plain client sends two", func(t *testing.T) {
		t.Parallel()
		base, posts := reuseServer(t)
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		get, err := client.Get(base)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, get.Body)
		get.Body.Close()
		r, err := http.NewRequest(http.MethodPost, base, bytes.NewReader([]byte("a=b")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", testKey)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if posts.Load() != 2 {
			t.Errorf("%d requests on the wire; the control shows nothing any more", posts.Load())
		}
	})
	for name, transport := range map[string]http.RoundTripper{
		"the default transport": nil, "a transport of the user": &http.Transport{}, "a transport of another kind": wrapped{&http.Transport{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, posts := reuseServer(t)
			o := stripeOptions(t, base)
			o.Transport = transport
			h := newHTTP(t, o)
			call := aCall(t, h, refundArgs)
			// A look-up leaves a connection that could be reused.
			if f := h.LookUp(t.Context(), call); f.Found != effectonce.FoundAbsent {
				t.Fatalf("%+v", f)
			}
			end := do(t, h, call, 5*time.Second)
			if posts.Load() != 1 {
				t.Errorf("%d requests on the wire", posts.Load())
			}
			// Another kind of transport reuses the connection, which breaks; then the end is unknown, not a second request.
			if _, other := transport.(wrapped); other != (end.Verdict == effectonce.VerdictUnknown) {
				t.Errorf("%+v", end)
			}
		})
	}
}

// An empty body is not a licence to send twice.
func TestNoSilentResendWithoutBody(t *testing.T) {
	t.Parallel()
	base, posts := reuseServer(t)
	h := newHTTP(t, stripeOptions(t, base))
	f, err := parseFrozen(render(t, h, refundArgs))
	if err != nil {
		t.Fatal(err)
	}
	f.Body = nil
	r, err := f.request(h.base, effectonce.Call{DownstreamKey: testKey, Stamp: testStamp})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Transport{}
	defer client.CloseIdleConnections()
	get, err := http.NewRequest(http.MethodGet, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.RoundTrip(get)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if response, err = client.RoundTrip(r); err == nil {
		response.Body.Close()
	}
	if posts.Load() != 1 {
		t.Errorf("%d requests on the wire", posts.Load())
	}
}

// C8, golang/go#43082: HTTP/2 reports a cancelled context with the body already written.
func TestHTTP2CancelledAfterTheBody(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 10)
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		arrived <- r.Proto + " " + string(body)
		<-release
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })

	o := stripeOptions(t, server.URL)
	o.Transport = server.Client().Transport
	h := newHTTP(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	ended := make(chan effectonce.End, 1)
	go func() { ended <- h.Call(ctx, aCall(t, h, refundArgs)) }()
	select {
	case got := <-arrived:
		if !strings.HasPrefix(got, "HTTP/2.0 ") || !strings.Contains(got, "pi_1") {
			t.Fatalf("the server got %q", got)
		}
	case end := <-ended:
		t.Fatalf("ended early: %+v", end)
	}
	cancel()
	want(t, <-ended, effectonce.VerdictUnknown, "no_answer")
	if len(arrived) != 0 {
		t.Error("a second request arrived")
	}
}

func TestHTTP2Works(t *testing.T) {
	t.Parallel()
	var protocol atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol.Store(r.Proto)
		answerWith(200, ourRefund)(w, r)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	o := stripeOptions(t, server.URL)
	o.Transport = server.Client().Transport
	h := newHTTP(t, o)
	want(t, do(t, h, aCall(t, h, refundArgs), 5*time.Second), effectonce.VerdictSucceeded, "")
	if protocol.Load() != "HTTP/2.0" {
		t.Errorf("spoke %v", protocol.Load())
	}
}

// S5.4: a worker that was paused between its last check and its first byte does not send.
func TestPausedBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	server, seen := serve(t, answerWith(200, ourRefund))
	var offset atomic.Int64
	start := time.Now()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		offset.Store(int64(time.Minute)) // the clock jumps while the connection is made
		return conn, err
	}
	o := stripeOptions(t, server.URL)
	o.Transport = transport
	o.Now = func() time.Time { return start.Add(time.Duration(offset.Load())) }
	h := newHTTP(t, o)
	want(t, do(t, h, aCall(t, h, refundArgs), 5*time.Second), effectonce.VerdictNotSent, "")
	if seen.count() != 0 {
		t.Error("a request arrived")
	}
}

// Evidence: after the seal nothing can be written, and what was handed to the network before counts.
func TestSeal(t *testing.T) {
	t.Parallel()
	w := &wire{counted: true, late: func() bool { return false }}
	if err := w.admit(100); err != nil {
		t.Fatal(err)
	}
	w.got()
	if w.written != w.handshake {
		t.Fatal("the handshake counts as the request")
	}
	if !w.seal(context.Canceled) {
		t.Error("nothing was written, and it counts as sent")
	}
	if err := w.admit(1); !errors.Is(err, errSealed) {
		t.Errorf("written after the seal: %v", err)
	}
	w = &wire{counted: true, late: func() bool { return false }}
	w.got()
	if err := w.admit(1); err != nil {
		t.Fatal(err)
	}
	if w.seal(context.Canceled) {
		t.Error("something was written, and it counts as not sent")
	}
}
