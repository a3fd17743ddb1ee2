package memory

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce"
)

type runID struct{ tenant, run string }

// run is a run's decisions in their order.
type run struct {
	id        int
	decisions []effectonce.Decision
}

func (r run) finished() bool {
	return len(r.decisions) > 0 && r.decisions[len(r.decisions)-1].Finish
}

func (r run) step(name string) (effectonce.Decision, bool) {
	i := slices.IndexFunc(r.decisions, func(d effectonce.Decision) bool { return d.Step == name })
	if i < 0 {
		return effectonce.Decision{}, false
	}
	return r.decisions[i], true
}

// Decide implements [effectonce.Journal].
func (s *Store) Decide(ctx context.Context, d effectonce.Decision) (effectonce.Decision, bool, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Decision{}, false, err
	}
	defer s.mu.Unlock()
	now, err := s.clock()
	if err != nil {
		return effectonce.Decision{}, false, err
	}
	id := runID{d.Tenant, d.Run}
	r, known := s.runs[id]
	if stored, ok := r.step(d.Step); ok {
		return stored, false, nil
	}
	if r.finished() {
		return effectonce.Decision{}, false, effectonce.RunFinished(d.Run, r.decisions[len(r.decisions)-1].Step)
	}
	if !known {
		s.runOrder = append(s.runOrder[:len(s.runOrder):len(s.runOrder)], id)
		r.id = len(s.runOrder)
	}
	d.Seq, d.At = int64(len(r.decisions)+1), now
	r.decisions = append(r.decisions[:len(r.decisions):len(r.decisions)], d)
	s.runs[id] = r
	s.high = now
	return d, true, nil
}

// Decision implements [effectonce.Journal].
func (s *Store) Decision(ctx context.Context, tenant, run, step string) (effectonce.Decision, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Decision{}, err
	}
	defer s.mu.Unlock()
	if d, ok := s.runs[runID{tenant, run}].step(step); ok {
		return d, nil
	}
	return effectonce.Decision{}, &effectonce.Error{Code: effectonce.CodeNotFound, Detail: fmt.Sprintf("no decision is recorded for step %q of run %q", step, run)}
}

// Decisions implements [effectonce.Journal].
func (s *Store) Decisions(ctx context.Context, tenant, run string) ([]effectonce.Decision, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return slices.Clone(s.runs[runID{tenant, run}].decisions), nil
}

// Runs implements [effectonce.Journal].
func (s *Store) Runs(ctx context.Context, f effectonce.RunFilter) (effectonce.RunPage, error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return effectonce.RunPage{}, err
	}
	if err := s.enter(ctx); err != nil {
		return effectonce.RunPage{}, err
	}
	defer s.mu.Unlock()
	before, err := pageStart(f.After, len(s.runOrder)+1)
	if err != nil {
		return effectonce.RunPage{}, err
	}
	var page effectonce.RunPage
	last := 0
	for i := before - 1; i >= 1; i-- {
		id := s.runOrder[i-1]
		r := s.runs[id]
		if f.Tenant != "" && f.Tenant != id.tenant || f.Unfinished && r.finished() || !strings.Contains(lower(id.run), lower(f.Text)) {
			continue
		}
		if len(page.Runs) == limit {
			page.Next = strconv.Itoa(last)
			break
		}
		last = i
		n := len(r.decisions)
		page.Runs = append(page.Runs, effectonce.Run{Tenant: id.tenant, Run: id.run, Steps: n, Finished: r.finished(), BeganAt: r.decisions[0].At, LastAt: r.decisions[n-1].At})
	}
	return page, nil
}
