package storetest

import (
	"errors"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

func decision(run, step string) effectonce.Decision {
	return effectonce.Decision{Tenant: "acme", Run: run, Step: step, Tool: "stripe.refund", Arguments: []byte(`{"amount":480}`), Actor: "agent-1"}
}

// journal is a fixture whose store keeps decisions.
type journal struct{ fixture }

func startJournal(t *testing.T, open Open) journal {
	t.Helper()
	f := start(t, open)
	return journal{f}
}

func (j journal) decide(d effectonce.Decision) effectonce.Decision {
	j.t.Helper()
	stored, first, err := j.Decide(j.t.Context(), d)
	if err != nil || !first {
		j.t.Fatalf("step %s: first %v, %v", d.Step, first, err)
	}
	return stored
}

func testJournal(t *testing.T, open Open) {
	// S10.1, I9
	t.Run("of 32 decisions for a step the first is kept, and everybody gets it", func(t *testing.T) {
		t.Parallel()
		j := startJournal(t, open)
		var firsts atomic.Int64
		var got [32]effectonce.Decision
		atOnce(len(got), func(i int) {
			d := decision("run", "step")
			d.Note = numbered("agent", i)
			stored, first, err := j.Decide(t.Context(), d)
			if err != nil {
				t.Error(err)
			}
			if first {
				firsts.Add(1)
				if stored.Note != d.Note {
					t.Error("the first one got another one's decision")
				}
			}
			got[i] = stored
		})
		for _, d := range got {
			equal(t, "decision", d, got[0])
		}
		if firsts.Load() != 1 || got[0].Seq != 1 || !got[0].At.Equal(j.clock.Now()) {
			t.Errorf("%d were first, seq %d", firsts.Load(), got[0].Seq)
		}
	})

	t.Run("steps are numbered without gaps in the order of recording", func(t *testing.T) {
		t.Parallel()
		j := startJournal(t, open)
		atOnce(32, func(i int) {
			// Every step twice, in two runs.
			for _, run := range []string{"one", "two"} {
				if _, _, err := j.Decide(t.Context(), decision(run, numbered("s", i/2))); err != nil {
					t.Error(err)
				}
			}
		})
		for _, run := range []string{"one", "two"} {
			all, err := j.Decisions(t.Context(), "acme", run)
			if err != nil || len(all) != 16 {
				t.Fatalf("%d decisions, %v", len(all), err)
			}
			for i, d := range all {
				if d.Seq != int64(i)+1 || d.Run != run {
					t.Errorf("place %d has seq %d of run %s", i, d.Seq, d.Run)
				}
			}
		}
	})

	t.Run("every field comes back", func(t *testing.T) {
		t.Parallel()
		j := startJournal(t, open)
		var want effectonce.Decision
		n := int64(1)
		fill(reflect.ValueOf(&want).Elem(), "decision", &n)
		want.Arguments = []byte(`{"a":1}`)
		stored := j.decide(want)
		want.Seq, want.At = 1, j.clock.Now()
		equal(t, "decided", stored, want)
		got, err := j.Decision(t.Context(), want.Tenant, want.Run, want.Step)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "read", got, want)
		empty := effectonce.Decision{Tenant: "acme", Run: "r", Step: "s"}
		j.decide(empty)
		if got, err = j.Decision(t.Context(), "acme", "r", "s"); err != nil {
			t.Fatal(err)
		}
		empty.Seq, empty.At = 1, j.clock.Now()
		equal(t, "an empty one", got, empty)
	})

	t.Run("a finished run takes no further step, and still answers for those it has", func(t *testing.T) {
		t.Parallel()
		j := startJournal(t, open)
		first := j.decide(decision("run", "one"))
		last := decision("run", "last")
		last.Finish = true
		last = j.decide(last)
		_, first2, err := j.Decide(t.Context(), decision("run", "three"))
		wantCode(t, "a further step", err, effectonce.CodeRunFinished)
		if first2 {
			t.Error("first")
		}
		_, err = j.Decision(t.Context(), "acme", "run", "three")
		wantCode(t, "reading it", err, effectonce.CodeNotFound)
		for _, want := range []effectonce.Decision{first, last} {
			other := decision("run", want.Step)
			other.Note = "other"
			got, again, err := j.Decide(t.Context(), other)
			if err != nil || again {
				t.Errorf("%s: first %v, %v", want.Step, again, err)
			}
			equal(t, "stored", got, want)
		}
		j.decide(decision("another run", "three"))
		foreign := decision("run", "three")
		foreign.Tenant = "other"
		j.decide(foreign)
	})

	t.Run("of several that finish at the same moment one is the last step", func(t *testing.T) {
		t.Parallel()
		j := startJournal(t, open)
		atOnce(32, func(i int) {
			d := decision("run", numbered("s", i))
			d.Finish = i%4 == 0
			if _, _, err := j.Decide(t.Context(), d); err != nil && !errors.Is(err, effectonce.ErrRunFinished) {
				t.Error(err)
			}
		})
		all, err := j.Decisions(t.Context(), "acme", "run")
		if err != nil || len(all) == 0 {
			t.Fatalf("%d, %v", len(all), err)
		}
		for i, d := range all {
			if d.Finish != (i == len(all)-1) || d.Seq != int64(i)+1 {
				t.Errorf("place %d of %d: seq %d, finish %v", i, len(all), d.Seq, d.Finish)
			}
		}
	})

	t.Run("what is not there", func(t *testing.T) {
		t.Parallel()
		j := startJournal(t, open)
		j.decide(decision("run", "one"))
		for _, c := range [][3]string{{"acme", "run", "two"}, {"acme", "other", "one"}, {"other", "run", "one"}} {
			_, err := j.Decision(t.Context(), c[0], c[1], c[2])
			wantCode(t, "decision", err, effectonce.CodeNotFound)
		}
		if all, err := j.Decisions(t.Context(), "other", "run"); err != nil || len(all) != 0 {
			t.Errorf("%d, %v", len(all), err)
		}
	})

	// S10.3
	t.Run("runs are listed, those that began last first", func(t *testing.T) {
		t.Parallel()
		j := startJournal(t, open)
		for i := range 6 {
			d := decision(numbered("Run", i), "one")
			d.Tenant = []string{"acme", "other"}[i%2]
			d.Finish = i >= 4
			j.decide(d)
			j.clock.Move(time.Second)
		}
		again := decision("Run-0", "two")
		j.decide(again)
		names := func(f effectonce.RunFilter) []string {
			t.Helper()
			var all []string
			for {
				page, err := j.Runs(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Runs {
					all = append(all, r.Run)
				}
				if f.After = page.Next; f.After == "" {
					return all
				}
			}
		}
		for _, c := range []struct {
			name   string
			filter effectonce.RunFilter
			want   []string
		}{
			{"all", effectonce.RunFilter{}, []string{"Run-5", "Run-4", "Run-3", "Run-2", "Run-1", "Run-0"}},
			{"in pages", effectonce.RunFilter{Limit: 2}, []string{"Run-5", "Run-4", "Run-3", "Run-2", "Run-1", "Run-0"}},
			{"of a tenant", effectonce.RunFilter{Tenant: "acme", Limit: 1}, []string{"Run-4", "Run-2", "Run-0"}},
			{"unfinished", effectonce.RunFilter{Unfinished: true}, []string{"Run-3", "Run-2", "Run-1", "Run-0"}},
			{"by text, in any case", effectonce.RunFilter{Text: "run-3"}, []string{"Run-3"}},
		} {
			if got := names(c.filter); !slices.Equal(got, c.want) {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			}
		}
		page, err := j.Runs(t.Context(), effectonce.RunFilter{Text: "Run-0"})
		if err != nil || len(page.Runs) != 1 {
			t.Fatal(err)
		}
		equal(t, "a run", page.Runs[0], effectonce.Run{Tenant: "acme", Run: "Run-0", Steps: 2, BeganAt: epoch, LastAt: j.clock.Now()})
		for field, filter := range map[string]effectonce.RunFilter{"limit": {Limit: effectonce.ListLimitMax + 1}, "after": {After: "' OR 1=1 --"}} {
			_, err := j.Runs(t.Context(), filter)
			wantCode(t, field, err, effectonce.CodeInvalid)
		}
	})
}
