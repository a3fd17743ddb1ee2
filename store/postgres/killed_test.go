package postgres_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// buyerVariable makes the test's program a buyer on the database that it names.
const buyerVariable = "EFFECTONCE_TEST_BUYER"

// buy makes an effect in a transaction, and ends with an error if it was not to.
func buy(at string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
	s, err := postgres.Open(ctx, at, postgres.Options{Connections: 2})
	fail(err)
	c, err := pgx.Connect(ctx, at)
	fail(err)
	tx, err := c.Begin(ctx)
	fail(err)
	guard := effectonce.New(s, effectonce.Options{})
	_, err = guard.DoTx(ctx, s.PgxTx(tx), order("o-1"), func(ctx context.Context) (any, error) {
		var left int
		err := tx.QueryRow(ctx, "UPDATE stock SET n = n - 1 WHERE item = 'chair' RETURNING n").Scan(&left)
		return map[string]int{"left": left}, err
	})
	fail(err)
	fail(tx.Commit(ctx))
}

// S8.1, S16.3: the program is killed after it has sent COMMIT. The server carries it out, and a retry waits for that and gets the
// recorded result.
func TestTxOfAKilledProgram(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	s := open(t, at, postgres.Options{})
	// The commit waits for a lock that the test has.
	execute(t, at, "CREATE TABLE stock (item text PRIMARY KEY, n int NOT NULL)", "INSERT INTO stock VALUES ('chair', 10)",
		"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END'",
		"CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON stock DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()")
	holder := plain(t, at)
	count(t, holder, "SELECT 1 FROM (SELECT pg_advisory_lock(7)) l")

	buyer := exec.Command(os.Args[0])
	buyer.Env = append(os.Environ(), buyerVariable+"="+at)
	buyer.Stderr = os.Stderr
	if err := buyer.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "commit under way", func() bool {
		return count(t, holder, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND lower(query) = 'commit' AND wait_event_type = 'Lock'") == 1
	})
	if err := buyer.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = buyer.Wait()

	retried := make(chan error, 1)
	var out effectonce.Outcome
	tx, err := plain(t, at).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		guard := effectonce.New(s, effectonce.Options{})
		var err error
		out, err = guard.DoTx(context.Background(), s.PgxTx(tx), order("o-1"), func(context.Context) (any, error) { return "a second effect", nil })
		retried <- err
	}()
	eventually(t, "wait of the retry", func() bool {
		return count(t, holder, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.locktype = 'transactionid' AND a.datname = current_database()") == 1
	})
	count(t, holder, "SELECT 1 FROM (SELECT pg_advisory_unlock(7)) l")
	if err := <-retried; err != nil || !out.Replayed || string(out.Operation.Result) != `{"left":9}` {
		t.Errorf("replayed %v, %s, %v", out.Replayed, out.Operation.Result, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := count(t, holder, "SELECT n FROM stock"); left != 9 {
		t.Errorf("%d are left", left)
	}
}
