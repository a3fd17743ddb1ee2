package config

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/policy"
	memorystore "github.com/effectonce/effectonce/store/memory"
)

// recorded is a store with one operation of each tool, recorded under a configuration.
func recorded(t *testing.T, c *Config, args string) effectonce.Store {
	t.Helper()
	store := memorystore.Open(memorystore.Options{})
	if err := c.Keep(t.Context(), store.PutDocument); err != nil {
		t.Fatal(err)
	}
	guard := effectonce.New(store, effectonce.Options{})
	for _, tool := range c.Tools {
		record(t, guard, tool, args)
	}
	return store
}

func record(t *testing.T, guard *effectonce.Guard, tool *Tool, args string) {
	t.Helper()
	in, err := tool.Intent(json.RawMessage(args), policy.Meta{"run": "r1"})
	if err != nil {
		t.Fatal(err)
	}
	if in.ID == "" {
		in.ID = "given:1"
	}
	if _, err := guard.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (json.RawMessage, error) { return nil, nil })); err != nil {
		t.Fatal(err)
	}
}

func pay(policy string) []byte { return []byte("tools: {pay: {accept_review: true, " + policy + "}}") }

// edited opens a configuration over a store that has operations, as a daemon does.
func edited(t *testing.T, store effectonce.Store, content []byte) (*Config, error) {
	t.Helper()
	c := mustParse(t, "effectonce.yaml", content)
	if err := c.KeepIdentities(t.Context(), store, nil); err != nil {
		return c, err
	}
	if err := c.Keep(t.Context(), store.PutDocument); err != nil {
		t.Fatal(err)
	}
	c.Documents = documentsOf(store)
	return c, nil
}

func documentsOf(store effectonce.Store) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, version string) ([]byte, error) {
		digest, err := canon.ParseDigest(version)
		if err != nil {
			return nil, err
		}
		return store.Document(ctx, digest)
	}
}

const paid = `scope: business, intent_id: "pay:{order}", arguments: {order: {kind: identity, normalise: [trim, upper]}}`

// S3.12: after an edit a call from before it is still the same operation.
func TestACallFromBeforeAnEditIsTheSameOperation(t *testing.T) {
	t.Parallel()
	const args = `{"order":"o-1"}`
	for name, now := range map[string]string{
		"nothing":                    paid,
		"what is not in it":          paid + `, retry: {attempts: 9}, twins: {do: hold}, resource: "order:{order}"`,
		"another material":           `intent_id: "pay:{order}", arguments: {note: {kind: free}, order: {kind: identity, normalise: [trim, upper], required: true, one_of: [O-1, O-2]}}`,
		"the template":               strings.Replace(paid, "pay:{order}", "payment:{order}", 1),
		"the scope":                  strings.Replace(paid, "business", "run", 1),
		"a normaliser":               strings.Replace(paid, "[trim, upper]", "[trim]", 1),
		"another normaliser":         strings.Replace(paid, "upper]", `upper, {capture: "O-([0-9]+)"}]`, 1),
		"a default":                  strings.Replace(paid, "upper]", `upper], default: x`, 1),
		"metadata beside it":         strings.Replace(paid, "{order}", "{order}:{meta.run}", 1),
		"the caller gives the id":    `arguments: {order: {required: true}}`,
		"more in it":                 `intent_id: "pay:{order}:{ticket}", arguments: {ticket: {kind: identity, default: "0"}, order: {kind: identity}}`,
		"a period that has an end":   paid + `, retention: {identity: forever}`,
		"limits and compensation":    paid + `, limits: [{name: "{order}", max: 1}], compensate: {tool: pay, arguments: {order: "{order}"}}`,
		"an order that is not alone": `intent_id: "pay:{meta.run}:{order}", arguments: {order: {kind: identity, normalise: [{capture: "^([a-z]-[0-9]+)$"}]}}`,
	} {
		ran := 0
		store := memorystore.Open(memorystore.Options{})
		guard := effectonce.New(store, effectonce.Options{})
		before, err := edited(t, store, pay(paid))
		if err != nil {
			t.Fatal(err)
		}
		first, err := do(t, guard, before.Tools["pay"], args, policy.Meta{"run": "r1"}, &ran)
		if err != nil {
			t.Fatal(err)
		}
		after, err := edited(t, store, pay(now))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := do(t, guard, after.Tools["pay"], args, policy.Meta{"run": "r1"}, &ran)
		if err != nil || !again.Replayed || again.Operation.Key != first.Operation.Key || ran != 1 {
			t.Errorf("%s: executed %d times, %v", name, ran, err)
		}
		// A daemon that still runs with the old file recognises what is recorded with the new one.
		if name == "more in it" || name == "the caller gives the id" {
			continue
		}
		const other = `{"order":"o-2"}`
		if _, err := do(t, guard, after.Tools["pay"], other, policy.Meta{"run": "r1"}, &ran); err != nil {
			t.Errorf("%s: another call: %v", name, err)
		}
		if again, err := do(t, guard, before.Tools["pay"], other, policy.Meta{"run": "r1"}, &ran); err != nil && effectonce.CodeOf(err) != effectonce.CodePayloadMismatch || err == nil && !again.Replayed || ran != 2 {
			t.Errorf("%s: back: executed %d times, %v", name, ran, err)
		}
	}
}

