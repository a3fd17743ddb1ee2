package egress

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/effectonce/effectonce"
)

// Metrics counts what routes do, in the Prometheus text format. Labels are closed sets: routes are those of the configuration. A nil Metrics counts
// nothing. It is safe for concurrent use.
type Metrics struct {
	mu     sync.Mutex
	counts map[string]map[string]uint64
}

var metricsHelp = []struct{ name, help string }{
	{"effectonce_egress_held_back_total", "Writes of routes that only observe that would have been held back, by route and reason."},
	{"effectonce_egress_problems_total", "Requests that got a problem and no answer of the provider, by route and code."},
	{"effectonce_egress_requests_total", "Requests to routes, by route and what they are: read, convergent, write, undescribed or too_large."},
	{"effectonce_egress_writes_total", "Guarded writes, by route, outcome and whether the answer was a replay."},
}

func (m *Metrics) add(name, format string, labels ...any) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[string]map[string]uint64{}
	}
	if m.counts[name] == nil {
		m.counts[name] = map[string]uint64{}
	}
	m.counts[name][fmt.Sprintf(format, labels...)]++
}

func (m *Metrics) request(route string, which kind) {
	m.add("effectonce_egress_requests_total", "route=%q,kind=%q", route, which)
}

func (m *Metrics) write(route string, o effectonce.Outcome, err error) {
	outcome := string(o.Outcome)
	if outcome == "" {
		outcome = "refused"
	}
	m.add("effectonce_egress_writes_total", "route=%q,outcome=%q,replayed=\"%t\"", route, outcome, o.Replayed)
}

func (m *Metrics) problem(route, code string) {
	m.add("effectonce_egress_problems_total", "route=%q,code=%q", route, code)
}

func (m *Metrics) heldBack(route, why string) {
	m.add("effectonce_egress_held_back_total", "route=%q,why=%q", route, why)
}

// Text is what /metrics shows.
func (m *Metrics) Text() string {
	if m == nil {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, one := range metricsHelp {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s counter\n", one.name, one.help, one.name)
		labels := make([]string, 0, len(m.counts[one.name]))
		for l := range m.counts[one.name] {
			labels = append(labels, l)
		}
		slices.Sort(labels)
		for _, l := range labels {
			fmt.Fprintf(&b, "%s{%s} %d\n", one.name, l, m.counts[one.name][l])
		}
	}
	return b.String()
}
