package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/sqlite"
)

// S3.9: the file holds the installation's secret, so nobody but its owner may read it or the log beside it.
func TestFilesAreTheOwnersOnly(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Log("permissions are not file modes here")
		return
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "effectonce.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Secret(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Errorf("only %d files; the log is expected beside the file", len(files))
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f.Name(), info.Mode())
		}
	}
}

// S16.21: a file that is taken away while it is open is not written to any more: the next one to open the path would execute everything again.
func TestFileTakenAway(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Log("an open file cannot be taken away here")
		return
	}
	path := filepath.Join(t.TempDir(), "effectonce.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.PutDocument(t.Context(), []byte("before")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutDocument(t.Context(), []byte("after")); !errors.Is(err, effectonce.ErrStoreBroken) {
		t.Error("a write:", err)
	}
	if _, err := s.Due(t.Context(), 1); !errors.Is(err, effectonce.ErrStoreBroken) {
		t.Error("a read:", err)
	}
	if err := os.Rename(path+".gone", path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutDocument(t.Context(), []byte("after")); err != nil {
		t.Error("put back:", err)
	}
}