// S3.12: through any number of edits, whether or not something was recorded between them, and back again.
func TestIdentitiesOutliveManyEdits(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	ran, recorded := 0, []string{}
	edit := func(template string) *Tool {
		c, err := edited(t, store, pay(`intent_id: "`+template+`", arguments: {order: {kind: identity}}`))
		if err != nil {
			t.Fatal(err)
		}
		return c.Tools["pay"]
	}
	call := func(tool *Tool, order string) {
		t.Helper()
		out, err := do(t, guard, tool, `{"order":"`+order+`"}`, nil, &ran)
		if err != nil {
			t.Fatal(err)
		}
		if !out.Replayed {
			recorded = append(recorded, order)
		}
	}
	a := edit("a:{order}")
	call(a, "1")
	edit("b:{order}") // nothing is recorded under it
	c := edit("c:{order}")
	call(c, "2")
	call(a, "3") // by a daemon that was not restarted
	d := edit("d:{order}")
	call(d, "4")
	back := edit("a:{order}")
	call(back, "5")
	e := edit("e:{order}")
	call(e, "6")
	// b is among them: nobody can know that a daemon with it does not run.
	if got := e.Formerly(); len(got) != 4 || len(e.Policy.Formerly()) != 4 {
		t.Errorf("earlier identities: %q", got)
	}
	for _, tool := range []*Tool{a, c, d, back, e, edit("e:{order}"), edit("f:{order}")} {
		for _, order := range []string{"1", "2", "3", "4", "5", "6"} {
			call(tool, order)
		}
	}
	if len(recorded) != 6 || ran != 6 {
		t.Errorf("%d executed, %v", ran, recorded)
	}
	if first, again := edit("f:{order}").Policy.Version, edit("f:{order}").Policy.Version; first != again {
		t.Error("the same file has two versions over one store")
	}
}

