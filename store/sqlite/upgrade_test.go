package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/sqlite"
)

// version1 makes a file of the first schema with operations in it, and a store's clock that goes on from there.
func version1(t *testing.T) (path string, now func() time.Time) {
	t.Helper()
	dump, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "effectonce.db")
	db := plain(t, path)
	execute(t, db, string(dump), "PRAGMA journal_mode = WAL")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path, func() time.Time { return time.Date(2026, 3, 1, 12, 1, 0, 0, time.UTC) }
}

func upgraded(t *testing.T, path string, now func() time.Time) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestUpgradeFromVersion1(t *testing.T) {
	t.Parallel()
	path, now := version1(t)
	s := upgraded(t, path, now)
	var version int
	if err := plain(t, path).QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version); err != nil || version != 2 {
		t.Errorf("version %d, %v", version, err)
	}
	wholeStore(t, s)
	page, err := s.List(t.Context(), effectonce.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]effectonce.Operation{}
	for _, op := range page.Operations {
		got[op.IntentID] = op
	}
	for id, state := range map[string]effectonce.State{
		"leased": effectonce.StateInProgress, "succeeded": effectonce.StateSucceeded, "failed": effectonce.StateFailed, "unknown": effectonce.StateUnknown, "review": effectonce.StateReview,
	} {
		op := got[id]
		if op.State != state || string(op.Arguments) != `{"amount":480,"reason":"text"}` || string(op.Request) != `{"amount":480}` || op.Terms != effectonce.DefaultTerms() ||
			len(op.Aliases)+len(op.Limits) != 0 || !op.Compensates.IsZero() || !op.ForgetAt.IsZero() || !op.PurgeAt.IsZero() || !op.PurgedAt.IsZero() {
			t.Errorf("%s: %+v", id, op)
		}
	}

	// They go on as they were: the hold of the alarm, the lease, and what is unknown.
	next := func(op effectonce.Operation, c effectonce.Cause) effectonce.Transition {
		t.Helper()
		tr, err := effectonce.Next(op, c, now())
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	fresh := operation("fresh")
	fresh.Resource = "pi_review"
	if op, created, err := s.Create(t.Context(), next(effectonce.Operation{}, effectonce.Recorded{Operation: fresh, Claim: true, Owner: "w"})); err != nil || !created || op.Hold != effectonce.HoldDuplicate {
		t.Errorf("created %v, hold %q, %v", created, op.Hold, err)
	}
	leased := got["leased"]
	end := effectonce.AttemptEnded{Token: leased.Token, End: effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "re_2"}}
	if op, err := s.Apply(t.Context(), next(leased, end)); err != nil || op.State != effectonce.StateSucceeded {
		t.Errorf("%s, %v", op.State, err)
	}
	waiting, err := s.Waiting(t.Context(), "acme", "stripe.refund", 10)
	if err != nil || len(waiting) != 1 || waiting[0].IntentID != "unknown" {
		t.Errorf("%d are waiting, %v", len(waiting), err)
	}
	if _, err := s.Document(t.Context(), must(s.PutDocument(t.Context(), []byte("a policy")))); err != nil {
		t.Error(err)
	}
	old := operation("succeeded")
	renamed := operation("renamed")
	renamed.Aliases = []effectonce.Key{old.Key}
	if op, created, err := s.Create(t.Context(), next(effectonce.Operation{}, effectonce.Recorded{Operation: renamed, Claim: true, Owner: "w"})); err != nil || created || op.Key != old.Key {
		t.Errorf("created %v, %s, %v", created, op.IntentID, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// S3.12: a program of the first version that still runs while the file is upgraded meets the same constraint.
func TestOldProgramMeetsAliases(t *testing.T) {
	t.Parallel()
	path, now := version1(t)
	s := upgraded(t, path, now)
	op := operation("new")
	op.Aliases = []effectonce.Key{operation("old").Key}
	tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "w"}, now())
	if err != nil {
		t.Fatal(err)
	}
	if _, created, err := s.Create(t.Context(), tr); err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	db := plain(t, path)
	if n := insertAsVersion1(t, db, operation("old").Key); n != 0 {
		t.Error("the old program has inserted an alias's key")
	}
	// What it inserts meanwhile is an operation like any other.
	if n := insertAsVersion1(t, db, operation("other").Key); n != 1 {
		t.Fatal("the old program cannot insert any more")
	}
	if op, err := s.Load(t.Context(), operation("other").Key); err != nil || op.State != effectonce.StatePending || len(op.Aliases) != 0 {
		t.Errorf("%s, %v", op.State, err)
	}
	page, err := s.List(t.Context(), effectonce.Filter{Limit: 2})
	if err != nil || !slices.Equal([]string{page.Operations[0].IntentID, page.Operations[1].IntentID}, []string{"x", "new"}) {
		t.Errorf("%v", err)
	}
}

// insertAsVersion1 is what the first version did to record an operation, as far as it matters.
func insertAsVersion1(t *testing.T, db *sql.DB, key effectonce.Key) int64 {
	t.Helper()
	res, err := db.ExecContext(t.Context(), `INSERT INTO operations (version, token, state, due_at, epoch, attempt, spent, open, exposed, parked,
		stored_error, looks, key, tenant, tool, scope, intent_id, revision, terms, same) VALUES (1, 0, 'pending', 1, 0, 0, 0, 0, 0, 0, 0, 0, ?, 'acme', 't', 'business', 'x', 0, 1, 0)
		ON CONFLICT (key) DO NOTHING`, key[:])
	if err != nil {
		t.Fatal(err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
