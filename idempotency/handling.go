package idempotency

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/effectonce/effectonce"
)

// handling is what a handler can ask for and say, through its request's context.
type handling struct {
	call    effectonce.Call
	hasCall bool
	tx      any
	notSent atomic.Bool
}

type handlingKey struct{}

func handlingOf(ctx context.Context) *handling {
	h, _ := ctx.Value(handlingKey{}).(*handling)
	return h
}

// NotSent is for a handler that certainly had no effect and cannot have one any more: its answer is sent and not stored, and a repeat
// runs the handler again, after the back-off of the terms. It is a strong claim: a request to somebody else that timed out may have
// arrived. ctx is the request's context; outside the middleware nothing happens.
func NotSent(ctx context.Context) {
	if h := handlingOf(ctx); h != nil {
		h.notSent.Store(true)
	}
}

// Call returns what identifies the operation to whomever the handler calls: Stamp for what it creates, DownstreamKey for a provider that
// takes a key of its own, Resend after an attempt of which nobody knows. ok is false in a transaction and outside the middleware.
func Call(ctx context.Context) (call effectonce.Call, ok bool) {
	h := handlingOf(ctx)
	if h == nil {
		return effectonce.Call{}, false
	}
	return h.call, h.hasCall
}

// Tx returns the Value of the request's [Transaction], in which the handler makes its changes.
func Tx[T any](ctx context.Context) (tx T, ok bool) {
	if h := handlingOf(ctx); h != nil {
		tx, ok = h.tx.(T)
	}
	return tx, ok
}

// exchange is one request with what it needs on its way through the middleware.
type exchange struct {
	m    *Middleware
	next http.Handler
	w    http.ResponseWriter
	r    *http.Request
	room room

	// key is the client's, id the operation's.
	key    string
	id     effectonce.Key
	body   []byte
	intent effectonce.Intent

	// settled ends the request's turn, in a transaction.
	settled func()

	// recorder is nil until the handler runs.
	recorder *recorder
	// panicked is what the handler panicked with.
	panicked any
}

// handle runs the handler once. ok is false if it panicked.
func (x *exchange) handle(ctx context.Context, h *handling) (answer stored, ok bool) {
	ctx = context.WithValue(ctx, handlingKey{}, h)
	x.recorder = x.m.recorder(ctx, x.w, &x.room)
	defer func() {
		if p := recover(); p != nil {
			x.recorder.stop()
			x.panicked = p
			if p != http.ErrAbortHandler {
				x.m.options.Logger.Error("a handler panicked", "tool", x.intent.Tool, "stack", string(debug.Stack()))
			}
			answer, ok = stored{}, false
		}
	}()
	x.next.ServeHTTP(x.recorder, again(ctx, x.r, x.body))
	return x.recorder.finish(), true
}

// ran reports whether the handler ran for this request.
func (x *exchange) ran() bool { return x.recorder != nil }

// deliver sends the handler's answer, now that it is on record or will never be.
func (x *exchange) deliver(recorded bool) {
	if recorded {
		x.m.setRetention(x.recorder.shown)
	}
	x.recorder.deliver()
}

// cut ends the connection of an answer that has begun and is not the recorded one.
func (x *exchange) cut() { panic(http.ErrAbortHandler) }
