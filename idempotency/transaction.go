package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/effectonce/effectonce"
)

// Transaction is a transaction of the caller's on the store's database, begun for one request.
type Transaction struct {
	// Tx is the store's view of it: store.SQLTx(tx) or store.PgxTx(tx).
	Tx effectonce.Tx
	// Value is what the handler gets from [Tx]: a *sql.Tx or pgx.Tx.
	Value any
	// Commit and Rollback end it. Rollback is also called after a Commit that failed.
	Commit   func(ctx context.Context) error
	Rollback func(ctx context.Context) error
}

// errUndone undoes what a handler did in its transaction: it panicked, answered with 5xx, or said [NotSent].
var errUndone = errors.New("the handler's transaction is rolled back")

// inTurn answers with what is on record, or lets the handler run in a transaction. What is on record is read without one.
func (x *exchange) inTurn() {
	give, err := x.m.turns.take(x.r.Context(), x.id)
	if err != nil {
		x.tell(effectonce.Outcome{}, &effectonce.Error{Code: effectonce.CodeConflict, Key: x.id, Cause: err})
		return
	}
	// A slow client does not keep others from their turn.
	x.settled = sync.OnceFunc(give)
	defer x.settled()
	outcome, found, err := x.known()
	if err == nil && found && outcome.Operation.State.Final() {
		again, err := x.m.guard.Preview(x.r.Context(), x.intent)
		if err == nil && again.Fingerprint == outcome.Operation.Fingerprint {
			x.settled()
			x.tell(outcome, outcome.Err())
			return
		}
		// A transaction says what differs.
	}
	if err != nil {
		x.settled()
		x.tell(effectonce.Outcome{}, err)
		return
	}
	x.transact()
}

// transact runs the handler in a transaction with its record (S8.1, S12.1).
func (x *exchange) transact() {
	terms := x.m.options.Terms
	// What has begun does not depend on the caller (S6.6), and neither does a driver that rolls back when its context is done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), terms.LeaseCap())
	defer cancel()
	t, err := x.m.options.Begin(ctx)
	if err != nil {
		x.tell(effectonce.Outcome{}, unavailable(err, effectonce.SentNo))
		return
	}
	open := true
	rollback := func() {
		if open {
			open = false
			if err := t.Rollback(context.WithoutCancel(ctx)); err != nil {
				x.m.options.Logger.Debug("a transaction could not be rolled back; its end does it", "error", err)
			}
			x.settled()
		}
	}
	defer rollback()

	outcome, err := x.m.guard.DoTx(ctx, t.Tx, x.intent, func(ctx context.Context) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, terms.CallTimeout)
		defer cancel()
		h := &handling{tx: t.Value}
		answer, ok := x.handle(ctx, h)
		if !ok || h.notSent.Load() || answer.Status >= http.StatusInternalServerError {
			return nil, errUndone
		}
		return txAnswer(answer), nil
	})
	switch {
	case x.panicked != nil:
		rollback()
		panic(x.panicked)
	case x.ran() && errors.Is(err, errUndone):
		rollback()
		x.deliver(false)
		return
	case !x.ran() || err != nil:
		rollback()
		if x.ran() && x.recorder.streaming {
			x.cut()
		}
		x.tell(outcome, unavailable(err, effectonce.SentNo))
		return
	}
	if err := t.Commit(ctx); err != nil {
		rollback()
		if x.recorder.streaming {
			x.cut()
		}
		x.tell(effectonce.Outcome{}, unavailable(err, effectonce.SentUnknown))
		return
	}
	open = false
	x.settled()
	x.deliver(true)
}

// txAnswer is an answer as the result of a transaction.
type txAnswer stored

// MarshalJSON returns the answer in the form in which it is stored.
func (a txAnswer) MarshalJSON() ([]byte, error) { return json.RawMessage(stored(a).encode()), nil }

// EffectReference makes what was created the operation's reference.
func (a txAnswer) EffectReference() string { return stored(a).EffectReference() }

// unavailable makes an error of the caller's database one of the store: it is the same database.
func unavailable(err error, sent effectonce.Sent) error {
	var e *effectonce.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "the transaction failed", Sent: sent, Cause: err}
}
