package idempotency_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/idempotency"
	"github.com/effectonce/effectonce/store/memory"
	"github.com/effectonce/effectonce/store/sqlite"
)

// A handler behind the middleware runs once for each key; whoever sends the request again gets its answer. S12.1
func Example() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	keys, err := idempotency.New(guard, idempotency.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	paid := 0
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", keys.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		paid++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"refund":"re_1"}`)
	})))
	mux.Handle("GET /idempotency", keys.Policy())
	server := httptest.NewServer(mux)
	defer server.Close()

	for _, body := range []string{`{"amount":480}`, `{ "amount": 480.0 }`, `{"amount":450}`} {
		send(server.URL+"/refunds", `"ticket-5521"`, body)
	}
	fmt.Println("paid:", paid)
	// Output:
	// 201 {"refund":"re_1"}
	// 201 {"refund":"re_1"} replayed
	// 422 Idempotency-Key is already used
	// paid: 1
}

// What the handler changes in the request's transaction becomes real together with its answer, or nothing does. S8.1, S12.1
func Example_transaction() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "shop.db")
	store, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err == nil {
		_, err = db.ExecContext(ctx, "CREATE TABLE orders (item TEXT)")
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()

	keys, err := idempotency.New(effectonce.New(store, effectonce.Options{}), idempotency.Options{
		Begin: func(ctx context.Context) (idempotency.Transaction, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return idempotency.Transaction{}, err
			}
			return idempotency.Transaction{
				Tx: store.SQLTx(tx), Value: tx,
				Commit:   func(context.Context) error { return tx.Commit() },
				Rollback: func(context.Context) error { return tx.Rollback() },
			}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	crashes := 1
	server := httptest.NewServer(keys.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, _ := idempotency.Tx[*sql.Tx](r.Context())
		item, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = tx.ExecContext(r.Context(), "INSERT INTO orders (item) VALUES (?)", string(item))
		}
		if crashes > 0 {
			crashes--
			err = errors.New("something broke after the insert")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError) // rolls back
			return
		}
		_, _ = io.WriteString(w, "ordered")
	})))
	defer server.Close()

	for range 3 {
		send(server.URL, "order-7", "tea")
	}
	var orders int
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM orders").Scan(&orders); err != nil {
		fmt.Println(err)
	}
	fmt.Println("orders:", orders)
	// Output:
	// 500 something broke after the insert
	// 200 ordered
	// 200 ordered replayed
	// orders: 1
}

// send posts a body under a key and prints what comes back.
func send(url, key, body string) {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		fmt.Println(err)
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		fmt.Println(err)
		return
	}
	line := fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(answer)))
	if resp.StatusCode == http.StatusUnprocessableEntity {
		line = fmt.Sprint(resp.StatusCode, " Idempotency-Key is already used")
	}
	if resp.Header.Get("Idempotency-Replayed") == "true" {
		line += " replayed"
	}
	fmt.Println(line)
}
