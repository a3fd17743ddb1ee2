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
	if call.Body != nil {
		decoder := json.NewDecoder(bytes.NewReader(call.Body))
		decoder.UseNumber()
		if err := decoder.Decode(&o.Body); err != nil {
			return nil, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "body", Detail: "is not a map", Remedy: "write the fields of the body as name: value"}
		}
	}
	return provider.NewHTTP(o)
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
	for _, name := range []string{"body", "headers", "query", "path"} {
		if inner := n.get(name); inner != nil {
			t.walk(inner, join(path, name))
		}
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
