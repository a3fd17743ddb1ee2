package idempotency_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/idempotency"
	"github.com/effectonce/effectonce/store/memory"
)

// S6.8, S12.1: an answer over the limit reaches its caller and leaves a tombstone: a repeat gets 410, never an empty success, never a run.
func TestAnAnswerOverTheLimitLeavesATombstone(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		random := make([]byte, 1<<20)
		_, _ = rand.Read(random)
		bodies := map[string][]byte{
			"/refunds/1": bytes.Repeat([]byte("0123456789abcdef"), 3<<16), // 3 MiB
			"/refunds/2": random,                                          // does not fit as a result, however it is written
		}
		s := serve(t, middleware(t, store, idempotency.Options{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.add("x")
			w.Header().Set("Location", "/big")
			w.WriteHeader(http.StatusCreated)
			b := bodies[r.URL.Path]
			for len(b) > 0 {
				n, err := w.Write(b[:min(len(b), 100_000)])
				if err != nil {
					t.Error(err)
				}
				b = b[n:]
			}
		}))
		for path, body := range bodies {
			a := ask{path: path, key: path}
			if r := a.send(t, s); r.err != nil || r.body != string(body) || r.status != http.StatusCreated {
				t.Fatalf("%s: %d, %d bytes, %v", path, r.status, len(r.body), r.err)
			}
			r := a.send(t, s)
			p := r.problem(t)
			sum := sha256.Sum256(body)
			if r.status != http.StatusGone || p.Code != "answer_not_kept" || p.AnsweredStatus != http.StatusCreated || p.AnsweredBytes != int64(len(body)) ||
				p.AnsweredSHA256 != hex.EncodeToString(sum[:]) || p.Reference != "/big" || p.Outcome != effectonce.OutcomeSucceeded {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
		if l.count() != 2 {
			t.Errorf("%d effects", l.count())
		}
	})
}

// S12.1: bodies of every kind up to the limit are replayed byte by byte.
func TestBodiesAreReplayedByteByByte(t *testing.T) {
	t.Parallel()
	binary := make([]byte, 700<<10)
	_, _ = rand.Read(binary)
	bodies := [][]byte{
		nil, []byte("a"), []byte("{\"b\": 1, \"a\":\t2}\n"), {0xff, 0xfe, 0}, []byte("\u2028<é>\x00"), bytes.Repeat([]byte(`"`), 1<<20), binary,
		bytes.Repeat([]byte("<>&\n"), 1<<18),
	}
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		s := serve(t, middleware(t, store, idempotency.Options{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var i int
			_, _ = fmt.Sscan(r.PathValue("id"), &i)
			_, _ = w.Write(bodies[i])
		}))
		for i, body := range bodies {
			a := ask{path: fmt.Sprintf("/refunds/%d", i), key: fmt.Sprint(i)}
			first, again := a.send(t, s), a.send(t, s)
			if !same(first, again) || first.body != string(body) || again.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("body %d: %d %v, then %d %v, %d and %d bytes", i, first.status, first.header, again.status, again.header, len(first.body), len(again.body))
			}
		}
	})
}

// An answer without a body stays one.
func TestNoContentIsReplayed(t *testing.T) {
	t.Parallel()
	var l ledger
	s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.add("x")
		w.WriteHeader(http.StatusNoContent)
		if _, err := w.Write([]byte("x")); err != http.ErrBodyNotAllowed {
			t.Errorf("writing a body: %v", err)
		}
	}))
	for range 2 {
		if r := (ask{key: "k"}).send(t, s); r.status != http.StatusNoContent || r.body != "" || r.err != nil {
			t.Errorf("%+v", r)
		}
	}
	if l.count() != 1 {
		t.Errorf("%d effects", l.count())
	}
}

// S7.10: for models that see bodies only, a replayed object can say that it is one.
func TestAReplayCanBeMarkedInItsBody(t *testing.T) {
	t.Parallel()
	answers := map[string][2]string{
		"/refunds/1": {`{"id": "re_1"} `, `{"id": "re_1","replayed":true} `},
		"/refunds/2": {`{}`, `{"replayed":true}`},
		"/refunds/3": {`[{}]`, `[{}]`},
		"/refunds/4": {`{"replayed":7}`, `{"replayed":7}`},
	}
	s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{ReplayMember: "replayed"}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answers[r.URL.Path][0])
	}))
	for path, want := range answers {
		a := ask{path: path, key: path}
		if first, again := a.send(t, s), a.send(t, s); first.body != want[0] || again.body != want[1] || again.err != nil {
			t.Errorf("%s: %q, then %q", path, first.body, again.body)
		}
	}
}

