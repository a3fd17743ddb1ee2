package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/sqlite"
)

// A booking in the program's own table, its record and its result commit together. The seat is given away once, and "sold out" is a
// decision that stays. S8.1, S8.2
func ExampleStore_SQLTx() {
	if err := sellSeats(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// succeeded {"seat":1} replayed: false
	// succeeded {"seat":1} replayed: true
	// failed: sold out
	// events: seats.sold 1
}

func sellSeats() error {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "effectonce")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "app.db")

	store, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	guard := effectonce.New(store, effectonce.Options{})

	// The same file, opened by the program. A transaction takes the write lock when it begins, and waits for it.
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE TABLE seats (id INTEGER PRIMARY KEY, buyer TEXT); INSERT INTO seats (id) VALUES (1)"); err != nil {
		return err
	}

	sell := func(order string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after Commit it does nothing

		x := store.SQLTx(tx)
		outcome, err := guard.DoTx(ctx, x, effectonce.Intent{
			Tool:      "seats.sell",
			ID:        "sell:" + order,
			Arguments: effectonce.Arguments(map[string]string{"order": order}),
		}, func(ctx context.Context) (any, error) {
			var seat int
			err := tx.QueryRowContext(ctx, "UPDATE seats SET buyer = ? WHERE id = (SELECT min(id) FROM seats WHERE buyer IS NULL) RETURNING id", order).Scan(&seat)
			if errors.Is(err, sql.ErrNoRows) {
				return nil, effectonce.Rejected(errors.New("sold out"), true)
			}
			if err != nil {
				return nil, err
			}
			err = x.Append(ctx, effectonce.Message{Subject: "seats", Type: "seats.sold", Data: fmt.Appendf(nil, `{"seat":%d}`, seat)})
			return map[string]int{"seat": seat}, err
		})
		switch {
		case err == nil:
			fmt.Printf("%s %s replayed: %v\n", outcome.Outcome, outcome.Operation.Result, outcome.Replayed)
		case errors.Is(err, effectonce.ErrFailed):
			fmt.Printf("%s: %s\n", outcome.Outcome, outcome.Operation.Reason)
		default:
			return err
		}
		return tx.Commit() // also what was refused is kept
	}
	for _, order := range []string{"8812", "8812", "8813"} {
		if err := sell(order); err != nil {
			return err
		}
	}
	queue, messages, err := store.TakeQueue(ctx, 0, 10)
	if err != nil {
		return err
	}
	fmt.Println("events:", messages[0].Type, queue.Waiting)
	return nil
}
