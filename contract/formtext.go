package contract

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// formField is a field of a form or a query, as it was written and decoded.
type formField struct {
	raw         string
	name, value string
}

// parseForm reads the fields in their order. A semicolon is refused, since some servers take it for a separator.
func parseForm(text string) ([]formField, error) {
	var fields []formField
	for raw := range strings.SplitSeq(text, "&") {
		if raw == "" {
			continue
		}
		if strings.Contains(raw, ";") {
			return nil, errors.New("a field of the form holds a semicolon, which some servers take for a separator")
		}
		name, value, _ := strings.Cut(raw, "=")
		n, err1 := url.QueryUnescape(name)
		v, err2 := url.QueryUnescape(value)
		if err1 != nil || err2 != nil {
			return nil, errors.New("a field of the form is not encoded correctly")
		}
		fields = append(fields, formField{raw, n, v})
	}
	return fields, nil
}

// sameField reports whether two names of a form mean the same field: brackets and dots are two spellings, and some servers do not
// look at case.
func sameField(a, b string) bool {
	return strings.EqualFold(strings.Join(Path(a).Segments(), "."), strings.Join(Path(b).Segments(), "."))
}

// setForm sets a field, takes out every other spelling of it, and leaves the other fields as they were written.
func setForm(text, name, value string) (string, error) {
	fields, err := parseForm(text)
	if err != nil {
		return "", err
	}
	set := url.QueryEscape(name) + "=" + url.QueryEscape(value)
	var out []string
	done := false
	for _, f := range fields {
		switch {
		case !sameField(f.name, name):
			out = append(out, f.raw)
		case !done:
			out, done = append(out, set), true
		}
	}
	if !done {
		out = append(out, set)
	}
	return strings.Join(out, "&"), nil
}

// formValues returns the values of a field, under any spelling of its name.
func formValues(fields []formField, name string) []string {
	var values []string
	for _, f := range fields {
		if sameField(f.name, name) {
			values = append(values, f.value)
		}
	}
	return values
}

// formTree nests the fields as their names say, for templates over a request: metadata[order] is found at metadata.order. A name
// that occurs more than once is a list.
func formTree(fields []formField) map[string]any {
	tree := map[string]any{}
	for _, f := range fields {
		segments := Path(f.name).Segments()
		if len(segments) == 0 {
			continue
		}
		at, ok := tree, true
		for _, segment := range segments[:len(segments)-1] {
			next, found := at[segment]
			if !found {
				next = map[string]any{}
				at[segment] = next
			}
			if at, ok = next.(map[string]any); !ok {
				break
			}
		}
		if !ok {
			continue
		}
		last := segments[len(segments)-1]
		switch was := at[last].(type) {
		case nil:
			at[last] = f.value
		case []any:
			at[last] = append(slices.Clone(was), f.value)
		default:
			at[last] = []any{was, f.value}
		}
	}
	return tree
}
