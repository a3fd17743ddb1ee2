package memory_test

import (
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
	"github.com/effectonce/effectonce/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Exercise(t, func(_ *testing.T, now func() time.Time) effectonce.Store {
		return memory.Open(memory.Options{Now: now})
	})
}

func TestCloneIsApart(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	a := memory.Open(memory.Options{Now: clock.Now, Secret: make([]byte, 32)})
	create := func(s *memory.Store, k byte) {
		t.Helper()
		op := effectonce.Operation{Key: effectonce.Key{k}, Terms: effectonce.DefaultTerms()}
		tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "w"}, clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, created, err := s.Create(t.Context(), tr); err != nil || !created {
			t.Fatalf("created %v, %v", created, err)
		}
	}
	create(a, 1)
	b := a.Clone()
	create(a, 2)
	create(b, 3)
	create(b, 4)
	for _, c := range []struct {
		name  string
		store *memory.Store
		keys  []byte
	}{{"original", a, []byte{1, 2}}, {"clone", b, []byte{1, 3, 4}}} {
		ops, events := c.store.Operations(), c.store.AllEvents()
		if len(ops) != len(c.keys) || len(events) != len(c.keys) {
			t.Errorf("%s: %d operations, %d events", c.name, len(ops), len(events))
			continue
		}
		for i, k := range c.keys {
			if ops[i].Key[0] != k || events[i].Key[0] != k {
				t.Errorf("%s: place %d holds %d and %d, want %d", c.name, i, ops[i].Key[0], events[i].Key[0], k)
			}
		}
	}
}
