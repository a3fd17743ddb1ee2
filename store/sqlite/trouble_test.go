package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/sqlite"
)

// plain opens the file like any other program would.
func plain(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, queries ...string) {
	t.Helper()
	for _, q := range queries {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// wantError checks the code, that the text holds the parts, and that it says what to do.
func wantError(t *testing.T, err error, code effectonce.Code, parts ...string) {
	t.Helper()
	var e *effectonce.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("got %v, want the code %s", err, code)
	}
	if e.Remedy == "" {
		t.Errorf("%v says nothing about what to do", err)
	}
	for _, part := range parts {
		if !strings.Contains(e.Detail, part) {
			t.Errorf("%q does not say %q", e.Detail, part)
		}
	}
}

func TestOpenRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string) string
		parts   []string
	}{
		{"a directory", func(_ *testing.T, path string) string { return filepath.Dir(path) }, []string{"is a directory"}},
		{"a file in a directory that does not exist", func(_ *testing.T, path string) string {
			return filepath.Join(filepath.Dir(path), "missing", "effectonce.db")
		}, []string{"directory does not exist"}},
		{"no path", func(*testing.T, string) string { return "" }, []string{"not the path of a file"}},
		{"memory", func(*testing.T, string) string { return ":memory:" }, []string{"not the path of a file"}},
		{"a text file", func(t *testing.T, path string) string {
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database\n", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, []string{"not a SQLite database"}},
		{"another program's database", func(t *testing.T, path string) string {
			execute(t, plain(t, path), "CREATE TABLE bookmarks (url TEXT)")
			return path
		}, []string{"another program's"}},
		{"another program's database with a mark", func(t *testing.T, path string) string {
			execute(t, plain(t, path), "PRAGMA application_id = 77", "PRAGMA user_version = 1")
			return path
		}, []string{"another program's"}},
		{"a newer schema", func(t *testing.T, path string) string {
			if err := open(t, path).Close(); err != nil {
				t.Fatal(err)
			}
			execute(t, plain(t, path), "PRAGMA user_version = 41")
			return path
		}, []string{"version 41", "up to 2"}},
		{"a corrupt file", func(t *testing.T, path string) string {
			if err := open(t, path).Close(); err != nil {
				t.Fatal(err)
			}
			overwrite(t, path, 100, 4000)
			return path
		}, []string{"corrupt"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := c.prepare(t, filepath.Join(t.TempDir(), "effectonce.db"))
			_, err := sqlite.Open(t.Context(), path, sqlite.Options{BusyTimeout: 200 * time.Millisecond})
			wantError(t, err, effectonce.CodeStoreBroken, append(c.parts, path)...)
		})
	}
}

func overwrite(t *testing.T, path string, from, to int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte(strings.Repeat("\xa5", int(to-from))), from)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenAgainKeepsEverything(t *testing.T) {
	t.Parallel()
	// A path with characters that mean something in a URI.
	path := filepath.Join(t.TempDir(), "a b?c=d&e#f%20.db")
	s := open(t, path)
	op, _, err := s.Create(t.Context(), recorded("a"))
	if err != nil {
		t.Fatal(err)
	}
	secret, err := s.Secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if got, err := s.Load(t.Context(), op.Key); err != nil || got.Version != 1 || got.Terms != op.Terms {
		t.Errorf("version %d, %v", got.Version, err)
	}
	if again, err := s.Secret(t.Context()); err != nil || string(again) != string(secret) {
		t.Errorf("another secret, %v", err)
	}
}

// S16.21: a full disk is a clear error, nothing acknowledged is lost, and it goes on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effectonce.db")
	s := open(t, path)
	kept := []effectonce.Operation{}
	sqlite.LimitPages(t, s, 300)
	var full error
	for i := 0; full == nil; i++ {
		tr := recorded(fmt.Sprint("fill-", i))
		tr.To.Business = []byte(`{"text":"` + strings.Repeat("x", 20_000) + `"}`)
		op, _, err := s.Create(t.Context(), tr)
		if full = err; err == nil {
			kept = append(kept, op)
		}
	}
	wantError(t, full, effectonce.CodeStoreUnavailable, "full", path)

	// One that does not fit spoils no other that does.
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			tr := recorded(fmt.Sprint("mixed-", i))
			if i%2 == 0 {
				tr.To.Business = []byte(strings.Repeat("x", 200_000))
			}
			_, created, err := s.Create(t.Context(), tr)
			switch {
			case i%2 == 0:
				if effectonce.CodeOf(err) != effectonce.CodeStoreUnavailable {
					t.Errorf("a large one: %v", err)
				}
			case err != nil || !created:
				t.Errorf("a small one: created %v, %v", created, err)
			}
		})
	}
	wg.Wait()
	for _, op := range kept {
		if got, err := s.Load(t.Context(), op.Key); err != nil || got.Version != 1 {
			t.Fatalf("%s: version %d, %v", op.IntentID, got.Version, err)
		}
		if _, created, err := s.Create(t.Context(), recorded(op.IntentID)); err != nil || created {
			t.Fatalf("a replay while the disk is full: created %v, %v", created, err)
		}
	}
	sqlite.LimitPages(t, s, 100_000)
	if _, created, err := s.Create(t.Context(), recorded("room again")); err != nil || !created {
		t.Errorf("created %v, %v", created, err)
	}
	wholeStore(t, s)
}

