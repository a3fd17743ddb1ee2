package api

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// gaugesOf reads the gauges of operations from a scrape, by name.
func gaugesOf(f *fixture) map[string]string {
	f.t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(f.send("GET", "/metrics", "").raw) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "effectonce_operations_") {
			found[strings.TrimPrefix(name, "effectonce_operations_")] = value
		}
	}
	return found
}

func TestGaugesCountWhatWaitsForSomebody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	same := func(when string, want map[string]string) {
		t.Helper()
		got := gaugesOf(f)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s is %q, want %q", when, name, got[name], value)
			}
		}
		if len(got) != 6 {
			t.Errorf("%s: the gauges are %v", when, got)
		}
	}
	same("at first", map[string]string{"alarmed": "0", "held": "0", "in_review": "0", "pending": "0", "unknown": "0", "read": "1"})

	review(f) // one operation in review
	f.send("POST", "/v1/operations", `{"tool":"shop.held","arguments":{"order_id":"o7","amount":1}}`).want(t, 202, "outcome=awaiting_approval")
	f.send("POST", "/v1/operations?execute=false", `{"tool":"shop.refund","arguments":{"order_id":"o8","amount":1}}`).want(t, 202, "outcome=pending")
	c := f.send("POST", "/v1/claims", `{"tool":"a.tool","intent_id":"i:1","arguments":{}}`).want(t, 201)
	f.send("POST", "/v1/claims/"+c.key()+"/unknown", `{"token":1,"error":{"code":"timeout"}}`).want(t, 202, "outcome=unknown")
	same("one of each", map[string]string{"alarmed": "0", "held": "1", "in_review": "1", "pending": "2", "unknown": "1", "read": "1"})

	// A look-up that finds two raises the alarm and stops for a person.
	f.later(time.Hour)
	c = f.send("POST", "/v1/claims", `{"tool":"a.tool","intent_id":"i:1","arguments":{}}`).want(t, 201, "do=look_up")
	f.send("POST", "/v1/claims/"+c.key()+"/looked_up", fmt.Sprintf(`{"token":%d,"found":"many"}`, c.token())).want(t, 200, "do=review")
	same("two effects", map[string]string{"alarmed": "1", "in_review": "2", "unknown": "0", "read": "1"})
}

func TestGaugesStopAtTheirBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for i := range gaugeMax + gaugePage {
		f.send("POST", "/v1/operations?execute=false", fmt.Sprintf(`{"tool":"shop.refund","arguments":{"order_id":"o%d","amount":1}}`, i)).want(t, 202)
	}
	if got := gaugesOf(f); got["pending"] != fmt.Sprint(gaugeMax) || got["held"] != "0" {
		t.Errorf("the gauges are %v", got)
	}
}

// unlisted is a store whose lists fail while they are told to.
type unlisted struct {
	effectonce.Store
	broken atomic.Bool
}

func (s *unlisted) List(ctx context.Context, f effectonce.Filter) (effectonce.Page, error) {
	if s.broken.Load() {
		return effectonce.Page{}, &effectonce.Error{Code: effectonce.CodeStoreUnavailable}
	}
	return s.Store.List(ctx, f)
}

func TestGaugesOfAStoreThatDoesNotAnswerAreNotZero(t *testing.T) {
	t.Parallel()
	s := &unlisted{}
	f := newFixture(t, func(inner effectonce.Store) effectonce.Store {
		s.Store = inner
		return s
	})
	s.broken.Store(true)
	if got := gaugesOf(f); len(got) != 1 || got["read"] != "0" {
		t.Errorf("the gauges are %v", got)
	}
	s.broken.Store(false)
	if got := gaugesOf(f); got["in_review"] != "0" || got["read"] != "1" {
		t.Errorf("the gauges are %v", got)
	}
}
