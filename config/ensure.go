package config

import (
	"maps"
	"slices"

	"github.com/effectonce/effectonce"
)

// applied is the call that changes something, and where in the file it is: for a convergent tool that of ensure.
func (c callForm) applied(path []string) (callForm, []string) {
	e := c.Ensure
	if e == nil {
		return c, path
	}
	return callForm{
		Provider: c.Provider, Timeout: c.Timeout, Ensure: e,
		Operation: e.Apply.Operation, Method: e.Apply.Method, Path: e.Apply.Path, Query: e.Apply.Query, Headers: e.Apply.Headers, Body: e.Apply.Body,
	}, join(path, "ensure", "apply")
}

// converges checks that ensure and the rest of a tool go together (S11.1). It reports whether they do.
func (r *reading) converges(class effectonce.Class, c callForm, path []string) bool {
	if c.Ensure == nil {
		return true
	}
	before := len(r.problems)
	if class != effectonce.ClassConvergent {
		r.on(join(path, "call", "ensure"), "is for class: convergent, and this tool is "+firstOf(string(class), string(effectonce.ClassNonIdempotent)), "say class: convergent if applying it again is harmless")
	}
	given := map[string]bool{
		"operation": c.Operation != "", "body": c.Body != nil, "query": c.Query != nil, "headers": c.Headers != nil, "method": c.Method != "",
		"path": c.Path != "", "reference": c.Reference != "", "stamp": c.Stamp != nil, "look_up": c.LookUp != nil,
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] {
			r.on(join(path, "call", name), "stands beside ensure, which says how to observe and how to apply", "put it into ensure.apply, or leave it out")
		}
	}
	return len(r.problems) == before
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
