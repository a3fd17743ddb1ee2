package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// shop is an application with a table of its own in the store's database, whose transactions are of pgx or database/sql.
type shop struct {
	guard *effectonce.Guard
	store *postgres.Store
	begin func(t testing.TB) sale
	// through is how the application reaches the database, at how tests look into it.
	through, at string
}

// sale is one transaction of the application.
type sale struct {
	effectonce.Tx
	exec     func(sql string, args ...any) error
	number   func(sql string) (int, error)
	commit   func() error
	rollback func()
}

// overAll runs f for each way to hold a transaction.
func overAll(t *testing.T, f func(t *testing.T, s shop)) {
	t.Helper()
	begins := map[string]func(t testing.TB, s *shop) func(testing.TB) sale{"pgx": pgxSales, "database/sql": sqlSales}
	for name, begin := range begins {
		for _, bouncer := range []bool{false, true} {
			where := name
			if bouncer {
				where += " through PgBouncer"
			}
			t.Run(where, func(t *testing.T) {
				t.Parallel()
				at := pgtest.URL(t)
				s := shop{through: at, at: at}
				if bouncer {
					// Twice as many server connections as the application has transactions: the store needs some as well.
					s.through = pgtest.Bouncer(t, at, 40) + "&default_query_exec_mode=exec"
				}
				s.store = open(t, at, postgres.Options{})
				s.guard = effectonce.New(s.store, effectonce.Options{})
				execute(t, at, "CREATE TABLE stock (item text PRIMARY KEY, n int NOT NULL)", "INSERT INTO stock VALUES ('chair', 10)")
				s.begin = begin(t, &s)
				f(t, s)
			})
		}
	}
}

func pgxSales(t testing.TB, s *shop) func(testing.TB) sale {
	return func(t testing.TB) sale {
		t.Helper()
		c := plain(t, s.through)
		tx, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		return sale{Tx: s.store.PgxTx(tx),
			exec:     func(q string, args ...any) error { _, err := tx.Exec(ctx, q, args...); return err },
			number:   func(q string) (n int, err error) { return n, tx.QueryRow(ctx, q).Scan(&n) },
			commit:   func() error { return tx.Commit(ctx) },
			rollback: func() { _ = tx.Rollback(ctx) }}
	}
}

func sqlSales(t testing.TB, s *shop) func(testing.TB) sale {
	db, err := sql.Open("pgx", s.through)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return func(t testing.TB) sale {
		t.Helper()
		tx, err := db.BeginTx(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return sale{Tx: s.store.SQLTx(tx),
			exec:     func(q string, args ...any) error { _, err := tx.Exec(q, args...); return err },
			number:   func(q string) (n int, err error) { return n, tx.QueryRow(q).Scan(&n) },
			commit:   tx.Commit,
			rollback: func() { _ = tx.Rollback() }}
	}
}

func order(id string) effectonce.Intent {
	return effectonce.Intent{Tool: "stock.take", ID: id, Arguments: effectonce.Arguments(map[string]any{"item": "chair", "n": 1})}
}

// take is the effect: it takes one chair, if there is one, and returns what is left.
func (s sale) take(context.Context) (any, error) {
	left, err := s.number("UPDATE stock SET n = n - 1 WHERE item = 'chair' RETURNING n")
	if err != nil {
		return nil, err
	}
	if left < 0 {
		return nil, effectonce.Rejected(errors.New("none is left"), false)
	}
	return map[string]int{"left": left}, nil
}

func (s shop) stock(t testing.TB) int {
	return count(t, plain(t, s.at), "SELECT n FROM stock WHERE item = 'chair'")
}

func (s shop) operations(t testing.TB) int {
	return count(t, plain(t, s.at), "SELECT count(*) FROM effectonce.operations")
}

// S8.1, S5.3: sixteen transactions at once, one effect, one result for all.
func TestTxOfManyOneTakesEffect(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		sales := make([]sale, 16)
		for i := range sales {
			sales[i] = s.begin(t)
		}
		var first atomic.Int64
		atOnce(len(sales), func(i int) {
			out, err := s.guard.DoTx(context.Background(), sales[i], order("o-1"), sales[i].take)
			if err == nil {
				err = sales[i].commit()
			}
			if err != nil || string(out.Operation.Result) != `{"left":9}` {
				t.Errorf("%s, %v", out.Operation.Result, err)
			}
			if !out.Replayed {
				first.Add(1)
			}
		})
		if first.Load() != 1 || s.stock(t) != 9 || s.operations(t) != 1 {
			t.Errorf("%d executed it, %d are left, %d operations", first.Load(), s.stock(t), s.operations(t))
		}
		checkAudit(t, s.at)
	})
}

