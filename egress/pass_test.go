package egress_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/egress"
)

// noStore is a store that must not be used.
type noStore struct{ effectonce.Store }

// upstream counts and keeps what reaches a provider.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
	// bodies are what came with them.
	bodies []string
}

func newUpstream(t testing.TB, handler http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if values, err := url.ParseQuery(string(body)); err == nil {
			r.Header.Set("X-Test-Stamp", values.Get("metadata[effectonce]"))
		}
		u.mu.Lock()
		u.seen, u.bodies = append(u.seen, r), append(u.bodies, string(body))
		u.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) all() []*http.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen
}

// Reads come back as the provider gave them, byte for byte, without the store. (S14.4)
func TestReadsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte(`{"object":"list"}`))
	_ = z.Close()
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("X-Request", "7")
		w.Header().Add("Set-Cookie", "a=b")
		w.Header().Set("Connection", "X-Hop")
		w.Header().Set("X-Hop", "1")
		w.Header().Set("Effectonce-Replayed", "true")
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped.Bytes())
		} else {
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte("short and stout"))
		}
		w.Header().Set("X-Sum", "42")
	})
	w := newWorldOn(t, noStore{}, u.URL)
	a := send(t, request(t, "GET", w.base+"/v1/a%2Bb/c?x=1&y=%20&z", "", "Accept-Encoding=gzip", "Connection=X-Mine", "X-Mine=1", "Authorization=Bearer sk_agents_own", "Cookie=a=b",
		"Effectonce-Intent=none", "Te=trailers", "Proxy-Authorization=Basic eDp5")).want(t, 200, "Content-Encoding=gzip", "X-Request=7", "X-Hop=", "Effectonce-Replayed=")
	if a.body != zipped.String() || a.Trailer.Get("X-Sum") != "42" {
		t.Errorf("body %q, trailer %v", a.body, a.Trailer)
	}
	send(t, request(t, "GET", w.base+"/v1/x", "")).want(t, http.StatusTeapot)
	send(t, request(t, "HEAD", w.base+"/v1/x", "")).want(t, http.StatusTeapot)
	got := u.all()[0]
	if got.RequestURI != "/v1/a%2Bb/c?x=1&y=%20&z" || got.Host != strings.TrimPrefix(u.URL, "http://") {
		t.Errorf("the provider got %s at %s", got.RequestURI, got.Host)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer " + heldSecret, "Cookie": "", "X-Mine": "", "Effectonce-Intent": "", "Proxy-Authorization": "", "X-Forwarded-For": "", "Via": "",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("the provider got %s: %q, want %q", name, v, want)
		}
	}
}

// What a provider sends bit by bit comes bit by bit. (S14.4)
func TestAnswersAreStreamed(t *testing.T) {
	t.Parallel()
	next := make(chan bool)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		for n := range 3 {
			fmt.Fprintf(w, "event %d\n", n)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	w := newWorldOn(t, noStore{}, u.URL)
	response, err := http.DefaultClient.Do(request(t, "GET", w.base+"/v1/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for n := range 3 {
		if line, err := lines.ReadString('\n'); err != nil || line != fmt.Sprintf("event %d\n", n) {
			t.Fatalf("%q (%v)", line, err)
		}
		next <- true
	}
}

// An answer that breaks off upstream breaks off for the client too, and never looks whole. (S14.4)
func TestABrokenAnswerIsNotMadeWhole(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	w := newWorldOn(t, noStore{}, u.URL)
	response, err := http.DefaultClient.Do(request(t, "GET", w.base+"/v1/x", ""))
	if err == nil {
		_, err = io.ReadAll(response.Body)
		_ = response.Body.Close()
	}
	if err == nil {
		t.Error("the answer looks whole")
	}
}

// A provider that cannot be reached is a problem, for a read one that can be repeated.
func TestAnUnreachableProvider(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, nil)
	u.Close()
	w := newWorldOn(t, noStore{}, u.URL)
	a := send(t, request(t, "GET", w.base+"/v1/x", "")).want(t, 502, "Stripe-Should-Retry=")
	if strings.Contains(a.body, u.URL) || !strings.Contains(a.body, egress.CodeUpstream) {
		t.Error(a.body)
	}
}

// A gigabyte each way goes through without being held. (S14.4)
func TestAGigabyteInFlatMemory(t *testing.T) {
	t.Parallel()
	size := 1 << 30
	if raceDetector {
		size = 1 << 28
	}
	block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, err)
			return
		}
		for range size / len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	w := newWorldOn(t, noStore{}, server.URL, func(o *egress.Options) { o.PassUndescribed = true })
	var peak uint64
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
			<-tick.C
		}
	})
	response, err := http.DefaultClient.Do(request(t, "GET", w.base+"/v1/files/f/contents", ""))
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if n != int64(size) || err != nil {
		t.Errorf("%d bytes came (%v)", n, err)
	}
	put, err := http.NewRequestWithContext(t.Context(), "PUT", w.base+"/v1/files/f/contents", io.LimitReader(endless{block}, int64(size)))
	if err != nil {
		t.Fatal(err)
	}
	put.ContentLength = int64(size)
	if a := send(t, put); a.body != fmt.Sprint(size, " <nil>") && a.body != fmt.Sprint(size, nil) {
		t.Errorf("the provider got %s", a.body)
	}
	stop()
	watching.Wait()
	if limit := uint64(256 << 20); peak > limit {
		t.Errorf("%d MiB of memory in use", peak>>20)
	}
}

