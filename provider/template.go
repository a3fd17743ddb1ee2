package provider

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/contract"
)

// piece is a stretch of text or a placeholder.
type piece struct {
	text     string
	name     string // of the placeholder; empty for text
	optional bool
}

// parsePieces splits a template. The error says what is wrong with it.
func parsePieces(s string) ([]piece, error) {
	var pieces []piece
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			pieces = append(pieces, piece{text: text.String()})
			text.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case (c == '{' || c == '}') && i+1 < len(s) && s[i+1] == c:
			text.WriteByte(c)
			i++
		case c == '}':
			return nil, fmt.Errorf("%q has a closing brace without an opening one", s)
		case c == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return nil, fmt.Errorf("%q has an opening brace without a closing one", s)
			}
			name, optional := strings.CutSuffix(s[i+1:i+end], "?")
			if len(contract.Path(name).Segments()) == 0 || strings.ContainsAny(name, "{ ") {
				return nil, fmt.Errorf("%q has a placeholder without a name", s)
			}
			flush()
			pieces = append(pieces, piece{name: name, optional: optional})
			i += end
		default:
			text.WriteByte(c)
		}
	}
	flush()
	return pieces, nil
}

// missingError says which argument a template needs.
type missingError struct{ name string }

func (e *missingError) Error() string {
	return fmt.Sprintf("needs the argument %s, which is missing", e.name)
}

// value fills a template's value: present is false where an optional argument is absent.
func value(pieces []piece, arguments any) (v any, present bool, err error) {
	if len(pieces) == 1 && pieces[0].name != "" {
		found, ok := find(pieces[0].name, arguments)
		if !ok && !pieces[0].optional {
			return nil, false, &missingError{pieces[0].name}
		}
		return found, ok, nil
	}
	s, present, err := text(pieces, arguments)
	return s, present, err
}

// text fills a template as text.
func text(pieces []piece, arguments any) (s string, present bool, err error) {
	var b strings.Builder
	for _, p := range pieces {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		v, ok := find(p.name, arguments)
		if !ok {
			if p.optional {
				return "", false, nil
			}
			return "", false, &missingError{p.name}
		}
		spelled, err := spell(v)
		if err != nil {
			return "", false, fmt.Errorf("cannot use the argument %s: %w", p.name, err)
		}
		b.WriteString(spelled)
	}
	return b.String(), true, nil
}

// find returns an argument; null counts as absent.
func find(name string, arguments any) (any, bool) {
	v, ok := contract.Path(name).Find(arguments)
	if !ok || v == nil {
		return nil, false
	}
	return v, true
}

func spell(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("it is no text, number or boolean")
}

// fill replaces the templates in a tree of JSON values. at is where in the configuration the tree is.
func fill(tree, arguments any, at string) (v any, present bool, err error) {
	switch node := tree.(type) {
	case string:
		pieces, err := parsePieces(node)
		if err != nil {
			return nil, false, invalid(at, err.Error(), "write {argument}, or {{ for a brace")
		}
		v, present, err := value(pieces, arguments)
		if err != nil {
			return nil, false, invalid(at, err.Error(), "give it, or mark it as optional: {name?}")
		}
		return v, present, nil
	case map[string]any:
		filled := make(map[string]any, len(node))
		for _, name := range slices.Sorted(maps.Keys(node)) {
			v, present, err := fill(node[name], arguments, at+"."+name)
			if err != nil {
				return nil, false, err
			}
			if present {
				filled[name] = v
			}
		}
		return filled, true, nil
	case []any:
		filled := make([]any, 0, len(node))
		for i, child := range node {
			v, present, err := fill(child, arguments, fmt.Sprintf("%s[%d]", at, i))
			if err != nil {
				return nil, false, err
			}
			if present {
				filled = append(filled, v)
			}
		}
		return filled, true, nil
	}
	return tree, true, nil
}

// checkTemplates finds malformed templates in a tree when it is configured.
func checkTemplates(tree any, at string) error {
	switch node := tree.(type) {
	case string:
		if _, err := parsePieces(node); err != nil {
			return invalid(at, err.Error(), "write {argument}, or {{ for a brace")
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(node)) {
			if err := checkTemplates(node[name], at+"."+name); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range node {
			if err := checkTemplates(child, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	}
	return nil
}
