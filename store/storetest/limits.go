package storetest

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

func limited(id string, limits ...effectonce.Limit) effectonce.Operation {
	op := intent(id)
	op.Limits = limits
	return op
}

// uses returns what is taken of limits.
func uses(f fixture, filter effectonce.LimitFilter) []effectonce.LimitUse {
	f.t.Helper()
	all, err := f.Limits(f.t.Context(), filter)
	if err != nil {
		f.t.Fatalf("limits: %v", err)
	}
	return all
}

// used is what is taken of the limit in its latest period, 0 if nobody knows it.
func used(f fixture, name string) int64 {
	f.t.Helper()
	for _, u := range uses(f, effectonce.LimitFilter{Name: name}) {
		return u.Used
	}
	return 0
}

// refuse checks that an operation is over a limit, and that nothing of it was stored.
func (f fixture) refuse(op effectonce.Operation) *effectonce.Error {
	f.t.Helper()
	_, created, err := f.Create(f.t.Context(), f.recorded(op, true))
	wantCode(f.t, "over the limit", err, effectonce.CodeLimitExceeded)
	if created {
		f.t.Error("created")
	}
	_, err = f.Load(f.t.Context(), op.Key)
	wantCode(f.t, "loading what was refused", err, effectonce.CodeNotFound)
	e := &effectonce.Error{}
	_, err = f.Events(f.t.Context(), op.Key)
	if err != nil {
		f.t.Errorf("events: %v", err)
	}
	_, _, err = f.Create(f.t.Context(), f.recorded(op, true))
	errors.As(err, &e)
	return e
}