type endless struct{ block []byte }

func (e endless) Read(p []byte) (int, error) { return copy(p, e.block), nil }

// Only the route's provider is reached, under its own path, whatever the request says. (S14.4)
func TestNoOtherAddressIsReached(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	other := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	w := newWorldOn(t, noStore{}, u.URL+"/base", func(o *egress.Options) { o.PassUndescribed = true })
	address := strings.TrimPrefix(other.URL, "http://")
	for name, one := range map[string]struct {
		raw    string
		status string
	}{
		"absolute form":            {"GET http://" + address + "/egress/stripe/v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
		"another host":             {"GET /egress/stripe/v1/x HTTP/1.1\r\nHost: " + "evil.example" + "\r\n\r\n", "403"},
		"a page in a browser":      {"GET /egress/stripe/v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://evil.example\r\n\r\n", "403"},
		"connect":                  {"CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n\r\n", "400"},
		"connect under a route":    {"CONNECT /egress/stripe/v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
		"trace":                    {"TRACE /egress/stripe/v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
		"out of the base":          {"GET /egress/stripe/../../admin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
		"out of the base, encoded": {"GET /egress/stripe/v1/%2e%2e/%2E./admin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
		"a slash encoded":          {"GET /egress/stripe/v1/..%2f..%2fadmin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
		"a backslash":              {"GET /egress/stripe/v1/..%5cadmin HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
		"a line break in the path": {"GET /egress/stripe/v1/x%0d%0aHost:%20evil HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400"},
		"a user in the path":       {"GET /egress/stripe/@" + address + "/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "200"},
		"a double slash":           {"GET /egress/stripe//" + address + "/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "200"},
		"no route":                 {"GET /egress/other/v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "404"},
		"forwarded":                {"GET /egress/stripe/v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-Host: " + address + "\r\nForwarded: host=" + address + "\r\n\r\n", "200"},
		"a websocket":              {"GET /egress/stripe/v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n", "400"},
		"an upgrade to HTTP/2":     {"GET /egress/stripe/v1/x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: keep-alive, upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", "400"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rawStatus(t, w, one.raw); got != one.status {
				t.Errorf("status %s, want %s", got, one.status)
			}
		})
	}
	if n := len(other.all()); n != 0 {
		t.Errorf("%d requests reached another address", n)
	}
	for _, r := range u.all() {
		if !strings.HasPrefix(r.RequestURI, "/base/") || r.Host != strings.TrimPrefix(u.URL, "http://") {
			t.Errorf("the provider got %s at %s", r.RequestURI, r.Host)
		}
	}
}

// rawStatus sends bytes and returns the status of the answer, "closed" if there is none.
func rawStatus(t testing.TB, w *world, raw string) string {
	t.Helper()
	host, _, _ := strings.Cut(strings.TrimPrefix(w.base, "http://"), "/")
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "closed"
	}
	return strings.Fields(line)[1]
}

// Requests whose end servers see in different places, and headers with line breaks, reach the provider as one clean request or not at all.
// (S14.4)
func TestNothingIsSmuggled(t *testing.T) {
	t.Parallel()
	const post = "POST /egress/stripe/v1/things HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	const hidden = "GET /egress/stripe/v1/hidden HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	for name, one := range map[string]struct {
		raw    string
		status string
		body   string
	}{
		"both lengths":           {post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "200", "abc"},
		"two lengths":            {post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400", ""},
		"a length list":          {post + "Content-Length: 3, 4\r\n\r\nabcd", "400", ""},
		"a negative length":      {post + "Content-Length: -1\r\n\r\n", "400", ""},
		"a length with a plus":   {post + "Content-Length: +3\r\n\r\nabc", "400", ""},
		"an unknown encoding":    {post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "501", ""},
		"an encoding twice":      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "501", ""},
		"an encoding disguised":  {post + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400", ""},
		"a space in the name":    {post + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400", ""},
		"a bad chunk":            {post + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", "400", ""},
		"a line break in a name": {"POST /egress/stripe/v1/things HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A\rB: 1\r\nContent-Length: 0\r\n\r\n", "400", ""},
		"a nul in a value":       {post + "X-A: a\x00b\r\nContent-Length: 0\r\n\r\n", "400", ""},
		"a folded header":        {post + "X-A: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", "200", ""},
		"a hidden request":       {post + "Content-Length: 0\r\nTransfer-Encoding: identity\r\n\r\n" + hidden, "501", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
			w := newWorldOn(t, noStore{}, u.URL, func(o *egress.Options) { o.PassUndescribed = true; o.API.Contract = undescribing(t) })
			if got := rawStatus(t, w, one.raw); got != one.status {
				t.Errorf("status %s, want %s", got, one.status)
			}
			if one.status != "200" {
				if n := len(u.all()); n != 0 {
					t.Errorf("%d requests reached the provider", n)
				}
				return
			}
			if n := len(u.all()); n != 1 || u.bodies[0] != one.body {
				t.Fatalf("%d requests reached the provider: %q", n, u.bodies)
			}
			if r := u.all()[0]; len(r.TransferEncoding) > 0 && r.ContentLength >= 0 || r.Header.Get("Transfer-Encoding") != "" {
				t.Errorf("the provider saw two lengths: %v %d", r.TransferEncoding, r.ContentLength)
			}
		})
	}
}

// A client that waits for 100 Continue gets it when its body is wanted, and a refusal instead when it is not. (S14.4)
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	w := newWorld(t, c.BaseURL)
	const head = "POST /egress/stripe/v1/refunds HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\nContent-Length: 43\r\n"
	if got := rawStatus(t, w, head+"Effectonce-Intent: refund:1\r\n\r\n"); got != "100" {
		t.Errorf("status %s, want 100", got)
	}
	if got := rawStatus(t, w, head+"Effectonce-Tenant: acme\r\n\r\n"); got != "400" {
		t.Errorf("status %s, want 400", got)
	}
	r := request(t, "POST", w.base+"/v1/refunds", "payment_intent=pi_1&amount=480&currency=eur", "Content-Type=application/x-www-form-urlencoded", "Effectonce-Intent=refund:1", "Expect=100-continue")
	send(t, r).want(t, 200)
}

// A body that comes too slowly, or ends early, is never sent. (S14.4)
func TestASlowOrShortBodyIsNotSent(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	w := newWorldOn(t, noStore{}, u.URL)
	server := httptest.NewUnstartedServer(egress.NewProxy([]*egress.Route{w.route}))
	server.Config.ReadTimeout = 300 * time.Millisecond
	server.Start()
	t.Cleanup(server.Close)
	w.base = server.URL + "/egress/stripe"
	if got := rawStatus(t, w, "POST /egress/stripe/v1/refunds HTTP/1.1\r\nHost: 127.0.0.1\r\nEffectonce-Intent: x\r\nContent-Length: 10\r\n\r\nabc"); got != "400" {
		t.Errorf("status %s, want 400", got)
	}
	if n := len(u.all()); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
}

// stampIn finds the stamp in a request that an upstream has read already.
func stampIn(r *http.Request) string { return r.Header.Get("X-Test-Stamp") }
