package idempotency_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/idempotency"
)

// The tests of this file start the test binary again as servers of their own, and really kill them.

const (
	roleVar   = "EFFECTONCE_IDEMPOTENCY_TEST_ROLE"
	pathVar   = "EFFECTONCE_IDEMPOTENCY_TEST_PATH"
	pointsVar = "EFFECTONCE_IDEMPOTENCY_TEST_POINTS"
)

// play is a server of its own. It tells the test about each point that it reaches, and goes on when the test answers.
func play(role string) int {
	if err := playServer(role, os.Getenv(pathVar), os.Getenv(pointsVar)); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

func playServer(role, path, points string) error {
	db, err := openSQLite(context.Background(), path)
	if err != nil {
		return err
	}
	reach := func(point string) {
		resp, err := http.Post(points+"/"+point, "", nil)
		if err == nil {
			err = errors.Join(resp.Body.Close(), nil)
		}
		if err != nil {
			fmt.Println("error", err)
		}
	}
	o := idempotency.Options{Terms: quickTerms(), Logger: quiet()}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if role == "transaction" {
			if err := db.insert(r.Context(), "x"); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		if r.PathValue("id") == "streams" {
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
		}
		reach("effect")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, " and done")
	})
	if role == "transaction" {
		o.Begin = func(ctx context.Context) (idempotency.Transaction, error) {
			tx, err := db.begin(ctx)
			commit := tx.Commit
			tx.Commit = func(ctx context.Context) error {
				err := commit(ctx)
				reach("commit")
				return err
			}
			return tx, err
		}
	}
	m, err := idempotency.New(effectonce.New(db.store, effectonce.Options{Logger: quiet()}), o)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/refunds/{id}", m.Wrap(handler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return http.Serve(l, mux)
}

// points is the test's end of what the servers tell. A reached point is held until the test lets it go on.
type points struct {
	*httptest.Server
	reached chan string
	goOn    chan struct{}
}

func newPoints(t *testing.T) *points {
	p := &points{reached: make(chan string, 100), goOn: make(chan struct{}, 100)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p.reached <- r.URL.Path
		select {
		case <-p.goOn:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(p.CloseClientConnections)
	return p
}

// child is a server of its own.
type child struct {
	*exec.Cmd
	base string
}

func (p *points) spawn(t *testing.T, role, path string) child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe)
	c.Env = append(os.Environ(), roleVar+"="+role, pathVar+"="+path, pointsVar+"="+p.URL)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("the child says %q, %v", line, err)
	}
	return child{c, strings.TrimSpace(line)}
}

func (c child) kill(t *testing.T) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
}

// once is a client that never sends again by itself.
func once() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

// S16.3, S7.8: the server is killed after the effect and before the record. The key answers 409, at first because nobody can know that
// the server is dead, then until a person decides. The effect is there once.
func TestKilledAfterTheEffect(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"holds", "streams"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			p := newPoints(t)
			path := filepath.Join(t.TempDir(), "effectonce.db")
			a := ask{path: "/refunds/" + way, key: "k"}
			c := p.spawn(t, "plain", path)
			first := make(chan reply, 1)
			go func() { first <- do(once(), a.request(t.Context(), c.base)) }()
			<-p.reached
			c.kill(t)
			if r := <-first; r.err == nil {
				t.Fatalf("a whole answer from a dead server: %+v", r)
			}

			c = p.spawn(t, "plain", path)
			defer c.kill(t)
			seen := map[string]bool{}
			r := until(t, "review", func() (reply, bool) {
				r := do(once(), a.request(t.Context(), c.base))
				if r.status != http.StatusConflict {
					return r, r.err == nil
				}
				code := r.problem(t).Code
				seen[code] = true
				return r, code == "in_review"
			})
			if r.status != http.StatusConflict || !seen["conflict"] {
				t.Errorf("%+v, seen %v", r, seen)
			}
			if n := len(p.reached); n != 0 {
				t.Errorf("%d more effects", n)
			}

			db, err := openSQLite(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			op := operationOf(t, db.store)
			guard := effectonce.New(db.store, effectonce.Options{})
			if _, err := guard.Resolve(t.Context(), op.Key, effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveAbsentResend, AcceptRisk: true, Person: "ann", Reason: "not there"}); err != nil {
				t.Fatal(err)
			}
			if err := db.store.Close(); err != nil {
				t.Fatal(err)
			}
			// S7.6: the person was right or took the risk: it runs once more, and no oftener.
			p.goOn <- struct{}{}
			if r := do(once(), a.request(t.Context(), c.base)); r.err != nil || !strings.HasSuffix(r.body, " and done") {
				t.Errorf("%+v", r)
			}
			if r := do(once(), a.request(t.Context(), c.base)); r.header.Get("Idempotency-Replayed") != "true" || len(p.reached) != 1 {
				t.Errorf("%+v, %d more effects", r, len(p.reached))
			}
		})
	}
}

// S16.1 to S16.3, S8.1: in a transaction a killed server leaves nothing before the commit and everything after it.
func TestKilledInATransaction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ way, at string }{{"holds", "/effect"}, {"streams", "/effect"}, {"holds", "/commit"}, {"streams", "/commit"}} {
		t.Run(tt.way+tt.at, func(t *testing.T) {
			t.Parallel()
			p := newPoints(t)
			path := filepath.Join(t.TempDir(), "effectonce.db")
			a := ask{path: "/refunds/" + tt.way, key: "k"}
			c := p.spawn(t, "transaction", path)
			first := make(chan reply, 1)
			go func() { first <- do(once(), a.request(t.Context(), c.base)) }()
			for at := range p.reached {
				if at == tt.at {
					break
				}
				p.goOn <- struct{}{}
			}
			c.kill(t)
			if r := <-first; r.err == nil {
				t.Fatalf("a whole answer from a dead server: %+v", r)
			}

			db, err := openSQLite(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.store.Close() }()
			committed := tt.at == "/commit"
			if n := db.count(t); n != map[bool]int{true: 1}[committed] {
				t.Errorf("%d effects after the kill", n)
			}
			c = p.spawn(t, "transaction", path)
			defer c.kill(t)
			for range 4 {
				p.goOn <- struct{}{}
			}
			r := do(once(), a.request(t.Context(), c.base))
			if r.err != nil || !strings.HasSuffix(r.body, " and done") || (r.header.Get("Idempotency-Replayed") == "true") != committed {
				t.Errorf("%+v", r)
			}
			if again := do(once(), a.request(t.Context(), c.base)); !same(r, again) || again.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%+v\n%+v", r, again)
			}
			if n := db.count(t); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}
