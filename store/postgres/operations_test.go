package postgres_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
)

func operation(id string) effectonce.Operation {
	op := effectonce.Operation{
		Tenant: "acme", Tool: "stripe.refund", Scope: effectonce.ScopeBusiness, IntentID: id,
		Business: []byte(`{"amount":480}`), Arguments: []byte(`{"amount":480}`), Actor: "agent-1", Terms: effectonce.DefaultTerms(),
	}
	key, err := op.Identity().Key()
	if err != nil {
		panic(err)
	}
	op.Key = key
	return op
}

func recordedAs(op effectonce.Operation, owner string) effectonce.Transition {
	t, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: owner}, time.Now())
	if err != nil {
		panic(err)
	}
	return t
}

func recorded(id string) effectonce.Transition { return recordedAs(operation(id), "worker-1") }

func next(t testing.TB, op effectonce.Operation, c effectonce.Cause) effectonce.Transition {
	t.Helper()
	tr, err := effectonce.Next(op, c, op.AsOf)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func succeeded(op effectonce.Operation) effectonce.AttemptEnded {
	return effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "re_" + op.IntentID, Result: []byte(`{"ok":true}`)}}
}

func open(t testing.TB, url string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func load(t testing.TB, s effectonce.Store, key effectonce.Key) effectonce.Operation {
	t.Helper()
	op, err := s.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return op
}

func execute(t testing.TB, url string, sql ...string) {
	t.Helper()
	c := plain(t, url)
	for _, q := range sql {
		if _, err := c.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// plain is a connection of the test's own.
func plain(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// count is the answer to a query for a number.
func count(t testing.TB, c *pgx.Conn, sql string, args ...any) (n int) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// atOnce runs f in n goroutines.
func atOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

func numbered(prefix string, i int) string { return prefix + "-" + strconv.Itoa(i) }

// shuffled are the numbers below n in a random order.
func shuffled(n int) []int { return rand.Perm(n) }

// checkAudit fails the test unless every operation has exactly one event per version (S5.1 I7).
func checkAudit(t testing.TB, url string) {
	t.Helper()
	if n := count(t, plain(t, url), `SELECT count(*) FROM effectonce.operations o
		WHERE o.version <> (SELECT count(*) FROM effectonce.events e WHERE e.operation = o.id)
		OR o.version <> (SELECT max(e.seq) FROM effectonce.events e WHERE e.operation = o.id)`); n != 0 {
		t.Errorf("%d operations have not exactly one event per transition", n)
	}
	if n := count(t, plain(t, url), `SELECT count(*) FROM effectonce.events e WHERE NOT EXISTS (SELECT FROM effectonce.operations o WHERE o.id = e.operation)`); n != 0 {
		t.Errorf("%d events belong to no operation", n)
	}
}
