// Package memory is the store driver that keeps everything in this process's memory: for tests, for the simulator, and for
// trying things out. It is a [effectonce.Store] like the others except that nothing outlives the process.
package memory

import (
	"context"
	"crypto/rand"
	"io"
	"maps"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Options are what a store depends on. The zero value is a store with the machine's clock and randomness.
type Options struct {
	// Now is the store's clock (S5.4); nil means time.Now.
	Now func() time.Time
	// Secret is the installation's secret of 32 bytes (S3.9). Nil: it is read from Rand at the first call for it.
	Secret []byte
	// Rand is where a secret comes from; nil means crypto/rand.
	Rand io.Reader
}

// Store is the driver. It is safe for concurrent use.
type Store struct {
	now  func() time.Time
	rand io.Reader

	mu     sync.Mutex
	closed bool
	// high is the latest time by which this store has decided anything.
	high time.Time
	// rows are replaced and never written to, so that clones may share them.
	rows map[effectonce.Key]*row
	// order holds the rows' keys, oldest first; the place of a key is its row's id.
	order []effectonce.Key
	// alarmed are the operations that hold their resource.
	alarmed map[effectonce.Key]struct{}
	log     []effectonce.Event
	docs    map[canon.Digest][]byte
	secret  []byte
	// aliases are further keys of operations (S3.12).
	aliases map[effectonce.Key]effectonce.Key
	// ceilings and what operations have reserved of them (S8.3).
	ceilings map[ceiling]taking
	reserved map[effectonce.Key][]reservation
	runs     map[runID]run
	runOrder []runID
	queues   map[queueID]queue
}

var _ effectonce.Store = (*Store)(nil)

// row is an operation with its events.
type row struct {
	id     int
	op     effectonce.Operation
	events []effectonce.Event
}

// Open returns an empty store.
func Open(o Options) *Store {
	s := &Store{
		now: o.Now, rand: o.Rand, secret: o.Secret,
		rows: map[effectonce.Key]*row{}, alarmed: map[effectonce.Key]struct{}{}, docs: map[canon.Digest][]byte{},
		aliases: map[effectonce.Key]effectonce.Key{}, ceilings: map[ceiling]taking{}, reserved: map[effectonce.Key][]reservation{},
		runs: map[runID]run{}, queues: map[queueID]queue{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.rand == nil {
		s.rand = rand.Reader
	}
	return s
}

// Clone returns a store of its own with the same content and clock. It costs a pointer per operation; neither sees the other's
// later changes.
func (s *Store) Clone() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Store{
		now: s.now, rand: s.rand, closed: s.closed, high: s.high, secret: s.secret,
		rows: maps.Clone(s.rows), alarmed: maps.Clone(s.alarmed), docs: maps.Clone(s.docs),
		order:   s.order[:len(s.order):len(s.order)],
		log:     s.log[:len(s.log):len(s.log)],
		aliases: maps.Clone(s.aliases), ceilings: maps.Clone(s.ceilings), reserved: maps.Clone(s.reserved),
		runs: maps.Clone(s.runs), runOrder: s.runOrder, queues: maps.Clone(s.queues),
	}
	// Whoever appends first must not write into the other's array.
	s.order, s.log = c.order, c.log
	return c
}

// Operations returns all operations, oldest first, without AsOf. What it returns must not be written to.
func (s *Store) Operations() []effectonce.Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	ops := make([]effectonce.Operation, 0, len(s.order))
	for _, k := range s.order {
		if r, ok := s.rows[k]; ok {
			ops = append(ops, r.op)
		}
	}
	return ops
}

// AllEvents returns all audit events in the order in which they were stored.
func (s *Store) AllEvents() []effectonce.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log[:len(s.log):len(s.log)]
}

// Close implements [effectonce.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// enter locks the store for a call; the caller unlocks it unless there is an error.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "the caller gave up", Cause: err}
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "the store is closed", Remedy: "open it again"}
	}
	return nil
}
