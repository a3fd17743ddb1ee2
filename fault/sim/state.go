package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// hash is the state of the world: two worlds with the same hash have the same future.
func (w *world) hash() observed {
	var o observed
	o.time(w.now)
	for _, t := range w.tracks {
		o.operation(t.row)
		o.times(t.row, w.now)
		t.hash(&o)
	}
	o.word(w.provider.Hash(w.now))
	for _, r := range w.requests {
		if r.stage == over && (r.conn.answer == nil || !w.awaited(r)) {
			continue
		}
		o.number(r.id)
		o.number(int(r.stage))
		if at, ok := r.bound(w.setting); ok {
			o.time(at)
		}
		o.bit(r.copied)
		if a := r.conn.answer; a != nil {
			o.text(string(a.Outcome))
			o.number(a.status)
			o.text(a.Effect.ID)
		}
	}
	// Workers are alike, so it does not matter which of them is where.
	each := make([]observed, 0, len(w.workers))
	for _, wk := range w.workers {
		each = append(each, wk.hash())
	}
	slices.Sort(each)
	for _, h := range each {
		o.word(uint64(h))
	}
	return o
}

// hash is the state of one worker.
func (w *worker) hash() observed {
	var o observed
	o.text(string(w.at))
	o.word(uint64(w.saw))
	o.bit(w.closed)
	o.number(w.calls - w.life)
	for _, t := range w.world.tracks {
		o.bit(t.holder != nil && t.holder.worker == w && t.holder.life == w.life)
	}
	now := w.world.now
	if w.at != pointIdle {
		// What an out-dated write would have written does not matter: it is refused.
		current := false
		for _, t := range w.world.tracks {
			current = current || t.row.Version == w.version
		}
		o.bit(current)
		if current {
			o.word(uint64(w.pending))
		}
		// A worker's clock only bounds its own call, so that what is older than a lease is all the same.
		var ages uint64
		for _, at := range w.clock {
			ages |= 1 << min(now.Sub(at)/Tick, time.Duration(w.world.setting.Call+w.world.setting.Grace))
		}
		o.word(ages)
	}
	switch w.at {
	case pointCheck:
		o.word(uint64(max(w.deadline.Sub(now), 0)))
	case pointSend:
		o.word(uint64(max(w.deadline.Sub(now), 0)))
		o.time(w.checked)
	case pointAnswer:
		o.word(uint64(max(w.deadline.Sub(now), 0)))
		o.number(w.request.id)
	}
	if w.timer != nil {
		o.time(w.timer.due)
	}
	return o
}

func (w *world) awaited(r *request) bool {
	for _, wk := range w.workers {
		if wk.request != nil && wk.request.conn == r.conn {
			return true
		}
	}
	return false
}

// story tells the world for a report.
func (w *world) story() string {
	var b strings.Builder
	for _, t := range w.tracks {
		fmt.Fprintf(&b, "operation %d: %s, %d effects", t.id, t.row.State, t.effects)
		if t.row.Reason != "" {
			fmt.Fprintf(&b, " (%s)", t.row.Reason)
		}
		b.WriteByte('\n')
		tell(&b, t.events)
	}
	for _, e := range w.events {
		fmt.Fprintf(&b, "event %s: %s, accepted %v\n", e.id, e.row.State, e.accepted)
		events, _ := w.store.Events(context.Background(), e.key)
		tell(&b, events)
	}
	for _, f := range w.flows {
		for _, s := range f.steps {
			if s.first != nil {
				fmt.Fprintf(&b, "run %d: %s is decided to be %s\n", f.id, s.name, s.first.IntentID)
			}
		}
	}
	for _, e := range w.provider.Effects() {
		fmt.Fprintf(&b, "effect %s at %s, key %.8s\n", e.ID, e.At.Sub(beginning), e.Key)
	}
	return b.String()
}

func tell(b *strings.Builder, events []effectonce.Event) {
	for _, e := range events {
		fmt.Fprintf(b, "  %3d %5s %s -> %s token %d attempt %d epoch %d", e.Seq, e.At.Sub(beginning), e.From, e.To, e.Token, e.Attempt, e.Epoch)
		fmt.Fprintf(b, " %s %s%s line %d %s\n", e.Kind, e.Verdict, e.Found, e.Line, e.Reason)
	}
}
