package postgres

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/effectonce/effectonce"
)

// migrations are forward only.
//
//go:embed migrations/*.sql
var migrations embed.FS

const (
	// schemaVersion is the number of the last migration.
	schemaVersion = 2
	versionTable  = "effectonce.schema_migrations"
	// migratePatience bounds how long programs that start at once try again after they got in each other's way.
	migratePatience = 30 * time.Second
)

// Migration says what [Migrate] did: From is the schema's version before (0: there was none), To the version now.
type Migration struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Migrate brings the schema of the database at url up to date, and does nothing where it is. Its errors are those of [Open],
// which migrates as well; it is for a role that may change the schema where the daemon's may not.
func Migrate(ctx context.Context, url string) (Migration, error) {
	cfg, where, err := configuration(url, 0)
	if err != nil {
		return Migration{}, err
	}
	return migrate(ctx, cfg.ConnConfig, where, false)
}

// migrate brings the schema up to date, or with onlyLook refuses one that is not. It tries again where another program was faster:
// each migration is a transaction that takes a lock which ends with it, so that one of them wins, and the other finds things there
// and looks again.
func migrate(ctx context.Context, cfg *pgx.ConnConfig, where place, onlyLook bool) (Migration, error) {
	cfg = cfg.Copy()
	// Nothing that a pooling proxy would have to remember.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	db := stdlib.OpenDB(*cfg)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(ctx, migratePatience)
	defer cancel()
	for {
		m, err := migrateOnce(ctx, db, where, onlyLook)
		if err == nil || !raced(err) {
			return m, where.mapError(err)
		}
		select {
		case <-ctx.Done():
			return m, where.mapError(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB, where place, onlyLook bool) (Migration, error) {
	before, err := version(ctx, db)
	if err != nil {
		return Migration{}, err
	}
	m := Migration{From: before, To: schemaVersion}
	if before > schemaVersion {
		return m, &effectonce.Error{Code: effectonce.CodeStoreBroken,
			Detail: fmt.Sprintf("%s: its schema has version %d, and this program knows versions up to %d", where.name, before, schemaVersion),
			Remedy: "use the newer program"}
	}
	if before == schemaVersion {
		return m, nil
	}
	if onlyLook {
		return m, &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: where.name + ": the schema is missing or not up to date", Remedy: "run effectonce migrate"}
	}
	var exists bool
	if err := db.QueryRowContext(ctx, "SELECT to_regnamespace('effectonce') IS NOT NULL").Scan(&exists); err != nil {
		return m, err
	}
	if !exists {
		// Only where it is missing: the statement asks for a permission even where it would do nothing.
		if _, err := db.ExecContext(ctx, "CREATE SCHEMA effectonce"); err != nil {
			return m, err
		}
	}
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return m, err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, sub, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return m, err
	}
	_, err = p.Up(ctx)
	return m, err
}

// version is the schema's version, 0 where there is none.
func version(ctx context.Context, db *sql.DB) (int64, error) {
	var exists bool
	if err := db.QueryRowContext(ctx, "SELECT to_regclass('"+versionTable+"') IS NOT NULL").Scan(&exists); err != nil || !exists {
		return 0, err
	}
	var v int64
	err := db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&v)
	return v, err
}

// raced reports whether a migration may have failed because another program was at it.
func raced(err error) bool {
	switch code(err) {
	case "42P06", "42P07", "42701", "42710", "23505", "40001", "40P01", "XX000":
		return true
	}
	return false
}

// checkDurability refuses a database that answers before a commit is durable: it would forget claims that were answered (S3.5).
func checkDurability(ctx context.Context, cfg *pgx.ConnConfig, where place) error {
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return where.mapError(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	var commit string
	if err := c.QueryRow(ctx, "SHOW synchronous_commit", pgx.QueryExecModeSimpleProtocol).Scan(&commit); err != nil {
		return where.mapError(err)
	}
	if commit == "off" {
		return &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: where.name + ": synchronous_commit is off, so that a crash could take back what was answered",
			Remedy: "set it to on for this role: ALTER ROLE ... SET synchronous_commit = on"}
	}
	return nil
}
