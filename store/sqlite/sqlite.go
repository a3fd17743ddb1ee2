// Package sqlite is the embedded store driver: one SQLite file in WAL mode with synchronous=FULL, without cgo.
//
// One goroutine writes. It takes what callers are waiting for, puts it into one transaction, and answers everybody after the
// commit, so that many callers share one sync (group commit). Readers have connections of their own. Several processes may share
// a file on a local disk; each write transaction takes the file's write lock before it looks at anything.
package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"modernc.org/sqlite"

	"github.com/effectonce/effectonce"
)

// Options are what a store depends on. The zero value is for production.
type Options struct {
	// Now is the store's clock (S5.4); nil means time.Now. Every process that shares the file must have the same one.
	Now func() time.Time
	// Rand is where the installation's secret comes from; nil means crypto/rand.
	Rand io.Reader
	// BusyTimeout is how long a call waits for another process's write lock; 0 means 5 s.
	BusyTimeout time.Duration
	// Readers bounds the connections for reading; 0 means 4. They are opened when they are needed.
	Readers int
}

// Store is the driver. It is safe for concurrent use.
type Store struct {
	path        string
	now         func() time.Time
	rand        io.Reader
	busyTimeout time.Duration

	// file is what path named when it was opened.
	file os.FileInfo

	w       *writer
	readers readers
	terms   termsCache

	// secret is set by Open.
	secret []byte

	closing  sync.Once
	closeErr error
}

var (
	_ effectonce.Store     = (*Store)(nil)
	_ effectonce.Limits    = (*Store)(nil)
	_ effectonce.Journal   = (*Store)(nil)
	_ effectonce.Outbox    = (*Store)(nil)
	_ effectonce.Retention = (*Store)(nil)
)

// Page caches, in KiB: they are filled by use. The writer's is large because a random key touches any page of its index.
const (
	writerCacheKiB = 32 << 10
	readerCacheKiB = 4 << 10
)

// checkpointPages is how long the write-ahead log gets before it is copied into the file. A long one saves writes, since pages
// that change again and again are copied once.
const checkpointPages = 8000

// Open opens the file at path, makes it if it does not exist, and brings its schema up to date; any number of processes may do
// so at once. The error is an [effectonce.ErrStoreBroken] where the file cannot be used (its directory does not exist, it is
// read-only, corrupt, another program's, or of a newer version), and an [effectonce.ErrStoreUnavailable] where trying again may
// help.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	s := &Store{path: path, now: o.Now, rand: o.Rand, busyTimeout: o.BusyTimeout}
	if s.now == nil {
		s.now = time.Now
	}
	if s.rand == nil {
		s.rand = rand.Reader
	}
	if s.busyTimeout <= 0 {
		s.busyTimeout = 5 * time.Second
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	// As durable as fsync, which also waits for the file's times. Where it does not exist, SQLite does what it did.
	_, _ = sqlite.Fdatasync(true)

	if err := s.prepareFile(ctx); err != nil {
		return nil, s.mapOpenError(err)
	}
	c, err := dial(ctx, path, s.writerPragmas()...)
	if err != nil {
		return nil, s.mapOpenError(err)
	}
	if s.file, err = os.Stat(path); err != nil {
		return nil, errors.Join(s.mapOpenError(err), c.close())
	}
	s.terms.init()
	s.readers.init(s, o.Readers)
	if s.secret, err = secretOf(c); err != nil {
		return nil, errors.Join(s.mapOpenError(err), c.close())
	}
	s.w = newWriter(s, c)
	if s.secret == nil {
		// Made here, so that nobody has to write it who is inside a transaction of the caller's (S8.1).
		if s.secret, err = s.makeSecret(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

func (s *Store) writerPragmas() []string {
	return []string{
		// While it is opened another process may be recovering or removing the log; afterwards the writer waits by itself.
		fmt.Sprintf("busy_timeout = %d", s.busyTimeout.Milliseconds()),
		"synchronous = FULL",
		"foreign_keys = OFF", // references are made by this package, checked by its tests, and cost a look-up each
		"temp_store = MEMORY",
		pragmaCache(writerCacheKiB),
		pragmaCheckpoint(checkpointPages),
		"busy_timeout = 0",
	}
}

// inPlace refuses to go on with a file that was removed, moved or replaced while it was open: whoever opens the path next would
// know of nothing that is recorded here, and execute it again.
func (s *Store) inPlace() error {
	now, err := os.Stat(s.path)
	if err == nil && os.SameFile(s.file, now) {
		return nil
	}
	return &effectonce.Error{
		Code: effectonce.CodeStoreBroken, Field: "path", Detail: s.path + ": was removed, moved or replaced while it was open",
		Remedy: "stop every process that uses it and put the file back; nothing more is recorded or sent",
	}
}

// mapOpenError maps an error of Open, where a file that cannot be opened is a configuration to correct.
func (s *Store) mapOpenError(err error) error {
	err = s.mapError(err)
	var e *effectonce.Error
	if cantOpen(err) && errors.As(err, &e) {
		e.Code, e.RetryAfter = effectonce.CodeStoreBroken, 0
	}
	return err
}

// Close implements [effectonce.Store]: what is waiting is written, and the write-ahead log is copied into the file.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.w.close()
		s.readers.close()
		// Another process may be using the log, which then stays.
		_ = s.w.c.once(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
		s.closeErr = s.mapError(s.w.c.close())
	})
	return s.closeErr
}