// S3.12: an edit whose old keys cannot be computed any more is refused at load.
func TestAnEditThatLosesIdentitiesIsRefused(t *testing.T) {
	t.Parallel()
	before := strings.Replace(paid, "{order}", "{order}:{meta.ticket}:{amount.minor}", 1)
	before = strings.Replace(before, "arguments: {", `arguments: {amount: {kind: identity, normalise: {amount: {currency: currency}}}, currency: {required: true}, `, 1)
	const kept = `amount: {required: true}, currency: {required: true}`
	for name, c := range map[string]struct {
		now  string
		want string
	}{
		"an argument gone":            {`intent_id: "{meta.ticket}"`, "{amount} identified a call, and now it is not named under arguments"},
		"an argument that can be":     {`intent_id: "{meta.ticket}:{order}", arguments: {order: {kind: identity}, amount: {}, currency: {required: true}}`, "{amount} identified a call, and now it is not required"},
		"its currency gone":           {`intent_id: "{meta.ticket}:{order}", arguments: {order: {kind: identity}, amount: {required: true}}`, "{currency} identified a call"},
		"an argument that is free":    {`intent_id: "{meta.ticket}", arguments: {order: {kind: free}, ` + kept + `}`, "{order} identified a call, and now it is free text"},
		"an argument that is dropped": {`intent_id: "{meta.ticket}", drop: [order], arguments: {` + kept + `}`, "{order} identified a call, and now it is dropped"},
		"metadata gone":               {`intent_id: "pay:{order}", arguments: {order: {kind: identity}, ` + kept + `}`, "{meta.ticket} identified a call, and now intent_id does not name it"},
		"a default that it refuses":   {`intent_id: "pay:{order}:{meta.ticket}", arguments: {order: {kind: identity, default: [x]}, amount: {required: true}, currency: {required: true}}`, "its reading of calls does not go together with this one"},
	} {
		store := memorystore.Open(memorystore.Options{})
		first, err := edited(t, store, pay(before))
		if err != nil {
			t.Fatal(err)
		}
		ran := 0
		if _, err := do(t, effectonce.New(store, effectonce.Options{}), first.Tools["pay"], `{"order":"o-1","amount":1,"currency":"EUR"}`, policy.Meta{"ticket": "t"}, &ran); err != nil {
			t.Fatal(err)
		}
		now := mustParse(t, "effectonce.yaml", pay(c.now))
		err = now.KeepIdentities(t.Context(), store, nil)
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := problems[0]
		if p.File != "effectonce.yaml" || p.Line != 1 || p.Column == 0 || p.Field != "tools.pay" {
			t.Errorf("%s: at %+v", name, p)
		}
		for _, w := range []string{c.want, `"pay:{order}:{meta.ticket}:{amount.minor}"`, "would execute again", "serve --new-identity pay"} {
			if !strings.Contains(p.String(), w) {
				t.Errorf("%s: %s lacks %q", name, p, w)
			}
		}
		if err := now.KeepIdentities(t.Context(), store, map[string]bool{"other": true}); err == nil {
			t.Errorf("%s: accepted for another tool", name)
		}
		if err := now.KeepIdentities(t.Context(), store, map[string]bool{"pay": true}); err != nil || len(now.Tools["pay"].Formerly()) != 0 {
			t.Errorf("%s, accepted: %v", name, err)
		}
	}
}

