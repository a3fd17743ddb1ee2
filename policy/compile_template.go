package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/effectonce/effectonce/canon"
)

// template compiles intent_id or resource. Only arguments of the given kinds may be in it.
func (c *compiler) template(path []string, text string, kinds ...Kind) *template {
	t := c.name(path, text, kinds...)
	if t != nil && len(t.names) == 0 {
		c.add("has no placeholder, so every call would be the same", "name what identifies it, like refund:{order_id}", path...)
	}
	return t
}

// name compiles a template that may also be a fixed name.
func (c *compiler) name(path []string, text string, kinds ...Kind) *template {
	if text == "" {
		return nil
	}
	if len(text) > templateMax {
		c.add(fmt.Sprintf("is longer than %d bytes", templateMax), "shorten it", path...)
		return nil
	}
	t, err := parseTemplate(text)
	if err != nil {
		c.add(err.Error(), "write placeholders as {argument} or {meta.name}", path...)
		return nil
	}
	for _, literal := range t.literals {
		if normal, err := canon.NFC(literal); err != nil || normal != literal {
			c.add("is not in Unicode NFC", "write it with composed characters", path...)
		}
	}
	for _, name := range t.names {
		c.placeholder(path, name, kinds)
	}
	if a, b, found := t.inseparable(); found {
		c.add(fmt.Sprintf("does not keep {%s} and {%s} apart: two different pairs could give one text", a, b), "put a colon or a slash between them", path...)
	}
	return &t
}

func (c *compiler) placeholder(path []string, name string, kinds []Kind) {
	ref, a := c.tool.resolve(name)
	switch {
	case ref.meta != "":
	case strings.HasPrefix(name, metaPrefix):
		c.add("{meta.} names no metadata", "write {meta.ticket}", path...)
	case a == nil:
		c.add(fmt.Sprintf("{%.80s} is not an argument that the policy names%s", name, didYouMean(name, maps.Keys(c.tool.arguments))), "declare it under arguments as kind: "+string(kinds[0])+", or write {meta.NAME} for call metadata", path...)
	case a.kind == KindFree:
		c.add(fmt.Sprintf("{%s} is free text, which a model can rephrase", name), "use an argument that identifies the business case", path...)
	case !slices.Contains(kinds, a.kind):
		c.add(fmt.Sprintf("{%s} is %s, and what an intent id is made of is identity", name, a.kind), "make it kind: identity", path...)
	case a.amount == nil && ref.part != "":
		c.add(fmt.Sprintf("{%s} asks for a part of %q, which is not an amount", name, ref.argument), "write {"+ref.argument+"}", path...)
	case a.amount != nil && !slices.Contains(amountParts, ref.part):
		c.add(fmt.Sprintf("{%s} is an amount, which is no component by itself", name), "write {"+ref.argument+".minor}, {"+ref.argument+".decimal} or {"+ref.argument+".currency}", path...)
	}
}

// identities refuses identity arguments that would not identify anything.
func (c *compiler) identities(spec Spec) {
	used := map[string]bool{}
	if c.tool.intentID != nil {
		for _, name := range c.tool.intentID.names {
			ref, _ := c.tool.resolve(name)
			used[ref.argument] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.tool.arguments)) {
		if c.tool.arguments[name].kind != KindIdentity || used[name] {
			continue
		}
		if c.saidOf("intent_id") {
			continue // the template is broken, and corrected it may name the argument
		}
		c.add("is identity and not in intent_id", "put {"+name+"} into intent_id, or make it material", "arguments", name, "kind")
	}
}
