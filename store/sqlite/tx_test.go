package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/sqlite"
)

// bank is a program's own table in the store's file, changed through transactions of its own.
type bank struct {
	store *sqlite.Store
	guard *effectonce.Guard
	db    *sql.DB
	path  string
}

// bankName is how a program names the file: a transaction takes the write lock when it begins, and waits for it.
func bankName(path string) string {
	return "file:" + path + "?_txlock=immediate&_pragma=busy_timeout(10000)"
}

func openBank(t *testing.T) bank {
	t.Helper()
	path := filepath.Join(t.TempDir(), "effectonce.db")
	store := open(t, path)
	db, err := sql.Open("sqlite", bankName(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	execute(t, db, "CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)", "INSERT INTO account VALUES ('a', 100)")
	return bank{store: store, guard: effectonce.New(store, effectonce.Options{}), db: db, path: path}
}

func (b bank) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := b.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (b bank) balance(t *testing.T) (n int) {
	t.Helper()
	if err := b.db.QueryRowContext(t.Context(), "SELECT balance FROM account WHERE id = 'a'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (b bank) state(t *testing.T, id string) effectonce.State {
	t.Helper()
	op, err := b.store.Load(t.Context(), withdrawal(id).key())
	if effectonce.CodeOf(err) == effectonce.CodeNotFound && err != nil {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return op.State
}

type withdrawal string

func (w withdrawal) intent() effectonce.Intent {
	return effectonce.Intent{Tool: "bank.withdraw", ID: string(w), Arguments: effectonce.Arguments(map[string]int{"amount": 10}), Actor: "agent-1"}
}

func (w withdrawal) key() effectonce.Key {
	key, err := effectonce.Identity{Tenant: effectonce.DefaultTenant, Tool: "bank.withdraw", Scope: effectonce.ScopeBusiness, IntentID: string(w)}.Key()
	if err != nil {
		panic(err)
	}
	return key
}

// effect takes ten from the account.
func effect(tx *sql.Tx) func(ctx context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		var left int
		err := tx.QueryRowContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 'a' RETURNING balance").Scan(&left)
		return map[string]int{"left": left}, err
	}
}

// S8.1: the record, the change and the result commit together; a concurrent duplicate waits and gets the committed result.
func TestEffectInTheCallersTransactionHappensOnce(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	var calls, replayed atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			tx, err := b.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = tx.Rollback() }()
			outcome, err := b.guard.DoTx(t.Context(), b.store.SQLTx(tx), withdrawal("w").intent(), func(ctx context.Context) (any, error) {
				calls.Add(1)
				return effect(tx)(ctx)
			})
			if err == nil {
				err = tx.Commit()
			}
			var result struct{ Left int }
			if err == nil {
				err = outcome.Decode(&result)
			}
			if err != nil || result.Left != 90 {
				t.Errorf("left %d, %v", result.Left, err)
			}
			if outcome.Replayed {
				replayed.Add(1)
			}
		})
	}
	wg.Wait()
	if calls.Load() != 1 || replayed.Load() != 15 || b.balance(t) != 90 {
		t.Errorf("%d calls, %d replayed, balance %d", calls.Load(), replayed.Load(), b.balance(t))
	}
	wholeStore(t, b.store)
	books(t, b.path)
}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	in := withdrawal("w").intent()
	in.Terms.Attempts = 9 // terms that nobody has stored yet
	in.Limits = []effectonce.Limit{{Name: "withdrawals:a", Amount: 10, Max: 10}}
	in.Formerly = []effectonce.Identity{{Scope: effectonce.ScopeBusiness, IntentID: "old"}}
	tx := b.begin(t)
	x := b.store.SQLTx(tx)
	if _, err := b.guard.DoTx(t.Context(), x, in, effect(tx)); err != nil {
		t.Fatal(err)
	}
	if err := x.Append(t.Context(), effectonce.Message{Subject: "account.a", Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	uses, err := b.store.Limits(t.Context(), effectonce.LimitFilter{})
	if err != nil || len(uses) != 0 || b.balance(t) != 100 || b.state(t, "w") != "" || b.state(t, "old") != "" {
		t.Errorf("%+v, %v, balance %d, %q", uses, err, b.balance(t), b.state(t, "w"))
	}
	if _, _, err := b.store.TakeQueue(t.Context(), time.Minute, 1); effectonce.CodeOf(err) != effectonce.CodeNotFound {
		t.Errorf("a message was left: %v", err)
	}
	// The id of the terms went with the transaction; others must not believe in it.
	other := withdrawal("other").intent()
	other.Terms.Attempts = 11
	for _, in := range []effectonce.Intent{other, in} {
		tx := b.begin(t)
		if _, err := b.guard.DoTx(t.Context(), b.store.SQLTx(tx), in, effect(tx)); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if op, err := b.store.Load(t.Context(), withdrawal("old").key()); err != nil || op.Terms.Attempts != 9 || op.IntentID != "w" || op.State != effectonce.StateSucceeded {
		t.Errorf("%d attempts, %s, %v", op.Terms.Attempts, op.State, err)
	}
	wholeStore(t, b.store)
	books(t, b.path)
}

// S8.2: a refusal is a decision, kept although what was changed before it is undone.
func TestRejectionIsKept(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	for round := range 2 {
		tx := b.begin(t)
		execTx(t, tx, "INSERT INTO account VALUES ('round', ?) ON CONFLICT DO UPDATE SET balance = excluded.balance", round)
		called := false
		outcome, err := b.guard.DoTx(t.Context(), b.store.SQLTx(tx), withdrawal("w").intent(), func(ctx context.Context) (any, error) {
			called = true
			_, err := effect(tx)(ctx)
			return nil, errors.Join(err, effectonce.Rejected(errors.New("not enough left"), false))
		})
		if !errors.Is(err, effectonce.ErrFailed) || outcome.Operation.State != effectonce.StateFailed || called != (round == 0) || outcome.Replayed == called {
			t.Errorf("round %d: called %v, %s, %v", round, called, outcome.Operation.State, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var last int
	if err := b.db.QueryRowContext(t.Context(), "SELECT balance FROM account WHERE id = 'round'").Scan(&last); err != nil || last != 1 {
		t.Errorf("what the caller did besides is kept: %d, %v", last, err)
	}
	if b.balance(t) != 100 || b.state(t, "w") != effectonce.StateFailed {
		t.Errorf("balance %d, %s", b.balance(t), b.state(t, "w"))
	}
	wholeStore(t, b.store)
	books(t, b.path)
}

func execTx(t *testing.T, tx *sql.Tx, query string, args ...any) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestOtherErrorsOfTheEffectUndoTheCall(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	tx := b.begin(t)
	x := b.store.SQLTx(tx)
	execTx(t, tx, "INSERT INTO account VALUES ('kept', 1)")
	lost := errors.New("lost")
	_, err := b.guard.DoTx(t.Context(), x, withdrawal("w").intent(), func(ctx context.Context) (any, error) {
		if _, err := effect(tx)(ctx); err != nil {
			return nil, err
		}
		return nil, lost
	})
	if err != lost {
		t.Errorf("got %v", err)
	}
	// The transaction goes on.
	if _, err := b.guard.DoTx(t.Context(), x, withdrawal("v").intent(), effect(tx)); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := b.db.QueryRowContext(t.Context(), "SELECT count(*) FROM account").Scan(&n); err != nil || n != 2 || b.balance(t) != 90 || b.state(t, "w") != "" || b.state(t, "v") != effectonce.StateSucceeded {
		t.Errorf("%d accounts, balance %d, %q, %q, %v", n, b.balance(t), b.state(t, "w"), b.state(t, "v"), err)
	}
}

// S9.3
func TestRecordedInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	in := withdrawal("w").intent()
	in.Terms.Managed = true
	tx := b.begin(t)
	x := b.store.SQLTx(tx)
	for round := range 2 {
		outcome, err := b.guard.RecordTx(t.Context(), x, in)
		if err != nil || outcome.Outcome != effectonce.OutcomePending || outcome.Replayed != (round == 1) {
			t.Fatalf("%s, replayed %v, %v", outcome.Outcome, outcome.Replayed, err)
		}
	}
	if due, err := b.store.Due(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("%d are due before the commit, %v", len(due), err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	due, err := b.store.Due(t.Context(), 10)
	if err != nil || len(due) != 1 || due[0].IntentID != "w" {
		t.Fatalf("%d are due, %v", len(due), err)
	}
	// Whoever executes it inside a transaction later claims it there.
	tx = b.begin(t)
	if outcome, err := b.guard.DoTx(t.Context(), b.store.SQLTx(tx), in, effect(tx)); err != nil || outcome.Replayed {
		t.Fatalf("replayed %v, %v", outcome.Replayed, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if b.balance(t) != 90 || b.state(t, "w") != effectonce.StateSucceeded {
		t.Errorf("balance %d, %s", b.balance(t), b.state(t, "w"))
	}
	wholeStore(t, b.store)
	books(t, b.path)
}

// S9.2: numbers follow the order of commits, and a rolled-back transaction leaves no gap.
func TestAppendInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	for i := range 4 {
		tx := b.begin(t)
		m := effectonce.Message{Subject: "account.a", Data: fmt.Append(nil, i)}
		if err := b.store.SQLTx(tx).Append(t.Context(), m, m); err != nil {
			t.Fatal(err)
		}
		end := tx.Commit
		if i%2 == 1 {
			end = tx.Rollback
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	_, messages, err := b.store.TakeQueue(t.Context(), time.Minute, 10)
	if err != nil || len(messages) != 4 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	for i, m := range messages {
		if m.Seq != int64(i)+1 || string(m.Data) != fmt.Sprint(i/2*2) || m.ID != fmt.Sprintf("account.a/%d", i+1) {
			t.Errorf("%d: %+v", i, m)
		}
	}
	tx := b.begin(t)
	err = b.store.SQLTx(tx).Append(t.Context(), effectonce.Message{})
	if !errors.Is(err, effectonce.ErrInvalid) {
		t.Errorf("a message without a subject: %v", err)
	}
}

// S8.3
func TestLimitsInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	tx := b.begin(t)
	x := b.store.SQLTx(tx)
	in := func(id string) effectonce.Intent {
		in := withdrawal(id).intent()
		in.Limits = []effectonce.Limit{{Name: "withdrawals:a", Amount: 10, Max: 20}}
		return in
	}
	for _, id := range []string{"u", "v"} {
		if _, err := b.guard.DoTx(t.Context(), x, in(id), effect(tx)); err != nil {
			t.Fatal(err)
		}
	}
	called := false
	_, err := b.guard.DoTx(t.Context(), x, in("w"), func(context.Context) (any, error) { called = true; return nil, nil })
	if !errors.Is(err, effectonce.ErrLimitExceeded) || called {
		t.Errorf("called %v, %v", called, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	uses, err := b.store.Limits(t.Context(), effectonce.LimitFilter{})
	if err != nil || len(uses) != 1 || uses[0].Used != 20 || len(uses[0].Holders) != 2 || b.balance(t) != 80 {
		t.Errorf("%+v, %v", uses, err)
	}
}

func TestTransactionOnAnotherFileIsRefused(t *testing.T) {
	t.Parallel()
	b, other := openBank(t), openBank(t)
	strange, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "strange.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = strange.Close() }()
	execute(t, strange, "CREATE TABLE account (id TEXT)")
	for name, db := range map[string]*sql.DB{"another installation": other.db, "another program's file": strange} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.guard.RecordTx(t.Context(), b.store.SQLTx(tx), withdrawal("w").intent())
		wantError(t, err, effectonce.CodeInvalid, b.path)
		if err := tx.Commit(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b.state(t, "w") != "" || other.state(t, "w") != "" {
		t.Error("it was recorded")
	}
}

// S16.14: what a transaction that was not begun for writing meets is said, with what to do about it.
func TestTransactionThatCannotWrite(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	deferred, err := sql.Open("sqlite", "file:"+b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deferred.Close() }()
	old, err := deferred.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback() }()
	var n int
	if err := old.QueryRowContext(t.Context(), "SELECT balance FROM account").Scan(&n); err != nil {
		t.Fatal(err)
	}
	tx := b.begin(t)
	if _, err := b.guard.DoTx(t.Context(), b.store.SQLTx(tx), withdrawal("w").intent(), effect(tx)); err != nil {
		t.Fatal(err)
	}
	x := b.store.SQLTx(old)
	_, err = b.guard.RecordTx(t.Context(), x, withdrawal("v").intent())
	wantError(t, err, effectonce.CodeStoreUnavailable, "write lock")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	_, err = b.guard.RecordTx(t.Context(), x, withdrawal("v").intent())
	wantError(t, err, effectonce.CodeStoreUnavailable, "write lock")
	var e *effectonce.Error
	if errors.As(err, &e); !strings.Contains(e.Remedy, "_txlock=immediate") || e.Sent != effectonce.SentNo {
		t.Errorf("remedy %q, sent %q", e.Remedy, e.Sent)
	}
	if err := old.Rollback(); err != nil {
		t.Fatal(err)
	}
	_, err = b.guard.RecordTx(t.Context(), b.store.SQLTx(old), withdrawal("v").intent())
	wantError(t, err, effectonce.CodeStoreUnavailable, "ended")
}

// S8.1: when SQLite gives up the transaction by itself, nothing of it is left, whatever the effect makes of that.
func TestTransactionThatSQLiteRollsBack(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]error{"and the effect goes on": nil, "and the effect refuses": effectonce.Rejected(errors.New("no room"), false)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBank(t)
			tx := b.begin(t)
			x := b.store.SQLTx(tx)
			_, err := b.guard.DoTx(t.Context(), x, withdrawal("w").intent(), func(ctx context.Context) (any, error) {
				if _, err := effect(tx)(ctx); err != nil {
					return nil, err
				}
				_, _ = tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO account VALUES ('a', 1)")
				return nil, answer
			})
			if err == nil || errors.Is(err, effectonce.ErrFailed) {
				t.Errorf("got %v", err)
			}
			if err := x.Append(t.Context(), effectonce.Message{Subject: "s"}); err == nil {
				t.Error("the transaction is used on")
			}
			_ = tx.Rollback()
			if b.balance(t) != 100 || b.state(t, "w") != "" {
				t.Errorf("balance %d, %q", b.balance(t), b.state(t, "w"))
			}
			if _, _, err := b.store.TakeQueue(t.Context(), time.Minute, 1); effectonce.CodeOf(err) != effectonce.CodeNotFound {
				t.Errorf("a message was left: %v", err)
			}
		})
	}
}

func TestTransactionUsedOnAfterItWasRolledBack(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	for name, use := range map[string]func(x effectonce.Tx) error{
		"append": func(x effectonce.Tx) error { return x.Append(t.Context(), effectonce.Message{Subject: "s"}) },
		"record": func(x effectonce.Tx) error {
			_, err := b.guard.RecordTx(t.Context(), x, withdrawal("w").intent())
			return err
		},
		"do": func(x effectonce.Tx) error {
			_, err := b.guard.DoTx(t.Context(), x, withdrawal("w").intent(), func(context.Context) (any, error) { return nil, nil })
			return err
		},
	} {
		tx := b.begin(t)
		x := b.store.SQLTx(tx)
		if err := x.Append(t.Context(), effectonce.Message{Subject: "s"}); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "INSERT OR ROLLBACK INTO account VALUES ('a', 1)"); err == nil {
			t.Fatal("no conflict")
		}
		wantError(t, use(x), effectonce.CodeStoreUnavailable, "rolled back")
		wantError(t, use(x), effectonce.CodeStoreUnavailable, "rolled back")
		_ = tx.Rollback()
		if _, _, err := b.store.TakeQueue(t.Context(), time.Minute, 1); effectonce.CodeOf(err) != effectonce.CodeNotFound || b.state(t, "w") != "" {
			t.Errorf("%s: %v, %q", name, err, b.state(t, "w"))
		}
	}
}

// Where the store's call comes first, a deferred transaction waits like an immediate one.
func TestDeferredTransactionsThatBeginWithTheStore(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	deferred, err := sql.Open("sqlite", "file:"+b.path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = deferred.Close() }()
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			tx, err := deferred.BeginTx(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err = b.guard.RecordTx(t.Context(), b.store.SQLTx(tx), withdrawal(fmt.Sprint(i)).intent()); err == nil {
				err = tx.Commit()
			}
			if err != nil {
				t.Error(errors.Join(err, tx.Rollback()))
			}
		})
	}
	wg.Wait()
	wholeStore(t, b.store)
}

func TestTransactionAfterClose(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	tx := b.begin(t)
	x := b.store.SQLTx(tx)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Append(ctx, effectonce.Message{Subject: "s"}); effectonce.CodeOf(err) != effectonce.CodeStoreUnavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller: %v", err)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := x.Append(t.Context(), effectonce.Message{Subject: "s"}); effectonce.CodeOf(err) != effectonce.CodeStoreUnavailable {
		t.Errorf("a closed store: %v", err)
	}
}

// S8.1, S16.1: a process that is killed between the effect and the commit leaves nothing, and the retry has the one effect.
func TestKilledBeforeTheCommit(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	for range 3 {
		c := spawn(t, "withdraw", b.path)
		if !c.out.Scan() || c.out.Text() != "changed" {
			t.Fatalf("the child said %q", c.out.Text())
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		if b.balance(t) != 100 || b.state(t, "w") != "" {
			t.Fatalf("balance %d, %q", b.balance(t), b.state(t, "w"))
		}
	}
	for round := range 2 {
		tx := b.begin(t)
		outcome, err := b.guard.DoTx(t.Context(), b.store.SQLTx(tx), withdrawal("w").intent(), effect(tx))
		if err != nil || outcome.Replayed != (round == 1) {
			t.Fatalf("replayed %v, %v", outcome.Replayed, err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if b.balance(t) != 90 {
		t.Errorf("balance %d", b.balance(t))
	}
	wholeStore(t, b.store)
	books(t, b.path)
}

// withdrawAndHang is a child that gets as far as the effect.
func withdrawAndHang(ctx context.Context, s *sqlite.Store, path string) error {
	db, err := sql.Open("sqlite", bankName(path))
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	x := s.SQLTx(tx)
	if _, err = effectonce.New(s, effectonce.Options{}).DoTx(ctx, x, withdrawal("w").intent(), effect(tx)); err != nil {
		return err
	}
	if err := x.Append(ctx, effectonce.Message{Subject: "account.a"}); err != nil {
		return err
	}
	say("changed")
	select {}
}

// S8.1: several processes with the same intent make one change.
func TestProcessesShareAnEffect(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	var children []child
	for range 3 {
		children = append(children, spawn(t, "withdraw many", b.path))
	}
	executed := map[string]int{}
	for _, c := range children {
		for _, line := range c.lines(t) {
			word, id, _ := strings.Cut(line, " ")
			if word != "executed" {
				t.Error(line)
			}
			executed[id]++
		}
	}
	for id, n := range executed {
		if n != 1 {
			t.Errorf("%s was executed %d times", id, n)
		}
	}
	if len(executed) != withdrawals || b.balance(t) != 100-10*withdrawals {
		t.Errorf("%d were executed, balance %d", len(executed), b.balance(t))
	}
	wholeStore(t, b.store)
	books(t, b.path)
}

const withdrawals = 20

func withdrawMany(ctx context.Context, s *sqlite.Store, path string) error {
	db, err := sql.Open("sqlite", bankName(path))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	guard := effectonce.New(s, effectonce.Options{})
	for i := range withdrawals {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		id := fmt.Sprint("many-", i)
		outcome, err := guard.DoTx(ctx, s.SQLTx(tx), withdrawal(id).intent(), effect(tx))
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if !outcome.Replayed {
			say("executed", id)
		}
	}
	return nil
}