// S16.14: while another process holds the write lock, reads go on and writes wait, and then say so.
func TestLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effectonce.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{BusyTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	op, _, err := s.Create(t.Context(), recorded("a"))
	if err != nil {
		t.Fatal(err)
	}
	other := plain(t, path)
	execute(t, other, "BEGIN IMMEDIATE")

	_, err = s.Apply(t.Context(), ended(op))
	wantError(t, err, effectonce.CodeStoreUnavailable, "locked", path)
	if got, err := s.Load(t.Context(), op.Key); err != nil || got.Version != 1 {
		t.Errorf("a read: version %d, %v", got.Version, err)
	}
	if _, created, err := s.Create(t.Context(), recorded("a")); err != nil || created {
		t.Errorf("a replay: created %v, %v", created, err)
	}
	execute(t, other, "ROLLBACK")
	if got, err := s.Apply(t.Context(), ended(op)); err != nil || got.Version != 2 {
		t.Errorf("afterwards: version %d, %v", got.Version, err)
	}
}

// A caller whose time is over before its write was taken has withdrawn it.
func TestWithdrawnWriteNeverHappens(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effectonce.db")
	s := open(t, path)
	other := plain(t, path)
	execute(t, other, "BEGIN IMMEDIATE")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, _, err := s.Create(ctx, recorded("withdrawn"))
	if effectonce.CodeOf(err) != effectonce.CodeStoreUnavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	execute(t, other, "ROLLBACK")
	if _, created, err := s.Create(t.Context(), recorded("next")); err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	if _, err := s.Load(t.Context(), operation("withdrawn").Key); effectonce.CodeOf(err) != effectonce.CodeNotFound {
		t.Errorf("got %v", err)
	}
}

// Whatever happens to the file while it is open, the answer is an error of the project's and names the file.
func TestDamageWhileOpen(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, path string){
		"corrupt": func(t *testing.T, path string) {
			execute(t, plain(t, path), "PRAGMA wal_checkpoint(TRUNCATE)")
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, path, 4096, info.Size())
		},
		"a table is gone": func(t *testing.T, path string) {
			execute(t, plain(t, path), "DROP TABLE events", "DROP TABLE operations")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "effectonce.db")
			if err := open(t, path).Close(); err != nil {
				t.Fatal(err)
			}
			s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			damage(t, path)
			_, err = s.Load(t.Context(), operation("a").Key)
			wantError(t, err, effectonce.CodeStoreBroken, path)
			_, _, err = s.Create(t.Context(), recorded("a"))
			wantError(t, err, effectonce.CodeStoreBroken, path)
			_, err = s.Due(t.Context(), 10)
			wantError(t, err, effectonce.CodeStoreBroken, path)
		})
	}
}
