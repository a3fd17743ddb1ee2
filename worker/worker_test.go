package worker_test

import (
	"context"
	"encoding/json"
	"errors"
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

// S7.5: what is pending, unknown or abandoned by a dead owner is worked without its caller, each once.
func TestWorksWhatIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		lost := errors.New("connection reset")
		provider := effectonce.Func(func(_ context.Context, c effectonce.Call) (string, error) {
			if calls.Add(1); c.Attempt == 1 && c.Tool == "loses.its.answer" {
				return "", lost
			}
			return "done", nil
		})
		store := memory.Open(memory.Options{})
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		guard := effectonce.New(store, effectonce.Options{Logger: log, Providers: func(effectonce.Operation) effectonce.Provider { return provider }})
		intent := func(tool string) effectonce.Intent {
			return effectonce.Intent{
				Tool: tool, ID: "i", Business: json.RawMessage(`{}`),
				Terms: effectonce.Terms{Managed: true, Keyed: true, Retention: 24 * time.Hour},
			}
		}
		if _, err := guard.Record(t.Context(), intent("is.pending")); err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Do(t.Context(), intent("loses.its.answer"), provider); !errors.Is(err, effectonce.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		approval := intent("is.held")
		approval.Terms.Approval = true
		if _, err := guard.Record(t.Context(), approval); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- worker.New(guard, store, worker.Options{Logger: log}).Run(ctx) }()
		time.Sleep(time.Minute)
		states := map[string]effectonce.State{}
		page, err := store.List(t.Context(), effectonce.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range page.Operations {
			states[op.Tool] = op.State
		}
		if states["is.pending"] != effectonce.StateSucceeded || states["loses.its.answer"] != effectonce.StateSucceeded || states["is.held"] != effectonce.StatePending || calls.Load() != 3 {
			t.Errorf("%v after %d calls", states, calls.Load())
		}
		time.Sleep(25 * time.Hour)
		if page, _ := store.List(t.Context(), effectonce.Filter{Tool: "is.held"}); page.Operations[0].State != effectonce.StateFailed {
			t.Error("a held operation that nobody approved has not expired:", page.Operations[0].State)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A shutdown lets a running call end and be recorded (S6.6), and a store that fails is asked again.
func TestShutdownWaitsForRunningCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		provider := effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
			time.Sleep(5 * time.Second)
			return "done", nil
		})
		store := memory.Open(memory.Options{})
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		guard := effectonce.New(store, effectonce.Options{Logger: log, Providers: func(effectonce.Operation) effectonce.Provider { return provider }})
		out, err := guard.Record(t.Context(), effectonce.Intent{Tool: "slow", ID: "i", Terms: effectonce.Terms{Managed: true}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- worker.New(guard, store, worker.Options{Logger: log}).Run(ctx) }()
		time.Sleep(time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if op, err := store.Load(t.Context(), out.Operation.Key); err != nil || op.State != effectonce.StateSucceeded {
			t.Error(op.State, err)
		}
		store.Close()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := worker.New(guard, store, worker.Options{Logger: log}).Run(ctx); err != nil {
			t.Error("a store that cannot be asked ends no worker:", err)
		}
	})
}