// S8.1: what is rolled back leaves nothing, and a duplicate that waited for it executes.
func TestTxRolledBackLeavesNothing(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		one, two := s.begin(t), s.begin(t)
		if _, err := s.guard.DoTx(t.Context(), one, order("o-1"), one.take); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error, 1)
		go func() {
			out, err := s.guard.DoTx(context.Background(), two, order("o-1"), two.take)
			if err == nil && out.Replayed {
				err = errors.New("it is a replay of what was rolled back")
			}
			waited <- err
		}()
		look := plain(t, s.at)
		eventually(t, "wait of the duplicate", func() bool {
			return count(t, look, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database()") > 0
		})
		if s.operations(t) != 0 {
			t.Error("others see what is not committed")
		}
		one.rollback()
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		if err := two.commit(); err != nil {
			t.Fatal(err)
		}
		if s.stock(t) != 9 || s.operations(t) != 1 {
			t.Errorf("%d are left, %d operations", s.stock(t), s.operations(t))
		}
	})
}

// S8.1: a refusal is kept, what the effect changed is not; another error leaves neither.
func TestTxRefusalIsKept(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		execute(t, s.at, "UPDATE stock SET n = 0")
		for range 2 {
			tx := s.begin(t)
			out, err := s.guard.DoTx(t.Context(), tx, order("o-1"), tx.take)
			wantError(t, err, effectonce.CodeFailed, "none is left")
			if out.Operation.State != effectonce.StateFailed {
				t.Errorf("it is %s", out.Operation.State)
			}
			if err := tx.commit(); err != nil {
				t.Fatal(err)
			}
			// Once only: there is one again, and the recorded answer stays (S8.2).
			execute(t, s.at, "UPDATE stock SET n = n + 1")
		}
		broken := errors.New("broken")
		tx := s.begin(t)
		_, err := s.guard.DoTx(t.Context(), tx, order("o-2"), func(ctx context.Context) (any, error) {
			if _, err := tx.take(ctx); err != nil {
				return nil, err
			}
			return nil, broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if _, err := s.guard.DoTx(t.Context(), tx, order("o-3"), tx.take); err != nil {
			t.Errorf("after an error that was undone: %v", err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		if s.stock(t) != 1 || s.operations(t) != 2 {
			t.Errorf("%d are left, %d operations", s.stock(t), s.operations(t))
		}
		checkAudit(t, s.at)
	})
}

// S8.3, S3.12: what takes more than the key works in the caller's transaction as well, and a refusal leaves it usable.
func TestTxWithLimitsAndFormerIdentities(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		in := func(id string) effectonce.Intent {
			in := order(id)
			in.Limits = []effectonce.Limit{{Name: "b:calls", Amount: 1, Max: 100}, {Name: "a:chairs", Amount: 1, Max: 2, Per: time.Hour}}
			in.Formerly = []effectonce.Identity{{Scope: effectonce.ScopeBusiness, IntentID: "old-" + id}}
			return in
		}
		tx := s.begin(t)
		for _, id := range []string{"o-1", "o-2"} {
			if _, err := s.guard.DoTx(t.Context(), tx, in(id), tx.take); err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.guard.DoTx(t.Context(), tx, in("o-3"), tx.take)
		wantError(t, err, effectonce.CodeLimitExceeded, "2 is taken of 2")
		if out, err := s.guard.DoTx(t.Context(), tx, order("old-o-1"), tx.take); err != nil || !out.Replayed || out.Operation.IntentID != "o-1" {
			t.Errorf("by its former identity: %s, replayed %v, %v", out.Operation.IntentID, out.Replayed, err)
		}
		refuse := func(context.Context) (any, error) { return nil, effectonce.Rejected(errors.New("no"), false) }
		other := in("o-4")
		other.Limits = other.Limits[:1]
		if _, err := s.guard.DoTx(t.Context(), tx, other, refuse); effectonce.CodeOf(err) != effectonce.CodeFailed {
			t.Errorf("got %v", err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		uses, err := s.store.Limits(t.Context(), effectonce.LimitFilter{})
		if err != nil || len(uses) != 2 || uses[0].Used != 2 || uses[1].Used != 2 || len(uses[1].Holders) != 2 {
			t.Errorf("limits %+v, %v", uses, err)
		}
		if s.stock(t) != 8 {
			t.Errorf("%d are left", s.stock(t))
		}
	})
}

// S9.3, S9.2: an intent and a message that are recorded with the caller's transaction are there with its commit, and not before.
func TestTxRecordsAndAppends(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		in := order("o-1")
		in.Terms.Managed = true
		message := effectonce.Message{Subject: "orders.1", Type: "ordered", Data: []byte(`{"n":1}`)}
		for _, keep := range []bool{false, true} {
			tx := s.begin(t)
			if out, err := s.guard.RecordTx(t.Context(), tx, in); err != nil || out.Operation.State != effectonce.StatePending {
				t.Fatalf("%s, %v", out.Operation.State, err)
			}
			if err := tx.Append(t.Context(), message, message); err != nil {
				t.Fatal(err)
			}
			if due, err := s.store.Due(t.Context(), 10); err != nil || len(due) != 0 {
				t.Errorf("%d are due before the commit, %v", len(due), err)
			}
			if _, _, err := s.store.TakeQueue(t.Context(), time.Minute, 10); effectonce.CodeOf(err) != effectonce.CodeNotFound {
				t.Errorf("a queue before the commit: %v", err)
			}
			if !keep {
				tx.rollback()
				continue
			}
			if err := tx.commit(); err != nil {
				t.Fatal(err)
			}
		}
		_, messages, err := s.store.TakeQueue(t.Context(), time.Minute, 10)
		if err != nil || len(messages) != 2 || messages[0].ID != "orders.1/1" || messages[1].Seq != 2 {
			t.Errorf("messages %+v, %v", messages, err)
		}
		due, err := s.store.Due(t.Context(), 10)
		if err != nil || len(due) != 1 {
			t.Fatalf("%d are due, %v", len(due), err)
		}
		var calls atomic.Int64
		p := effectonce.Func(func(context.Context, effectonce.Call) (string, error) { calls.Add(1); return "done", nil })
		worker := effectonce.New(s.store, effectonce.Options{Providers: func(effectonce.Operation) effectonce.Provider { return p }})
		if _, err := worker.Work(t.Context(), due[0]); err != nil || calls.Load() != 1 {
			t.Errorf("the worker called %d times, %v", calls.Load(), err)
		}
	})
}

// S8.1: a transaction whose server process is killed before its commit leaves nothing.
func TestTxKilledBeforeCommitLeavesNothing(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		tx := s.begin(t)
		if _, err := s.guard.DoTx(t.Context(), tx, order("o-1"), tx.take); err != nil {
			t.Fatal(err)
		}
		pid, err := tx.number("SELECT pg_backend_pid()")
		if err != nil {
			t.Fatal(err)
		}
		if n := count(t, plain(t, s.at), "SELECT count(*) FROM (SELECT pg_terminate_backend($1)) t", pid); n != 1 {
			t.Fatal("nobody was killed")
		}
		if err := tx.commit(); err == nil {
			t.Error("committed")
		}
		tx.rollback()
		again := s.begin(t)
		if out, err := s.guard.DoTx(t.Context(), again, order("o-1"), again.take); err != nil || out.Replayed {
			t.Errorf("replayed %v, %v", out.Replayed, err)
		}
		if err := again.commit(); err != nil || s.stock(t) != 9 {
			t.Errorf("%d are left, %v", s.stock(t), err)
		}
	})
}

