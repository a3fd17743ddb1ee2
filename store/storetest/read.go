package storetest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

func testDue(t *testing.T, open Open) {
	t.Run("those longest due first, and no more than asked for", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for i := range 6 {
			op := intent(numbered("due", i))
			// Created in this order, due in the opposite one.
			op.Terms.CallTimeout = time.Duration(60-10*i) * time.Second
			op.Terms.Grace = time.Second
			f.create(op, true)
		}
		if ops, err := f.Due(t.Context(), 10); err != nil || len(ops) != 0 {
			t.Fatalf("%d due before any lease is over, %v", len(ops), err)
		}
		f.clock.Move(31 * time.Second)
		ops, err := f.Due(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if got := intentIDs(ops); !slices.Equal(got, []string{"due-5", "due-4", "due-3"}) {
			t.Errorf("due are %v", got)
		}
		for _, op := range ops {
			if !op.AsOf.Equal(f.clock.Now()) || op.Terms.Grace != time.Second || !same(t, op, f.load(op.Key)) {
				t.Errorf("%s is not the whole operation", op.IntentID)
			}
		}
		if ops, err = f.Due(t.Context(), 2); err != nil || !slices.Equal(intentIDs(ops), []string{"due-5", "due-4"}) {
			t.Errorf("the first two are %v, %v", intentIDs(ops), err)
		}
	})

	// S5.2
	t.Run("a final operation or one in review is never due", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for i, end := range []func(effectonce.Operation) effectonce.AttemptEnded{succeeded, rejected} {
			op := f.create(intent(numbered("final", i)), true)
			f.apply(op, end(op))
		}
		op := f.create(intent("review"), true)
		op = f.apply(op, unclear(op))
		op = f.apply(op, effectonce.TakenOver{Owner: "w"})
		f.apply(op, effectonce.Ruled{Token: op.Token, Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 12}})
		f.clock.Move(1000 * time.Hour)
		if ops, err := f.Due(t.Context(), 10); err != nil || len(ops) != 0 {
			t.Errorf("due are %v, %v", intentIDs(ops), err)
		}
	})
}

func intentIDs(ops []effectonce.Operation) []string {
	var ids []string
	for _, op := range ops {
		ids = append(ids, op.IntentID)
	}
	return ids
}

