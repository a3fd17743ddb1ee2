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

// operation adds what can change in an operation.
func (o *observed) operation(op effectonce.Operation) {
	o.text(string(op.State))
	if op.State == "" {
		return
	}
	o.text(string(op.Hold))
	for _, n := range []int{int(op.Version), int(op.Token), op.Epoch, op.Attempt, op.Spent, op.Looks} {
		o.number(n)
	}
	for _, b := range []bool{op.Parked, op.Open, op.Exposed, op.StoredError, op.Permission != nil, op.Evidence != nil, op.Alarm != ""} {
		o.bit(b)
	}
	for _, t := range []time.Time{op.CreatedAt, op.DueAt, op.OpenedAt, op.StartedAt, op.FirstSentAt, op.LastSentAt, op.TakenAt, op.InFlightUntil, op.SettledAt, op.AsOf} {
		o.time(t)
	}
	o.text(string(op.LastVerdict))
	o.text(op.Reference)
	if op.Evidence != nil {
		o.number(op.Evidence.Attempt)
		o.number(op.Evidence.Epoch)
		o.text(op.Evidence.Reference)
	}
	if op.Permission != nil {
		o.time(op.Permission.At)
	}
}
