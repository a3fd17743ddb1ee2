package integration

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
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
)

// wire stands between a caller and the double. Requests always reach the double, whose answers meet the troubles in their
// order; after those all is fine.
type wire struct {
	*httptest.Server
	double string

	mu       sync.Mutex
	troubles []trouble
	refunds  int
}

func newWire(t *testing.T, double string, troubles ...trouble) *wire {
	t.Helper()
	w := &wire{double: double, troubles: troubles}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// sends counts the requests for a refund that went through.
func (w *wire) sends() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refunds
}

// meets counts a request and says what happens to its answer. Look-ups get through.
func (w *wire) meets(r *http.Request) trouble {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/refunds" {
		return fine
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refunds++
	if len(w.troubles) == 0 {
		return fine
	}
	next := w.troubles[0]
	w.troubles = w.troubles[1:]
	return next
}

// ServeHTTP implements http.Handler.
func (w *wire) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	what := w.meets(in)
	body, err := io.ReadAll(in.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	// Whatever becomes of the sender, the request arrives.
	forward, err := http.NewRequest(in.Method, w.double+in.URL.RequestURI(), strings.NewReader(string(body)))
	if err != nil {
		panic(err)
	}
	forward.Header = in.Header.Clone()
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
	}
	for name, values := range answer.Header {
		out.Header()[name] = values
	}
	out.WriteHeader(answer.StatusCode)
	if what == cut {
		_, _ = out.Write(said[:len(said)/2])
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
