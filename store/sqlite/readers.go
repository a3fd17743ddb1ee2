package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/effectonce/effectonce"
)

// readers is a small pool of read-only connections, opened when they are needed. A reader never waits for the writer.
type readers struct {
	s *Store
	// slots bounds how many are in use at once.
	slots chan struct{}

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

func pragmaCache(kib int) string        { return fmt.Sprintf("cache_size = -%d", kib) }
func pragmaCheckpoint(pages int) string { return fmt.Sprintf("wal_autocheckpoint = %d", pages) }

func (p *readers) init(s *Store, n int) {
	p.s = s
	p.slots = make(chan struct{}, n)
}

// use runs f with a connection. A connection that failed is not used again.
func (p *readers) use(ctx context.Context, f func(c *conn) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.slots }()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.s.inPlace(); err != nil {
		return err
	}
	c, err := p.get(ctx)
	if err != nil {
		return err
	}
	err = f(c)
	var ours *effectonce.Error
	if err != nil && !errors.As(err, &ours) {
		return errors.Join(err, c.close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, c)
	return err
}

func (p *readers) get(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: p.s.path + ": the store is closed", Remedy: "open it again"}
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	return dial(ctx, p.s.path, "busy_timeout = 2000", "query_only = ON", pragmaCache(readerCacheKiB))
}

// close waits for the reads under way and closes the connections.
func (p *readers) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		_ = c.close() // it only read
	}
	p.idle = nil
	for range cap(p.slots) {
		<-p.slots
	}
}