// S8.1: waiting for the other transaction is bounded by the caller's statement timeout and context.
func TestTxWaitIsBounded(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		one, two, three := s.begin(t), s.begin(t), s.begin(t)
		if _, err := s.guard.DoTx(t.Context(), one, order("o-1"), one.take); err != nil {
			t.Fatal(err)
		}
		if err := two.exec("SET LOCAL statement_timeout = '100ms'"); err != nil {
			t.Fatal(err)
		}
		_, err := s.guard.DoTx(t.Context(), two, order("o-1"), two.take)
		wantError(t, err, effectonce.CodeStoreUnavailable, "cancelled")
		two.rollback()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err = s.guard.DoTx(ctx, three, order("o-1"), three.take); effectonce.CodeOf(err) != effectonce.CodeStoreUnavailable {
			t.Errorf("got %v", err)
		}
		three.rollback()
		if err := one.commit(); err != nil || s.stock(t) != 9 {
			t.Errorf("%d are left, %v", s.stock(t), err)
		}
	})
}

// S5.9: under a stricter isolation level the duplicate is told to run its transaction again, and then gets the recorded result.
func TestTxUnderStricterIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		t.Run(strings.ToLower(level), func(t *testing.T) {
			t.Parallel()
			overAll(t, func(t *testing.T, s shop) {
				strict := func() sale {
					tx := s.begin(t)
					if err := tx.exec("SET TRANSACTION ISOLATION LEVEL " + level); err != nil {
						t.Fatal(err)
					}
					return tx
				}
				one, two := strict(), strict()
				if _, err := two.number("SELECT n FROM stock"); err != nil {
					t.Fatal(err)
				}
				if _, err := s.guard.DoTx(t.Context(), one, order("o-1"), one.take); err != nil {
					t.Fatal(err)
				}
				if err := one.commit(); err != nil {
					t.Fatal(err)
				}
				_, err := s.guard.DoTx(t.Context(), two, order("o-1"), two.take)
				wantError(t, err, effectonce.CodeStoreUnavailable, "run the transaction again")
				two.rollback()
				again := strict()
				if out, err := s.guard.DoTx(t.Context(), again, order("o-1"), again.take); err != nil || !out.Replayed {
					t.Errorf("replayed %v, %v", out.Replayed, err)
				}
				if err := again.commit(); err != nil || s.stock(t) != 9 {
					t.Errorf("%d are left, %v", s.stock(t), err)
				}
			})
		})
	}
}