// testLimits proves S8.3.
func testLimits(t *testing.T, open Open) {
	t.Run("the sum is never exceeded, whoever comes at the same moment", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		var created, refused atomic.Int64
		atOnce(64, func(i int) {
			op := limited(numbered("r", i), effectonce.Limit{Name: "payment:pi_1", Amount: 3, Max: 100})
			tr, _ := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: i%2 == 0, Owner: "w"}, f.clock.Now())
			_, c, err := f.Create(t.Context(), tr)
			switch {
			case err == nil && c:
				created.Add(1)
			case errors.Is(err, effectonce.ErrLimitExceeded):
				refused.Add(1)
			default:
				t.Errorf("created %v, %v", c, err)
			}
		})
		if created.Load() != 33 || refused.Load() != 31 || used(f, "payment:pi_1") != 99 {
			t.Errorf("%d created, %d refused, %d used", created.Load(), refused.Load(), used(f, "payment:pi_1"))
		}
	})

	t.Run("a refusal says what is exceeded and who holds it, and spoils no other", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		l := effectonce.Limit{Name: "n", Amount: 1, Max: 12}
		var keys []effectonce.Key
		for i := range 12 {
			keys = append(keys, f.create(limited(numbered("h", i), l), true).Key)
		}
		e := f.refuse(limited("late", l))
		if e.Limit != "n" || len(e.HeldBy) != effectonce.LimitHoldersMax {
			t.Errorf("limit %q, held by %d", e.Limit, len(e.HeldBy))
		}
		for _, key := range e.HeldBy {
			if !slices.Contains(keys, key) {
				t.Errorf("held by %s, which holds nothing", key.Short())
			}
		}
		atOnce(32, func(i int) {
			op := limited(numbered("mixed", i), effectonce.Limit{Name: "free", Amount: 1, Max: 100})
			if i%2 == 0 {
				op.Limits = append(op.Limits, l)
			}
			tr, _ := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "w"}, f.clock.Now())
			_, c, err := f.Create(t.Context(), tr)
			if i%2 == 0 {
				wantCode(t, "one of two is full", err, effectonce.CodeLimitExceeded)
			} else if err != nil || !c {
				t.Errorf("created %v, %v", c, err)
			}
		})
		if used(f, "free") != 16 || used(f, "n") != 12 {
			t.Errorf("%d and %d are used", used(f, "free"), used(f, "n"))
		}
	})

	t.Run("a repeat takes nothing, also of a limit that is full", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := limited("a", effectonce.Limit{Name: "n", Amount: 2, Max: 3})
		f.create(op, true)
		for range 3 {
			if _, created, err := f.Create(t.Context(), f.recorded(op, true)); err != nil || created {
				t.Errorf("created %v, %v", created, err)
			}
		}
		if used(f, "n") != 2 {
			t.Errorf("%d is used", used(f, "n"))
		}
	})

	for _, c := range []struct {
		name string
		end  func(f fixture, op effectonce.Operation)
		left bool
	}{
		{"released on a definitive failure", func(f fixture, op effectonce.Operation) { f.apply(op, rejected(op)) }, true},
		{"spent on success", func(f fixture, op effectonce.Operation) { f.apply(op, succeeded(op)) }, false},
		{"kept while unknown", func(f fixture, op effectonce.Operation) { f.apply(op, unclear(op)) }, false},
		{"kept in review, and when abandoned", func(f fixture, op effectonce.Operation) {
			op = f.apply(op, unclear(op))
			op = f.apply(op, effectonce.TakenOver{Owner: "w"})
			op = f.apply(op, effectonce.Ruled{Token: op.Token, Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 12}})
			f.refuse(limited("during review", effectonce.Limit{Name: "n", Amount: 1, Max: 1}))
			f.apply(op, effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveAbandoned, Person: "pat", Reason: "gone"})
		}, false},
		{"released when a person says that there was no effect", func(f fixture, op effectonce.Operation) {
			op = f.apply(op, unclear(op))
			op = f.apply(op, effectonce.TakenOver{Owner: "w"})
			op = f.apply(op, effectonce.Ruled{Token: op.Token, Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 12}})
			f.apply(op, effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveAbsentFail, Person: "pat", Reason: "asked", AcceptRisk: true})
		}, true},
	} {
		t.Run("what an operation takes is "+c.name, func(t *testing.T) {
			t.Parallel()
			f := start(t, open)
			other := effectonce.Limit{Name: "other", Amount: 5, Max: 10, Per: time.Hour}
			op := f.create(limited("a", effectonce.Limit{Name: "n", Amount: 1, Max: 1}, other), true)
			c.end(f, op)
			next := limited("b", effectonce.Limit{Name: "n", Amount: 1, Max: 1})
			if c.left {
				f.create(next, true)
				if used(f, "other") != 0 || used(f, "n") != 1 {
					t.Errorf("%d and %d are used", used(f, "n"), used(f, "other"))
				}
				return
			}
			f.refuse(next)
			if used(f, "other") != 5 {
				t.Errorf("%d is used", used(f, "other"))
			}
		})
	}

	t.Run("a held operation holds its part too", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		l := effectonce.Limit{Name: "n", Amount: 1, Max: 1}
		op, _, err := f.Create(t.Context(), f.next(effectonce.Operation{}, effectonce.Recorded{Operation: limited("a", l), Hold: effectonce.HoldApproval}))
		if err != nil {
			t.Fatal(err)
		}
		f.refuse(limited("b", l))
		f.apply(op, effectonce.Resolved{Version: op.Version, Resolution: effectonce.ResolveRejected, Person: "pat", Reason: "no"})
		f.create(limited("b", l), true)
	})

	t.Run("a period ends by the store's clock", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		l := effectonce.Limit{Name: "n", Amount: 1, Max: 1, Per: 2 * time.Hour}
		op := f.create(limited("a", l), true)
		f.clock.Move(2*time.Hour - time.Microsecond)
		early := f.recorded(limited("b", l), true)
		f.refuse(limited("b", l))
		f.clock.Move(time.Microsecond)
		// Computed in the period before; what counts is when it is stored.
		if _, created, err := f.Create(t.Context(), early); err != nil || !created {
			t.Fatalf("created %v, %v", created, err)
		}
		f.refuse(limited("c", l))
		// The first one gives back what it took, which is of the period before.
		f.apply(op, rejected(op))
		f.refuse(limited("c", l))
		all := uses(f, effectonce.LimitFilter{Name: "n"})
		if len(all) == 0 || all[0].Used != 1 || !all[0].From.Equal(epoch.Add(2*time.Hour)) || all[0].Per != l.Per {
			t.Errorf("%+v", all)
		}
	})

	t.Run("limits of another tenant, name or period are others, and the last maximum counts", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		f.create(limited("a", effectonce.Limit{Name: "n", Amount: 5, Max: 5}), true)
		f.create(limited("b", effectonce.Limit{Name: "m", Amount: 5, Max: 5}), true)
		f.create(limited("c", effectonce.Limit{Name: "n", Amount: 5, Max: 5, Per: time.Hour}), true)
		foreign := limited("a", effectonce.Limit{Name: "n", Amount: 5, Max: 5})
		foreign.Tenant = "other"
		foreign.Key = mustKey(foreign)
		f.create(foreign, true)
		f.create(limited("d", effectonce.Limit{Name: "n", Amount: 5, Max: 10}), true)
		f.refuse(limited("e", effectonce.Limit{Name: "n", Amount: 1, Max: 5}))
		got := uses(f, effectonce.LimitFilter{Tenant: "acme", Name: "n"})
		if len(got) != 2 || got[1].Used != 10 || got[1].Max != 10 || got[1].Per != 0 || !got[1].From.IsZero() {
			t.Errorf("%+v", got)
		}
	})

	t.Run("are listed with what holds them", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		day := effectonce.Limit{Name: "Orders:agent:a7", Amount: 1, Max: 9, Per: 24 * time.Hour}
		total := effectonce.Limit{Name: "refunds:pi_1", Amount: 480, Max: 1000}
		first := f.create(limited("a", day, total), true)
		f.clock.Move(24 * time.Hour)
		second := f.create(limited("b", day, total), true)
		second = f.apply(second, succeeded(second))
		third := f.create(limited("c", day), true)

		type line struct {
			name string
			used int64
			keys []effectonce.Key
		}
		for _, c := range []struct {
			name   string
			filter effectonce.LimitFilter
			want   []line
		}{
			{"all, the latest period first", effectonce.LimitFilter{}, []line{
				{day.Name, 2, []effectonce.Key{third.Key, second.Key}}, {day.Name, 1, []effectonce.Key{first.Key}},
				{total.Name, 960, []effectonce.Key{second.Key, first.Key}}}},
			{"by name", effectonce.LimitFilter{Name: total.Name}, []line{{total.Name, 960, []effectonce.Key{second.Key, first.Key}}}},
			{"by text, in any case", effectonce.LimitFilter{Text: "orders"}, []line{
				{day.Name, 2, []effectonce.Key{third.Key, second.Key}}, {day.Name, 1, []effectonce.Key{first.Key}}}},
			{"of nobody", effectonce.LimitFilter{Tenant: "other"}, nil},
			{"few", effectonce.LimitFilter{Limit: 1, Holders: 1}, []line{{day.Name, 2, []effectonce.Key{third.Key}}}},
		} {
			var got []line
			for _, u := range uses(f, c.filter) {
				l := line{name: u.Name, used: u.Used}
				for _, h := range u.Holders {
					l.keys = append(l.keys, h.Key)
				}
				got = append(got, l)
			}
			if !slices.EqualFunc(got, c.want, func(a, b line) bool { return a.name == b.name && a.used == b.used && slices.Equal(a.keys, b.keys) }) {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			}
		}
		u := uses(f, effectonce.LimitFilter{Name: total.Name})[0]
		equal(t, "a use", u, effectonce.LimitUse{Tenant: "acme", Name: total.Name, Used: 960, Max: 1000, Holders: []effectonce.Holder{
			{Key: second.Key, Amount: 480, State: effectonce.StateSucceeded}, {Key: first.Key, Amount: 480, State: effectonce.StateInProgress}}})
		_, err := f.Limits(t.Context(), effectonce.LimitFilter{Limit: effectonce.ListLimitMax + 1})
		wantCode(t, "a limit over the maximum", err, effectonce.CodeInvalid)
	})
}
