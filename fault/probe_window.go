package fault

import (
	"context"
	"slices"
	"strings"

	"github.com/effectonce/effectonce"
)

// window is one way for things to go wrong, as steps of the two halves.
type window struct {
	name, about string
	unguarded   []act
	guarded     []act
	// note explains the row, where the guard ended in review or at once.
	note string
}

// act starts a child and waits for its end; those of a group start at the same moment.
type act struct {
	mode probeMode
	plan string
	// written kills the child as soon as its request is written.
	written bool
	group   int
}

// killed reports whether the child is to die.
func (a act) killed() bool { return a.written || strings.HasPrefix(a.plan, string(Crash)) }

type probeMode string

const (
	modeNaive  probeMode = "naive"  // send, without a guard
	modeAgent  probeMode = "agent"  // ask the guard
	modeSettle probeMode = "settle" // a background worker, until nothing is open
)

var windows = []window{
	{
		name: "killed before the claim", about: "the process dies before anything is recorded or sent; the orchestrator tries again",
		unguarded: []act{{mode: modeNaive, plan: "crash before call"}, {mode: modeNaive}},
		guarded:   []act{{mode: modeAgent, plan: "crash before create"}, {mode: modeAgent}},
	},
	{
		name: "killed before sending", about: "the process dies between the record and the request; the orchestrator tries again",
		unguarded: []act{{mode: modeNaive, plan: "crash before call"}, {mode: modeNaive}},
		guarded:   []act{{mode: modeAgent, plan: "crash before call"}, {mode: modeAgent}},
		note:      "the record cannot tell a request that was never sent from one that was",
	},
	{
		name: "killed while the tool works", about: "the process dies as soon as the request is on the wire; the orchestrator tries again",
		unguarded: []act{{mode: modeNaive, written: true}, {mode: modeNaive}},
		guarded:   []act{{mode: modeAgent, written: true}, {mode: modeAgent}},
		note:      "the request may or may not have arrived",
	},
	{
		name: "killed before recording", about: "the tool has answered, the process dies before it writes that down; the orchestrator tries again",
		unguarded: []act{{mode: modeNaive, plan: "crash after call"}, {mode: modeNaive}},
		guarded:   []act{{mode: modeAgent, plan: "crash after call"}, {mode: modeAgent}},
	},
	{
		name: "answer lost", about: "the tool has done it, the answer never arrives; the caller tries again",
		unguarded: []act{{mode: modeNaive, plan: "error after call"}, {mode: modeNaive}},
		guarded:   []act{{mode: modeAgent, plan: "error after call"}, {mode: modeAgent}},
	},
	{
		name: "killed while reconciling", about: "the process dies before recording, and so does the next one, which wanted to find out",
		unguarded: []act{{mode: modeNaive, plan: "crash after call"}, {mode: modeNaive, plan: "crash after call"}, {mode: modeNaive}},
		guarded:   []act{{mode: modeAgent, plan: "crash after call"}, {mode: modeSettle, plan: "crash after apply:taken_over"}, {mode: modeAgent}},
	},
	{
		name: "two at once", about: "two agents do the same at the same moment",
		unguarded: []act{{mode: modeNaive, group: 1}, {mode: modeNaive, group: 1}},
		guarded:   []act{{mode: modeAgent, group: 1}, {mode: modeAgent, group: 1}},
	},
	{
		name: "asked again", about: "it was done and recorded, and somebody asks for it again",
		unguarded: []act{{mode: modeNaive}, {mode: modeNaive}},
		guarded:   []act{{mode: modeAgent}, {mode: modeAgent}},
	},
}

// ProbeWindows lists the names of the windows in their order.
func ProbeWindows() []string {
	names := make([]string, len(windows))
	for i, w := range windows {
		names[i] = w.name
	}
	return names
}

func (o ProbeOptions) windows() ([]window, error) {
	if len(o.Windows) == 0 {
		return windows, nil
	}
	known := ProbeWindows()
	for _, name := range o.Windows {
		if !slices.Contains(known, name) {
			return nil, probeInvalid("windows", "there is no window "+name, "use: "+strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(windows), func(w window) bool { return !slices.Contains(o.Windows, w.name) }), nil
}

// try runs both halves of a window. between is called between them.
func (p *prober) try(ctx context.Context, w window, between func()) (ProbeRow, error) {
	row := ProbeRow{Window: w.name, About: w.about, Want: 1}
	var err error
	if row.Unguarded, _, err = p.half(ctx, w.unguarded, false); err != nil {
		return row, err
	}
	between()
	var ended settledAs
	if row.Guarded, ended, err = p.half(ctx, w.guarded, true); err != nil {
		return row, err
	}
	row.State = ended.State
	switch {
	case row.State == effectonce.StateReview:
		row.Note = "stops for a person: " + ended.Reason
		if w.note != "" {
			row.Note += " (" + w.note + ")"
		}
	case row.State != effectonce.StateSucceeded:
		row.Note = ended.Reason
	case row.Unguarded == 0:
		row.Note = "the tool did nothing without the guard either: see whether it answers and whether the count is right"
	case row.Unguarded < 2 && len(w.unguarded) > 1 && w.unguarded[0].plan != "crash before call":
		row.Note = "the tool itself stopped the repeat"
	}
	return row, nil
}
