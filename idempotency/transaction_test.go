package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/idempotency"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/sqlite"
)

// database is a store whose database has a table of effects besides, which handlers write in their transaction.
type database struct {
	store  effectonce.Store
	begin  func(ctx context.Context) (idempotency.Transaction, error)
	insert func(ctx context.Context, id string) error
	count  func(t *testing.T) int
}

func eachDatabase(t *testing.T, test func(t *testing.T, db database)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "effectonce.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.store.Close() })
		test(t, db)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, openPostgres(t))
	})
}

func openSQLite(ctx context.Context, path string) (database, error) {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return database{}, err
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(20000)")
	if err != nil {
		return database{}, err
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS effects (id TEXT)"); err != nil {
		return database{}, err
	}
	return database{
		store: s,
		begin: func(ctx context.Context) (idempotency.Transaction, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return idempotency.Transaction{}, err
			}
			return idempotency.Transaction{
				Tx: s.SQLTx(tx), Value: tx,
				Commit:   func(context.Context) error { return tx.Commit() },
				Rollback: func(context.Context) error { return tx.Rollback() },
			}, nil
		},
		insert: func(ctx context.Context, id string) error {
			tx, ok := idempotency.Tx[*sql.Tx](ctx)
			if !ok {
				return errors.New("there is no transaction")
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO effects (id) VALUES (?)", id)
			return err
		},
		count: func(t *testing.T) (n int) {
			t.Helper()
			if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
	}, nil
}

func openPostgres(t *testing.T) database {
	t.Helper()
	at := pgtest.URL(t)
	s, err := postgres.Open(t.Context(), at, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	pool, err := pgxpool.New(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE effects (id text)"); err != nil {
		t.Fatal(err)
	}
	return database{
		store: s,
		begin: func(ctx context.Context) (idempotency.Transaction, error) {
			tx, err := pool.Begin(ctx)
			if err != nil {
				return idempotency.Transaction{}, err
			}
			return idempotency.Transaction{Tx: s.PgxTx(tx), Value: tx, Commit: tx.Commit, Rollback: tx.Rollback}, nil
		},
		insert: func(ctx context.Context, id string) error {
			tx, ok := idempotency.Tx[pgx.Tx](ctx)
			if !ok {
				return errors.New("there is no transaction")
			}
			_, err := tx.Exec(ctx, "INSERT INTO effects (id) VALUES ($1)", id)
			return err
		},
		count: func(t *testing.T) (n int) {
			t.Helper()
			if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		},
	}
}

// handler writes an effect and answers 201, unless f, which comes in between, answers.
func (db database) handler(t *testing.T, f func(w http.ResponseWriter, r *http.Request) (answered bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = db.insert(r.Context(), string(body))
		}
		if err != nil {
			t.Errorf("the handler: %v", err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if f != nil && f(w, r) {
			return
		}
		w.Header().Set("Location", "/refunds/re_1")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "refunded <"+string(body)+">")
	})
}

func (db database) options() idempotency.Options { return idempotency.Options{Begin: db.begin} }

// S8.1, S12.1: the mutation and the stored answer become real together; duplicates wait for the winner and get its answer.
func TestInATransactionDuplicatesGetTheWinnersAnswer(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		s := serve(t, middleware(t, db.store, db.options()), db.handler(t, nil))
		const n = 64
		replies := make(chan reply)
		for range n {
			go func() { replies <- do(s.Client(), ask{key: "k", body: "480"}.request(t.Context(), s.URL)) }()
		}
		ran := 0
		for range n {
			r := <-replies
			if r.err != nil || r.status != http.StatusCreated || r.body != "refunded <480>" || r.header.Get("Location") != "/refunds/re_1" {
				t.Errorf("%+v", r)
			}
			if r.header.Get("Idempotency-Replayed") == "" {
				ran++
			}
		}
		if got := db.count(t); ran != 1 || got != 1 {
			t.Errorf("%d ran, %d effects", ran, got)
		}
		if r := (ask{key: "k", body: "450"}).send(t, s); r.status != http.StatusUnprocessableEntity || r.problem(t).Code != "payload_mismatch" {
			t.Errorf("%+v", r)
		}
		if op := operationOf(t, db.store); op.State != effectonce.StateSucceeded || op.Reference != "/refunds/re_1" {
			t.Errorf("%+v", op)
		}
	})
}