func testList(t *testing.T, open Open) {
	stock := func(f fixture) {
		for i := range 12 {
			op := intent(numbered("order", i))
			op.Tenant = []string{"acme", "other"}[i%2]
			op.Tool = []string{"stripe.refund", "mail.send", "deploy"}[i%3]
			op.Run, op.Step, op.Resource = numbered("run", i/4), "Step "+numbered("s", i), numbered("pi%_", i)
			op.Key = mustKey(op)
			op = f.create(op, true)
			switch i % 4 {
			case 0:
				end := succeeded(op)
				end.End.Reference = numbered("RE", i)
				f.apply(op, end)
			case 1:
				f.apply(op, rejected(op))
			case 2:
				op = f.apply(op, unclear(op))
				op = f.apply(op, effectonce.TakenOver{Owner: "w"})
				f.apply(op, effectonce.Ruled{Token: op.Token, Ruling: effectonce.Ruling{Do: effectonce.DoReview, Line: 4}, Finding: effectonce.Finding{Found: effectonce.FoundMany}})
			}
		}
	}
	order := func(ids ...int) (names []string) {
		for _, i := range ids {
			names = append(names, numbered("order", i))
		}
		return names
	}

	t.Run("filters", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		stock(f)
		key := f.load(func() effectonce.Key { op := intent("order-4"); op.Tool = "mail.send"; return mustKey(op) }()).Key
		for _, c := range []struct {
			name   string
			filter effectonce.Filter
			want   []string
		}{
			{"none: newest first", effectonce.Filter{}, order(11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)},
			{"tenant", effectonce.Filter{Tenant: "other"}, order(11, 9, 7, 5, 3, 1)},
			{"tool", effectonce.Filter{Tool: "deploy"}, order(11, 8, 5, 2)},
			{"intent id", effectonce.Filter{IntentID: "order-7"}, order(7)},
			{"run", effectonce.Filter{Run: "run-1"}, order(7, 6, 5, 4)},
			{"step", effectonce.Filter{Step: "Step s-7"}, order(7)},
			{"one state", effectonce.Filter{States: []effectonce.State{effectonce.StateFailed}}, order(9, 5, 1)},
			{"states", effectonce.Filter{States: []effectonce.State{effectonce.StateReview, effectonce.StateInProgress}}, order(11, 10, 7, 6, 3, 2)},
			{"the common state among them", effectonce.Filter{States: []effectonce.State{effectonce.StateSucceeded, effectonce.StateFailed}}, order(9, 8, 5, 4, 1, 0)},
			{"no such state there", effectonce.Filter{States: []effectonce.State{effectonce.StateAbandoned}}, nil},
			{"alarmed", effectonce.Filter{Alarmed: true}, order(10, 6, 2)},
			{"all together", effectonce.Filter{Tenant: "acme", Tool: "deploy", Run: "run-0", Alarmed: true, States: []effectonce.State{effectonce.StateReview}, Text: "ORDER"}, order(2)},
			{"text in the intent id, in any case", effectonce.Filter{Text: "ER-1"}, order(11, 10, 1)},
			{"text in the step", effectonce.Filter{Text: "step s-3"}, order(3)},
			{"text in the reference", effectonce.Filter{Text: "re-8"}, order(8)},
			{"text in the resource, with what patterns would take for wildcards", effectonce.Filter{Text: "%_-5"}, order(5)},
			{"text in the key", effectonce.Filter{Text: key.String()[10:40]}, order(4)},
			{"text that is nowhere", effectonce.Filter{Text: "o%1"}, nil},
		} {
			page, err := f.List(t.Context(), c.filter)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if got := intentIDs(page.Operations); !slices.Equal(got, c.want) || page.Next != "" {
				t.Errorf("%s: got %v, next %q; want %v", c.name, got, page.Next, c.want)
			}
		}
		page, err := f.List(t.Context(), effectonce.Filter{Limit: 1})
		if err != nil || len(page.Operations) != 1 {
			t.Fatal(err)
		}
		equal(t, "the listed operation", page.Operations[0], f.load(page.Operations[0].Key))
	})

	t.Run("pages are whole while others insert", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for i := range 25 {
			f.create(intent(numbered("old", i)), true)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var added atomic.Int64
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				tr, _ := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: intent(numbered("new", i))}, f.clock.Now())
				if _, _, err := f.Create(t.Context(), tr); err != nil {
					t.Error(err)
					return
				}
				added.Add(1)
			}
		})
		seen := map[string]int{}
		// The first page is taken before the others are inserted, which come above it.
		filter := effectonce.Filter{Limit: 4}
		for {
			page, err := f.List(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range intentIDs(page.Operations) {
				seen[id]++
			}
			if page.Next == "" {
				break
			}
			filter.After = page.Next
		}
		close(stop)
		wg.Wait()
		for i := range 25 {
			if n := seen[numbered("old", i)]; n != 1 {
				t.Errorf("old-%d was seen %d times", i, n)
			}
		}
	})

	t.Run("a page that is just full has no next", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for i := range 4 {
			f.create(intent(numbered("n", i)), true)
		}
		page, err := f.List(t.Context(), effectonce.Filter{Limit: 4})
		if err != nil || len(page.Operations) != 4 || page.Next != "" {
			t.Errorf("%d, next %q, %v", len(page.Operations), page.Next, err)
		}
	})

	t.Run("bad limits and cursors are refused", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for field, filter := range map[string]effectonce.Filter{
			"limit": {Limit: effectonce.ListLimitMax + 1}, "after": {After: "' OR 1=1 --"},
		} {
			_, err := f.List(t.Context(), filter)
			wantCode(t, field, err, effectonce.CodeInvalid)
			if e, ok := err.(*effectonce.Error); ok && e.Field != field {
				t.Errorf("the error names %q, want %q", e.Field, field)
			}
		}
		_, err := f.List(t.Context(), effectonce.Filter{Limit: -1})
		wantCode(t, "a negative limit", err, effectonce.CodeInvalid)
	})
}

func testDocuments(t *testing.T, open Open) {
	t.Run("are kept under their digest, once", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		for _, doc := range []string{"class: non_idempotent\n", "", "\x00\xff"} {
			for range 2 {
				d, err := f.PutDocument(t.Context(), []byte(doc))
				if err != nil || d != canon.Digest(sha256.Sum256([]byte(doc))) {
					t.Fatalf("%s, %v", d, err)
				}
				if got, err := f.Document(t.Context(), d); err != nil || string(got) != doc {
					t.Errorf("%q came back as %q, %v", doc, got, err)
				}
			}
		}
		_, err := f.Document(t.Context(), canon.Digest{1})
		wantCode(t, "an unknown digest", err, effectonce.CodeNotFound)
	})

	t.Run("the same one at the same moment", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		atOnce(16, func(int) {
			if _, err := f.PutDocument(t.Context(), []byte("doc")); err != nil {
				t.Error(err)
			}
		})
	})
}

// testSecret proves that downstream keys do not change: S3.9.
func testSecret(t *testing.T, open Open) {
	t.Run("is made once, whoever asks first", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		var all sync.Map
		atOnce(32, func(int) {
			s, err := f.Secret(t.Context())
			if err != nil || len(s) != 32 {
				t.Errorf("%d bytes, %v", len(s), err)
			}
			all.Store(fmt.Sprintf("%x", s), true)
			clear(s) // whoever gets it may write to it
		})
		n := 0
		all.Range(func(_, _ any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%d different secrets", n)
		}
	})

	t.Run("another store has another one", func(t *testing.T) {
		t.Parallel()
		a, errA := start(t, open).Secret(t.Context())
		b, errB := start(t, open).Secret(t.Context())
		if errA != nil || errB != nil || slices.Equal(a, b) {
			t.Errorf("%v, %v, equal %v", errA, errB, slices.Equal(a, b))
		}
	})
}
