package effectonce_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

func preview(t *testing.T, business string) effectonce.Operation {
	t.Helper()
	op, err := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{}).Preview(t.Context(),
		effectonce.Intent{Tool: "t", ID: "i", Business: json.RawMessage(business)})
	if err != nil {
		t.Fatal(err)
	}
	return op
}

// bank is a provider that counts effects and can be told to fail after one.
type bank struct {
	mu      sync.Mutex
	refunds map[string]int // by stamp
	keys    map[string]bool
	keyed   bool
	calls   int
	seen    []string
	// ends are what the calls answer, in order; after the last all succeed.
	ends []effectonce.Verdict
	hang time.Duration
}

type refund struct {
	ID string `json:"id"`
}

func (r refund) EffectReference() string { return r.ID }

func newBank(keyed bool, ends ...effectonce.Verdict) *bank {
	return &bank{refunds: make(map[string]int), keys: make(map[string]bool), keyed: keyed, ends: ends}
}

func (b *bank) provider() effectonce.Function {
	return effectonce.Func(func(ctx context.Context, c effectonce.Call) (refund, error) {
		b.mu.Lock()
		b.calls++
		b.seen = append(b.seen, string(c.Request))
		end := effectonce.VerdictSucceeded
		if len(b.ends) > 0 {
			end, b.ends = b.ends[0], b.ends[1:]
		}
		if end == effectonce.VerdictSucceeded || end == effectonce.VerdictUnknown {
			if !b.keyed || !b.keys[c.DownstreamKey] {
				b.refunds[c.Stamp]++
				b.keys[c.DownstreamKey] = true
			}
		}
		hang := b.hang
		b.mu.Unlock()
		if hang > 0 {
			select {
			case <-time.After(hang):
			case <-ctx.Done():
				return refund{}, ctx.Err()
			}
		}
		switch end {
		case effectonce.VerdictRejected:
			return refund{}, effectonce.Rejected(errors.New("card declined"), false)
		case effectonce.VerdictNotSent:
			return refund{}, effectonce.NotSent(errors.New("connection refused"))
		case effectonce.VerdictThrottled:
			return refund{}, effectonce.Throttled(errors.New("slow down"), 0)
		case effectonce.VerdictInFlight:
			return refund{}, effectonce.InFlight(errors.New("in flight"), time.Second)
		case effectonce.VerdictUnknown:
			return refund{}, errors.New("connection reset")
		}
		return refund{ID: "re_" + c.Stamp[:6]}, nil
	}).WithLookUp(func(_ context.Context, c effectonce.Call) (any, bool, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return refund{ID: "re_" + c.Stamp[:6]}, b.refunds[c.Stamp] > 0, nil
	})
}

func (b *bank) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, k := range b.refunds {
		n += k
	}
	return n
}

var ticket = effectonce.Intent{
	Tool: "refund", ID: "refund:order-8812:ticket-5521", Actor: "agent",
	Business: json.RawMessage(`{"order_id":"8812","amount":480,"currency":"EUR"}`),
}

func keyedTicket() effectonce.Intent {
	in := ticket
	in.Terms = effectonce.Terms{Keyed: true, Retention: 24 * time.Hour}
	return in
}

func newGuard(t *testing.T) (*effectonce.Guard, *memory.Store) {
	t.Helper()
	store := memory.Open(memory.Options{})
	t.Cleanup(func() { store.Close() })
	return effectonce.New(store, effectonce.Options{Owner: "w1"}), store
}

// S3.4, S3.5: the same intent again is answered from the record; another intent with the same body is another operation.
func TestDoTakesEffectOnce(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	b := newBank(false)
	first, err := g.Do(t.Context(), ticket, b.provider())
	if err != nil || first.Replayed || first.Next != effectonce.AdviceUseResult {
		t.Fatal(first, err)
	}
	again, err := g.Do(t.Context(), ticket, b.provider())
	if err != nil || !again.Replayed || again.Operation.Reference != first.Operation.Reference || b.count() != 1 {
		t.Fatal(again, err, b.count())
	}
	other := ticket
	other.ID = "refund:order-8812:ticket-9"
	if _, err := g.Do(t.Context(), other, b.provider()); err != nil || b.count() != 2 {
		t.Fatal(err, b.count())
	}
}

