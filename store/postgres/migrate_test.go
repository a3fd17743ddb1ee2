package postgres_test

import (
	"os"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

func TestSeveralMigrateAtOnce(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	atOnce(8, func(i int) {
		s, err := postgres.Open(t.Context(), at, postgres.Options{Connections: 2})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = s.Close() }()
		if _, created, err := s.Create(t.Context(), recorded(numbered("op", i))); err != nil || !created {
			t.Errorf("created %v, %v", created, err)
		}
	})
	if n := count(t, plain(t, at), "SELECT count(*) FROM effectonce.schema_migrations WHERE version_id > 0"); n != 2 {
		t.Errorf("%d migrations were made", n)
	}
	again, err := postgres.Migrate(t.Context(), at)
	if err != nil || again != (postgres.Migration{From: 2, To: 2}) {
		t.Errorf("again: %+v, %v", again, err)
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	if _, err := postgres.Migrate(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	execute(t, at, "INSERT INTO effectonce.schema_migrations (version_id, is_applied) VALUES (1000, true)")
	_, err := postgres.Open(t.Context(), at, postgres.Options{})
	wantError(t, err, effectonce.CodeStoreBroken, "use the newer program")
	_, err = postgres.Migrate(t.Context(), at)
	wantError(t, err, effectonce.CodeStoreBroken, "version 1000")
}

func TestSchemaAsItIs(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	_, err := postgres.Open(t.Context(), at, postgres.Options{SchemaAsItIs: true})
	wantError(t, err, effectonce.CodeStoreBroken, "run effectonce migrate")
	if n := count(t, plain(t, at), "SELECT count(*) FROM pg_namespace WHERE nspname = 'effectonce'"); n != 0 {
		t.Error("the schema was made")
	}
	open(t, at, postgres.Options{})
	open(t, at, postgres.Options{SchemaAsItIs: true})
}

func TestMigrationsGoForward(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile("migrations/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "+goose Down") {
			t.Errorf("%s goes backward", f.Name())
		}
		if !strings.Contains(string(text), "SELECT pg_advisory_xact_lock(4989345102350246401);") {
			t.Errorf("%s does not wait for others", f.Name())
		}
	}
}
