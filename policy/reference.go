package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// References returns a check for the placeholders of the policy's call templates (body, path, query, headers): each must
// name an argument that the policy names and that may be sent. The check says what is wrong and the remedy; "" means that
// nothing is. It also works for a policy that does not compile.
func References(spec Spec) func(name string) (detail, remedy string) {
	c := &compiler{tool: &Tool{spec: spec, arguments: map[string]*argument{}, drop: map[string]bool{}}}
	c.declare(spec)
	return c.tool.reference
}

func (t *Tool) reference(name string) (detail, remedy string) {
	argument, part := name, ""
	if _, whole := t.arguments[name]; !whole {
		if at := strings.IndexAny(name, ".["); at > 0 {
			argument, part = name[:at], name[at+1:]
		}
	}
	a := t.arguments[argument]
	switch {
	case strings.HasPrefix(name, metaPrefix) && a == nil:
		return fmt.Sprintf("{%.80s} is call metadata, which is not sent", name), "use an argument"
	case a == nil && t.dropped(argument):
		return fmt.Sprintf("{%.80s} is a key that the caller supplies, which is never sent", name), "leave it out: the contract puts the downstream key in its place"
	case a == nil:
		return fmt.Sprintf("{%.80s} is not an argument that the policy names%s", name, didYouMean(argument, maps.Keys(t.arguments))), "declare it under arguments (kind: material)"
	case a.kind == KindFree:
		return fmt.Sprintf("{%s} is free text, which is never sent", name), "leave it out, or make the argument material"
	case part == "":
		return "", ""
	case a.amount != nil && !slices.Contains(amountParts, part):
		return fmt.Sprintf("{%s} is no part of an amount", name), "use one of " + strings.Join(amountParts, ", ")
	case a.amount == nil && (a.asText || len(a.steps) > 0):
		return fmt.Sprintf("{%s} asks for a part of %q, which is one value", name, argument), "write {" + argument + "}"
	}
	return "", ""
}
