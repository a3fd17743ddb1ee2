package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/policy"
	memorystore "github.com/effectonce/effectonce/store/memory"
	"github.com/effectonce/effectonce/store/sqlite"
)

// perOrder and perTicket are two files for one tool.
var (
	perOrder  = pay(`intent_id: "refund:{order}", arguments: {order: {kind: identity}, ticket: {required: true}}`)
	perTicket = pay(`intent_id: "refund:{order}:{ticket}", arguments: {order: {kind: identity}, ticket: {kind: identity}}`)
)

// S3.12: two daemons that start with different files while the tool has no operation recognise each other's.
func TestTwoFilesOverAnEmptyStoreExecuteOnce(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) effectonce.Store{
		"memory": func(*testing.T) effectonce.Store { return memorystore.Open(memorystore.Options{}) },
		"SQLite": func(t *testing.T) effectonce.Store {
			s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s
		},
	} {
		for order, files := range map[string][2][]byte{"coarse first": {perOrder, perTicket}, "fine first": {perTicket, perOrder}} {
			for _, first := range []int{0, 1} {
				t.Run(fmt.Sprintf("%s, %s, call to %d", name, order, first), func(t *testing.T) {
					t.Parallel()
					store := open(t)
					guard := effectonce.New(store, effectonce.Options{})
					ran := 0
					var daemons [2]*Tool
					for i, file := range files {
						c, err := edited(t, store, file)
						if err != nil {
							t.Fatal(err)
						}
						daemons[i] = c.Tools["pay"]
					}
					call := func(tool *Tool, args string, want int) {
						t.Helper()
						if _, err := do(t, guard, tool, args, nil, &ran); err != nil || ran != want {
							t.Errorf("%s: executed %d times, %v", args, ran, err)
						}
					}
					call(daemons[first], `{"order":"1","ticket":"a"}`, 1)
					call(daemons[1-first], `{"order":"1","ticket":"a"}`, 1)
					call(daemons[1-first], `{"order":"2","ticket":"a"}`, 2)
					call(daemons[first], `{"order":"2","ticket":"a"}`, 2)
					// Either restarts with its file, whatever was recorded last, and nothing changes.
					for i, file := range files {
						c, err := edited(t, store, file)
						if err != nil {
							t.Fatal(err)
						}
						if got, want := c.Tools["pay"].Policy.Version, daemons[i].Policy.Version; got != want {
							t.Errorf("daemon %d has version %s after a restart, and had %s", i, got, want)
						}
						call(c.Tools["pay"], `{"order":"1","ticket":"a"}`, 2)
					}
				})
			}
		}
	}
}

// S3.12: also those that start in the same moment are in one order.
func TestDaemonsThatStartTogetherAreInOneOrder(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	configs := make([]*Config, 8)
	var starting, read sync.WaitGroup
	read.Add(len(configs))
	for i := range configs {
		configs[i] = mustParse(t, "effectonce.yaml", pay(fmt.Sprintf(`intent_id: "%d:{order}", arguments: {order: {kind: identity}}`, i)))
		starting.Go(func() {
			if err := configs[i].KeepIdentities(t.Context(), &sameMoment{Store: store, read: &read}, nil); err != nil {
				t.Error(err)
			}
		})
	}
	starting.Wait()
	seen := map[int]bool{}
	for _, c := range configs {
		seen[len(c.Tools["pay"].Formerly())] = true
	}
	if len(seen) != len(configs) {
		t.Errorf("they have %v earlier identities", seen)
	}
}

// sameMoment is the store of one of several daemons that all look, and then all read the register before one of them enters itself.
type sameMoment struct {
	effectonce.Store
	read  *sync.WaitGroup
	reads int
}

func (s *sameMoment) Decisions(ctx context.Context, tenant, run string) ([]effectonce.Decision, error) {
	all, err := s.Store.Decisions(ctx, tenant, run)
	if s.reads++; s.reads == 2 {
		s.read.Done()
		s.read.Wait()
	}
	return all, err
}

