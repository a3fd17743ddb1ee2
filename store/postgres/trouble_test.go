package postgres_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// S16.21, S16.14: the server crashes under load and comes back. What was answered is there, no claim was given twice, and callers
// that had an error find out by trying again.
func TestServerCrashUnderLoad(t *testing.T) {
	t.Parallel()
	t.Run("directly", func(t *testing.T) {
		t.Parallel()
		cluster := pgtest.Start(t)
		at := cluster.Database(t)
		crashUnderLoad(t, cluster, at, at)
	})
	t.Run("through PgBouncer", func(t *testing.T) {
		t.Parallel()
		cluster := pgtest.Start(t)
		at := cluster.Database(t)
		crashUnderLoad(t, cluster, at, pgtest.Bouncer(t, at, 4))
	})
}

// crashUnderLoad crashes the server of the database at, which the stores reach by through.
func crashUnderLoad(t *testing.T, cluster *pgtest.Cluster, at, through string) {
	t.Helper()
	stores := []*postgres.Store{open(t, through, postgres.Options{}), open(t, through, postgres.Options{})}

	var mu sync.Mutex
	claims := map[string]int{}
	settled := map[string]bool{}
	var answered, refused atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 32 {
		s := stores[i%2]
		// Two callers, of different processes, want each operation.
		who := i / 2
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := numbered(numbered("op", who), n)
				op, created := persist(t, &refused, func() (effectonce.Operation, bool, error) { return s.Create(context.Background(), recorded(id)) })
				if !created {
					continue
				}
				mu.Lock()
				claims[id]++
				mu.Unlock()
				done, _ := persist(t, &refused, func() (effectonce.Operation, bool, error) {
					done, err := s.Apply(context.Background(), next(t, op, succeeded(op)))
					if effectonce.CodeOf(err) == effectonce.CodeStaleVersion && err != nil {
						// An earlier try, whose error said that its end is not known, took place.
						done, err = s.Load(context.Background(), op.Key)
					}
					return done, false, err
				})
				if done.State == effectonce.StateSucceeded {
					mu.Lock()
					settled[id] = true
					mu.Unlock()
					answered.Add(1)
				}
			}
		})
	}
	for range 3 {
		before := answered.Load()
		eventually(t, "more answers", func() bool { return answered.Load() > before+100 })
		cluster.Kill(t)
		cluster.Up(t)
	}
	before := answered.Load()
	eventually(t, "answers after the last crash", func() bool { return answered.Load() > before+100 })
	close(stop)
	all.Wait()

	for id, n := range claims {
		if n > 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
	for id := range settled {
		if op := load(t, stores[0], operation(id).Key); op.State != effectonce.StateSucceeded || op.Version != 2 {
			t.Errorf("%s was settled and is %s, version %d", id, op.State, op.Version)
		}
	}
	checkAudit(t, at)
	t.Logf("%d operations, %d calls refused meanwhile", answered.Load(), refused.Load())
}

