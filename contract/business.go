package contract

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/effectonce/effectonce/canon"
)

// Business returns what a request asks for, as canonical JSON: method, path, query and body, and the headers that the contract calls
// business; without key, companions and stamp, and without what changes from send to send (S4). Two sends of one intent have the
// same business whatever their client makes up. The error says what cannot be read; such a request cannot be compared.
func (o *Operation) Business(r Request) (json.RawMessage, error) {
	v := newView(r)
	if v.pathErr != nil {
		return nil, v.pathErr
	}
	if err := v.readQuery(); err != nil {
		return nil, err
	}
	form := map[string]any{"method": v.Method, "path": o.businessPath(v)}
	if query := o.businessFields(v.query); len(query) > 0 {
		form["query"] = query
	}
	headers := map[string]any{}
	for _, name := range o.businessHeaders() {
		if values := v.Header.Values(name); len(values) > 0 {
			headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	if len(headers) > 0 {
		form["headers"] = headers
	}
	body, err := o.businessBody(v)
	if err != nil {
		return nil, err
	}
	if body != nil {
		form["body"] = body
	}
	return canon.Encode(spellable(form))
}

// businessHeaders are the contract's, and those that say whose account it is.
func (o *Operation) businessHeaders() []string {
	names := slices.Clone(o.Fingerprint.Headers)
	for _, s := range o.ScopeFrom {
		if s.In == PlaceHeader {
			names = append(names, s.Name)
		}
	}
	return names
}

func (o *Operation) businessPath(v *view) string {
	segments := slices.Clone(v.segments)
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	path := "/" + strings.Join(segments, "/")
	for _, spot := range o.injected() {
		if spot.Place == PlacePath {
			if without, err := setPath(o.Path, path, spot.Name, "{key}"); err == nil {
				path = without
			}
		}
	}
	return path
}

// businessFields are a form's fields that are business; a name that occurs more than once has a list.
func (o *Operation) businessFields(fields []formField) map[string]any {
	out := map[string]any{}
	for _, f := range fields {
		if o.noise(f.name) {
			continue
		}
		switch was := out[f.name].(type) {
		case nil:
			out[f.name] = f.value
		case []any:
			out[f.name] = append(was, f.value)
		default:
			out[f.name] = []any{was, f.value}
		}
	}
	return out
}

func (o *Operation) noise(name string) bool {
	for _, spot := range o.injected() {
		if (spot.Place == PlaceBody || spot.Place == PlaceForm || spot.Place == PlaceQuery) && sameField(spot.Name, name) {
			return true
		}
	}
	return slices.ContainsFunc(o.Fingerprint.Exclude, func(p Path) bool { return sameField(string(p), name) })
}

func (o *Operation) businessBody(v *view) (any, error) {
	if len(v.Body) == 0 {
		return nil, nil
	}
	if err := v.plain(); err != nil {
		return nil, err
	}
	switch t := v.mediaType(); {
	case v.isForm():
		if err := v.readBody(); err != nil {
			return nil, err
		}
		if fields := o.businessFields(v.form); len(fields) > 0 {
			return fields, nil
		}
		return nil, nil
	case v.isJSON():
		if err := v.readBody(); err != nil {
			return nil, err
		}
		return o.businessJSON(v)
	case strings.HasPrefix(t, "multipart/"):
		return multipartBody(v.Request)
	default:
		return map[string]any{"type": t, "sha256": digestOf(v.Body)}, nil
	}
}

// businessJSON works on the decoded body, which belongs to the view.
func (o *Operation) businessJSON(v *view) (any, error) {
	for _, spot := range o.injected() {
		switch spot.Place {
		case PlaceBody:
			if o.Stamp.Append != "" && spot == o.Stamp.spot() {
				o.dropMark(v.json)
				continue
			}
			dropPath(v.json, Path(spot.Name).Segments())
		case PlaceGraphQLVariable:
			dropPath(v.json, append([]string{"variables"}, Path(spot.Name).Segments()...))
		case PlaceGraphQLDirective:
			if err := dropDirective(v.json, spot); err != nil {
				return nil, err
			}
		case PlaceMailHeader:
			dropMailHeader(v.json, spot)
		}
	}
	for _, p := range o.Fingerprint.Exclude {
		dropPath(v.json, p.Segments())
	}
	if object, ok := v.json.(map[string]any); ok && len(object) == 0 {
		return nil, nil
	}
	return v.json, nil
}

// dropPath takes a member out, under any case, and what holds nothing any more.
func dropPath(tree any, segments []string) {
	object, ok := tree.(map[string]any)
	if !ok || len(segments) == 0 {
		return
	}
	for name, child := range object {
		if !strings.EqualFold(name, segments[0]) {
			continue
		}
		if len(segments) == 1 {
			delete(object, name)
			continue
		}
		dropPath(child, segments[1:])
		if inner, ok := child.(map[string]any); child == nil || ok && len(inner) == 0 {
			delete(object, name)
		}
	}
}

func dropDirective(tree any, spot Spot) error {
	op, text, err := graphqlOf(tree)
	if err != nil {
		return err
	}
	object := tree.(map[string]any)
	for _, f := range op.fields {
		for _, d := range f.directives {
			if d.name != spot.Name {
				continue
			}
			if a := d.arguments[spot.argument()]; a.variable != "" {
				dropPath(tree, []string{"variables", a.variable})
				continue
			}
			start := len(strings.TrimRight(text[:d.start], " \t\r\n,"))
			object["query"] = text[:start] + text[d.end:]
			return nil
		}
	}
	return nil
}

func dropMailHeader(tree any, spot Spot) {
	at, _ := spot.At.Find(tree)
	switch at := at.(type) {
	case map[string]any:
		dropPath(tree, append(spot.At.Segments(), spot.Name))
	case []any:
		left := slices.DeleteFunc(slices.Clone(at), func(item any) bool { return isMailHeader(item, spot.Name) })
		segments := spot.At.Segments()
		parent, ok := any(tree), false
		if len(segments) > 1 {
			parent, _ = Path(strings.Join(segments[:len(segments)-1], ".")).Find(tree)
		}
		object, ok := parent.(map[string]any)
		if !ok || len(segments) == 0 {
			return
		}
		if last := segments[len(segments)-1]; len(left) == 0 {
			delete(object, last)
		} else {
			object[last] = left
		}
	}
}

// multipartBody lists the parts by name, type and digest; the boundary is another on every send.
func multipartBody(r Request) (any, error) {
	_, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || parameters["boundary"] == "" {
		return nil, errors.New("the body's parts cannot be told apart")
	}
	reader := multipart.NewReader(bytes.NewReader(r.Body), parameters["boundary"])
	parts := []any{}
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return nil, errors.New("the body's parts cannot be read")
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return nil, errors.New("the body's parts cannot be read")
		}
		parts = append(parts, map[string]any{
			"name": part.FormName(), "file": part.FileName(), "type": part.Header.Get("Content-Type"), "sha256": digestOf(content),
		})
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// spellable puts text in the place of what canonical form refuses: numbers that a double would merge, and bytes that are no text.
func spellable(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			out[spellable(name).(string)] = spellable(child)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, child := range v {
			out[i] = spellable(child)
		}
		return out
	case string:
		if !utf8.ValidString(v) {
			return "bytes " + hex.EncodeToString([]byte(v))
		}
	case json.Number:
		if _, err := canon.Encode(v); err != nil {
			return "number " + v.String()
		}
	}
	return v
}
