package sim

import (
	"time"

	"github.com/effectonce/effectonce"
)

// observed is a running hash of what somebody has seen or what a state consists of (FNV-1a over words).
type observed uint64

const (
	hashBasis observed = 14695981039346656037
	hashPrime observed = 1099511628211
)

func (o *observed) word(v uint64) {
	h := *o
	if h == 0 {
		h = hashBasis
	}
	h = (h ^ observed(v)) * hashPrime
	// FNV-1a mixes bytes; a word needs its high bits brought down.
	*o = h ^ h>>29
}

func (o *observed) number(v int) { o.word(uint64(v)) }

func (o *observed) text(s string) {
	o.word(uint64(len(s)))
	var w uint64
	for i := range len(s) {
		w = w<<8 | uint64(s[i])
		if i%8 == 7 {
			o.word(w)
			w = 0
		}
	}
	o.word(w)
}

func (o *observed) bit(b bool) {
	if b {
		o.word(1)
		return
	}
	o.word(2)
}

func (o *observed) time(t time.Time) {
	if t.IsZero() {
		o.word(0)
		return
	}
	o.word(uint64(t.Sub(beginning)) + 1)
}

func (o *observed) err(err error) {
	if err == nil {
		o.word(0)
		return
	}
	o.text(string(effectonce.CodeOf(err)))
}

// operation adds what can be told of an operation without a clock.
func (o *observed) operation(op effectonce.Operation) {
	o.text(string(op.State))
	if op.State == "" {
		return
	}
	o.text(string(op.Hold))
	o.text(string(op.LastVerdict))
	o.text(op.Reference)
	for _, n := range []int{op.Epoch, op.Attempt, op.Spent, min(op.Looks, 2)} {
		o.number(n)
	}
	for _, b := range []bool{op.Parked, op.Open, op.Exposed, op.StoredError, op.Permission != nil, op.Evidence != nil, op.Alarm != ""} {
		o.bit(b)
	}
	if op.Evidence != nil {
		o.number(op.Evidence.Epoch)
		o.text(op.Evidence.Reference)
	}
}

// times adds the moments on which an operation's future depends. What has passed is passed, however long ago.
func (o *observed) times(op effectonce.Operation, now time.Time) {
	o.bit(op.DueAt.IsZero())
	o.word(uint64(max(op.DueAt.Sub(now), 0)))
	o.word(uint64(max(op.RetryAt.Sub(now), 0)))
	o.time(op.OpenedAt)
	o.time(op.FirstSentAt)
	o.time(op.LastSentAt)
	if op.State == effectonce.StateInProgress && !op.Open && op.Owner != "" {
		o.time(op.TakenAt)
	}
}

// transition adds what is about to be written.
func (o *observed) transition(t effectonce.Transition) {
	o.text(string(t.Event.Kind))
	o.text(string(t.Event.Verdict))
	o.number(t.Event.Line)
	o.operation(t.To)
	for _, at := range [][2]time.Time{{t.From.DueAt, t.To.DueAt}, {t.From.RetryAt, t.To.RetryAt}} {
		// What is left as it was keeps its time; what is new is moved to the commit, so its distance counts.
		o.bit(at[0].Equal(at[1]))
		if !at[0].Equal(at[1]) && !at[1].IsZero() {
			o.word(uint64(at[1].Sub(t.At)))
		}
	}
}