// persist tries again while the store is not available.
func persist(t *testing.T, refused *atomic.Int64, call func() (effectonce.Operation, bool, error)) (effectonce.Operation, bool) {
	deadline := time.Now().Add(time.Minute)
	for {
		op, created, err := call()
		if err == nil {
			return op, created
		}
		if effectonce.CodeOf(err) != effectonce.CodeStoreUnavailable || time.Now().After(deadline) {
			t.Errorf("got %v", err)
			return op, false
		}
		refused.Add(1)
		<-time.After(20 * time.Millisecond)
	}
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !check() {
		if time.Now().After(deadline) {
			t.Fatalf("no %s in two minutes", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// S16.14: a server that is away is said to be, at once, and with what to do.
func TestServerIsAway(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	at := cluster.Database(t)
	s := open(t, at, postgres.Options{})
	op, _, err := s.Create(t.Context(), recorded("a"))
	if err != nil {
		t.Fatal(err)
	}
	cluster.Kill(t)
	_, _, err = s.Create(t.Context(), recorded("b"))
	wantError(t, err, effectonce.CodeStoreUnavailable, "no connection")
	_, err = s.Load(t.Context(), op.Key)
	wantError(t, err, effectonce.CodeStoreUnavailable, "see that the server runs")
	_, err = postgres.Open(t.Context(), at, postgres.Options{})
	wantError(t, err, effectonce.CodeStoreUnavailable, "see that the server runs")
	cluster.Up(t)
	if got := load(t, s, op.Key); got.Version != 1 {
		t.Errorf("version %d", got.Version)
	}
}

func wantError(t testing.TB, err error, code effectonce.Code, words string) {
	t.Helper()
	e, ok := err.(*effectonce.Error)
	if !ok || e.Code != code || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v (%T), want %s and %q", err, err, code, words)
	}
}

// S16.21: each trouble of the database has its error, which says what to do.
func TestTroubles(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	database := strings.TrimPrefix(must(url.Parse(at)).Path, "/")
	s := open(t, at, postgres.Options{})
	op, _, err := s.Create(t.Context(), recorded("a"))
	if err != nil {
		t.Fatal(err)
	}
	create := func(s *postgres.Store) error {
		_, _, err := s.Create(t.Context(), recorded("b"))
		return err
	}

	// A standby, or a primary that became one.
	execute(t, at, "ALTER DATABASE "+database+" SET default_transaction_read_only = on")
	readOnly := open(t, at, postgres.Options{})
	wantError(t, create(readOnly), effectonce.CodeStoreUnavailable, "target_session_attrs=read-write")
	if got := load(t, readOnly, op.Key); got.Version != 1 {
		t.Errorf("version %d", got.Version)
	}
	execute(t, at, "SET default_transaction_read_only = off", "ALTER DATABASE "+database+" RESET default_transaction_read_only")

	execute(t, at, "ALTER DATABASE "+database+" SET synchronous_commit = off")
	_, err = postgres.Open(t.Context(), at, postgres.Options{})
	wantError(t, err, effectonce.CodeStoreBroken, "synchronous_commit")
	execute(t, at, "ALTER DATABASE "+database+" RESET synchronous_commit")

	u := must(url.Parse(at))
	q := u.Query()
	q.Set("statement_timeout", "300")
	u.RawQuery = q.Encode()
	slow := open(t, u.String(), postgres.Options{})
	locked := plain(t, at)
	for _, q := range []string{"BEGIN", "LOCK TABLE effectonce.operations IN ACCESS EXCLUSIVE MODE"} {
		if _, err := locked.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, create(slow), effectonce.CodeStoreUnavailable, "statement_timeout")
	if _, err := locked.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}

	// A role that may do less than it must, or nothing.
	role := "effectonce_role_" + database
	execute(t, at, "CREATE ROLE "+role+" LOGIN", "GRANT CONNECT ON DATABASE "+database+" TO "+role)
	t.Cleanup(func() {
		c, err := pgx.Connect(context.Background(), at)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close(context.Background()) }()
		for _, q := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
			if _, err := c.Exec(context.Background(), q); err != nil {
				t.Errorf("%s: %v", q, err)
			}
		}
	})
	u = must(url.Parse(at))
	u.User = url.User(role)
	_, err = postgres.Open(t.Context(), u.String(), postgres.Options{})
	wantError(t, err, effectonce.CodeStoreBroken, "effectonce migrate")
	execute(t, at, "GRANT USAGE ON SCHEMA effectonce TO "+role, "GRANT SELECT ON ALL TABLES IN SCHEMA effectonce TO "+role)
	wantError(t, create(open(t, u.String(), postgres.Options{})), effectonce.CodeStoreBroken, "permission")
	// What the documentation asks for is enough.
	execute(t, at, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA effectonce TO "+role, "GRANT USAGE ON ALL SEQUENCES IN SCHEMA effectonce TO "+role)
	allowed := open(t, u.String(), postgres.Options{})
	if err := create(allowed); err != nil {
		t.Error(err)
	}

	execute(t, at, "ALTER ROLE "+role+" CONNECTION LIMIT 0")
	_, err = postgres.Open(t.Context(), u.String(), postgres.Options{})
	wantError(t, err, effectonce.CodeStoreUnavailable, "too many connections")

	u = must(url.Parse(at))
	u.Path = "/no_such_database"
	_, err = postgres.Open(t.Context(), u.String(), postgres.Options{})
	wantError(t, err, effectonce.CodeStoreBroken, "no such database")

	execute(t, at, "DROP TABLE effectonce.events")
	wantError(t, create(s), effectonce.CodeStoreBroken, "effectonce migrate")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// S15.4: no error holds the password.
func TestErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	const secret = "s3cr%2Ft-w0rd"
	for _, at := range []string{
		"postgres://user:" + secret + "@127.0.0.1:1/db",
		"postgres://user:" + secret + "@no-such-host.invalid/db",
		"postgres://user:" + secret + "@127.0.0.1:1/db?sslmode=nonsense",
		"postgres://user:" + secret + "@127.0.0.1:notaport/db",
		"postgres://user:" + secret + " @127.0.0.1/db",
		"postgres://127.0.0.1:1/db?password=" + secret,
	} {
		_, err := postgres.Open(t.Context(), at, postgres.Options{})
		if err == nil {
			t.Fatal("opened")
		}
		if strings.Contains(err.Error(), "w0rd") {
			t.Errorf("the error holds the password: %v", err)
		}
		if strings.Contains(postgres.Name(at), "w0rd") {
			t.Errorf("the name holds the password: %s", postgres.Name(at))
		}
	}
}
