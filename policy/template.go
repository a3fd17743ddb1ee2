package policy

import (
	"fmt"
	"strings"

	"github.com/effectonce/effectonce/canon"
)

// template is text with placeholders: literals[0] names[0] literals[1] ... literals[n].
type template struct {
	literals []string
	names    []string
}

// parseTemplate takes a template apart. The error says what is wrong with it, without naming the field.
func parseTemplate(s string) (template, error) {
	var t template
	literal := strings.Builder{}
	for s != "" {
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			literal.WriteString(s)
			break
		}
		literal.WriteString(s[:at])
		if s[at] == '}' {
			return t, fmt.Errorf("has a } without a {")
		}
		end := strings.IndexAny(s[at+1:], "{}")
		if end < 0 || s[at+1+end] == '{' {
			return t, fmt.Errorf("has a { without a }")
		}
		name := s[at+1 : at+1+end]
		if strings.TrimSpace(name) == "" || strings.TrimSpace(name) != name {
			return t, fmt.Errorf("has the placeholder {%.40s}, which names nothing", name)
		}
		t.literals = append(t.literals, literal.String())
		t.names = append(t.names, name)
		literal.Reset()
		s = s[at+end+2:]
	}
	t.literals = append(t.literals, literal.String())
	return t, nil
}

// Placeholders lists the names in a template's placeholders in their order, with repeats.
func Placeholders(s string) ([]string, error) {
	t, err := parseTemplate(s)
	return t.names, err
}

// inseparable returns the first two placeholders that the template does not keep apart (S3.3).
func (t template) inseparable() (a, b string, found bool) {
	for i := 1; i < len(t.names); i++ {
		if !canon.Separates(t.literals[i]) {
			return t.names[i-1], t.names[i], true
		}
	}
	return "", "", false
}

// render puts escaped components in the placeholders' places.
func (t template) render(component func(name string) (string, error)) (string, error) {
	var b strings.Builder
	for i, literal := range t.literals {
		b.WriteString(literal)
		if i == len(t.names) {
			break
		}
		c, err := component(t.names[i])
		if err != nil {
			return "", err
		}
		b.WriteString(c)
	}
	return b.String(), nil
}

// metaPrefix starts a placeholder for call metadata.
const metaPrefix = "meta."

// reference is what a placeholder names: metadata, or an argument and, for an amount, a part of it.
type reference struct {
	meta     string
	argument string
	part     string
}

// amountParts are what can be said after an amount's name.
var amountParts = []string{"minor", "decimal", "currency"}

func (t *Tool) resolve(name string) (reference, *argument) {
	if meta, ok := strings.CutPrefix(name, metaPrefix); ok {
		return reference{meta: meta}, nil
	}
	if a, ok := t.arguments[name]; ok {
		return reference{argument: name}, a
	}
	if dot := strings.LastIndexByte(name, '.'); dot > 0 {
		if a, ok := t.arguments[name[:dot]]; ok {
			return reference{argument: name[:dot], part: name[dot+1:]}, a
		}
	}
	return reference{argument: name}, nil
}
