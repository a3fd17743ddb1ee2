package postgres

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/effectonce/effectonce"
)

// markStep is how far the clock's row may be behind before it is advanced.
const markStep = time.Second

// mark is the latest moment that this process knows something was decided at. Every statement compares the database's clock with
// it and with the clock's row.
//
// A clock that steps back (it was set, or another server with another clock took over) is caught three ways, none of which makes
// writers wait for each other: a process remembers its own decisions exactly; it learns those of others from every row that it
// reads, so that nothing is decided about an operation at a time before its last transition; and a process that knows nothing
// yet finds the clock's row, which is at most markStep and one round trip behind. What is not caught is a step of less than
// that between operations that no process has read, where times are up to that step too early.
type mark struct{ us atomic.Int64 }

// learn raises the mark.
func (m *mark) learn(us int64) {
	for {
		known := m.us.Load()
		if us <= known || m.us.CompareAndSwap(known, us) {
			return
		}
	}
}

// clockSQL gives now, how far it is behind the marks, and the row's mark. The first parameter of every statement that decides by
// time replaces the clock in tests, the second is the process's mark.
const clockSQL = `SELECT greatest(n.at, h.high, $2::bigint) AS now, greatest(h.high, $2::bigint) - n.at AS behind, h.high
	FROM (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS at) n, effectonce.clock h WHERE h.id = 1`

// toleranceMicros is effectonce.StoreClockTolerance for statements.
const toleranceMicros = "1000000"

// clockParams are the first two parameters.
func (s *Store) clockParams() [][]byte {
	var now []byte
	if s.now != nil {
		now = int8Bytes(s.now().UnixMicro())
	}
	return [][]byte{now, int8Bytes(s.mark.us.Load())}
}

// clockArgs are the same as plain values.
func (s *Store) clockArgs() []any {
	var now any
	if s.now != nil {
		now = s.now().UnixMicro()
	}
	return []any{now, s.mark.us.Load()}
}

// moment is what a statement says about the clock.
type moment struct {
	now    time.Time
	micros int64
	behind int64
	high   int64
}

func scanMoment(r *scanner) moment {
	m := moment{micros: r.integer(), behind: r.integer(), high: r.integer()}
	m.now = time.UnixMicro(m.micros).UTC()
	return m
}

// check refuses a clock that stepped back, and otherwise takes note of the moment.
func (s *Store) check(m moment) error {
	if behind := time.Duration(m.behind) * time.Microsecond; behind > effectonce.StoreClockTolerance {
		return s.stepped(m.micros, behind)
	}
	s.mark.learn(m.micros)
	return nil
}

// errClockMoved says that a test moved its clock on while the statement was under way, so that others are ahead of it.
var errClockMoved = errors.New("the clock was moved on meanwhile")

// stepped refuses a clock that is behind a moment that is recorded.
func (s *Store) stepped(recorded int64, behind time.Duration) error {
	if s.now != nil && s.now().Add(effectonce.StoreClockTolerance).UnixMicro() >= recorded {
		return errClockMoved
	}
	return &effectonce.Error{
		Code:       effectonce.CodeClockStepped,
		Detail:     fmt.Sprintf("the database's clock is %s behind the last time recorded", behind),
		Remedy:     "correct the clock of the database server, or wait until it has caught up",
		RetryAfter: behind,
	}
}

// times are the fields of an operation that a transition can move, in the order of momentColumns and keptColumns.
func times(op *effectonce.Operation) [timesCount]*time.Time {
	return [timesCount]*time.Time{&op.DueAt, &op.OpenedAt, &op.StartedAt, &op.FirstSentAt, &op.LastSentAt, &op.TakenAt,
		&op.RetryAt, &op.SettledAt, &op.CreatedAt, &op.PurgeAt, &op.PurgedAt}
}

const (
	momentsCount = 9
	timesCount   = momentsCount + 2
)

// stamp moves a transition to now and keeps its times in microseconds, as they are stored.
func stamp(t effectonce.Transition, now time.Time) effectonce.Transition {
	t = t.Stamp(now)
	for _, at := range times(&t.To) {
		*at = effectonce.StoredTime(*at)
	}
	return t
}

// relative gives a transition's times as the database needs them, which stamps them itself: bit i of moved says that the i-th
// time is a distance from the moment of the write.
func relative(t effectonce.Transition) (at [timesCount]*int64, moved int64) {
	later := t.Stamp(t.At.Add(time.Hour))
	here, there := times(&t.To), times(&later.To)
	for i := range here {
		if here[i].IsZero() {
			continue
		}
		us := here[i].UnixMicro()
		if !there[i].Equal(*here[i]) {
			us = floorMicros(here[i].Sub(t.At))
			moved |= 1 << i
		}
		at[i] = &us
	}
	return at, moved
}

func floorMicros(d time.Duration) int64 {
	us := d.Microseconds()
	if d < 0 && time.Duration(us)*time.Microsecond != d {
		us--
	}
	return us
}
