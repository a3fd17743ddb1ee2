package journal

import (
	"context"
	"slices"

	"github.com/effectonce/effectonce"
)

// Story is a run as it can be shown (S10.3).
type Story struct {
	Tenant string
	Run    string
	// Finished says that a step was recorded as the last one.
	Finished bool
	// Entries are the decided steps in the order of their decisions, then operations of the run that no decision of it names, in the
	// order of their recording.
	Entries []Entry
}

// Known reports whether there is anything to show.
func (s Story) Known() bool { return len(s.Entries) > 0 }

// Show returns the run: each step, its decision, its operation, its state (S10.3). Of an unknown run there are no entries.
func (r *Run) Show(ctx context.Context) (Story, error) {
	s := Story{Tenant: r.tenant, Run: r.name}
	// Operations first: one that appears after them belongs to a decision that is read after it.
	ops, err := r.Operations(ctx)
	if err != nil {
		return s, err
	}
	h, err := r.History(ctx)
	if err != nil {
		return s, err
	}
	s.Finished = h.last != ""
	told := make(map[effectonce.Key]bool)
	for _, d := range h.decisions {
		e, err := r.entry(ctx, d, false, h.Undone())
		if err != nil {
			return s, err
		}
		told[e.Operation.Operation.Key] = true
		s.Entries = append(s.Entries, e)
	}
	for _, op := range ops {
		if told[op.Key] {
			continue
		}
		e := Entry{Run: r.name, Step: op.Step, Operation: effectonce.OutcomeOf(op, op.State.Final())}
		s.Entries = append(s.Entries, e.judge(false))
	}
	return s, nil
}

// Operations returns the operations that the run was the first to record, oldest first. It is for people: stores have no index for it,
// and read through what they hold.
func (r *Run) Operations(ctx context.Context) ([]effectonce.Operation, error) {
	var all []effectonce.Operation
	f := effectonce.Filter{Tenant: r.tenant, Run: r.name, Limit: effectonce.ListLimitMax}
	for {
		page, err := r.journal.store.List(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, listed := range page.Operations {
			// The guard knows whether the caller may see it (S5.12).
			o, err := r.journal.guard.Wait(ctx, listed.Key, 0)
			if err != nil {
				return nil, err
			}
			all = append(all, o.Operation)
		}
		if page.Next == "" {
			break
		}
		f.After = page.Next
	}
	slices.Reverse(all)
	return all, nil
}
