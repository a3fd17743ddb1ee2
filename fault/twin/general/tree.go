package general

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/contract"
)

// decoded is a request's body as a tree: JSON as it is, a form with the names in brackets nested, and nil for everything else.
func decoded(r contract.Request) any {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && media == "application/x-www-form-urlencoded" {
		return formTree(string(r.Body))
	}
	decoder := json.NewDecoder(bytes.NewReader(r.Body))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil
	}
	return v
}

// formTree nests a[b][c]=v; a[]=v is a list. What cannot be decoded is left out: the twin is no judge of forms.
func formTree(text string) any {
	out := map[string]any{}
	for _, field := range formFields(text) {
		name, rest, nested := strings.Cut(field[0], "[")
		if !nested || name == "" {
			out[field[0]] = field[1]
			continue
		}
		segments := append([]string{name}, strings.Split(strings.TrimSuffix(rest, "]"), "][")...)
		if last := len(segments) - 1; segments[last] == "" {
			list, _ := contract.Path(strings.Join(segments[:last], ".")).Find(out)
			items, _ := list.([]any)
			set(out, segments[:last], append(items, field[1]))
			continue
		}
		set(out, segments, field[1])
	}
	return out
}

// formFields are the names and values of a form in their order.
func formFields(text string) [][2]string {
	var fields [][2]string
	for part := range strings.SplitSeq(text, "&") {
		rawName, rawValue, _ := strings.Cut(part, "=")
		name, errName := url.QueryUnescape(rawName)
		value, errValue := url.QueryUnescape(rawValue)
		if part != "" && errName == nil && errValue == nil {
			fields = append(fields, [2]string{name, value})
		}
	}
	return fields
}

// set puts a value at a path of a tree, with objects and lists made on the way; without an index it goes into the first of a list.
func set(v any, segments []string, value any) any {
	if len(segments) == 0 {
		return value
	}
	index, err := strconv.Atoi(segments[0])
	if err == nil && index >= 0 && index < 100 {
		list, _ := v.([]any)
		for len(list) <= index {
			list = append(list, map[string]any{})
		}
		list[index] = set(list[index], segments[1:], value)
		return list
	}
	if list, ok := v.([]any); ok {
		if len(list) == 0 {
			list = append(list, map[string]any{})
		}
		list[0] = set(list[0], segments, value)
		return list
	}
	object, _ := v.(map[string]any)
	if object == nil {
		object = map[string]any{}
	}
	object[segments[0]] = set(object[segments[0]], segments[1:], value)
	return object
}

// drop takes what is at a path out of a tree.
func drop(v any, segments []string) {
	for len(segments) > 1 {
		next, ok := contract.Path(segments[0]).Find(v)
		if list, isList := next.([]any); isList && len(list) > 0 {
			next = list[0]
		}
		if !ok {
			return
		}
		v, segments = next, segments[1:]
	}
	if object, ok := v.(map[string]any); ok && len(segments) == 1 {
		delete(object, segments[0])
	}
}

// copied is a tree of its own, with numbers as they were written.
func copied(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var out any
	if decoder.Decode(&out) != nil {
		return nil
	}
	return out
}

// encodeJSON writes a tree; only trees of this package come here, and all of them have a form.
func encodeJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("twin: " + err.Error())
	}
	return text
}

// encodeXML writes a tree as elements in a root: a list is an element that occurs more than once.
func encodeXML(root string, v any) []byte {
	var b bytes.Buffer
	writeXML(&b, root, v)
	return b.Bytes()
}

func writeXML(b *bytes.Buffer, name string, v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			writeXML(b, name, item)
		}
	case map[string]any:
		b.WriteString("<" + name + ">")
		for _, child := range slices.Sorted(maps.Keys(v)) {
			writeXML(b, child, v[child])
		}
		b.WriteString("</" + name + ">")
	case nil:
		b.WriteString("<" + name + "/>")
	default:
		b.WriteString("<" + name + ">")
		_ = xml.EscapeText(b, []byte(fmt.Sprint(v)))
		b.WriteString("</" + name + ">")
	}
}
