package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
	"github.com/effectonce/effectonce/worker"
)

// S13.1, S13.2, S16.10: results go in bounded pieces, then identities that have ended; nothing executes because something was purged.
func TestPurges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const operations = 250
		var effects atomic.Int32
		provider := effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
			effects.Add(1)
			return "done", nil
		})
		store := memory.Open(memory.Options{})
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		guard := effectonce.New(store, effectonce.Options{Logger: log})
		end := time.Now().Add(48 * time.Hour)
		do := func(i int) error {
			_, err := guard.Do(t.Context(), effectonce.Intent{
				Tool: "order", ID: fmt.Sprintf("order:%d", i), ForgetAt: end, Terms: effectonce.Terms{Results: time.Hour},
			}, provider)
			return err
		}
		all := func(want error) {
			t.Helper()
			for i := range operations {
				if err := do(i); !errors.Is(err, want) || want == nil && err != nil {
					t.Fatalf("order %d: %v, want %v", i, err, want)
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- worker.New(guard, store, worker.Options{Logger: log}).Run(ctx) }()

		all(nil)
		time.Sleep(30 * time.Minute)
		all(nil)
		time.Sleep(40 * time.Minute)
		all(effectonce.ErrExpired)
		for _, op := range store.Operations() {
			if op.PurgedAt.IsZero() || len(op.Arguments) > 0 || len(op.Result) > 0 {
				t.Fatalf("not purged: %+v", op)
			}
		}
		time.Sleep(48 * time.Hour)
		if left := store.Operations(); len(left) > 0 {
			t.Errorf("%d operations are not forgotten", len(left))
		}
		all(effectonce.ErrExpired)
		if n := effects.Load(); n != operations {
			t.Errorf("%d effects, want %d", n, operations)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
