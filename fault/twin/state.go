package twin

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"time"
)

// Clone is an independent copy.
func (m *Model) Clone() *Model {
	return &Model{
		rules: m.rules,
		last:  m.last,
		open:  maps.Clone(m.open),
		known: maps.Clone(m.known),
		// Effects never change once written, so both share the past; the clip makes each append to its own future.
		effects: slices.Clip(m.effects),
		spent:   maps.Clone(m.spent),
	}
}

// AppendState appends a canonical form of everything that can still make a difference: two models of equal rules
// with equal state behave alike from their respective now on. Times are ages, cut off where they stop mattering; forgotten
// keys are left out; tickets count by rank only, so a caller that keeps tickets writes down what they stand for instead.
func (m *Model) AppendState(dst []byte, now time.Time) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m.open)))
	for _, t := range m.Open() {
		o := m.open[t]
		dst = appendRequest(dst, o.request)
		dst = appendAge(dst, now, o.began, m.rules.Processing)
		dst = appendBool(dst, o.again)
	}
	live := make([]string, 0, len(m.known))
	for key, rec := range m.known {
		if rec.state == recordOpen || now.Sub(rec.first) < m.rules.Retention {
			live = append(live, key)
		}
	}
	slices.Sort(live)
	dst = binary.AppendUvarint(dst, uint64(len(live)))
	for _, key := range live {
		rec := m.known[key]
		dst = appendString(dst, key)
		dst = appendString(dst, rec.request.Route)
		dst = appendString(dst, rec.request.Body)
		dst = appendAge(dst, now, rec.first, m.rules.Retention)
		dst = append(dst, byte(rec.state))
		if rec.state == recordStored {
			dst = appendString(dst, string(rec.answer.Outcome))
			dst = appendString(dst, rec.answer.Effect.ID)
			dst = binary.AppendVarint(dst, rec.answer.Left)
		}
	}
	lag := max(m.rules.LookupLag, m.rules.SearchLag)
	dst = binary.AppendUvarint(dst, uint64(len(m.effects)))
	for _, e := range m.effects {
		dst = appendString(dst, e.Key)
		dst = appendString(dst, e.Stamp)
		dst = appendString(dst, e.Resource)
		dst = appendString(dst, e.Currency)
		dst = binary.AppendVarint(dst, e.Amount)
		dst = appendAge(dst, now, e.At, lag)
	}
	return dst
}

// Hash is a hash of AppendState, the same in every process.
func (m *Model) Hash(now time.Time) uint64 {
	h := fnv.New64a()
	h.Write(m.AppendState(make([]byte, 0, 512), now))
	return h.Sum64()
}

func appendRequest(dst []byte, r Request) []byte {
	for _, s := range []string{r.Key, r.Route, r.Resource, r.Stamp, r.Body, r.Currency} {
		dst = appendString(dst, s)
	}
	return binary.AppendVarint(dst, r.Amount)
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// appendAge writes how long ago at was, at most limit: beyond that, every age is the same to the rules.
func appendAge(dst []byte, now, at time.Time, limit time.Duration) []byte {
	return binary.AppendVarint(dst, int64(min(now.Sub(at), limit)))
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}