// S3.12: a file that was in use can be gone back to, also where it cannot compute what came after it: that has its keys.
func TestGoingBackToAFile(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	ran := 0
	coarse := pay(`intent_id: "refund:{order}", arguments: {order: {kind: identity}}`)
	for i, file := range [][]byte{coarse, perTicket, coarse} {
		c, err := edited(t, store, file)
		if err != nil {
			t.Fatal(err)
		}
		out, err := do(t, guard, c.Tools["pay"], `{"order":"1","ticket":"a"}`, nil, &ran)
		if err != nil && effectonce.CodeOf(err) != effectonce.CodePayloadMismatch || ran != 1 || i > 0 && err == nil && !out.Replayed {
			t.Errorf("file %d: executed %d times, %v", i, ran, err)
		}
	}
}

// S3.12: whoever only looks, and whoever is refused, leaves nothing that could be in the way of the next file.
func TestARefusedStartEntersNothing(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	if _, err := edited(t, store, pay(`intent_id: "a:{order}", arguments: {order: {kind: identity}}`)); err != nil {
		t.Fatal(err)
	}
	wrong := []byte(`tools:
  mail: {accept_review: true, intent_id: "{to}", arguments: {to: {kind: identity}}}
  pay: {accept_review: true, intent_id: "{ticket}", arguments: {ticket: {kind: identity}}}`)
	if err := mustParse(t, "effectonce.yaml", wrong).KeepIdentities(t.Context(), store, nil); err == nil || !strings.Contains(err.Error(), "or a daemon was started for that") {
		t.Errorf("an edit that loses an identity: %v", err)
	}
	looked := mustParse(t, "effectonce.yaml", pay(`intent_id: "b:{order}", arguments: {order: {kind: identity}}`))
	if err := looked.FindIdentities(t.Context(), store); err != nil || len(looked.Tools["pay"].Formerly()) != 1 {
		t.Errorf("looking: %v", err)
	}
	for tool, want := range map[string]int{"pay": 1, "mail": 0} {
		if all, err := registerOfTool(store, tool).entries(t.Context()); err != nil || len(all) != want {
			t.Errorf("%s has %d entries, %v", tool, len(all), err)
		}
	}
}

// S3.12: what was recorded before there was a register stays recognised when its operations are not the newest any more, or forgotten.
func TestARegisterBeginsWithWhatTheNewestOperationNames(t *testing.T) {
	t.Parallel()
	before := mustParse(t, "effectonce.yaml", pay(`intent_id: "a:{order}", arguments: {order: {kind: identity}}`))
	store := recorded(t, before, `{"order":"1"}`)
	guard := effectonce.New(store, effectonce.Options{})
	if _, err := edited(t, store, pay(`intent_id: "b:{order}", arguments: {order: {kind: identity}}`)); err != nil {
		t.Fatal(err)
	}
	forgotten := noOperations{store}
	for _, file := range []string{"b", "c"} {
		c := mustParse(t, "effectonce.yaml", pay(`intent_id: "`+file+`:{order}", arguments: {order: {kind: identity}}`))
		if err := c.KeepIdentities(t.Context(), forgotten, nil); err != nil {
			t.Fatal(err)
		}
		c.Documents = documentsOf(store)
		ran := 0
		if out, err := do(t, guard, c.Tools["pay"], `{"order":"1"}`, nil, &ran); err != nil || !out.Replayed || ran != 0 {
			t.Errorf("%s: executed %d times, %v", file, ran, err)
		}
	}
}

// noOperations is a store that lists none.
type noOperations struct{ effectonce.Store }

func (noOperations) List(context.Context, effectonce.Filter) (effectonce.Page, error) {
	return effectonce.Page{}, nil
}

// S3.12: a cut ends what was before it for all that start after it, and only that.
func TestACutIsInTheRegister(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	start := func(id string, accepted bool) int {
		t.Helper()
		c := mustParse(t, "effectonce.yaml", pay(`intent_id: "`+id+`:{order}", arguments: {order: {kind: identity}}`))
		if err := c.KeepIdentities(t.Context(), store, map[string]bool{"pay": accepted}); err != nil {
			t.Fatal(err)
		}
		return len(c.Tools["pay"].Formerly())
	}
	for i, step := range []struct {
		id       string
		accepted bool
		want     int
	}{
		{"a", false, 0}, {"b", false, 1},
		{"c", true, 0},  // ends a and b
		{"d", false, 1}, // c
		{"c", true, 0},  // the flag stayed where it was: it ends nothing again
		{"d", false, 1}, // so d still knows of c
		{"a", false, 2}, // is new again, after c and d
		{"d", true, 0},  // ends all
		{"d", false, 0},
		{"c", false, 1},
	} {
		if got := start(step.id, step.accepted); got != step.want {
			t.Errorf("step %d, %s: %d earlier identities, want %d", i, step.id, got, step.want)
		}
	}
}

