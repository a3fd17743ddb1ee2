package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/effectonce/effectonce"
)

// migrations are forward only. The last statements of each set user_version to its number.
//
//go:embed migrations/*.sql
var migrations embed.FS

const (
	// schemaVersion is the number of the last migration.
	schemaVersion = 2
	// applicationID marks the file as ours: "Eff1".
	applicationID = 0x45666f31
)

// prepareFile checks the file and brings its schema up to date. Another process may be doing the same: every migration is a
// transaction, so one of them wins and the other looks again.
func (s *Store) prepareFile(ctx context.Context) error {
	if err := s.checkPath(); err != nil {
		return err
	}
	makePrivate(s.path)
	deadline := time.Now().Add(s.busyTimeout)
	for {
		err := s.migrate(ctx)
		if err == nil || !raced(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// makePrivate makes a missing file that only its owner can read, since it will hold the installation's secret (S3.9); the log beside it
// takes after it. It is linked into place closed: closing a file drops the locks of this process's other connections to it. Where
// that is not possible, SQLite makes the file or says why it cannot.
func makePrivate(path string) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".effectonce-*")
	if err != nil {
		return
	}
	defer os.Remove(f.Name())
	if f.Close() == nil {
		_ = os.Link(f.Name(), path)
	}
}

// checkPath finds what SQLite would report in words that help nobody. It does not open the file: closing it again would drop
// the locks of this process's other connections to it.
func (s *Store) checkPath() error {
	wrong := func(detail, remedy string) error {
		return &effectonce.Error{Code: effectonce.CodeStoreBroken, Field: "path", Detail: s.path + ": " + detail, Remedy: remedy}
	}
	if s.path == "" || s.path == ":memory:" {
		return wrong("is not the path of a file", "name a file, or use the memory store")
	}
	info, err := os.Stat(s.path)
	switch {
	case err == nil && info.IsDir():
		return wrong("is a directory", "name a file in it")
	case err == nil && !info.Mode().IsRegular():
		return wrong("is not a regular file", "name another file")
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return &effectonce.Error{Code: effectonce.CodeStoreBroken, Field: "path", Detail: s.path + ": cannot be examined", Remedy: "see the permissions of its directories", Cause: err}
	}
	dir := filepath.Dir(s.path)
	info, err = os.Stat(dir)
	if err != nil || !info.IsDir() {
		return wrong("its directory does not exist", "make the directory "+dir)
	}
	return nil
}

// raced reports whether a migration may have failed because another process was at it.
func raced(err error) bool {
	var e *sqlite.Error
	return busy(err) || errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_ERROR
}

func cantOpen(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_CANTOPEN
}

func (s *Store) migrate(ctx context.Context) (err error) {
	name, err := dsn(s.path)
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", fmt.Sprintf("%s&_busy_timeout=%d", name, s.busyTimeout.Milliseconds()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)

	version, err := s.fileVersion(ctx, db)
	if err != nil {
		return err
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: s.path + ": the file system does not allow a write-ahead log", Remedy: "put the file on a local disk"}
	}
	if version == schemaVersion {
		return nil
	}
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, sub, goose.WithTableName("schema_migrations"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// fileVersion returns the schema version of a file of ours, or 0 for an empty one. Anything else is refused.
func (s *Store) fileVersion(ctx context.Context, db *sql.DB) (int64, error) {
	var id, version, tables int64
	// One statement, so that a migration by another process lies wholly before or after it.
	err := db.QueryRowContext(ctx, `SELECT a.application_id, u.user_version,
		(SELECT count(*) FROM sqlite_schema WHERE name NOT GLOB 'schema_migrations*' AND name NOT GLOB 'sqlite_*')
		FROM pragma_application_id a, pragma_user_version u`).Scan(&id, &version, &tables)
	if err != nil {
		return 0, err
	}
	switch {
	case id == applicationID && version > schemaVersion:
		return 0, &effectonce.Error{Code: effectonce.CodeStoreBroken,
			Detail: fmt.Sprintf("%s: its schema has version %d, and this program knows versions up to %d", s.path, version, schemaVersion),
			Remedy: "use the newer program"}
	case id != applicationID && (id != 0 || version != 0 || tables != 0):
		return 0, &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: s.path + ": the file is another program's database", Remedy: "name another file"}
	}
	return version, nil
}
