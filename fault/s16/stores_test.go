//go:build unix

package s16_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/sqlite"
)

// driver is a store on which every fault is tried (S16).
type driver string

const (
	onSQLite   driver = "sqlite"
	onPostgres driver = "postgres"
)

// everywhere runs a test on every store that processes can share. Without PostgreSQL that half is skipped, loudly. A short run under the
// race detector leaves it out: what races is the guard's and the drivers' goroutines, and the drivers' own tests have theirs.
func everywhere(t *testing.T, test func(t *testing.T, on driver)) {
	t.Helper()
	drivers := []driver{onSQLite, onPostgres}
	if raced && testing.Short() {
		drivers = drivers[:1]
	}
	for _, on := range drivers {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			test(t, on)
		})
	}
}

// place makes room for a store of the test's own: a file, or a database.
func (d driver) place(t *testing.T) string {
	t.Helper()
	if d == onPostgres {
		return pgtest.URL(t)
	}
	return filepath.Join(t.TempDir(), "effectonce.db")
}

// connections is how many a process of a test may have. There are hundreds of processes, and none is busy.
const connections = 4

func openStore(ctx context.Context, at string, now func() time.Time) (effectonce.Store, error) {
	if strings.HasPrefix(at, "postgres://") {
		return postgres.Open(ctx, at, postgres.Options{Now: now, Connections: connections})
	}
	return sqlite.Open(ctx, at, sqlite.Options{Now: now})
}