// S5.7: duplicates in one process hold no transaction while they wait, and what is on record is read without one.
func TestInATransactionDuplicatesHoldNoConnection(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		var mu sync.Mutex
		open, most, begun := 0, 0, 0
		o := db.options()
		o.Begin = func(ctx context.Context) (idempotency.Transaction, error) {
			mu.Lock()
			open++
			begun++
			most = max(most, open)
			mu.Unlock()
			tx, err := db.begin(ctx)
			closed := sync.OnceFunc(func() { mu.Lock(); open--; mu.Unlock() })
			commit, rollback := tx.Commit, tx.Rollback
			tx.Commit = func(ctx context.Context) error { defer closed(); return commit(ctx) }
			tx.Rollback = func(ctx context.Context) error { defer closed(); return rollback(ctx) }
			return tx, err
		}
		s := serve(t, middleware(t, db.store, o), db.handler(t, nil))
		const n = 32
		replies := make(chan reply)
		for range n {
			go func() { replies <- do(s.Client(), ask{key: "k", body: "480"}.request(t.Context(), s.URL)) }()
		}
		for range n {
			if r := <-replies; r.status != http.StatusCreated {
				t.Errorf("%+v", r)
			}
		}
		before := begun
		if r := (ask{key: "k", body: "480"}).send(t, s); r.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%+v", r)
		}
		if most != 1 || begun != before || db.count(t) != 1 {
			t.Errorf("%d transactions at a time, %d for a replay, %d effects", most, begun-before, db.count(t))
		}
	})
}

// S5.3: two servers of one database do not know each other's requests, and the database lets one of them win.
func TestInATransactionTwoServersRunOnce(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		var servers []*httptest.Server
		for range 2 {
			servers = append(servers, serve(t, middleware(t, db.store, db.options()), db.handler(t, nil)))
		}
		const keys = 8
		replies := make(chan reply)
		for i := range keys {
			for _, s := range servers {
				go func() {
					replies <- do(s.Client(), ask{key: strconv.Itoa(i), body: strconv.Itoa(i)}.request(t.Context(), s.URL))
				}()
			}
		}
		for range keys * len(servers) {
			if r := <-replies; r.status != http.StatusCreated {
				t.Errorf("%+v", r)
			}
		}
		if n := db.count(t); n != keys {
			t.Errorf("%d effects of %d keys", n, keys)
		}
	})
}

// S8.1: a handler that fails, panics or says that nothing happened leaves nothing, and a repeat runs it again.
func TestInATransactionAFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request){
		"answers 500": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) },
		"panics":      func(http.ResponseWriter, *http.Request) { panic("after the effect") },
		"aborts after it streamed": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"not sent": func(w http.ResponseWriter, r *http.Request) {
			idempotency.NotSent(r.Context())
			http.Error(w, "later", http.StatusTooManyRequests)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDatabase(t, func(t *testing.T, db database) {
				var tries ledger
				s := serve(t, middleware(t, db.store, db.options()), db.handler(t, func(w http.ResponseWriter, r *http.Request) bool {
					if tries.add("try") > 1 {
						return false
					}
					fail(w, r)
					return true
				}))
				// Without kept connections the client does not send again by itself.
				c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				a := ask{key: "k", body: "480"}
				if r := do(c, a.request(t.Context(), s.URL)); r.err == nil && r.status < 400 {
					t.Fatalf("%+v", r)
				}
				if n := db.count(t); n != 0 {
					t.Fatalf("%d effects after the failure", n)
				}
				for _, replayed := range []string{"", "true"} {
					if r := do(c, a.request(t.Context(), s.URL)); r.status != http.StatusCreated || r.header.Get("Idempotency-Replayed") != replayed {
						t.Errorf("%+v", r)
					}
				}
				if n := db.count(t); n != 1 || tries.count() != 2 {
					t.Errorf("%d effects, %d tries", n, tries.count())
				}
			})
		})
	}
}

// A refusal by the handler is an answer like any other: it is stored with what the handler wrote.
func TestInATransactionRefusalsAreStored(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		s := serve(t, middleware(t, db.store, db.options()), db.handler(t, func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "not enough left", http.StatusConflict)
			return true
		}))
		a := ask{key: "k", body: "480"}
		first, again := a.send(t, s), a.send(t, s)
		if !same(first, again) || first.status != http.StatusConflict || again.header.Get("Idempotency-Replayed") != "true" || db.count(t) != 1 {
			t.Errorf("%+v\n%+v\n%d", first, again, db.count(t))
		}
	})
}

