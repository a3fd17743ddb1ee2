package api

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/effectonce/effectonce"
)

// Metrics counts what happens, for /metrics in the Prometheus text format. The counters are few and their labels closed sets,
// so that nothing grows with the number of operations. It is safe for concurrent use.
type Metrics struct {
	mu     sync.Mutex
	counts map[string]map[string]uint64
	// stored says that a store is counted: otherwise its counters would stay at a zero that is not true.
	stored bool
	// others are the counters of other surfaces.
	others []func() string
}

// Also shows the counters of another surface too, in the same format. It is called before the first request.
func (m *Metrics) Also(text func() string) { m.others = append(m.others, text) }

// NewMetrics returns an empty set.
func NewMetrics() *Metrics { return &Metrics{counts: make(map[string]map[string]uint64)} }

// metricsHelp names each counter.
var metricsHelp = map[string]string{
	"effectonce_answers_total":      "Operations shown in answers, by outcome and whether it was a replay.",
	"effectonce_attempts_total":     "Attempts started, by any caller or worker.",
	"effectonce_attempt_ends_total": "Ends of attempts that were recorded, by verdict.",
	"effectonce_problems_total":     "Refusals, by error code.",
	"effectonce_store_errors_total": "Failed store calls, by error code; lost races are not among them.",
	"effectonce_transitions_total":  "Transitions of operations, by kind and the state they led to.",
}

// fromStore are the counters that need [Metrics.Store].
var fromStore = map[string]bool{
	"effectonce_attempts_total": true, "effectonce_attempt_ends_total": true, "effectonce_store_errors_total": true, "effectonce_transitions_total": true,
}

func (m *Metrics) add(name, labels string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts[name] == nil {
		m.counts[name] = make(map[string]uint64)
	}
	m.counts[name][labels]++
}

func (m *Metrics) answer(o effectonce.Outcome) {
	m.add("effectonce_answers_total", fmt.Sprintf("outcome=%q,replayed=\"%t\"", o.Outcome, o.Replayed))
}

func (m *Metrics) problem(code string) {
	m.add("effectonce_problems_total", fmt.Sprintf("code=%q", code))
}

func (m *Metrics) text(version string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "# HELP effectonce_build_info The program's version.\n# TYPE effectonce_build_info gauge\neffectonce_build_info{version=%q,go=%q} 1\n", version, runtime.Version())
	names := make([]string, 0, len(metricsHelp))
	for name := range metricsHelp {
		if m.stored || !fromStore[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s counter\n", name, metricsHelp[name], name)
		labels := make([]string, 0, len(m.counts[name]))
		for l := range m.counts[name] {
			labels = append(labels, l)
		}
		slices.Sort(labels)
		if name == "effectonce_attempts_total" && len(labels) == 0 {
			fmt.Fprintf(&b, "%s 0\n", name)
		}
		for _, l := range labels {
			if l == "" {
				fmt.Fprintf(&b, "%s %d\n", name, m.counts[name][l])
				continue
			}
			fmt.Fprintf(&b, "%s{%s} %d\n", name, l, m.counts[name][l])
		}
	}
	for _, other := range m.others {
		b.WriteString(other())
	}
	return b.String()
}

// Store returns a store that counts what goes through it, workers' transitions included.
func (m *Metrics) Store(s effectonce.Store) effectonce.Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored = true
	return &countedStore{Store: s, metrics: m}
}

type countedStore struct {
	effectonce.Store
	metrics *Metrics
}

// Create implements [effectonce.Store].
func (s *countedStore) Create(ctx context.Context, t effectonce.Transition) (effectonce.Operation, bool, error) {
	op, created, err := s.Store.Create(ctx, t)
	if err == nil && created {
		e := t.Event
		// The store may have turned the claim into a hold (S3.8, S7.1).
		e.To, e.Sends = op.State, op.Open
		s.metrics.transition(e)
	}
	s.metrics.storeError(err)
	return op, created, err
}

// Apply implements [effectonce.Store].
func (s *countedStore) Apply(ctx context.Context, t effectonce.Transition) (effectonce.Operation, error) {
	op, err := s.Store.Apply(ctx, t)
	if err == nil {
		s.metrics.transition(t.Event)
	}
	s.metrics.storeError(err)
	return op, err
}

// Load implements [effectonce.Store].
func (s *countedStore) Load(ctx context.Context, key effectonce.Key) (effectonce.Operation, error) {
	op, err := s.Store.Load(ctx, key)
	s.metrics.storeError(err)
	return op, err
}

func (m *Metrics) transition(e effectonce.Event) {
	m.add("effectonce_transitions_total", fmt.Sprintf("kind=%q,state=%q", e.Kind, e.To))
	if e.Sends {
		m.add("effectonce_attempts_total", "")
	}
	if e.Kind == effectonce.EventAttemptEnded {
		m.add("effectonce_attempt_ends_total", fmt.Sprintf("verdict=%q", e.Verdict))
	}
}

func (m *Metrics) storeError(err error) {
	switch code := effectonce.CodeOf(err); {
	case err == nil, code == effectonce.CodeStaleVersion, code == effectonce.CodeNotFound, code == effectonce.CodeTwinRejected:
	default:
		m.add("effectonce_store_errors_total", fmt.Sprintf("code=%q", code))
	}
}
