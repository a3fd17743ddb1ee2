package provider

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/contract"
)

// bodyTree is the body without key and stamp.
func (h *HTTP) bodyTree(arguments map[string]any) (map[string]any, error) {
	tree := any(arguments)
	if h.body != nil {
		filled, _, err := fill(h.body, arguments, "body")
		if err != nil {
			return nil, err
		}
		tree = filled
	}
	// The tree shares nothing with the arguments, so that places can be overwritten in it.
	object, ok := clone(tree).(map[string]any)
	if !ok {
		return nil, invalid("body", "is not an object", "write fields")
	}
	return object, nil
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, child := range v {
			c[name] = clone(child)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, child := range v {
			c[i] = clone(child)
		}
		return c
	}
	return v
}

// gaps are the places in the body or query that Effectonce fills.
func (h *HTTP) gaps(place contract.Place) map[insert]contract.Path {
	gaps := map[insert]contract.Path{}
	if h.operation.Key.Place == place {
		gaps[insertKey] = contract.Path(h.operation.Key.Name)
	}
	if h.operation.Stamp.Place == place {
		gaps[insertStamp] = h.operation.Stamp.Field
	}
	return gaps
}

// put sets the value at a path and removes what is there, also under a name that differs only by case, since some servers
// read names without it.
func put(tree map[string]any, path contract.Path, v any) error {
	segments := path.Segments()
	for _, segment := range segments[:len(segments)-1] {
		next, ok := tree[segment]
		if !ok || next == nil {
			next = map[string]any{}
			tree[segment] = next
		}
		object, ok := next.(map[string]any)
		if !ok {
			return invalid("body."+segment, "must be an object, since "+string(path)+" is set in it", "leave it out")
		}
		tree = object
	}
	last := segments[len(segments)-1]
	for name := range tree {
		if strings.EqualFold(name, last) {
			delete(tree, name)
		}
	}
	tree[last] = v
	return nil
}

// jsonBody writes the canonical JSON and cuts it at the gaps. The marks are chosen so that no argument can contain one.
func (h *HTTP) jsonBody(tree map[string]any) (parts, error) {
	tree = clone(tree).(map[string]any)
	gaps := h.gaps(contract.PlaceBody)
	for _, path := range gaps {
		if err := put(tree, path, ""); err != nil {
			return nil, err
		}
	}
	text, err := canon.Encode(tree)
	if err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "body", Cause: err}
	}
	mark := ""
	for n := 0; mark == "" || strings.Contains(string(text), mark); n++ {
		mark = "effectonce-gap-" + strconv.Itoa(n) + "-"
	}
	for which, path := range gaps {
		if err := put(tree, path, mark+string(which)); err != nil {
			return nil, err
		}
	}
	if text, err = canon.Encode(tree); err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "body", Cause: err}
	}
	var p parts
	stretches := strings.Split(string(text), mark)
	for i, s := range stretches {
		if i > 0 {
			for _, which := range []insert{insertKey, insertStamp} {
				if rest, ok := strings.CutPrefix(s, string(which)+`"`); ok {
					p, s = append(p, part{Insert: which}), `"`+rest
					break
				}
			}
		}
		p = append(p, part{Text: s})
	}
	return p, nil
}

// formBody writes the fields sorted by name, nested names in brackets.
func (h *HTTP) formBody(tree map[string]any) (parts, error) {
	tree = clone(tree).(map[string]any)
	type gap struct{ which insert }
	for which, path := range h.gaps(contract.PlaceBody) {
		if err := put(tree, path, gap{which}); err != nil {
			return nil, err
		}
	}
	type field struct {
		name  string
		value parts
	}
	var fields []field
	var walk func(name string, v any) error
	walk = func(name string, v any) error {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			for _, child := range slices.Sorted(maps.Keys(v)) {
				value := v[child]
				if child == "" || strings.ContainsAny(child, "[]") {
					return invalid("body."+name, fmt.Sprintf("%q is not a field name in a form", child), "use names without brackets")
				}
				full := child
				if name != "" {
					full = name + "[" + child + "]"
				}
				if err := walk(full, value); err != nil {
					return err
				}
			}
		case []any:
			for i, value := range v {
				if err := walk(name+"["+strconv.Itoa(i)+"]", value); err != nil {
					return err
				}
			}
		case gap:
			fields = append(fields, field{name, parts{{Insert: v.which}}})
		default:
			s, err := spell(v)
			if err != nil {
				return invalid("body."+name, err.Error(), "use text, numbers or booleans")
			}
			fields = append(fields, field{name, parts{{Text: url.QueryEscape(s)}}})
		}
		return nil
	}
	if err := walk("", tree); err != nil {
		return nil, err
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	var p parts
	for i, f := range fields {
		start := url.QueryEscape(f.name) + "="
		if i > 0 {
			start = "&" + start
		}
		p = append(append(p, part{Text: start}), f.value...)
	}
	return merged(p), nil
}

// merged joins neighbouring text.
func merged(p parts) parts {
	var m parts
	for _, one := range p {
		if n := len(m); n > 0 && one.Insert == "" && m[n-1].Insert == "" {
			m[n-1].Text += one.Text
			continue
		}
		m = append(m, one)
	}
	return m
}

// nested turns the bracketed names of a form's template into maps, so that a place has one spelling.
func nested(tree any, at string) (any, error) {
	object, ok := tree.(map[string]any)
	if !ok {
		return tree, nil
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		child, err := nested(object[name], at+"."+name)
		if err != nil {
			return nil, err
		}
		segments := []string{name}
		if strings.ContainsAny(name, "[]") {
			segments = contract.Path(name).Segments()
		}
		if len(segments) == 0 {
			return nil, invalid(at+"."+name, "is not a field name", "write name or name[part]")
		}
		into := out
		for _, segment := range segments[:len(segments)-1] {
			next, ok := into[segment].(map[string]any)
			if !ok {
				if _, taken := into[segment]; taken {
					return nil, invalid(at+"."+name, "is given twice", "write each field once")
				}
				next = map[string]any{}
				into[segment] = next
			}
			into = next
		}
		last := segments[len(segments)-1]
		if _, taken := into[last]; taken {
			return nil, invalid(at+"."+name, "is given twice", "write each field once")
		}
		into[last] = child
	}
	return out, nil
}