// A body over the limit is refused before anything is stored, whether or not it says how long it is.
func TestARequestOverTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	var l ledger
	store := memory.Open(memory.Options{})
	s := serve(t, middleware(t, store, idempotency.Options{RequestBytesMax: 100_000}), l.refunds())
	for _, length := range []int64{100_001, -1} {
		a := ask{key: "k"}
		r := a.request(t.Context(), s.URL)
		r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 100_001)))
		r.ContentLength, r.GetBody = length, nil
		if got := do(s.Client(), r); got.status != http.StatusRequestEntityTooLarge || got.problem(t).Code != "too_large" {
			t.Errorf("%+v", got)
		}
	}
	if r := (ask{key: "k", body: strings.Repeat("x", 100_000)}).send(t, s); r.status != http.StatusCreated || l.effects[0] != strings.Repeat("x", 100_000) {
		t.Errorf("%d", r.status)
	}
	if l.count() != 1 {
		t.Errorf("%d effects", l.count())
	}
}

// A request that is cut in its body runs nothing, and leaves its key free.
func TestARequestCutInItsBodyRunsNothing(t *testing.T) {
	t.Parallel()
	var l ledger
	s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{}), l.refunds())
	for _, head := range []string{
		"Content-Length: 20\r\n\r\n{\"amount\":",
		"Transfer-Encoding: chunked\r\n\r\na\r\n{\"amount\":\r\n",
		"Transfer-Encoding: chunked\r\n\r\na\r\n{\"am",
		"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
	} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST /refunds HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n"+head)
		_ = c.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(c)
		_ = c.Close()
		if !bytes.Contains(answer, []byte(" 400 ")) {
			t.Errorf("%q: %s", head, answer)
		}
	}
	if r := (ask{key: "k", body: `{"amount":480}`}).send(t, s); r.status != http.StatusCreated || l.count() != 1 {
		t.Errorf("%+v, %d effects", r, l.count())
	}
}

// What is flushed reaches the caller while the handler runs; the end comes with the record.
func TestAFlushedAnswerStreams(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, store effectonce.Store) {
		var l ledger
		seen := make(chan struct{})
		s := serve(t, middleware(t, store, idempotency.Options{}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.add("x")
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", "22")
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "data: first\n\n")
			c := http.NewResponseController(w)
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
			if err := c.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			if _, _, err := c.Hijack(); err == nil {
				t.Error("an answer can leave HTTP")
			}
			<-seen
			_, _ = io.WriteString(w, "data: 2\n\n")
			w.(http.Flusher).Flush()
			w.Header().Set("X-Sum", "7")
		}))
		a := ask{key: "k"}
		resp, err := s.Client().Do(a.request(t.Context(), s.URL))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		b := bufio.NewReader(resp.Body)
		if line, err := b.ReadString('\n'); line != "data: first\n" {
			t.Fatalf("%q %v", line, err)
		}
		close(seen)
		rest, err := io.ReadAll(b)
		if string(rest) != "\ndata: 2\n\n" || err != nil || resp.Trailer.Get("X-Sum") != "7" {
			t.Errorf("%q %v %v", rest, err, resp.Trailer)
		}
		if r := a.send(t, s); r.body != "data: first\n\ndata: 2\n\n" || r.header.Get("Content-Type") != "text/event-stream" || l.count() != 1 {
			t.Errorf("%+v, %d effects", r, l.count())
		}
	})
}

// What is around the middleware may not flush; the answer still arrives.
func TestWithoutAFlusherTheAnswerArrives(t *testing.T) {
	t.Parallel()
	m := middleware(t, memory.Open(memory.Options{}), idempotency.Options{})
	inner := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		if err := http.NewResponseController(w).Flush(); err == nil {
			t.Error("flushed")
		}
		_, _ = io.WriteString(w, "b")
	}))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		inner.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	}))
	t.Cleanup(s.Close)
	for range 2 {
		if r := (ask{key: "k"}).send(t, s); r.body != "ab" || r.err != nil || r.header.Get("X-Outer") != "1" {
			t.Errorf("%+v", r)
		}
	}
}

// recordFails is a store that keeps the start of an operation and loses its end.
type recordFails struct{ effectonce.Store }

func (s recordFails) Apply(ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	if t.Event.Kind == effectonce.EventAttemptEnded {
		return effectonce.Operation{}, &effectonce.Error{Code: effectonce.CodeStoreUnavailable}
	}
	return s.Store.Apply(ctx, t)
}

