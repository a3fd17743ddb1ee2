package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// The bounds of what a scrape reads: a store of any size is asked for a few short pages by the indexes that its lists use.
const (
	gaugeMax     = 500 // "500 or more"
	gaugePage    = 50
	gaugeTimeout = 2 * time.Second
)

// gauge counts operations as they stand at the scrape.
type gauge struct {
	name, help string
	filter     effectonce.Filter
	counts     func(effectonce.Operation) bool
}

var gauges = []gauge{
	{"effectonce_operations_alarmed", "Operations with an alarm, final ones included", effectonce.Filter{Alarmed: true}, nil},
	{"effectonce_operations_held", "Operations that are held for a person, among the pending ones that are counted", inState(effectonce.StatePending),
		func(op effectonce.Operation) bool { return op.Hold != effectonce.HoldNone }},
	{"effectonce_operations_in_review", "Operations that a person has to decide", inState(effectonce.StateReview), nil},
	{"effectonce_operations_pending", "Operations that are recorded and not executed, held ones included", inState(effectonce.StatePending), nil},
	{"effectonce_operations_unknown", "Operations whose outcome is not known yet", inState(effectonce.StateUnknown), nil},
}

func inState(s effectonce.State) effectonce.Filter {
	return effectonce.Filter{States: []effectonce.State{s}}
}

// gaugesText reads the gauges from the store. Where it does not answer, they are left out instead of shown as a zero that
// is not true, and effectonce_operations_read is 0.
func (s *server) gaugesText(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, gaugeTimeout)
	defer cancel()
	var b strings.Builder
	read := 1
	for _, g := range gauges {
		n, err := s.count(ctx, g)
		if err != nil {
			b.Reset()
			read = 0
			break
		}
		fmt.Fprintf(&b, "# HELP %s %s; %d means so many or more.\n# TYPE %s gauge\n%s %d\n", g.name, g.help, gaugeMax, g.name, g.name, n)
	}
	fmt.Fprintf(&b, "# HELP effectonce_operations_read Whether the store could be read for the gauges of operations.\n# TYPE effectonce_operations_read gauge\neffectonce_operations_read %d\n", read)
	return b.String()
}

// count looks at the newest operations of the gauge's filter, at most [gaugeMax] of them.
func (s *server) count(ctx context.Context, g gauge) (int, error) {
	f := g.filter
	f.Limit = gaugePage
	n := 0
	for looked := 0; looked < gaugeMax; looked += gaugePage {
		page, err := s.store.List(ctx, f)
		if err != nil {
			return 0, err
		}
		for _, op := range page.Operations {
			if g.counts == nil || g.counts(op) {
				n++
			}
		}
		if page.Next == "" {
			break
		}
		f.After = page.Next
	}
	return n, nil
}
