package idempotency

import (
	"context"
	"time"
)

const (
	// smallBytes is what a request or an answer may take of memory without a slot.
	smallBytes = 32 << 10
	// slotWait is how long a large body waits for a slot.
	slotWait = 5 * time.Second
)

// slots bound how many requests hold large bodies in memory at a time. Whoever has one never waits for a second, so all of them end.
type slots chan struct{}

// room is the share of memory of one request.
type room struct {
	slots slots
	held  bool
}

// large asks for room for more than smallBytes, and reports whether there is some. It waits at most slotWait.
func (r *room) large(ctx context.Context) bool {
	if r.held {
		return true
	}
	select {
	case r.slots <- struct{}{}:
		r.held = true
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, slotWait)
	defer cancel()
	select {
	case r.slots <- struct{}{}:
		r.held = true
	case <-ctx.Done():
	}
	return r.held
}

// release gives the slot back.
func (r *room) release() {
	if r.held {
		<-r.slots
		r.held = false
	}
}