// S4.5, S16.8: other arguments under the same intent are refused by name, and nothing runs.
func TestOtherArgumentsAreRefused(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	b := newBank(false)
	if _, err := g.Do(t.Context(), ticket, b.provider()); err != nil {
		t.Fatal(err)
	}
	changed := ticket
	changed.Business = json.RawMessage(`{"order_id":"8812","amount":450,"currency":"EUR","note":"x"}`)
	_, err := g.Do(t.Context(), changed, b.provider())
	var e *effectonce.Error
	if !errors.As(err, &e) || e.Code != effectonce.CodePayloadMismatch || !slices.Equal(e.Fields, []string{"amount", "note"}) || b.calls != 1 {
		t.Fatal(err, b.calls)
	}
	same := ticket
	same.Business = json.RawMessage(`{"amount":4.8e2, "currency":"EUR", "order_id":"8812"}`)
	if out, err := g.Do(t.Context(), same, b.provider()); err != nil || !out.Replayed {
		t.Fatal("S4.2: another spelling is the same request", err)
	}
}

// S16.6: many callers at once; one executes, all learn the outcome.
func TestManyCallersOneEffect(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		b := newBank(false)
		b.hang = time.Second
		var wg sync.WaitGroup
		var replayed atomic.Int32
		for range 50 {
			wg.Go(func() {
				out, err := g.Do(t.Context(), ticket, b.provider(), effectonce.WaitFor(20*time.Second))
				if err != nil {
					t.Error(err)
				}
				if out.Replayed {
					replayed.Add(1)
				}
			})
		}
		wg.Wait()
		if b.count() != 1 || replayed.Load() != 49 {
			t.Errorf("%d effects, %d replays", b.count(), replayed.Load())
		}
	})
}

// S5.5: the loser that does not wait gets a conflict with a pause, and executes nothing.
func TestLoserGetsConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		b := newBank(false)
		b.hang = time.Second
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := g.Do(t.Context(), ticket, b.provider()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		_, err := g.Do(t.Context(), ticket, b.provider())
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Code != effectonce.CodeConflict || e.RetryAfter <= 0 {
			t.Error(err)
		}
		wg.Wait()
	})
}

// S6, S7.3, S16.4: an ambiguous end is unknown, then reconciled to one effect, by key or by look-up.
func TestAmbiguousEndBecomesOneEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		keyed bool
		terms effectonce.Terms
		calls int
	}{
		{"keyed: the same key is sent again", true, effectonce.Terms{Keyed: true, Retention: 24 * time.Hour}, 2},
		{"look-up: found, nothing is sent again", false, effectonce.Terms{LookUp: true, Lag: time.Minute}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, _ := newGuard(t)
				b := newBank(c.keyed, effectonce.VerdictUnknown)
				in := ticket
				in.Terms = c.terms
				out, err := g.Do(t.Context(), in, b.provider())
				if !errors.Is(err, effectonce.ErrUnknownOutcome) || out.Next != effectonce.AdviceWait || out.RetryAfter <= 0 {
					t.Fatal(out.Outcome, err)
				}
				out, err = g.Do(t.Context(), in, b.provider(), effectonce.WaitFor(time.Minute))
				if err != nil || b.count() != 1 || b.calls != c.calls {
					t.Fatalf("%v, %d effects, %d calls", err, b.count(), b.calls)
				}
				if b.calls == 2 && b.seen[0] != b.seen[1] {
					t.Error("S3.10: the second attempt sent other bytes")
				}
			})
		})
	}
}

// S6.4: a refusal settles only what no earlier attempt can have settled.
func TestRefusalAfterAnAmbiguousAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		b := newBank(true, effectonce.VerdictRejected)
		if _, err := g.Do(t.Context(), keyedTicket(), b.provider()); !errors.Is(err, effectonce.ErrFailed) {
			t.Error("a definitive refusal of the only attempt is failed:", err)
		}
		b = newBank(true, effectonce.VerdictUnknown, effectonce.VerdictRejected)
		in := keyedTicket()
		in.ID = "other"
		out, err := g.Do(t.Context(), in, b.provider(), effectonce.WaitFor(time.Minute))
		if err != nil || b.count() != 1 || out.Operation.Attempt != 3 {
			t.Errorf("%v after %d attempts, %d effects", err, out.Operation.Attempt, b.count())
		}
	})
}

// S7.2, S16.9: outside the window nothing is sent again.
func TestNoResendAfterTheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		b := newBank(true, effectonce.VerdictUnknown)
		if _, err := g.Do(t.Context(), keyedTicket(), b.provider()); !errors.Is(err, effectonce.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		time.Sleep(24*time.Hour - time.Minute)
		_, err := g.Do(t.Context(), keyedTicket(), b.provider(), effectonce.WaitFor(time.Hour))
		if !errors.Is(err, effectonce.ErrInReview) || b.calls != 1 {
			t.Error(err, b.calls)
		}
	})
}

