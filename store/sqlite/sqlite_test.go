package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/sqlite"
	"github.com/effectonce/effectonce/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, func(t *testing.T, now func() time.Time) effectonce.Store {
		t.Helper()
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "effectonce.db"), sqlite.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
