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

// S3.12: a policy edit must not change identities.
func TestAnEditThatChangesIdentitiesIsRefused(t *testing.T) {
	t.Parallel()
	const before = `scope: business, intent_id: "pay:{order}", arguments: {order: {kind: identity, normalise: [trim, upper]}}`
	store := recorded(t, mustParse(t, "effectonce.yaml", pay(before)), `{"order":"o-1"}`)
	for name, c := range map[string]struct {
		now  string
		want []string // nil: accepted
	}{
		"nothing":            {before, nil},
		"a default left out": {`intent_id: "pay:{order}", arguments: {order: {kind: identity, normalise: [trim, upper]}}`, nil},
		"what is not in it":  {before + `, retry: {attempts: 9}, twins: {do: hold}, resource: "order:{order}"`, nil},
		"another material":   {`intent_id: "pay:{order}", arguments: {note: {kind: free}, order: {kind: identity, normalise: [trim, upper], required: true, one_of: [O-1]}}`, nil},
		"the template":       {strings.Replace(before, "pay:{order}", "payment:{order}", 1), []string{`"pay:{order}"`, `"payment:{order}"`}},
		"the template gone":  {`drop: [x]`, []string{`"pay:{order}"`, "the intent id that the caller gives"}},
		"the scope":          {strings.Replace(before, "business", "run", 1), []string{"scope business", "scope run"}},
		"a normaliser":       {strings.Replace(before, "[trim, upper]", "[trim]", 1), []string{"order by trim, upper", "order by trim:"}},
		"another normaliser": {strings.Replace(before, "upper]", `{capture: "([0-9]+)"}]`, 1), []string{`order by trim, capture "([0-9]+)"`}},
		"a default":          {strings.Replace(before, "upper]", `upper], default: x`, 1), []string{`(default "x")`}},
		"metadata beside it": {strings.Replace(before, "{order}", "{order}:{meta.run}", 1), []string{"{meta.run}"}},
	} {
		now := mustParse(t, "effectonce.yaml", pay(c.now))
		err := now.CheckIdentities(t.Context(), store, nil)
		if len(c.want) == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := problems[0]
		if p.File != "effectonce.yaml" || p.Line != 1 || p.Column == 0 || p.Field != "tools.pay" {
			t.Errorf("%s: at %+v", name, p)
		}
		for _, w := range append(c.want, "would execute again", "serve --new-identity pay") {
			if !strings.Contains(p.String(), w) {
				t.Errorf("%s: %s lacks %q", name, p, w)
			}
		}
		if err := now.CheckIdentities(t.Context(), store, map[string]bool{"pay": true}); err != nil {
			t.Errorf("%s, accepted: %v", name, err)
		}
		if err := now.CheckIdentities(t.Context(), store, map[string]bool{"other": true}); err == nil {
			t.Errorf("%s: accepted for another tool", name)
		}
	}
}

// What was accepted once holds as soon as an operation was recorded under it.
func TestTheNewestOperationDecides(t *testing.T) {
	t.Parallel()
	before := mustParse(t, "effectonce.yaml", pay(`intent_id: "a:{order}", arguments: {order: {kind: identity}}`))
	after := mustParse(t, "effectonce.yaml", pay(`intent_id: "b:{order}", arguments: {order: {kind: identity}}`))
	store := recorded(t, before, `{"order":"1"}`)
	if err := after.Keep(t.Context(), store.PutDocument); err != nil {
		t.Fatal(err)
	}
	record(t, effectonce.New(store, effectonce.Options{}), after.Tools["pay"], `{"order":"2"}`)
	if err := after.CheckIdentities(t.Context(), store, nil); err != nil {
		t.Errorf("the identity of the newest: %v", err)
	}
	if err := before.CheckIdentities(t.Context(), store, nil); err == nil {
		t.Error("the earlier identity came back unnoticed")
	}
}

// Before a tool was configured its callers gave the intent id.
func TestAToolThatHadNoPolicy(t *testing.T) {
	t.Parallel()
	store := memorystore.Open(memorystore.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	in := effectonce.Intent{Tool: "pay", ID: "pay:1", Arguments: json.RawMessage(`{}`), Business: json.RawMessage(`{}`)}
	if _, err := guard.Do(t.Context(), in, effectonce.Func(func(context.Context, effectonce.Call) (json.RawMessage, error) { return nil, nil })); err != nil {
		t.Fatal(err)
	}
	same := mustParse(t, "effectonce.yaml", pay(`twins: {do: hold}`))
	if err := same.CheckIdentities(t.Context(), store, nil); err != nil {
		t.Errorf("the caller still gives the id: %v", err)
	}
	built := mustParse(t, "effectonce.yaml", pay(`intent_id: "pay:{order}", arguments: {order: {kind: identity}}`))
	if err := built.CheckIdentities(t.Context(), store, nil); err == nil || !strings.Contains(err.Error(), "the intent id that the caller gives") {
		t.Errorf("now the policy builds it: %v", err)
	}
}

// S3.12: an edit whose old keys cannot be computed any more is refused.
func TestAPolicyThatCannotBeReadAnyMore(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "effectonce.yaml", pay(`intent_id: "a:{order}", arguments: {order: {kind: identity}}`))
	store := recorded(t, c, `{"order":"1"}`)
	edited := mustParse(t, "effectonce.yaml", pay(`intent_id: "a:{order}", arguments: {order: {kind: identity}, note: {kind: free}}`))
	if err := edited.CheckIdentities(t.Context(), store, nil); err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]effectonce.Store{
		"lost":   documentStore{store, nil, effectonce.ErrNotFound},
		"broken": documentStore{store, []byte(`{"format":9}`), nil},
	} {
		var problems Problems
		if err := edited.CheckIdentities(t.Context(), broken, nil); !errors.As(err, &problems) || !strings.Contains(err.Error(), "cannot be read here") {
			t.Errorf("%s: %v", name, err)
		}
	}
	down := errors.New("the disk is gone")
	if err := edited.CheckIdentities(t.Context(), documentStore{store, nil, down}, nil); !errors.Is(err, down) {
		t.Errorf("the store does not answer: %v", err)
	}
	if err := mustParse(t, "effectonce.yaml", nil).CheckIdentities(t.Context(), store, nil); err != nil {
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
