package metamorphic_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/effectonce/effectonce"
)

// system is a store with its guard, and what whoever uses it remembers.
type system struct {
	name  string
	store effectonce.Store
	guard *effectonce.Guard
	began time.Time

	provider scripted
	// keys are those of the intents' latest operations, rows what was last read of them.
	keys map[int]effectonce.Key
	rows map[int]effectonce.Operation
	// older are rows with an open attempt that have changed since.
	older map[int]effectonce.Operation
	// taken is the queue that a relay has, with how many messages of it.
	taken    effectonce.Queue
	messages int
}

// stillClock is the guard's: nothing happens by itself.
type stillClock struct{ now func() time.Time }

func (c stillClock) Now() time.Time                                 { return c.now() }
func (stillClock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }
func (stillClock) AfterFunc(time.Duration, func()) func() bool      { return func() bool { return true } }

func newSystem(name string, store effectonce.Store, began time.Time, now func() time.Time) *system {
	s := &system{name: name, store: store, began: began, keys: map[int]effectonce.Key{}, rows: map[int]effectonce.Operation{}, older: map[int]effectonce.Operation{}}
	s.guard = effectonce.New(store, effectonce.Options{
		Clock: stillClock{now}, Owner: "worker", Logger: slog.New(slog.DiscardHandler),
		Providers: func(effectonce.Operation) effectonce.Provider { return s.provider },
	})
	return s
}

// answer is what came of a command, and how what it touched stands after it.
type answer struct {
	Said []any
	Err  failure
}

// failure is an error without what stores may word as they like.
type failure struct {
	Code   effectonce.Code
	Key    effectonce.Key
	Fields []string
	Sent   effectonce.Sent
	Wait   time.Duration
	Limit  string
	HeldBy []effectonce.Key
	Other  string
}

func failureOf(err error) failure {
	var e *effectonce.Error
	switch {
	case err == nil:
		return failure{}
	case !errors.As(err, &e):
		return failure{Other: err.Error()}
	}
	return failure{Code: e.Code, Key: e.Key, Fields: e.Fields, Sent: e.Sent, Wait: e.RetryAfter, Limit: e.Limit, HeldBy: e.HeldBy}
}

func said(err error, what ...any) answer { return answer{Said: what, Err: failureOf(err)} }

// touched remembers an intent's operation, and adds how it stands to an answer.
func (s *system) touched(i int, key effectonce.Key, a answer) answer {
	if !key.IsZero() {
		s.keys[i] = key
	}
	return s.standing(i, a)
}

func (s *system) standing(i int, a answer) answer {
	key, known := s.keys[i]
	if !known {
		return a
	}
	op, err := s.store.Load(context.Background(), key)
	a.Said = append(a.Said, op, failureOf(err))
	events, err := s.store.Events(context.Background(), key)
	a.Said = append(a.Said, events, failureOf(err))
	if err == nil {
		s.read(i, op)
	}
	return a
}

func (s *system) do(args []int) answer {
	p := scripted{end: ends[args[1]], finding: findings[args[2]]}
	out, err := s.guard.Do(context.Background(), intent(args[0], s.began), p)
	return s.touched(args[0], out.Operation.Key, said(err, out))
}

func (s *system) mismatch(args []int) answer {
	in := intent(args[0], s.began)
	in.Business = []byte(`{"amount":1,"currency":"EUR"}`)
	out, err := s.guard.Do(context.Background(), in, scripted{end: ends[0]})
	return s.touched(args[0], out.Operation.Key, said(err, out))
}

func (s *system) hangUp(args []int) answer {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, err := s.guard.Do(ctx, intent(args[0], s.began), scripted{end: ends[args[1]], before: cancel})
	return s.touched(args[0], out.Operation.Key, said(err, out))
}

func (s *system) record(args []int) answer {
	out, err := s.guard.Record(context.Background(), intent(args[0], s.began))
	return s.touched(args[0], out.Operation.Key, said(err, out))
}

