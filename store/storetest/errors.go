package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// deciders are those calls of the further ports that decide by the store's clock.
func deciders(f fixture) map[string]func(context.Context) error {
	all := calls(f, f.recorded(intent("a"), true).To)
	names := []string{"purgeable", "forget", "decide", "append", "take queue", "return queue", "unpark", "waiting"}
	maps.DeleteFunc(all, func(name string, _ func(context.Context) error) bool { return !slices.Contains(names, name) })
	return all
}

// calls are all methods of the port, each with arguments that would work on an operation of intent "a".
func calls(f fixture, op effectonce.Operation) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			_, _, err := f.Create(ctx, f.recorded(intent("fresh"), true))
			return err
		},
		"create again": func(ctx context.Context) error {
			_, _, err := f.Create(ctx, f.recorded(intent("a"), true))
			return err
		},
		"apply": func(ctx context.Context) error {
			_, err := f.Apply(ctx, f.next(op, succeeded(op)))
			return err
		},
		"extend": func(ctx context.Context) error {
			_, err := f.Extend(ctx, op.Key, op.Token, time.Second, time.Minute)
			return err
		},
		"load": func(ctx context.Context) error {
			_, err := f.Load(ctx, op.Key)
			return err
		},
		"due": func(ctx context.Context) error {
			_, err := f.Due(ctx, 1)
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := f.List(ctx, effectonce.Filter{})
			return err
		},
		"events": func(ctx context.Context) error {
			_, err := f.Events(ctx, op.Key)
			return err
		},
		"put document": func(ctx context.Context) error {
			_, err := f.PutDocument(ctx, []byte("doc"))
			return err
		},
		"document": func(ctx context.Context) error {
			_, err := f.Document(ctx, canon.Digest{1})
			return err
		},
		"secret": func(ctx context.Context) error {
			_, err := f.Secret(ctx)
			return err
		},
	}
	all["limits"] = func(ctx context.Context) error { _, err := f.Limits(ctx, effectonce.LimitFilter{}); return err }
	all["purgeable"] = func(ctx context.Context) error { _, err := f.Purgeable(ctx, 1); return err }
	all["forget"] = func(ctx context.Context) error { _, err := f.Forget(ctx, 1); return err }
	all["decide"] = func(ctx context.Context) error { _, _, err := f.Decide(ctx, decision("run", "step")); return err }
	all["decision"] = func(ctx context.Context) error { _, err := f.Decision(ctx, "acme", "run", "step"); return err }
	all["decisions"] = func(ctx context.Context) error { _, err := f.Decisions(ctx, "acme", "run"); return err }
	all["runs"] = func(ctx context.Context) error { _, err := f.Runs(ctx, effectonce.RunFilter{}); return err }
	all["append"] = func(ctx context.Context) error { return f.Append(ctx, message("a", "1")) }
	all["take queue"] = func(ctx context.Context) error { _, _, err := f.TakeQueue(ctx, time.Minute, 1); return err }
	all["return queue"] = func(ctx context.Context) error {
		return f.ReturnQueue(ctx, effectonce.Queue{Tenant: "acme", Subject: "a"}, effectonce.Relayed{})
	}
	all["queues"] = func(ctx context.Context) error { _, err := f.Queues(ctx, effectonce.QueueFilter{}); return err }
	all["unpark"] = func(ctx context.Context) error { return f.Unpark(ctx, "acme", "a", "a/1", false) }
	all["waiting"] = func(ctx context.Context) error { _, err := f.Waiting(ctx, "acme", "stripe.refund", 1); return err }
	return all
}

// testErrors proves that nothing but an *effectonce.Error leaves a store, and S16.14 as far as the store answers.
func testErrors(t *testing.T, open Open) {
	t.Run("a cancelled caller", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		op := f.create(intent("a"), true)
		if _, err := f.Secret(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range calls(f, op) {
			err := call(ctx)
			wantCode(t, name, err, effectonce.CodeStoreUnavailable)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v does not wrap the context's error", name, err)
			}
		}
		if got := f.load(op.Key); !same(t, got, op) {
			t.Error("a cancelled call changed the row")
		}
	})

	t.Run("a closed store", func(t *testing.T) {
		t.Parallel()
		c := NewClock()
		f := fixture{Store: open(t, c.Now), t: t, clock: c}
		op := f.create(intent("a"), true)
		if _, err := f.Secret(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for name, call := range calls(f, op) {
			wantCode(t, name, call(t.Context()), effectonce.CodeStoreUnavailable)
		}
		if err := f.Close(); err != nil {
			t.Errorf("closing again: %v", err)
		}
	})

	t.Run("calls under way when it closes are done or refused", func(t *testing.T) {
		t.Parallel()
		c := NewClock()
		f := fixture{Store: open(t, c.Now), t: t, clock: c}
		atOnce(33, func(i int) {
			if i == 16 {
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			tr, _ := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: intent(numbered("c", i))}, c.Now())
			op, created, err := f.Create(t.Context(), tr)
			if err != nil {
				wantCode(t, "create", err, effectonce.CodeStoreUnavailable)
			} else if !created || op.Version != 1 {
				t.Errorf("created %v, version %d", created, op.Version)
			}
		})
	})

	t.Run("an unknown key is not found", func(t *testing.T) {
		t.Parallel()
		f := start(t, open)
		_, err := f.Load(t.Context(), effectonce.Key{1})
		wantCode(t, "load", err, effectonce.CodeNotFound)
	})
}
