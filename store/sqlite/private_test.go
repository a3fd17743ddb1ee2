package sqlite_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

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
