package general

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/contract"
)

var placeholder = regexp.MustCompile(`\{([a-z][a-z0-9_]*(?:[.\[][^{}\s"$:]*)?)(:int)?\}`)

// fill fills {name} in every text of a template. A text that is one placeholder becomes its value with the value's type, {name:int}
// a number; present is false where there is none, and then the member is left out. Elsewhere a missing value is empty.
func fill(template any, values map[string]any) (filled any, present bool) {
	switch t := template.(type) {
	case string:
		return fillText(t, values)
	case map[string]any:
		out := map[string]any{}
		for name, child := range t {
			if v, present := fill(child, values); present {
				out[name] = v
			}
		}
		return out, true
	case []any:
		out := []any{}
		for _, child := range t {
			if v, present := fill(child, values); present {
				out = append(out, v)
			}
		}
		return out, true
	}
	return template, true
}

func fillText(text string, values map[string]any) (any, bool) {
	if m := placeholder.FindStringSubmatch(text); m != nil && m[0] == text {
		v, ok := contract.Path(m[1]).Find(values)
		if !ok || v == nil {
			return nil, false
		}
		if m[2] != "" {
			n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
			if err != nil {
				return v, true
			}
			return n, true
		}
		return copied(v), true
	}
	return placeholder.ReplaceAllStringFunc(text, func(one string) string {
		m := placeholder.FindStringSubmatch(one)
		v, ok := contract.Path(m[1]).Find(values)
		if !ok || v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}), true
}

// filledText is fill for what has to be a text.
func filledText(template string, values map[string]any) string {
	v, present := fillText(template, values)
	if !present {
		return ""
	}
	return fmt.Sprint(v)
}

// pathValues are what the placeholders of a path's template stand for.
func pathValues(template, path string) map[string]any {
	values := map[string]any{}
	want, got := strings.Split(strings.Trim(template, "/"), "/"), strings.Split(strings.Trim(path, "/"), "/")
	for i, w := range want {
		before, inner, has := strings.Cut(w, "{")
		name, after, closed := strings.Cut(inner, "}")
		if !has || !closed || i >= len(got) {
			continue
		}
		if rest, ok := strings.CutSuffix(name, "..."); ok {
			values[rest] = strings.Join(got[i:], "/")
			break
		}
		values[name] = strings.TrimSuffix(strings.TrimPrefix(got[i], before), after)
	}
	return values
}
