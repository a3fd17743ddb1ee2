package metamorphic_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/sqlite"
)

var (
	seedFlag     = flag.Uint64("metamorphic.seed", 1, "seed of the first workload")
	durationFlag = flag.Duration("metamorphic.duration", 0, "how long workloads are tried; 0 for a few of them")
	lengthFlag   = flag.Int("metamorphic.length", 600, "commands of a workload")
	planFlag     = flag.String("metamorphic.plan", "", "a workload to repeat instead")
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// S16, S5.7, S5.4: every store gives the same history for the same workload.
func TestEveryStoreTellsTheSameStory(t *testing.T) {
	stores := map[string]opener{"sqlite": openSQLite, "postgres": openPostgres}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "postgres" {
				pgtest.Need(t)
			}
			reached := reach{}
			if *planFlag != "" {
				p, err := parsePlan(*planFlag)
				if err != nil {
					t.Fatal(err)
				}
				if d := run(t, name, open, p, reached); d != "" {
					t.Fatal(d)
				}
				return
			}
			commands, workloads := 0, 0
			begun := time.Now()
			for seed := *seedFlag; workloads == 0 || *durationFlag == 0 && workloads < 4 || time.Since(begun) < *durationFlag; seed++ {
				p := randomPlan(seed, *lengthFlag)
				if d := run(t, name, open, p, reached); d != "" {
					t.Logf("seed %d: %s", seed, d)
					p = shorten(p, time.Now().Add(time.Minute), func(p plan) bool {
						shorter := run(t, name, open, p, reached)
						if shorter != "" {
							d = shorter
						}
						return shorter != ""
					})
					t.Fatalf("shortened: %s\nrepeat: go test ./fault/metamorphic -metamorphic.plan=%q", d, p)
				}
				commands += len(p)
				workloads++
			}
			if *lengthFlag >= 600 && (*seedFlag == 1 && workloads >= 4 || workloads >= 20) {
				reached.check(t)
			}
			if testing.Verbose() {
				t.Log(reached)
			}
			t.Logf("%d workloads of %d commands each are equal on memory and %s, in %s", workloads, *lengthFlag, name, time.Since(begun).Round(time.Millisecond))
		})
	}
}

type opener func(t *testing.T, now func() time.Time) effectonce.Store

// epoch is when workloads begin.
var epoch = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// run applies a workload to the memory store and another one, and returns the first difference, empty if there is none.
func run(t *testing.T, name string, open opener, p plan, reached reach) string {
	t.Helper()
	now := epoch
	clock := func() time.Time { return now }
	systems := []*system{newSystem("memory", memory.Open(memory.Options{Now: clock, Secret: secret}), epoch, clock), newSystem(name, open(t, clock), epoch, clock)}
	defer func() {
		for _, s := range systems {
			_ = s.store.Close()
		}
	}()
	compare := func(at int, what string, ask func(*system) answer) string {
		want, got := ask(systems[0]), ask(systems[1])
		if equal(reflect.ValueOf(want), reflect.ValueOf(got)) {
			reached.note(want)
			return ""
		}
		if d := cmp.Diff(want, got, comparing); d != "" {
			return fmt.Sprintf("command %d, %s (- memory, + %s):\n%s", at+1, what, name, d)
		}
		return ""
	}
	for i, c := range p {
		// No two commands at one moment: what is due at the same moment may come in any order.
		now = now.Add(time.Microsecond)
		if c.verb == "tick" {
			now = now.Add(ticks[c.args[0]%len(ticks)])
			continue
		}
		if d := compare(i, c.String(), func(s *system) answer { return verbs[c.verb].do(s, c.args) }); d != "" {
			return d
		}
		if i%100 == 99 {
			if d := compare(i, "everything after it", (*system).everything); d != "" {
				return d
			}
		}
	}
	return compare(len(p)-1, "everything at the end", (*system).everything)
}

// comparing says that times are equal if they are the same moment, and empty slices are nil ones.
var comparing = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })}

// equal is what comparing says, without keeping track of where: nearly everything is equal.
func equal(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if a.Type() != b.Type() {
		return false
	}
	if at, ok := a.Interface().(time.Time); ok {
		return at.Equal(b.Interface().(time.Time))
	}
	switch a.Kind() {
	case reflect.Interface, reflect.Pointer:
		return equal(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		if bytes, ok := a.Interface().([]byte); ok {
			return string(bytes) == string(b.Bytes())
		}
		for i := range min(a.Len(), b.Len()) {
			if !equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return a.Len() == b.Len()
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Interface() == b.Interface()
}

// secret is the installations': stamps and downstream keys are made of it.
var secret = []byte("the same secret in each store, 32")[:32]

// sameSecret gives a store the secret where it asks for 32 bytes, and chance for everything else, like the numbers of writes.
type sameSecret struct{}

func (sameSecret) Read(b []byte) (int, error) {
	if len(b) == len(secret) {
		return copy(b, secret), nil
	}
	return rand.Read(b)
}

func openSQLite(t *testing.T, now func() time.Time) effectonce.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "effectonce.db"), sqlite.Options{Now: now, Rand: sameSecret{}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openPostgres(t *testing.T, now func() time.Time) effectonce.Store {
	t.Helper()
	s, err := postgres.Open(context.Background(), pgtest.URL(t), postgres.Options{Now: now, Rand: sameSecret{}, Connections: 4})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
