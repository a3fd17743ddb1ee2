package contract

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Path points into a JSON document: names and array indexes with dots or brackets between them ("error.code",
// "metadata[effectonce]", "data.0.id"). The empty path is the document.
type Path string

// Segments splits the path.
func (p Path) Segments() []string {
	if p == "" {
		return nil
	}
	return strings.FieldsFunc(string(p), func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// check returns what is wrong with the path, "" if nothing.
func (p Path) check() string {
	s := string(p)
	if strings.Count(s, "[") != strings.Count(s, "]") || strings.Contains(s, "..") || strings.HasPrefix(s, ".") || strings.HasSuffix(s, ".") {
		return fmt.Sprintf("%q is not a path", s)
	}
	return ""
}

// Find returns the value at the path in a decoded document, and whether there is one.
func (p Path) Find(document any) (any, bool) {
	v := document
	for _, segment := range p.Segments() {
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[segment]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// Text returns the string, number or boolean at the path as text, and "" where there is none.
func (p Path) Text(document any) string {
	v, ok := p.Find(document)
	if !ok {
		return ""
	}
	return textOf(v)
}

// all returns the values at the path, and goes into each item of a list that the path passes without an index.
func (p Path) all(document any) []any {
	at := []any{document}
	for _, segment := range p.Segments() {
		var next []any
		for _, v := range at {
			if list, ok := v.([]any); ok {
				if i, err := strconv.Atoi(segment); err == nil {
					if i >= 0 && i < len(list) {
						next = append(next, list[i])
					}
					continue
				}
				for _, item := range list {
					if object, ok := item.(map[string]any); ok {
						if child, ok := object[segment]; ok {
							next = append(next, child)
						}
					}
				}
				continue
			}
			if object, ok := v.(map[string]any); ok {
				if child, ok := object[segment]; ok {
					next = append(next, child)
				}
			}
		}
		at = next
	}
	return at
}

// first is the first text at the path.
func (p Path) first(document any) string {
	for _, v := range p.all(document) {
		if s := textOf(v); s != "" {
			return s
		}
	}
	return ""
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}