// S16.14: a commit whose answer is lost, or that fails, is 503; the repeat finds out which it was, and there is one effect.
func TestInATransactionALostCommitIsFoundOut(t *testing.T) {
	t.Parallel()
	for name, committed := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachDatabase(t, func(t *testing.T, db database) {
				var commits ledger
				o := db.options()
				o.Begin = func(ctx context.Context) (idempotency.Transaction, error) {
					tx, err := db.begin(ctx)
					commit := tx.Commit
					tx.Commit = func(ctx context.Context) error {
						if commits.add("commit") > 1 {
							return commit(ctx)
						}
						if committed {
							if err := commit(ctx); err != nil {
								return err
							}
						}
						return errors.New("connection lost")
					}
					return tx, err
				}
				s := serve(t, middleware(t, db.store, o), db.handler(t, nil))
				a := ask{key: "k", body: "480"}
				r := a.send(t, s)
				if p := r.problem(t); r.status != http.StatusServiceUnavailable || p.Sent != effectonce.SentUnknown || p.Next != effectonce.AdviceRetry || r.header.Get("Retry-After") == "" {
					t.Fatalf("%+v", r)
				}
				want := map[bool]string{true: "true", false: ""}[committed]
				if r := a.send(t, s); r.status != http.StatusCreated || r.header.Get("Idempotency-Replayed") != want || db.count(t) != 1 {
					t.Errorf("%+v, %d effects", r, db.count(t))
				}
			})
		})
	}
}

// S16.14: without a transaction nothing runs.
func TestInATransactionThatDoesNotBeginNothingRuns(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		o := db.options()
		o.Begin = func(context.Context) (idempotency.Transaction, error) {
			return idempotency.Transaction{}, errors.New("no connection")
		}
		s := serve(t, middleware(t, db.store, o), db.handler(t, nil))
		r := ask{key: "k"}.send(t, s)
		if p := r.problem(t); r.status != http.StatusServiceUnavailable || p.Sent != effectonce.SentNo || strings.Contains(r.body, "no connection") || db.count(t) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// S6.8: a large answer streams and leaves a tombstone, in a transaction too; the effect is there once.
func TestInATransactionALargeAnswerLeavesATombstone(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		large := strings.Repeat("0123456789", 200_000)
		s := serve(t, middleware(t, db.store, db.options()), db.handler(t, func(w http.ResponseWriter, _ *http.Request) bool {
			_, _ = io.WriteString(w, large)
			return true
		}))
		a := ask{key: "k"}
		if r := a.send(t, s); r.body != large || r.err != nil {
			t.Fatalf("%d, %d bytes, %v", r.status, len(r.body), r.err)
		}
		if p := a.send(t, s).problem(t); p.Status != http.StatusGone || p.Code != "answer_not_kept" || p.AnsweredBytes != int64(len(large)) || db.count(t) != 1 {
			t.Errorf("%+v, %d effects", p, db.count(t))
		}
	})
}

// S6.6: in a transaction, too, the handler outlives its caller.
func TestInATransactionTheHandlerOutlivesItsCaller(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, db database) {
		started, gone := make(chan struct{}), make(chan struct{})
		s := serve(t, middleware(t, db.store, db.options()), db.handler(t, func(_ http.ResponseWriter, r *http.Request) bool {
			close(started)
			<-gone
			if err := r.Context().Err(); err != nil {
				t.Errorf("the handler's context: %v", err)
			}
			return false
		}))
		ctx, cancel := context.WithCancel(t.Context())
		a := ask{key: "k", body: "480"}
		left := make(chan reply)
		go func() { left <- do(s.Client(), a.request(ctx, s.URL)) }()
		<-started
		cancel()
		if r := <-left; r.err == nil {
			t.Fatalf("%+v", r)
		}
		close(gone)
		if r := a.send(t, s); r.status != http.StatusCreated || r.header.Get("Idempotency-Replayed") != "true" || db.count(t) != 1 {
			t.Errorf("%+v, %d effects", r, db.count(t))
		}
	})
}