// S8.1: a transaction on another database records nothing.
func TestTxOnAnotherDatabase(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.URL(t), postgres.Options{})
	guard := effectonce.New(s, effectonce.Options{})
	empty, other := pgtest.URL(t), pgtest.URL(t)
	open(t, other, postgres.Options{})
	for _, at := range []string{empty, other} {
		tx, err := plain(t, at).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = guard.RecordTx(t.Context(), s.PgxTx(tx), order("o-1"))
		wantError(t, err, effectonce.CodeInvalid, "another database")
		_ = tx.Rollback(t.Context())
		_, err = guard.RecordTx(t.Context(), s.PgxTx(tx), order("o-1"))
		wantError(t, err, effectonce.CodeInvalid, "is over")
	}
}

// S8.1: nothing that all callers share is locked by a caller's open transaction.
func TestTxIsInNobodysWay(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		tx := s.begin(t)
		defer tx.rollback()
		in := order("o-1")
		in.Terms.CallTimeout = 17 * time.Second
		if _, err := s.guard.DoTx(t.Context(), tx, in, tx.take); err != nil {
			t.Fatal(err)
		}
		if err := tx.Append(t.Context(), effectonce.Message{Subject: "a"}); err != nil {
			t.Fatal(err)
		}
		other := open(t, s.at, postgres.Options{})
		guard := effectonce.New(other, effectonce.Options{})
		p := effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return "done", nil })
		// With the same terms, which the open transaction was the first to use.
		in.ID = "o-2"
		if _, err := guard.Do(t.Context(), in, p); err != nil {
			t.Error(err)
		}
		if err := other.Append(t.Context(), effectonce.Message{Subject: "b"}); err != nil {
			t.Error(err)
		}
		q, _, err := other.TakeQueue(t.Context(), time.Minute, 1)
		if err != nil || q.Subject != "b" {
			t.Errorf("took %q, %v", q.Subject, err)
		}
	})
}

// The savepoint of a panicking effect is undone, so that a caller who recovers and commits has recorded nothing.
func TestTxPanicOfAnEffectIsUndone(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		tx := s.begin(t)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_, _ = s.guard.DoTx(t.Context(), tx, order("o-1"), func(ctx context.Context) (any, error) {
				_, _ = tx.take(ctx)
				panic("a defect")
			})
		}()
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		if s.stock(t) != 10 || s.operations(t) != 0 {
			t.Errorf("%d are left, %d operations", s.stock(t), s.operations(t))
		}
	})
}

// S5.9: two transactions that record the same intents in opposite order stop each other; one of them is told to run again, and then gets
// what the other one did.
func TestTxDeadlockIsRunAgain(t *testing.T) {
	t.Parallel()
	overAll(t, func(t *testing.T, s shop) {
		one, two := s.begin(t), s.begin(t)
		do := func(x sale, id string) error {
			_, err := s.guard.DoTx(context.Background(), x, order(id), x.take)
			return err
		}
		record := func(x sale, id string) error {
			_, err := s.guard.RecordTx(context.Background(), x, order(id))
			return err
		}
		if err := errors.Join(record(one, "o-1"), record(two, "o-2")); err != nil {
			t.Fatal(err)
		}
		var met [2]error
		atOnce(2, func(i int) {
			x, id := one, "o-2"
			if i == 1 {
				x, id = two, "o-1"
			}
			if met[i] = record(x, id); met[i] == nil {
				met[i] = x.commit()
				return
			}
			x.rollback()
		})
		lost := met[0]
		if lost == nil {
			lost = met[1]
		}
		if met[0] != nil && met[1] != nil {
			t.Fatalf("both were refused: %v; %v", met[0], met[1])
		}
		wantError(t, lost, effectonce.CodeStoreUnavailable, "run the transaction again")
		again := s.begin(t)
		if err := errors.Join(do(again, "o-1"), do(again, "o-2")); err != nil {
			t.Error(err)
		}
		if err := again.commit(); err != nil || s.operations(t) != 2 || s.stock(t) != 8 {
			t.Errorf("%d operations, %d are left, %v", s.operations(t), s.stock(t), err)
		}
		checkAudit(t, s.at)
	})
}
