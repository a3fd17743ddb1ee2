package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres"
)

// A booking in the program's own table, its record and its result commit together. The seat is given away once, and "sold out" is a
// decision that stays. S8.1, S8.2
func ExampleStore_PgxTx() {
	ctx := context.Background()
	url := os.Getenv("DATABASE_URL")
	store, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	guard := effectonce.New(store, effectonce.Options{})
	own, err := pgx.Connect(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = own.Close(ctx) }()

	sell := func(order string) (effectonce.Outcome, error) {
		tx, err := own.Begin(ctx)
		if err != nil {
			return effectonce.Outcome{}, err
		}
		defer func() { _ = tx.Rollback(ctx) }() // after Commit it does nothing
		x := store.PgxTx(tx)
		outcome, err := guard.DoTx(ctx, x, effectonce.Intent{
			Tool:      "seats.sell",
			ID:        "sell:" + order,
			Arguments: effectonce.Arguments(map[string]string{"order": order}),
		}, func(ctx context.Context) (any, error) {
			var seat int
			err := tx.QueryRow(ctx, `UPDATE seats SET buyer = $1 WHERE id = (SELECT id FROM seats WHERE buyer IS NULL LIMIT 1 FOR UPDATE SKIP LOCKED)
				RETURNING id`, order).Scan(&seat)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil, effectonce.Rejected(errors.New("sold out"), true)
			}
			if err != nil {
				return nil, err
			}
			err = x.Append(ctx, effectonce.Message{Subject: "seats", Type: "seats.sold", Data: fmt.Appendf(nil, `{"seat":%d}`, seat)})
			return map[string]int{"seat": seat}, err
		})
		if err != nil && !errors.Is(err, effectonce.ErrFailed) {
			return outcome, err
		}
		// Also what was refused is kept.
		if err := tx.Commit(ctx); err != nil {
			return effectonce.Outcome{}, err
		}
		return outcome, err
	}
	outcome, err := sell("8812")
	fmt.Println(outcome.Outcome, err)
}
