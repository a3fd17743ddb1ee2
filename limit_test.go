package effectonce_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// S8.3: periods start at whole multiples, by the store's clock.
func TestLimitPeriods(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 17, 4, 5, 0, time.UTC)
	for per, want := range map[time.Duration]time.Time{
		0:              {},
		time.Hour:      time.Date(2026, 11, 30, 17, 0, 0, 0, time.UTC),
		24 * time.Hour: time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC),
	} {
		if got := (effectonce.Limit{Per: per}).Period(at); !got.Equal(want) {
			t.Errorf("per %s: %s, want %s", per, got, want)
		}
	}
}

// S8.3: a total across distinct intents: reserved with the claim, given back on failure, kept while it is not known, spent on success.
func TestLimitAcrossIntents(t *testing.T) {
	t.Parallel()
	store := memory.Open(memory.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	refund := func(id string, amount int64, end error) error {
		_, err := guard.Do(t.Context(), effectonce.Intent{
			Tool: "refund", ID: id,
			Limits: []effectonce.Limit{{Name: "refunds:pi_1", Amount: amount, Max: 100}},
		}, effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return "done", end }))
		return err
	}
	for _, step := range []struct {
		id     string
		amount int64
		end    error
		want   error
	}{
		{"too much at once", 101, nil, effectonce.ErrLimitExceeded},
		{"spent", 40, nil, nil},
		{"not known", 40, errors.New("reset"), effectonce.ErrUnknownOutcome},
		{"refused, and given back", 20, effectonce.Rejected(errors.New("no"), true), effectonce.ErrFailed},
		{"too much besides", 21, nil, effectonce.ErrLimitExceeded},
		{"the rest", 20, nil, nil},
		{"the rest", 20, nil, nil},
		{"one more", 1, nil, effectonce.ErrLimitExceeded},
	} {
		err := refund(step.id, step.amount, step.end)
		if !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", step.id, err, step.want)
		}
		var e *effectonce.Error
		if errors.Is(err, effectonce.ErrLimitExceeded) && (!errors.As(err, &e) || e.Limit != "refunds:pi_1") {
			t.Errorf("%s: the limit is not named: %v", step.id, err)
		}
	}
	uses, err := store.Limits(t.Context(), effectonce.LimitFilter{})
	if err != nil || len(uses) != 1 || uses[0].Used != 100 || len(uses[0].Holders) != 3 {
		t.Errorf("%+v, %v", uses, err)
	}
}

// S8.3: however many race, the total holds.
func TestLimitUnderRace(t *testing.T) {
	t.Parallel()
	store := memory.Open(memory.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	var mu sync.Mutex
	effects := 0
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			_, err := guard.Do(t.Context(), effectonce.Intent{
				Tool: "order", ID: fmt.Sprintf("order:%d", i),
				Limits: []effectonce.Limit{{Name: "orders", Amount: 3, Max: 20, Per: 10 * 365 * 24 * time.Hour}},
			}, effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				effects++
				return "ordered", nil
			}))
			if err != nil && !errors.Is(err, effectonce.ErrLimitExceeded) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if effects != 6 {
		t.Errorf("%d orders of 3 under a limit of 20", effects)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	t.Parallel()
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	for field, limits := range map[string][]effectonce.Limit{
		"limits[0].name":   {{Amount: 1, Max: 1}},
		"limits[0].amount": {{Name: "n", Max: 1}},
		"limits[0].max":    {{Name: "n", Amount: 1, Max: -1}},
		"limits[0].per":    {{Name: "n", Amount: 1, Max: 1, Per: time.Millisecond}},
		"limits[1].name":   {{Name: "n", Amount: 1, Max: 1}, {Name: "n", Amount: 1, Max: 2}},
		"limits":           make([]effectonce.Limit, 9),
	} {
		_, err := guard.Record(t.Context(), effectonce.Intent{Tool: "x", ID: "i", Limits: limits})
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Code != effectonce.CodeInvalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
