package integration

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// trouble is what the wire does to an answer after the effect.
type trouble string

const (
	fine    trouble = ""
	drop    trouble = "drop"     // the connection is closed without an answer
	reset   trouble = "reset"    // it is closed by a TCP reset
	cut     trouble = "cut"      // half of the answer, then it is closed
	badGate trouble = "502"      // a gateway answers instead
	html    trouble = "200 html" // a gateway answers 200 with a page of its own
	slow    trouble = "slow"     // it comes when the client's own time-out is over
)

// wire stands between a caller and the double. Requests always reach the double, whose answers meet the troubles in their
// order; after those all is fine.
type wire struct {
	*httptest.Server
	double string
	// writes says which requests meet trouble. Look-ups get through.
	writes func(r *http.Request, body string) bool

	mu       sync.Mutex
	troubles []trouble
	always   trouble
	seen     int
	lost     int
}

// slowness is longer than a client waits (patience).
const (
	slowness = 4500 * time.Millisecond
	patience = 2 * time.Second
)

func newWire(t *testing.T, double string, troubles ...trouble) *wire {
	t.Helper()
	return newWireFor(t, double, func(r *http.Request, _ string) bool {
		return r.Method == http.MethodPost && r.URL.Path == "/v1/refunds"
	}, troubles...)
}

func newWireFor(t *testing.T, double string, writes func(*http.Request, string) bool, troubles ...trouble) *wire {
	t.Helper()
	w := &wire{double: double, writes: writes, troubles: troubles}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// sends counts the writes that went through.
func (w *wire) sends() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen
}

// next says what the next answers meet, and each after them.
func (w *wire) next(after trouble, troubles ...trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles, w.always, w.lost = troubles, after, 0
}

// losses counts the answers that met trouble since next.
func (w *wire) losses() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// meets counts a request and says what happens to its answer.
func (w *wire) meets(r *http.Request, body string) trouble {
	if !w.writes(r, body) {
		return fine
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	next := w.always
	if len(w.troubles) > 0 {
		next, w.troubles = w.troubles[0], w.troubles[1:]
	}
	if next != fine {
		w.lost++
	}
	return next
}

// ServeHTTP implements http.Handler.
func (w *wire) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	what := w.meets(in, string(body))
	// Whatever becomes of the sender, the request arrives.
	forward, err := http.NewRequest(in.Method, w.double+in.URL.RequestURI(), strings.NewReader(string(body)))
	if err != nil {
		panic(err)
	}
	forward.Header = in.Header.Clone()
	// A double may check a signature, which the host is part of.
	forward.Host = in.Host
	forward.GetBody = nil
	answer, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(forward)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch what {
	case drop:
		panic(http.ErrAbortHandler)
	case reset:
		sever(out)
		panic(http.ErrAbortHandler)
	case badGate:
		http.Error(out, "<html>bad gateway</html>", http.StatusBadGateway)
		return
	case html:
		_, _ = io.WriteString(out, "<html>we will be back soon</html>")
		return
	case slow:
		late := time.NewTimer(slowness)
		defer late.Stop()
		select {
		case <-late.C:
		case <-in.Context().Done():
		}
	}
	for name, values := range answer.Header {
		out.Header()[name] = values
	}
	out.WriteHeader(answer.StatusCode)
	if what == cut {
		_, _ = out.Write(said[:len(said)/2])
		_ = http.NewResponseController(out).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = out.Write(said)
}

// sever closes the connection so that the other side sees a reset.
func sever(out http.ResponseWriter) {
	conn, _, err := http.NewResponseController(out).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
