package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/policy"
	"github.com/effectonce/effectonce/provider"
)

// connect makes the adapter that calls a provider for one tool.
func (s *source) connect(call callForm) (*provider.HTTP, error) {
	o := provider.HTTPOptions{
		Contract: s.contract, Operation: call.Operation, Settings: s.settings(call),
		BaseURL: s.form.BaseURL, APIVersion: s.form.APIVersion, Account: s.form.Account,
		Query: call.Query, Headers: call.Headers,
	}
	if s.credential.form != "" {
		o.Credential = s.credential.read
	}
	var err error
	if o.Body, err = fields(call.Body, "body"); err != nil {
		return nil, err
	}
	if e := call.Ensure; e != nil {
		o.Ensure = &provider.Ensure{Path: e.Observe.Path, Query: e.Observe.Query, Absent: e.Absent}
		if o.Ensure.Met, err = fields(e.Met, "ensure.met"); err != nil {
			return nil, err
		}
	}
	return provider.NewHTTP(o)
}

// fields decodes a map of templates.
func fields(raw json.RawMessage, at string) (map[string]any, error) {
	if raw == nil {
		return nil, nil
	}
	var out map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&out); err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeInvalid, Field: at, Detail: "is not a map", Remedy: "write its fields as name: value"}
	}
	return out, nil
}

// templates checks every placeholder of a call, so that a misspelt one is found at load and free text is never sent. It
// reports whether all are right.
func (r *reading) templates(spec policy.Spec, path []string) bool {
	before := len(r.problems)
	n := r.root
	for _, name := range path {
		n = n.get(name)
	}
	t := templates{reading: r, reference: policy.References(spec)}
	sent := []string{"body", "headers", "query", "path"}
	for _, name := range sent {
		if inner := n.get(name); inner != nil {
			t.walk(inner, join(path, name))
		}
	}
	for _, section := range []string{"apply", "observe"} {
		for _, name := range sent {
			if inner := n.get("ensure").get(section).get(name); inner != nil {
				t.walk(inner, join(path, "ensure", section, name))
			}
		}
	}
	if inner := n.get("ensure").get("met"); inner != nil {
		t.walk(inner, join(path, "ensure", "met"))
	}
	// A look-up is rendered from the request: {body.name}, {stamp}, {argument.name}.
	t.prefix = "argument."
	for _, name := range []string{"path", "query"} {
		if inner := n.get("look_up").get(name); inner != nil {
			t.walk(inner, join(path, "look_up", name))
		}
	}
	return len(r.problems) == before
}

// templates walks the text of a call. With a prefix, only the placeholders that begin with it name arguments.
type templates struct {
	*reading
	reference func(name string) (detail, remedy string)
	prefix    string
}

func (t templates) walk(n *node, path []string) {
	for _, e := range n.entries {
		t.walk(e.value, join(path, e.name))
	}
	for i, item := range n.items {
		t.walk(item, join(path, fmt.Sprint(i)))
	}
	if n.shape == shapeText {
		t.text(n, path)
	}
}

func (t templates) text(n *node, path []string) {
	names, detail := placeholders(n.text)
	if detail != "" {
		t.at(n, field(path), detail, "write placeholders as {argument}, and a brace that is none twice")
		return
	}
	for _, name := range names {
		name, ours := strings.CutPrefix(strings.TrimSuffix(name, "?"), t.prefix)
		if !ours {
			continue
		}
		if detail, remedy := t.reference(name); detail != "" {
			t.at(n, field(path), detail, remedy)
		}
	}
}

// placeholders lists the names in a call's template, in which a doubled brace is a brace, and says what is wrong with it.
func placeholders(s string) (names []string, detail string) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '{' && c != '}' {
			continue
		}
		if i+1 < len(s) && s[i+1] == c {
			i++
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if c == '}' {
			return nil, "has a } without a {"
		}
		if end < 0 {
			return nil, "has a { without a }"
		}
		names = append(names, s[i+1:i+end])
		i += end
	}
	return names, ""
}
