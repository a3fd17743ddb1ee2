// Package postgres is the store driver for PostgreSQL 14 and later: any number of processes on any number of machines share one
// database, also behind a proxy that pools by transaction.
//
// The database's clock decides (S5.4), and every write is one statement. Writes that arrive while others are on their way share a
// statement, so that many callers share one commit; nobody waits for a timer, and a single caller has a statement of its own. A
// write whose answer was lost is resolved by reading, never by assuming: see settle.go.
package postgres

import (
	"context"
	"crypto/rand"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// Options are what a store depends on. The zero value is for production.
type Options struct {
	// Now replaces the database's clock (S5.4) in tests; nil means the database's.
	Now func() time.Time
	// Rand is where the installation's secret and the numbers of writes come from; nil means crypto/rand.
	Rand io.Reader
	// Connections bounds the connections; 0 means what the URL's pool_max_conns says, else 12. More are seldom faster: callers
	// share statements.
	Connections int
	// SchemaAsItIs keeps Open from changing the schema: one that is missing or older is an error then.
	SchemaAsItIs bool
	// Patience is how long the store tries to find out what became of a write whose answer was lost; 0 means 5 s.
	Patience time.Duration
}

const (
	// connectionsDefault is where more connections brought nothing.
	connectionsDefault = 12
	// writersReserve is how many connections reads leave alone.
	writersReserve = 4
)

// Store is the driver. It is safe for concurrent use.
type Store struct {
	place    place
	now      func() time.Time
	rand     io.Reader
	patience time.Duration

	pool *pgxpool.Pool
	// readers bounds the connections that reads use at the same time.
	readers chan struct{}
	// unnamed says that statements are sent whole each time, because connections change under a proxy.
	unnamed atomic.Bool
	mark    mark
	// advancing says that the clock's row is being moved on.
	advancing atomic.Bool
	terms     termsCache

	creates, applies, careful *batcher
	batchPatience             time.Duration
	stragglers                chan struct{}

	secretMu sync.Mutex
	secret   []byte

	mu      sync.RWMutex
	closed  bool
	calls   sync.WaitGroup
	closing sync.Once
}

var (
	_ effectonce.Store     = (*Store)(nil)
	_ effectonce.Limits    = (*Store)(nil)
	_ effectonce.Journal   = (*Store)(nil)
	_ effectonce.Outbox    = (*Store)(nil)
	_ effectonce.Retention = (*Store)(nil)
)

// Open connects to the database at url (postgres://user:password@host:port/database?option=value) and brings its schema up to
// date; any number of processes may do so at once. The error is an [effectonce.ErrStoreBroken] where the database cannot be used
// (wrong URL or password, no such database, a missing permission, a newer schema, commits that are not durable), and an
// [effectonce.ErrStoreUnavailable] where trying again may help.
//
// The URL's default_query_exec_mode=exec keeps the store from preparing statements, for proxies that do not pass them on. Without
// it the store finds that out at the first refusal. Everything else in the URL is pgx's: sslmode, target_session_attrs=read-write
// with several hosts for a fail-over, pool_max_conns.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	cfg, where, err := configuration(url, o.Connections)
	if err != nil {
		return nil, err
	}
	s := &Store{place: where, now: o.Now, rand: o.Rand, patience: o.Patience}
	if s.rand == nil {
		s.rand = rand.Reader
	}
	if s.patience <= 0 {
		s.patience = 5 * time.Second
	}
	switch cfg.ConnConfig.DefaultQueryExecMode {
	case pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeDescribeExec:
		s.unnamed.Store(true)
	}
	if err := checkDurability(ctx, cfg.ConnConfig, where); err != nil {
		return nil, err
	}
	if _, err := migrate(ctx, cfg.ConnConfig, where, o.SchemaAsItIs); err != nil {
		return nil, err
	}
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg); err != nil {
		return nil, where.mapError(err)
	}
	s.readers = make(chan struct{}, max(1, int(cfg.MaxConns)-writersReserve))
	s.terms.init()
	s.batchPatience, s.stragglers = batchPatience, make(chan struct{}, stragglersMax)
	s.creates = newBatcher(s.createBatch, batchMax, writersMax)
	s.creates.follow = true
	s.applies = newBatcher(s.applyBatch, batchMax, writersMax)
	s.careful = newBatcher(s.writeCarefully, 1, carefulMax)
	if !o.SchemaAsItIs {
		// Later nothing has to be written for it, not even where a caller's transaction is under way.
		if _, err := s.Secret(ctx); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	return s, nil
}

// configuration reads the URL.
func configuration(url string, connections int) (*pgxpool.Config, place, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The parser's words can hold parts of a password.
		return nil, place{}, &effectonce.Error{Code: effectonce.CodeStoreBroken, Field: "store", Detail: "the PostgreSQL URL cannot be read",
			Remedy: "write postgres://user:password@host:port/database?option=value, with special characters of the password percent-encoded"}
	}
	switch {
	case connections > 0:
		cfg.MaxConns = int32(connections)
	case !strings.Contains(url, "pool_max_conns"):
		cfg.MaxConns = connectionsDefault
	}
	cfg.MaxConns = max(cfg.MaxConns, 2)
	if _, named := cfg.ConnConfig.RuntimeParams["application_name"]; !named {
		cfg.ConnConfig.RuntimeParams["application_name"] = "effectonce"
	}
	return cfg, placeOf(cfg.ConnConfig), nil
}

// Name is the place that a URL names, without user and password, for messages.
func Name(url string) string {
	_, where, err := configuration(url, 0)
	if err != nil {
		return "postgres"
	}
	return where.name
}

// Close implements [effectonce.Store].
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.calls.Wait()
		s.pool.Close()
	})
	return nil
}

// enter admits a call; leave ends it.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return s.place.mapError(err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: s.place.name + ": the store is closed", Remedy: "open it again"}
	}
	s.calls.Add(1)
	return nil
}

func (s *Store) leave() { s.calls.Done() }