func (s *system) claim(args []int) answer {
	c, err := s.guard.Claim(context.Background(), intent(args[0], s.began))
	return s.touched(args[0], c.Operation.Key, said(err, c))
}

func (s *system) read(i int, op effectonce.Operation) {
	if before := s.rows[i]; before.Open && before.Version != op.Version {
		s.older[i] = before
	}
	s.rows[i] = op
}

// pick is an intent whose operation suits, as far as is known; the given one where there is none.
func (s *system) pick(i int, suits func(effectonce.Operation) bool) int {
	var fit []int
	for n := range intents {
		if row, known := s.rows[n]; known && suits(row) {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		return i
	}
	return fit[i%len(fit)]
}

// token is the operation's present one, or, one time in four, the one before.
func (s *system) token(i, which int) int64 {
	if which == 3 {
		return s.rows[i].Token - 1
	}
	return s.rows[i].Token
}

func (s *system) settle(args []int) answer {
	i := s.pick(args[0], func(op effectonce.Operation) bool { return op.Open && !op.Terms.Managed })
	out, err := s.guard.Settle(context.Background(), s.keys[i], s.token(i, args[1]), ends[args[2]])
	return s.touched(i, effectonce.Key{}, said(err, out))
}

func (s *system) lookedUp(args []int) answer {
	i := s.pick(args[0], func(op effectonce.Operation) bool {
		return op.State == effectonce.StateInProgress && !op.Open && op.Owner != ""
	})
	c, err := s.guard.LookedUp(context.Background(), s.keys[i], s.token(i, args[1]), findings[args[2]])
	return s.touched(i, effectonce.Key{}, said(err, c))
}

func (s *system) beat(args []int) answer {
	left, err := s.guard.Heartbeat(context.Background(), s.keys[args[0]], s.token(args[0], args[1]))
	return s.touched(args[0], effectonce.Key{}, said(err, left))
}

func (s *system) resolve(args []int) answer {
	i := s.pick(args[0], func(op effectonce.Operation) bool {
		return op.State == effectonce.StateReview || op.Hold != effectonce.HoldNone
	})
	r := effectonce.Resolved{
		Version: s.rows[i].Version, Resolution: effectonce.Resolutions[args[1]], Person: "ada", Reason: "looked",
		Reference: "re_1", AcceptRisk: args[3]%2 == 1,
	}
	if args[2] == 3 {
		r.Version--
	}
	if args[3] == 2 {
		r.Person = "agent"
	}
	out, err := s.guard.Resolve(context.Background(), s.keys[i], r)
	return s.touched(i, effectonce.Key{}, said(err, out))
}

func (s *system) supersede(args []int) answer {
	in := intent(args[0], s.began)
	in.Supersedes = &effectonce.Supersede{Key: s.keys[args[0]], Reason: "another amount", Force: args[1] == 1}
	in.Business = []byte(fmt.Sprintf(`{"amount":%d,"again":true}`, args[2]))
	out, err := s.guard.Record(context.Background(), in)
	before := s.standing(args[0], said(err, out))
	return s.touched(args[0], out.Operation.Key, before)
}

func (s *system) compensate(args []int) answer {
	key := s.keys[args[0]]
	in := effectonce.Intent{Tenant: intent(args[0], s.began).Tenant, Tool: "undo", ID: effectonce.CompensationID(key), Compensates: key, Actor: "agent"}
	out, err := s.guard.Do(context.Background(), in, scripted{end: ends[args[1]]})
	return said(err, out)
}

// work is a background worker's round.
func (s *system) work(args []int) answer {
	s.provider = scripted{end: ends[args[1]], finding: findings[args[2]]}
	due, err := s.store.Due(context.Background(), 1+args[0])
	a := said(err, due)
	for _, op := range due {
		op, err := s.guard.Work(context.Background(), op)
		for i, key := range s.keys {
			if key == op.Key && err == nil {
				s.read(i, op)
			}
		}
		events, _ := s.store.Events(context.Background(), op.Key)
		a.Said = append(a.Said, op, events, failureOf(err))
	}
	return a
}

// stale applies what was computed from a row that has changed since.
func (s *system) stale(args []int) answer {
	i := s.pick(args[0], func(op effectonce.Operation) bool { return op.State == effectonce.StateInProgress })
	old, known := s.older[i]
	if !known {
		return answer{}
	}
	t, err := effectonce.Next(old, effectonce.AttemptEnded{Token: old.Token, End: ends[args[1]]}, old.AsOf)
	if err != nil {
		return said(err)
	}
	op, err := s.store.Apply(context.Background(), t)
	return s.touched(i, effectonce.Key{}, said(err, op))
}

// park lets an operation wait for its provider, or for a while, as background workers do.
func (s *system) park(args []int) answer {
	i := s.pick(args[0], func(op effectonce.Operation) bool { return op.State == effectonce.StatePending })
	cause := effectonce.Parked{Token: s.rows[i].Token, After: time.Duration(args[1]) * 11 * time.Second}
	if args[1] > 0 {
		cause.Reason = "too many outcomes of its provider are not known"
	}
	t, err := effectonce.Next(s.rows[i], cause, s.rows[i].AsOf)
	if err != nil {
		return said(err)
	}
	op, err := s.store.Apply(context.Background(), t)
	return s.touched(i, effectonce.Key{}, said(err, op))
}

func (s *system) waiting(args []int) answer {
	var a answer
	for _, tenant := range []string{effectonce.DefaultTenant, "acme"} {
		ops, err := s.store.Waiting(context.Background(), tenant, tools[args[0]], 1+args[1])
		a.Said = append(a.Said, ops, failureOf(err))
	}
	return a
}

// list walks the pages of one of several filters.
func (s *system) list(args []int) answer {
	f := []effectonce.Filter{
		{}, {Tenant: "acme"}, {States: []effectonce.State{effectonce.StateReview, effectonce.StateUnknown, effectonce.StatePending}},
		{Tool: "refund"}, {Run: "run-1"}, {Run: "run-2", Step: "step-0"}, {Text: "RE_1"}, {Alarmed: true},
	}[args[0]]
	f.Limit = []int{1, 3, 7, 50, 500}[args[1]]
	var a answer
	for {
		page, err := s.store.List(context.Background(), f)
		a.Said = append(a.Said, page.Operations, failureOf(err), page.Next == "")
		if f.After = page.Next; err != nil || f.After == "" {
			return a
		}
	}
}

func (s *system) document(args []int) answer {
	digest, err := s.store.PutDocument(context.Background(), fmt.Appendf(nil, "document %d", args[0]))
	a := said(err, digest)
	doc, err := s.store.Document(context.Background(), digest)
	a.Said = append(a.Said, doc, failureOf(err))
	digest[0]++
	_, err = s.store.Document(context.Background(), digest)
	a.Said = append(a.Said, failureOf(err))
	return a
}

// everything is the whole state.
func (s *system) everything() answer {
	a := s.list([]int{0, 3})
	var ops []effectonce.Operation
	for _, one := range a.Said {
		if page, ok := one.([]effectonce.Operation); ok {
			ops = append(ops, page...)
		}
	}
	for _, op := range ops {
		events, err := s.store.Events(context.Background(), op.Key)
		a.Said = append(a.Said, events, failureOf(err))
	}
	due, err := s.store.Due(context.Background(), 100)
	a.Said = append(a.Said, due, failureOf(err))
	purgeable, err := s.store.Purgeable(context.Background(), 100)
	a.Said = append(a.Said, purgeable, failureOf(err))
	for i := range tools {
		a.Said = append(a.Said, s.waiting([]int{i, 60}))
	}
	a.Said = append(a.Said, s.limits([]int{0}), s.runs([]int{0, 2}), s.queues([]int{0, 2}))
	for run := range 4 {
		decisions, err := s.store.Decisions(context.Background(), "acme", runName(run))
		a.Said = append(a.Said, decisions, failureOf(err))
	}
	return a
}
