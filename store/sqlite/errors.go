package sqlite

import (
	"context"
	"errors"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/effectonce/effectonce"
)

// mapError turns every error of the driver into one of the project's (S16.14, S16.21). An [effectonce.Error] stays as it is.
func (s *Store) mapError(err error) error { return mapError(s.path, err) }

func mapError(path string, err error) error {
	var ours *effectonce.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	unavailable := func(detail, remedy string) error {
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: path + ": " + detail, Remedy: remedy, RetryAfter: time.Second, Cause: err}
	}
	broken := func(detail, remedy string) error {
		return &effectonce.Error{Code: effectonce.CodeStoreBroken, Detail: path + ": " + detail, Remedy: remedy, Cause: err}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "the caller gave up", Cause: err}
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return broken("the driver failed", "this is a defect; the cause says more")
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return unavailable("another process keeps the file locked", "try again; if it stays, see which process has the file open")
	case sqlite3.SQLITE_FULL:
		return unavailable("the disk is full, or the file's size limit is reached", "free disk space; nothing recorded is lost")
	case sqlite3.SQLITE_IOERR:
		return unavailable("the disk failed to read or write", "see whether it is full or failing")
	case sqlite3.SQLITE_NOMEM:
		return unavailable("out of memory", "give the process more memory")
	case sqlite3.SQLITE_INTERRUPT:
		return unavailable("the query was interrupted", "try again")
	case sqlite3.SQLITE_CANTOPEN:
		return unavailable("the file cannot be opened", "see that the directory exists and is writable, and how many files the process may open")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return broken("the file or its directory is read-only", "make both writable for this user")
	case sqlite3.SQLITE_CORRUPT:
		return broken("the file is corrupt", "stop every process that uses it, keep a copy, and restore a backup")
	case sqlite3.SQLITE_NOTADB:
		return broken("the file is not a SQLite database", "name another file, or restore a backup")
	case sqlite3.SQLITE_TOOBIG:
		return &effectonce.Error{Code: effectonce.CodeTooLarge, Detail: "a value is larger than the database can hold", Cause: err}
	}
	return broken("the database refused a statement", "see that no other program changed the file; the cause says more")
}

// busy reports whether err says that somebody else holds the file's lock.
func busy(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

func (s *Store) errClosed() error {
	return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: s.path + ": the store is closed", Remedy: "open it again"}
}

func notFound(key effectonce.Key) error {
	return &effectonce.Error{Code: effectonce.CodeNotFound, Key: key, Detail: "no operation has this key"}
}
