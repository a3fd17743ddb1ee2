package main

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/config"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/provider"
)

// The findings of a sweep (S7.5a).
const (
	sweepUnstamped   = "unstamped"
	sweepNoOperation = "no_operation"
	sweepDuplicate   = "duplicate"
	sweepNotFailed   = "not_failed"
)

// sweepFound is one finding.
type sweepFound struct {
	Kind       string           `json:"kind"`
	References []string         `json:"references"`
	Stamp      string           `json:"stamp,omitempty"`
	Created    *time.Time       `json:"created,omitempty"`
	Key        string           `json:"key,omitempty"`
	Tool       string           `json:"tool,omitempty"`
	State      effectonce.State `json:"state,omitempty"`
}

// sweptResource is a resource of the period with the operation that it is of.
type sweptResource struct {
	contract.Swept
	of *effectonce.Operation
}

// swept are the resources of a period. It holds all of them, and of the operations only those that they are of.
type swept struct {
	order       []*sweptResource
	byReference map[string]*sweptResource
	byStamp     map[string][]*sweptResource
	// cuts are the lengths to which stamps were cut.
	cuts map[int]bool
}

func newSwept() *swept {
	return &swept{byReference: map[string]*sweptResource{}, byStamp: map[string][]*sweptResource{}, cuts: map[int]bool{}}
}

var looksLikeStamp = regexp.MustCompile(fmt.Sprintf(`^[0-9a-f]{%d,%d}$`, contract.StampLengthMin, contract.StampLength))

// add takes a resource; lists move while they are read, so one can come twice. What is no stamp where the stamp is belongs to somebody else.
func (s *swept) add(o *contract.Operation, one contract.Swept) error {
	if s.byReference[one.Reference] != nil {
		return nil
	}
	if len(s.order) == sweepResourcesMax {
		return fmt.Errorf("the period holds more than %d resources: look at a shorter one", sweepResourcesMax)
	}
	if !looksLikeStamp.MatchString(one.Stamp) {
		one.Stamp = ""
	}
	r := &sweptResource{Swept: one}
	s.order = append(s.order, r)
	s.byReference[one.Reference] = r
	if one.Stamp != "" {
		s.byStamp[one.Stamp] = append(s.byStamp[one.Stamp], r)
		s.cuts[len(o.Stamp.Cut(longStamp))] = true
	}
	return nil
}

var longStamp = fmt.Sprintf("%0*d", contract.StampLength, 0)

func (s *swept) count() int { return len(s.order) }

// compare reads the store's operations, newest first and a page at a time, until each resource has its own, or there are no more. ours says
// whether an operation is of the provider, where it is found by its reference.
func (s *swept) compare(ctx context.Context, store effectonce.Store, ours func(effectonce.Operation) bool) (compared int, err error) {
	open := len(s.order)
	filter := effectonce.Filter{Limit: effectonce.ListLimitMax}
	for open > 0 {
		page, err := store.List(ctx, filter)
		if err != nil {
			return compared, err
		}
		for _, op := range page.Operations {
			compared++
			open -= s.match(op, ours)
		}
		if page.Next == "" {
			break
		}
		filter.After = page.Next
	}
	return compared, nil
}

// match gives an operation the resources that are its own, and says how many had none before.
func (s *swept) match(op effectonce.Operation, ours func(effectonce.Operation) bool) (found int) {
	give := func(r *sweptResource) {
		if r.of == nil {
			of := op
			r.of = &of
			found++
		}
	}
	for n := range s.cuts {
		if len(op.Stamp) < n {
			continue
		}
		for _, r := range s.byStamp[op.Stamp[:n]] {
			give(r)
		}
	}
	// An operation whose contract has no place for a stamp is known by what its answer named.
	if r := s.byReference[op.Reference]; op.Reference != "" && r != nil && r.Stamp == "" && ours(op) {
		give(r)
	}
	return found
}

// findings are what does not fit, in the order of the list.
func (s *swept) findings() []sweepFound {
	found := []sweepFound{}
	told := map[string]bool{}
	for _, r := range s.order {
		f := sweepFound{References: []string{r.Reference}, Stamp: r.Stamp}
		if !r.Created.IsZero() {
			at := r.Created.UTC()
			f.Created = &at
		}
		if r.of != nil {
			f.Key, f.Tool, f.State = r.of.Key.String(), r.of.Tool, r.of.State
		}
		same := s.byStamp[r.Stamp]
		if r.Stamp != "" && len(same) > 1 && !told[r.Stamp] {
			told[r.Stamp] = true
			all := f
			all.Kind, all.References = sweepDuplicate, nil
			for _, other := range same {
				all.References = append(all.References, other.Reference)
			}
			found = append(found, all)
		}
		switch {
		case r.of == nil && r.Stamp == "":
			f.Kind = sweepUnstamped
		case r.of == nil:
			f.Kind = sweepNoOperation
		case r.of.State == effectonce.StateFailed:
			f.Kind = sweepNotFailed
		default:
			continue
		}
		found = append(found, f)
	}
	slices.SortStableFunc(found, func(a, b sweepFound) int { return cmp.Compare(a.Kind, b.Kind) })
	return found
}

// operationsAt says which operations are of a provider: those of its tools, and those that came by a route with its contract.
func operationsAt(cfg *config.Config, name, contractName string) func(effectonce.Operation) bool {
	tools := cfg.ToolsOf(name)
	return func(op effectonce.Operation) bool {
		by, raw := provider.IsRaw(op.Request)
		return slices.Contains(tools, op.Tool) || raw && by == contractName
	}
}