// S6.2, S7.7: what certainly was not sent is tried again, and fails visibly when the budget is spent.
func TestNotSentIsTriedAgainUntilTheBudgetIsSpent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		b := newBank(false, effectonce.VerdictNotSent, effectonce.VerdictThrottled)
		if out, err := g.Do(t.Context(), ticket, b.provider(), effectonce.WaitFor(time.Hour)); err != nil || out.Operation.Attempt != 3 {
			t.Error(out.Operation.Attempt, err)
		}
		b = newBank(false, slices.Repeat([]effectonce.Verdict{effectonce.VerdictNotSent}, 9)...)
		in := ticket
		in.ID = "other"
		out, err := g.Do(t.Context(), in, b.provider(), effectonce.WaitFor(time.Hour))
		if !errors.Is(err, effectonce.ErrFailed) || b.calls != 4 || out.Operation.Proof != effectonce.ProofNotSent {
			t.Error(b.calls, err)
		}
	})
}

// S16.17: an in-flight answer waits and spends no attempt.
func TestInFlightSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		b := newBank(true, append([]effectonce.Verdict{effectonce.VerdictUnknown}, slices.Repeat([]effectonce.Verdict{effectonce.VerdictInFlight}, 8)...)...)
		out, err := g.Do(t.Context(), keyedTicket(), b.provider(), effectonce.WaitFor(time.Hour))
		if err != nil || b.count() != 1 || out.Operation.Spent > 2 {
			t.Errorf("%v: %d effects, %d attempts spent", err, b.count(), out.Operation.Spent)
		}
	})
}

// S6.6, B22: the caller hangs up after the send; the end is recorded all the same.
func TestCallerHangsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, store := newGuard(t)
		b := newBank(false)
		b.hang = 5 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		out, err := g.Do(ctx, ticket, b.provider())
		if err != nil {
			t.Fatal(err)
		}
		op, _ := store.Load(t.Context(), out.Operation.Key)
		if op.State != effectonce.StateSucceeded || b.count() != 1 {
			t.Error(op.State, b.count())
		}
	})
	g, _ := newGuard(t)
	b := newBank(false)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Do(gone, ticket, b.provider()); !errors.Is(err, effectonce.ErrPending) || b.calls != 0 {
		t.Error("a caller that is gone before the send sends nothing:", err, b.calls)
	}
}

// S5.4: a heartbeat keeps a slow owner's lease; S16.18: without one its success arrives as late evidence.
func TestSlowOwner(t *testing.T) {
	t.Parallel()
	for _, beats := range []bool{true, false} {
		t.Run(fmt.Sprintf("heartbeat %v", beats), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := memory.Open(memory.Options{})
				slow := effectonce.New(store, effectonce.Options{Owner: "slow"})
				other := effectonce.New(store, effectonce.Options{Owner: "other"})
				b := newBank(false)
				b.hang = 4 * time.Minute
				in := ticket
				in.Terms = effectonce.Terms{CallTimeout: 5 * time.Minute, LookUp: true, Lag: time.Hour}
				if beats {
					in.Terms.Heartbeat = 30 * time.Second
				} else {
					in.Terms.CallTimeout = 10 * time.Minute
				}
				var wg sync.WaitGroup
				wg.Go(func() {
					if out, err := slow.Do(t.Context(), in, b.provider()); err != nil {
						t.Error(out.Outcome, err)
					}
				})
				time.Sleep(2 * time.Minute)
				if beats {
					if _, err := other.Do(t.Context(), in, b.provider()); !errors.Is(err, effectonce.ErrConflict) {
						t.Error("the lease was not kept:", err)
					}
				}
				wg.Wait()
				if out, err := other.Do(t.Context(), in, b.provider()); err != nil || b.calls != 1 {
					t.Error(out.Outcome, err, b.calls)
				}
			})
		})
	}
}

// S6.8: a result that cannot be kept does not undo the effect.
func TestResultThatCannotBeKept(t *testing.T) {
	t.Parallel()
	g, _ := newGuard(t)
	big := effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
		return strings.Repeat("x", effectonce.ResultBytesMax), nil
	})
	out, err := g.Do(t.Context(), ticket, big)
	if err != nil || out.Operation.ResultOmitted != "too_large" || out.Operation.ResultDigest.IsZero() || out.Operation.Result != nil {
		t.Error(out.Operation.ResultOmitted, err)
	}
	in := ticket
	in.ID = "2"
	odd := effectonce.Func(func(context.Context, effectonce.Call) (any, error) { return make(chan int), nil })
	if out, err := g.Do(t.Context(), in, odd); err != nil || out.Operation.ResultOmitted != "not_encodable" {
		t.Error(out.Operation.ResultOmitted, err)
	}
	in.ID = "3"
	panics := effectonce.Func(func(context.Context, effectonce.Call) (any, error) { panic("boom") })
	if _, err := g.Do(t.Context(), in, panics); !errors.Is(err, effectonce.ErrUnknownOutcome) {
		t.Error("a panic may come after the effect:", err)
	}
}

