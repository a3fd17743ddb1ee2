package effectonce_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// S7.9: when unknown outcomes of a provider jump, new calls to it pause; what is on record is still answered; after the pause one call
// decides, and then what was held back runs.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changes []effectonce.Circuit
		breaker := effectonce.NewBreaker(effectonce.BreakerOptions{
			Unknown: 3, Of: 4, Pause: time.Minute, PauseMax: 3 * time.Minute,
			Changed: func(c effectonce.Circuit) { changes = append(changes, c) },
		})
		down, calls := true, 0
		provider := effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
			calls++
			if down {
				return "", errors.New("502")
			}
			return "done", nil
		})
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{Breaker: breaker, Logger: log})
		do := func(i int) (effectonce.Outcome, error) {
			return guard.Do(t.Context(), effectonce.Intent{
				Tool: "order", ID: fmt.Sprintf("order:%d", i), Terms: effectonce.Terms{Managed: true},
			}, provider)
		}
		for i := range 3 {
			if _, err := do(i); !errors.Is(err, effectonce.ErrUnknownOutcome) {
				t.Fatal(err)
			}
		}
		o, err := do(3)
		if !errors.Is(err, effectonce.ErrPending) || calls != 3 || o.RetryAfter == 0 || o.Operation.Reason == "" {
			t.Fatalf("not held back: %v, %d calls, %+v", err, calls, o)
		}
		if _, err := do(0); !errors.Is(err, effectonce.ErrUnknownOutcome) {
			t.Errorf("what is on record is not answered: %v", err)
		}
		if got := breaker.Circuits(); len(got) != 1 || !got[0].Open || got[0].Name != "order" || got[0].Left != time.Minute {
			t.Errorf("%+v", got)
		}

		// Still down after the pause: one call, and the pause is twice as long.
		time.Sleep(time.Minute)
		if _, err := do(3); !errors.Is(err, effectonce.ErrUnknownOutcome) || calls != 4 {
			t.Fatalf("%v after %d calls", err, calls)
		}
		if _, err := do(4); !errors.Is(err, effectonce.ErrPending) || calls != 4 {
			t.Fatalf("%v after %d calls", err, calls)
		}
		if got := breaker.Circuits()[0]; got.Left != 2*time.Minute {
			t.Errorf("the second pause has %s left", got.Left)
		}

		// Up again: the call after the pause closes it, and what was held back is executed.
		down = false
		time.Sleep(2 * time.Minute)
		for i := range 2 {
			if _, err := do(4 + i); err != nil {
				t.Errorf("order %d: %v", 4+i, err)
			}
		}
		if got := breaker.Circuits()[0]; got.Open || len(changes) != 3 {
			t.Errorf("%+v after %d changes", got, len(changes))
		}
	})
}

// S7.9: a tool whose callers have the effect themselves is held back as well; a call that nobody reports does not keep it closed for ever.
func TestBreakerForClaims(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		breaker := effectonce.NewBreaker(effectonce.BreakerOptions{Unknown: 1, Of: 1, Pause: time.Minute})
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{Breaker: breaker, Logger: log})
		claim := func(id string) effectonce.Claim {
			t.Helper()
			c, err := guard.Claim(t.Context(), effectonce.Intent{Tool: "order", ID: id})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first := claim("order:1")
		if _, err := guard.Settle(t.Context(), first.Operation.Key, first.Token, effectonce.End{Verdict: effectonce.VerdictUnknown}); err != nil {
			t.Fatal(err)
		}
		if c := claim("order:2"); c.Do != effectonce.TaskWait || c.RetryAfter == 0 {
			t.Fatalf("not held back: %+v", c)
		}
		time.Sleep(time.Minute)
		if c := claim("order:2"); c.Do != effectonce.TaskExecute {
			t.Fatalf("held back after the pause: %+v", c)
		}
		if c := claim("order:3"); c.Do != effectonce.TaskWait {
			t.Fatalf("a second call at the same time: %+v", c)
		}
		// Whoever claimed order:2 is never heard of again.
		time.Sleep(time.Minute)
		if c := claim("order:3"); c.Do != effectonce.TaskExecute {
			t.Fatalf("held back for ever: %+v", c)
		}
	})
}

// S7.9: ends that say nothing about the provider do not count, and neither do old ones.
func TestBreakerCountsWhatIsUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		breaker := effectonce.NewBreaker(effectonce.BreakerOptions{Unknown: 2, Of: 3, Within: time.Minute})
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{Breaker: breaker, Logger: log})
		n := 0
		end := func(err error) {
			n++
			_, _ = guard.Do(t.Context(), effectonce.Intent{Tool: "order", ID: fmt.Sprintf("order:%d", n)},
				effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return "", err }))
		}
		unknown := errors.New("reset")
		for _, err := range []error{unknown, effectonce.NotSent(unknown), effectonce.Throttled(unknown, 0), effectonce.Rejected(unknown, false), nil, nil, unknown} {
			end(err)
		}
		time.Sleep(2 * time.Minute)
		end(unknown)
		if got := breaker.Circuits()[0]; got.Open || got.Unknown != 1 {
			t.Errorf("%+v", got)
		}
		end(unknown)
		if got := breaker.Circuits()[0]; !got.Open {
			t.Errorf("%+v", got)
		}
	})
}