// S3.12: sixteen identities are kept, and the next is refused before it is entered.
func TestARegisterIsBounded(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	file := func(i int) []byte {
		return pay(fmt.Sprintf(`intent_id: "%d:{order}", arguments: {order: {kind: identity}}`, i))
	}
	for i := range policy.FormerMax + 1 {
		if _, err := edited(t, store, file(i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := edited(t, store, file(99)); err == nil || !strings.Contains(err.Error(), "more than 16 identities") || !strings.Contains(err.Error(), "--new-identity pay") {
		t.Errorf("one too many: %v", err)
	}
	if _, err := edited(t, store, file(16)); err != nil {
		t.Errorf("one that is there: %v", err)
	}
}

// S3.12: what cannot be read counts as something that would not be recognised.
func TestARegisterThatCannotBeRead(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	for _, run := range []string{"identities of pay", "events of shop"} {
		if _, _, err := store.Decide(t.Context(), effectonce.Decision{Tenant: effectonce.ReservedTenant, Run: run, Step: "1", Arguments: json.RawMessage(`{"new": 1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	c := mustParse(t, "effectonce.yaml", []byte(`
tools: {pay: {accept_review: true}}
inbox: {shop: {verify: none, unsigned: true, event_id: "{id}"}}`))
	err := c.KeepIdentities(t.Context(), store, nil)
	for _, w := range []string{"tools.pay: entry 1", "inbox.shop: the store says", "cannot be read here"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v lacks %q", err, w)
		}
	}
	for range 2 {
		if err := c.KeepIdentities(t.Context(), store, map[string]bool{"pay": true, "inbox.shop": true}); err != nil {
			t.Errorf("accepted: %v", err)
		}
	}
	down := errors.New("the disk is gone")
	if err := c.KeepIdentities(t.Context(), deafStore{store, down}, nil); !errors.Is(err, down) {
		t.Errorf("the store does not answer: %v", err)
	}
}

// deafStore reads no decisions.
type deafStore struct {
	effectonce.Store
	err error
}

func (s deafStore) Decisions(context.Context, string, string) ([]effectonce.Decision, error) {
	return nil, s.err
}

// S9.1: an edit of what identifies events would make delivered ones new.
func TestASourceWhoseEventsWouldBeNewIsRefused(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	start := func(settings string, accepted ...string) error {
		flags := map[string]bool{}
		for _, name := range accepted {
			flags[name] = true
		}
		return mustParse(t, "effectonce.yaml", []byte("inbox:\n  shop: {verify: none, unsigned: true, "+settings+"}")).KeepIdentities(t.Context(), store, flags)
	}
	for _, same := range []string{`event_id: "{id}"`, `event_id: "{id}", type: "{type}", run: "r:{id}", attempts: 3, format: json`} {
		if err := start(same); err != nil {
			t.Errorf("%s: %v", same, err)
		}
	}
	for edit, words := range map[string]string{
		`event_id: "{key}"`:   `identified by format json, event_id "{id}", and now by format json, event_id "{key}"`,
		`format: cloudevents`: `now by format cloudevents, event_id "{source}:{id}"`,
	} {
		err := start(edit, "shop")
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Line != 2 || problems[0].Field != "inbox.shop" {
			t.Errorf("%s: %v", edit, err)
			continue
		}
		for _, w := range []string{words, "consumed again", "serve --new-identity inbox.shop"} {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v lacks %q", edit, err, w)
			}
		}
	}
	if err := start(`event_id: "{key}"`, "inbox.shop"); err != nil {
		t.Error(err)
	}
	if err := start(`event_id: "{key}"`); err != nil {
		t.Errorf("once it is accepted: %v", err)
	}
	if err := start(`event_id: "{id}"`); err == nil {
		t.Error("back again")
	}
}
