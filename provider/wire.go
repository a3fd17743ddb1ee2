package provider

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"
)

// wire watches what one call puts on its connections. It is the evidence for "not sent" (S6.2): an error or a cancelled context
// says nothing, since HTTP/2 can report it with the body already written (golang/go#43082). Certain is only that no
// connection was obtained, or that nothing was written on one after it was obtained and nothing can be written any more.
type wire struct {
	// deadline bounds everything on the connections; late says that the moment for the first byte has passed.
	deadline time.Time
	late     func() bool

	mu sync.Mutex
	// counted says that the connections are ours, so that written is complete.
	counted  bool
	obtained bool
	// written counts the bytes handed to the network, before they are written; handshake is how many those were when the
	// connection was obtained.
	written, handshake int
	sealed             bool
	// failedBefore says that looking up the name, connecting or the TLS handshake failed.
	failedBefore bool
}

var (
	errLate   = errors.New("the time for sending was over")
	errSealed = errors.New("the call is over")
)

// admit lets n bytes pass to the network, unless the call is over or its first byte comes too late (S5.4).
func (w *wire) admit(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sealed {
		return errSealed
	}
	if w.obtained && w.written == w.handshake && w.late() {
		w.sealed = true
		return errLate
	}
	w.written += n
	return nil
}

func (w *wire) got() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.obtained {
		w.obtained, w.handshake = true, w.written
	}
}

func (w *wire) failed(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failedBefore = true
}

// seal lets nothing pass from here on, and reports whether certainly nothing of the request has left. err is what the
// transport returned.
func (w *wire) seal(err error) (notSent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sealed = true
	switch {
	case !w.counted:
		// A transport of another kind: only a failure before any connection, seen and reported, is certain.
		return !w.obtained && w.failedBefore && beforeConnection(err)
	case !w.obtained:
		return true
	}
	return w.written == w.handshake
}

func beforeConnection(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var verify *tls.CertificateVerificationError
	return errors.As(err, &dns) || errors.As(err, &verify) || errors.As(err, &op) && op.Op == "dial"
}

// trace is the context under which the call is sent.
func (w *wire) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:          func(httptrace.GotConnInfo) { w.got() },
		DNSDone:          func(i httptrace.DNSDoneInfo) { w.failed(i.Err) },
		ConnectDone:      func(_, _ string, err error) { w.failed(err) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { w.failed(err) },
	})
}

// transport returns what the call is sent with. Of an http.Transport it is a copy for this call alone, so that the connection
// is new and nobody else's: a request on a reused connection that breaks is sent again by net/http if it bears an idempotency
// key. done closes what is left of it.
func (w *wire) transport(rt http.RoundTripper) (own http.RoundTripper, done func()) {
	base, ok := rt.(*http.Transport)
	if !ok {
		return rt, func() {}
	}
	t := base.Clone()
	t.DisableKeepAlives = true
	// A TLS dialer of its own hides the bytes; then only the absence of a connection is evidence.
	//lint:ignore SA1019 the old field still counts where somebody sets it
	w.counted = t.DialTLSContext == nil && t.DialTLS == nil
	if !w.counted {
		return t, t.CloseIdleConnections
	}
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if !w.deadline.IsZero() {
			if err := conn.SetDeadline(w.deadline); err != nil {
				conn.Close()
				return nil, err
			}
		}
		return &watchedConn{Conn: conn, wire: w}, nil
	}
	return t, t.CloseIdleConnections
}

type watchedConn struct {
	net.Conn
	wire *wire
}

// Write implements net.Conn.
func (c *watchedConn) Write(p []byte) (int, error) {
	if err := c.wire.admit(len(p)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (h *HTTP) setTransport(rt http.RoundTripper) {
	if rt == nil {
		base := http.DefaultTransport.(*http.Transport).Clone()
		base.MaxResponseHeaderBytes = 64 << 10
		rt = base
	}
	h.transport, h.lookUps = rt, rt
	if base, ok := rt.(*http.Transport); ok {
		// Look-ups have no effect and may reuse connections.
		h.lookUps = base.Clone()
	}
}
