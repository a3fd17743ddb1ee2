package events_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/store/sqlite"
)

// ledger is a consumer with a table of its own in the store's file.
type ledger struct {
	guard *effectonce.Guard
	store *sqlite.Store
	db    *sql.DB
}

func newLedger(t *testing.T) ledger {
	t.Helper()
	path := filepath.Join(t.TempDir(), "effectonce.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE paid (order_id TEXT)"); err != nil {
		t.Fatal(err)
	}
	return ledger{guard: effectonce.New(store, effectonce.Options{Logger: quiet}), store: store, db: db}
}

// receive consumes an event in one transaction: the record, a row, and a message that leaves. fail, if set, is why the consumer gives up.
func (l ledger) receive(ctx context.Context, e events.Event, fail error) (effectonce.Outcome, error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return effectonce.Outcome{}, err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	through := l.store.SQLTx(tx)
	o, err := events.ReceiveTx(ctx, l.guard, through, e, func(ctx context.Context) (any, error) {
		if _, err := tx.ExecContext(ctx, "INSERT INTO paid VALUES (?)", e.ID); err != nil {
			return nil, err
		}
		if err := through.Append(ctx, effectonce.Message{Subject: "orders." + e.ID, Type: "order.paid", Data: []byte(`{}`)}); err != nil {
			return nil, err
		}
		return map[string]string{"order": e.ID}, fail
	})
	if err != nil {
		return o, err
	}
	return o, tx.Commit()
}

func (l ledger) paid(t *testing.T) (rows, messages int) {
	t.Helper()
	if err := l.db.QueryRow("SELECT count(*) FROM paid").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	page, err := l.store.Queues(t.Context(), effectonce.QueueFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range page.Queues {
		messages += int(q.Waiting)
	}
	return rows, messages
}

// S9.1, S9.2, S16.7: of concurrent deliveries one changes the consumer's state, with its record and the event that it emits; one that
// fails leaves nothing and can come again.
func TestAnEventIsConsumedInOneTransaction(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	e := events.Event{Source: "shop", ID: "1", Type: "order.returned", Body: []byte(`{}`)}
	broken := errors.New("the consumer broke")
	if _, err := l.receive(t.Context(), e, broken); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if rows, messages := l.paid(t); rows != 0 || messages != 0 {
		t.Fatalf("a consumer that failed left %d rows and %d messages", rows, messages)
	}
	var replayed atomic.Int32
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			o, err := l.receive(context.WithoutCancel(t.Context()), e, nil)
			if err != nil {
				t.Error(err)
			}
			if o.Replayed {
				replayed.Add(1)
			}
		})
	}
	all.Wait()
	if rows, messages := l.paid(t); rows != 1 || messages != 1 || replayed.Load() != 9 {
		t.Errorf("%d rows, %d messages, %d repeats", rows, messages, replayed.Load())
	}
}

// S9.1: an event that came over HTTP is consumed in a transaction as well, by whoever is first.
func TestARecordedEventIsConsumedInATransaction(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	inbox := events.NewInbox(l.guard, l.store, []events.Source{unsigned("shop")}, events.Options{Logger: quiet})
	if _, err := inbox.Receive(t.Context(), "shop", nil, []byte(`{"id": "1", "type": "x"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.receive(t.Context(), events.Event{Source: "shop", ID: "1"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := inbox.Claim(t.Context(), "shop", "c", 0); ok || err != nil {
		t.Errorf("handed out as well: %v %v", ok, err)
	}
	if rows, _ := l.paid(t); rows != 1 {
		t.Errorf("%d rows", rows)
	}
}