// S5.6, S16.14: an answer that is not on record is not shown as whole: it is withheld, or cut if it has begun.
func TestAnAnswerThatIsNotOnRecordIsNotShownWhole(t *testing.T) {
	t.Parallel()
	terms := quickTerms()
	terms.CallTimeout, terms.Grace, terms.Heartbeat = 300*time.Millisecond, 100*time.Millisecond, 0
	store := memory.Open(memory.Options{})
	var l ledger
	s := serve(t, middleware(t, recordFails{store}, idempotency.Options{Terms: terms}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.add("x")
		_, _ = io.WriteString(w, "done")
		if r.PathValue("id") == "flushed" {
			w.(http.Flusher).Flush()
		}
	}))
	r := ask{path: "/refunds/held", key: "k-1"}.send(t, s)
	if p := r.problem(t); r.status != http.StatusServiceUnavailable || p.Sent != effectonce.SentUnknown || strings.Contains(r.body, "done") {
		t.Errorf("%+v", r)
	}
	// A client that does not send again by itself, so that it sees the cut.
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if r := do(c, ask{path: "/refunds/flushed", key: "k-2"}.request(t.Context(), s.URL)); r.err == nil {
		t.Errorf("a whole answer: %+v", r)
	}
	if l.count() != 2 {
		t.Errorf("%d effects", l.count())
	}
}

// S5.6: HTTP/2 marks the end of an answer too, and a cut one as such.
func TestOverHTTP2TheEndComesWithTheRecord(t *testing.T) {
	t.Parallel()
	terms := quickTerms()
	terms.CallTimeout, terms.Grace, terms.Heartbeat = 300*time.Millisecond, 100*time.Millisecond, 0
	for _, fails := range []bool{false, true} {
		var store effectonce.Store = memory.Open(memory.Options{})
		if fails {
			store = recordFails{store}
		}
		m := middleware(t, store, idempotency.Options{Terms: terms})
		s := httptest.NewUnstartedServer(m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "4")
			_, _ = io.WriteString(w, "done")
			w.(http.Flusher).Flush()
		})))
		s.EnableHTTP2 = true
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		t.Cleanup(s.Close)
		resp, err := s.Client().Do(ask{key: "k"}.request(t.Context(), s.URL))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.ProtoMajor != 2 || string(body) != "done" || (err != nil) != fails {
			t.Errorf("record fails %t: %s %q %v", fails, resp.Proto, body, err)
		}
	}
}

// The memory of large bodies is bounded: more of them wait, and then are refused or not kept.
func TestLargeBodiesTakeTurns(t *testing.T) {
	t.Parallel()
	var l ledger
	var mu sync.Mutex
	now, most := 0, 0
	s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{LargeMax: 2}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		b, _ := io.ReadAll(r.Body)
		l.add("x")
		for range 4 {
			runtime.Gosched()
		}
		mu.Lock()
		now--
		mu.Unlock()
		_, _ = w.Write(b)
	}))
	body := strings.Repeat("x", 500_000)
	replies := make(chan reply)
	const n = 32
	for i := range n {
		go func() {
			replies <- do(s.Client(), ask{key: fmt.Sprint(i), body: body, contentType: "text/plain"}.request(t.Context(), s.URL))
		}()
	}
	for range n {
		if r := <-replies; r.err != nil || r.status != http.StatusOK || len(r.body) != len(body) {
			t.Errorf("%d %d bytes %v", r.status, len(r.body), r.err)
		}
	}
	if most > 2 || l.count() != n {
		t.Errorf("%d at a time, %d effects", most, l.count())
	}
}

// Where there is no room for a large body, a request is refused and an answer is not kept; nothing runs twice for that.
func TestWithoutRoomNothingRunsTwice(t *testing.T) {
	t.Parallel()
	var l ledger
	holding, release := make(chan struct{}), make(chan struct{})
	large := strings.Repeat("x", 100_000)
	s := serve(t, middleware(t, memory.Open(memory.Options{}), idempotency.Options{LargeMax: 1}), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.add(r.URL.Path)
		switch r.PathValue("id") {
		case "holds":
			close(holding)
			<-release
		case "answers":
			_, _ = io.WriteString(w, large)
		}
	}))
	held := make(chan reply)
	go func() {
		held <- do(s.Client(), ask{path: "/refunds/holds", key: "1", body: large, contentType: "text/plain"}.request(t.Context(), s.URL))
	}()
	<-holding
	var wg sync.WaitGroup
	wg.Go(func() {
		r := ask{path: "/refunds/asks", key: "2", body: large, contentType: "text/plain"}.send(t, s)
		if p := r.problem(t); r.status != http.StatusServiceUnavailable || p.Code != "busy" || p.Next != effectonce.AdviceRetry || r.header.Get("Retry-After") == "" {
			t.Errorf("%d %s", r.status, r.body)
		}
	})
	wg.Go(func() {
		a := ask{path: "/refunds/answers", key: "3"}
		if r := a.send(t, s); r.status != http.StatusOK || r.body != large {
			t.Errorf("%d, %d bytes, %v", r.status, len(r.body), r.err)
		}
		if p := a.send(t, s).problem(t); p.Code != "answer_not_kept" || p.AnsweredBytes != int64(len(large)) {
			t.Errorf("%+v", p)
		}
	})
	wg.Wait()
	close(release)
	if r := <-held; r.status != http.StatusOK || l.count() != 2 {
		t.Errorf("%+v, %d effects", r, l.count())
	}
}
