package journal_test

import (
	"context"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/journal"
	"github.com/effectonce/effectonce/store/memory"
)

// late is a store on which something happens right after a decision was looked for in vain.
type late struct {
	*memory.Store
	then func()
}

func (s *late) Decision(ctx context.Context, tenant, run, step string) (effectonce.Decision, error) {
	d, err := s.Store.Decision(ctx, tenant, run, step)
	if then := s.then; err != nil && then != nil {
		s.then = nil
		then()
	}
	return d, err
}

// S10.1: who decides while somebody else decides and begins gets the other's decision.
func TestADecisionIsSeenThatCameWithItsCall(t *testing.T) {
	t.Parallel()
	store := &late{Store: memory.Open(memory.Options{})}
	guard := effectonce.New(store, effectonce.Options{})
	run := journal.New(store, guard).Run("", "run-1")
	decision := effectonce.Decision{Step: "pay", Tool: "bank.pay", IntentID: "pay:1", Arguments: []byte(`{"amount":480}`)}
	store.then = func() {
		if _, err := run.Record(t.Context(), decision); err != nil {
			t.Error(err)
		}
		in := effectonce.Intent{Tool: "bank.pay", ID: "pay:1", Run: "run-1", Step: "pay", Arguments: []byte(`{"amount":480}`)}
		if _, err := guard.Claim(t.Context(), in); err != nil {
			t.Error(err)
		}
	}
	mine := decision
	mine.Arguments = []byte(`{"amount":450}`)
	e, err := run.Record(t.Context(), mine)
	if err != nil || !e.Decided || e.First || string(e.Decision.Arguments) != `{"amount":480}` || e.Operation.Operation.State != effectonce.StateInProgress {
		t.Errorf("%+v, %v", e, err)
	}
}