// S11.2: a read-only tool is called and nothing is stored.
func TestReadOnlyIsNotStored(t *testing.T) {
	t.Parallel()
	g, store := newGuard(t)
	in := ticket
	in.Terms.Class = effectonce.ClassReadOnly
	b := newBank(false)
	for range 2 {
		in.Terms.KeyForm = effectonce.KeyForm{}
		if _, err := g.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (int, error) { b.calls++; return 1, nil })); err != nil {
			t.Fatal(err)
		}
	}
	page, _ := store.List(t.Context(), effectonce.Filter{})
	if b.calls != 2 || len(page.Operations) != 0 {
		t.Error(b.calls, len(page.Operations))
	}
}

// Bad input leaves nothing behind and names the field.
func TestBadIntents(t *testing.T) {
	t.Parallel()
	g, store := newGuard(t)
	for name, c := range map[string]struct {
		change func(*effectonce.Intent)
		field  string
	}{
		"no tool":         {func(in *effectonce.Intent) { in.Tool = "" }, "tool"},
		"no id":           {func(in *effectonce.Intent) { in.ID = "" }, "intent_id"},
		"not an object":   {func(in *effectonce.Intent) { in.Business = json.RawMessage(`[1]`) }, "arguments"},
		"duplicate names": {func(in *effectonce.Intent) { in.Business = json.RawMessage(`{"a":1,"a":2}`) }, "arguments"},
		"unsafe integer":  {func(in *effectonce.Intent) { in.Business = json.RawMessage(`{"a":9007199254740993}`) }, "arguments"},
		"invisible":       {func(in *effectonce.Intent) { in.ID = "refund:a1\u200b" }, "intent_id"},
		"trailing space":  {func(in *effectonce.Intent) { in.Tool = "refund " }, "tool"},
		"blank":           {func(in *effectonce.Intent) { in.ID = " " }, "intent_id"},
		"bidi":            {func(in *effectonce.Intent) { in.Run = "a\u202eb" }, "run"},
		"control":         {func(in *effectonce.Intent) { in.ID = "a\x00b" }, "intent_id"},
		"long":            {func(in *effectonce.Intent) { in.Tenant = strings.Repeat("x", 600) }, "tenant"},
		"run missing":     {func(in *effectonce.Intent) { in.Scope = effectonce.ScopeRun }, "run"},
		"bad scope":       {func(in *effectonce.Intent) { in.Scope = "galaxy" }, "scope"},
		"bad terms":       {func(in *effectonce.Intent) { in.Terms.Grace = -1 }, "terms.grace"},
		"short window":    {func(in *effectonce.Intent) { in.Terms.Keyed, in.Terms.Retention = true, time.Minute }, "terms.retention"},
		"no reason":       {func(in *effectonce.Intent) { in.Supersedes = &effectonce.Supersede{} }, "supersedes.reason"},
	} {
		in := ticket
		c.change(&in)
		b := newBank(false)
		_, err := g.Do(t.Context(), in, b.provider())
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Field != c.field || b.calls != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if page, _ := store.List(t.Context(), effectonce.Filter{}); len(page.Operations) != 0 {
		t.Error("bad input left something behind")
	}
}

// A drained guard takes nothing new and waits for what runs.
func TestDrain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, _ := newGuard(t)
		b := newBank(false)
		b.hang = time.Second
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := g.Do(t.Context(), ticket, b.provider()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if err := g.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := g.Do(t.Context(), ticket, b.provider()); !errors.Is(err, effectonce.ErrShuttingDown) {
			t.Error(err)
		}
		wg.Wait()
	})
}

// S6.4, S7.7: a provider that says it executed nothing, until the budget is spent, is looked at before the operation fails: something
// on the way may have delivered a request twice.
func TestLooksBeforeGivingUp(t *testing.T) {
	t.Parallel()
	for _, doubled := range []bool{false, true} {
		t.Run(fmt.Sprintf("delivered twice %v", doubled), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g, _ := newGuard(t)
				b := newBank(true, slices.Repeat([]effectonce.Verdict{effectonce.VerdictThrottled}, 9)...)
				in := keyedTicket()
				in.Terms.LookUp, in.Terms.Lag = true, time.Minute
				if doubled {
					op, err := g.Preview(t.Context(), in)
					if err != nil {
						t.Fatal(err)
					}
					b.refunds[op.Stamp] = 1
				}
				out, err := g.Do(t.Context(), in, b.provider(), effectonce.WaitFor(time.Hour))
				if doubled && (err != nil || out.Operation.Proof != effectonce.ProofLookUp || b.count() != 1) {
					t.Error(out.Outcome, err)
				}
				if !doubled && !errors.Is(err, effectonce.ErrFailed) {
					t.Error(out.Outcome, err)
				}
			})
		})
	}
}