// S3.12: a call of which an earlier identity cannot be computed is refused, not executed without it.
func TestACallWithoutItsEarlierIdentityIsRefused(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	ran := 0
	before, err := edited(t, store, pay(`scope: run, intent_id: "pay:{order}", arguments: {order: {kind: identity, normalise: [ascii, {capture: "O-([0-9]+)"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, guard, before.Tools["pay"], `{"order":"O-1"}`, policy.Meta{"run": "r1"}, &ran); err != nil {
		t.Fatal(err)
	}
	after, err := edited(t, store, pay(`intent_id: "pay:{order}", arguments: {order: {kind: identity}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args  string
		meta  policy.Meta
		field string
	}{
		"of another form": {`{"order":"R-2"}`, policy.Meta{"run": "r1"}, "arguments.order"},
		"without a run":   {`{"order":"O-2"}`, nil, "run"},
	} {
		var e *effectonce.Error
		if _, err := do(t, guard, after.Tools["pay"], c.args, c.meta, &ran); !errors.As(err, &e) || e.Field != c.field || !strings.Contains(e.Detail, "before the policy was edited") || !strings.Contains(e.Remedy, "--new-identity") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What the old policy only refused has the identity that another spelling had.
	if _, err := do(t, guard, after.Tools["pay"], `{"order":"O-3 é"}`, policy.Meta{"run": "r1"}, &ran); err != nil || ran != 2 {
		t.Errorf("a call that the old policy refused: %d %v", ran, err)
	}
	if out, err := do(t, guard, after.Tools["pay"], `{"order":"O-1"}`, policy.Meta{"run": "r1"}, &ran); err != nil || !out.Replayed || ran != 2 {
		t.Errorf("the call from before: %d %v", ran, err)
	}
}

// S3.7, S3.12: whoever changes their mind after an edit supersedes the operation from before it.
func TestAnOperationFromBeforeAnEditIsSuperseded(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	before, err := edited(t, store, pay(paid))
	if err != nil {
		t.Fatal(err)
	}
	in, err := before.Tools["pay"].Intent(json.RawMessage(`{"order":"o-1","amount":1}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	declined := effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
		return "", effectonce.Rejected(errors.New("declined"), false)
	})
	failed, err := guard.Do(t.Context(), in, declined)
	if effectonce.CodeOf(err) != effectonce.CodeFailed {
		t.Fatal(err)
	}
	after, err := edited(t, store, pay(strings.Replace(paid, "pay:{order}", "payment:{order}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if in, err = after.Tools["pay"].Intent(json.RawMessage(`{"order":"o-1","amount":2}`), nil); err != nil {
		t.Fatal(err)
	}
	in.Supersedes = &effectonce.Supersede{Key: failed.Operation.Key, Reason: "less"}
	ran := 0
	count := effectonce.Func(func(context.Context, effectonce.Call) (string, error) { ran++; return "", nil })
	for range 2 {
		if out, err := guard.Do(t.Context(), in, count); err != nil || out.Operation.Revision != 1 || ran != 1 {
			t.Errorf("the successor: %d, %v", ran, err)
		}
	}
	if in, err = before.Tools["pay"].Intent(json.RawMessage(`{"order":"o-1","amount":2}`), nil); err != nil {
		t.Fatal(err)
	}
	in.Supersedes = &effectonce.Supersede{Key: failed.Operation.Key, Reason: "less"}
	if out, err := guard.Do(t.Context(), in, count); err == nil && !out.Replayed || ran != 1 {
		t.Errorf("by a daemon with the old file: executed %d times, %v", ran, err)
	}
}

// --new-identity ends the earlier identities, from that start on.
func TestANewIdentityCutsTheChain(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	ran := 0
	before, err := edited(t, store, pay(`intent_id: "a:{order}", arguments: {order: {kind: identity}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, guard, before.Tools["pay"], `{"order":"1"}`, nil, &ran); err != nil {
		t.Fatal(err)
	}
	now := pay(`intent_id: "b:{order}", arguments: {order: {kind: identity}}`)
	cut := mustParse(t, "effectonce.yaml", now)
	if err := cut.KeepIdentities(t.Context(), store, map[string]bool{"pay": true}); err != nil {
		t.Fatal(err)
	}
	if err := cut.Keep(t.Context(), store.PutDocument); err != nil {
		t.Fatal(err)
	}
	if again, err := edited(t, store, now); err != nil || len(again.Tools["pay"].Formerly()) != 0 {
		t.Errorf("without the flag, before the first operation: %v", err)
	}
	if out, err := do(t, guard, cut.Tools["pay"], `{"order":"1"}`, nil, &ran); err != nil || out.Replayed || ran != 2 {
		t.Errorf("it is another operation now: %d %v", ran, err)
	}
	later, err := edited(t, store, now)
	if err != nil || len(later.Tools["pay"].Formerly()) != 0 {
		t.Errorf("without the flag, after the first operation: %v", err)
	}
}

// Before a tool was configured its callers gave the intent id.
func TestAToolThatHadNoPolicy(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	ran := 0
	count := effectonce.Func(func(context.Context, effectonce.Call) (json.RawMessage, error) { ran++; return nil, nil })
	in := effectonce.Intent{Tool: "pay", ID: "given:1", Arguments: json.RawMessage(`{}`), Business: json.RawMessage(`{}`)}
	if _, err := guard.Do(t.Context(), in, count); err != nil {
		t.Fatal(err)
	}
	same := mustParse(t, "effectonce.yaml", pay(`twins: {do: hold}`))
	if err := same.KeepIdentities(t.Context(), store, nil); err != nil || len(same.Tools["pay"].Formerly()) != 0 {
		t.Errorf("the caller still gives the id: %v", err)
	}
	built := mustParse(t, "effectonce.yaml", pay(`intent_id: "pay:{order}", arguments: {order: {kind: identity}}`))
	if err := built.KeepIdentities(t.Context(), store, nil); err == nil || !strings.Contains(err.Error(), "then the caller gave the intent id, and now the policy builds it") {
		t.Errorf("now the policy builds it: %v", err)
	}
	scoped, err := edited(t, store, pay(`scope: run`))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := do(t, guard, scoped.Tools["pay"], `{}`, policy.Meta{"run": "r1"}, &ran); err != nil || !out.Replayed || ran != 1 {
		t.Errorf("in another scope: %d %v", ran, err)
	}
}

// An operation that was recorded without the configuration does not hide the identities before it.
func TestAnOperationWithoutAPolicyEndsNothing(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	ran := 0
	before, err := edited(t, store, pay(`intent_id: "pay:{order}", arguments: {order: {kind: identity}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := do(t, guard, before.Tools["pay"], `{"order":"1"}`, nil, &ran); err != nil {
		t.Fatal(err)
	}
	in := effectonce.Intent{Tool: "pay", ID: "given:2", Arguments: json.RawMessage(`{}`)}
	if _, err := guard.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (json.RawMessage, error) { return nil, nil })); err != nil {
		t.Fatal(err)
	}
	after, err := edited(t, store, pay(`arguments: {order: {required: true}}`))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := do(t, guard, after.Tools["pay"], `{"order":"1"}`, nil, &ran); err != nil || !out.Replayed || ran != 1 {
		t.Errorf("executed %d times, %v", ran, err)
	}
}

// S3.12
func TestAPolicyThatCannotBeReadAnyMore(t *testing.T) {
	t.Parallel()
	down := errors.New("the disk is gone")
	for name, broken := range map[string]documentStore{
		"lost":               {nil, nil, effectonce.ErrNotFound},
		"broken":             {nil, []byte(`{"format":9}`), nil},
		"it does not answer": {nil, nil, down},
	} {
		store := recorded(t, mustParse(t, "effectonce.yaml", pay(`intent_id: "a:{order}", arguments: {order: {kind: identity}}`)), `{"order":"1"}`)
		read := mustParse(t, "effectonce.yaml", pay(`intent_id: "a:{order}", arguments: {order: {kind: identity}, note: {kind: free}}`))
		if err := read.FindIdentities(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		broken.Store = store
		err := read.KeepIdentities(t.Context(), broken, nil)
		if broken.err == down {
			if !errors.Is(err, down) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var problems Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), "cannot be read here") {
			t.Errorf("%s: %v", name, err)
		}
		if err := read.KeepIdentities(t.Context(), broken, map[string]bool{"pay": true}); err != nil {
			t.Errorf("%s, accepted: %v", name, err)
		}
	}
	if err := mustParse(t, "effectonce.yaml", nil).KeepIdentities(t.Context(), memorystore.Open(memorystore.Options{}), nil); err != nil {
		t.Errorf("no tools: %v", err)
	}
}

// documentStore answers for every document.
type documentStore struct {
	effectonce.Store
	doc []byte
	err error
}

func (s documentStore) Document(context.Context, canon.Digest) ([]byte, error) { return s.doc, s.err }
