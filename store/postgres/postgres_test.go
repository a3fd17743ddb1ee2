package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/storetest"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(buyerVariable); at != "" {
		buy(at)
		return
	}
	pgtest.Main(m)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	pgtest.Need(t)
	storetest.Exercise(t, func(t *testing.T, now func() time.Time) effectonce.Store {
		t.Helper()
		s, err := postgres.Open(t.Context(), pgtest.URL(t), postgres.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
