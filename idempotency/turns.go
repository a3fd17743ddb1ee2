package idempotency

import (
	"context"
	"sync"

	"github.com/effectonce/effectonce"
)

// turns lets requests with one key take turns within this process, so that duplicates of a request in a transaction do not each hold a
// connection while they wait (S5.7). Those of other processes wait in the database.
type turns struct {
	mu   sync.Mutex
	keys map[effectonce.Key]*turn
}

// turn is a key's: free holds one token, users counts who has or wants it.
type turn struct {
	free  chan struct{}
	users int
}

// take waits for the key's turn. The error is that of ctx; otherwise give ends the turn.
func (t *turns) take(ctx context.Context, key effectonce.Key) (give func(), err error) {
	t.mu.Lock()
	if t.keys == nil {
		t.keys = make(map[effectonce.Key]*turn)
	}
	one := t.keys[key]
	if one == nil {
		one = &turn{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		t.keys[key] = one
	}
	one.users++
	t.mu.Unlock()

	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.keys, key)
		}
	}
	select {
	case <-one.free:
		return func() { one.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
