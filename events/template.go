package events

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// template is text with components of an event, "order:{data.order}", that has passed [Source.Check].
type template []part

// part is literal text, or the path of a component.
type part struct {
	literal string
	path    []string
}

// headerRoot is the first name of a path that leads to a header.
const headerRoot = "header"

func parseTemplate(text string) template {
	var t template
	for text != "" {
		open := strings.IndexByte(text, '{')
		if open != 0 {
			if open < 0 {
				open = len(text)
			}
			t, text = append(t, part{literal: text[:open]}), text[open:]
			continue
		}
		name, rest, _ := strings.Cut(text[1:], "}")
		path := strings.Split(name, ".")
		if path[0] == headerRoot {
			path = strings.SplitN(name, ".", 2)
		}
		t, text = append(t, part{path: path}), rest
	}
	return t
}

// headers lists the headers that the template reads.
func (t template) headers() []string {
	var names []string
	for _, p := range t {
		if len(p.path) == 2 && p.path[0] == headerRoot {
			names = append(names, p.path[1])
		}
	}
	return names
}

// missing is a component that an event does not have.
type missing struct{ component, why string }

func (m *missing) Error() string { return "{" + m.component + "} " + m.why }

// expand fills in the components; other values give another text, since the characters that keep two of them apart are escaped in
// values. The error is a *missing: a component is never empty.
func (t template) expand(header http.Header, body any) (string, error) {
	components := 0
	for _, p := range t {
		if p.path != nil {
			components++
		}
	}
	separators := ""
	if components > 1 {
		separators = ":/"
	}
	var b strings.Builder
	for _, p := range t {
		if p.path == nil {
			b.WriteString(p.literal)
			continue
		}
		v, err := component(p.path, header, body)
		if err != nil {
			return "", err
		}
		b.WriteString(escape(v, separators))
	}
	return b.String(), nil
}

func component(path []string, header http.Header, body any) (string, error) {
	name := strings.Join(path, ".")
	if path[0] == headerRoot {
		values := header.Values(path[1])
		if len(values) != 1 || values[0] == "" {
			return "", &missing{name, "is missing, empty or given several times"}
		}
		return values[0], nil
	}
	for _, p := range path {
		switch at := body.(type) {
		case map[string]any:
			body = at[p]
		case []any:
			i, err := strconv.Atoi(p)
			if err != nil || i < 0 || i >= len(at) {
				return "", &missing{name, "is missing"}
			}
			body = at[i]
		default:
			return "", &missing{name, "is missing"}
		}
	}
	switch v := body.(type) {
	case string:
		if v == "" {
			return "", &missing{name, "is empty"}
		}
		return v, nil
	case json.Number:
		// 1, 1.0 and 1e0 are one number and three texts: only integers have one form.
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil && strconv.FormatInt(n, 10) == v.String() {
			return v.String(), nil
		}
		return "", &missing{name, "is a number and not an integer of 64 bits"}
	case bool:
		return strconv.FormatBool(v), nil
	case nil:
		return "", &missing{name, "is missing"}
	}
	return "", &missing{name, "is neither a text nor an integer"}
}

// escape writes %, separators, and what people cannot see as %XX.
func escape(v, separators string) string {
	var b strings.Builder
	for i := 0; i < len(v); {
		r, size := utf8.DecodeRuneInString(v[i:])
		edge := r == ' ' && (i == 0 || i+size == len(v))
		if r == '%' || edge || r == utf8.RuneError || !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r) || strings.ContainsRune(separators, r) {
			for _, c := range []byte(v[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}
