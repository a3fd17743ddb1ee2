package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// digestHeaders are checksums of the body, which do not fit any more when it is changed.
var digestHeaders = []string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest"}

// Inject puts the downstream key, what goes along with it, and the stamp into a request, over whatever its sender put there (S3.9). firstSent is the
// time of the first send. Everything else stays as it is, byte for byte where a form or JSON allows it; the request that was given is not
// changed. An error means that the request has no place for them as it is: it must not be sent. A signature over the body does not hold any more;
// see Signed.
func (o *Operation) Inject(r Request, key, stamp string, firstSent time.Time) (Request, error) {
	out := r
	out.Header = r.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if err := r.plain(); err != nil && o.touchesBody() {
		return r, err
	}
	var err error
	for _, spot := range o.Key.spots() {
		if key == "" {
			return r, errors.New("there is no key to send")
		}
		if out, err = o.put(out, spot, key); err != nil {
			return r, err
		}
	}
	for _, c := range o.Key.Companions {
		v := c.Value
		if c.FirstSent != "" {
			v = firstSentText(firstSent, c.FirstSent)
		}
		if out, err = o.put(out, c.Spot, v); err != nil {
			return r, err
		}
	}
	if o.Stamp.Set() && stamp != "" {
		if o.Stamp.Append != "" {
			out, err = o.putMark(out, stamp)
		} else {
			out, err = o.put(out, o.Stamp.spot(), o.Stamp.Cut(stamp))
		}
		if err != nil {
			return r, err
		}
	}
	if string(out.Body) != string(r.Body) {
		for _, name := range digestHeaders {
			out.Header.Del(name)
		}
		if out.Header.Get("Content-Length") != "" {
			out.Header.Set("Content-Length", strconv.Itoa(len(out.Body)))
		}
	}
	return out, nil
}

func firstSentText(at time.Time, format string) any {
	switch format {
	case "rfc3339":
		return at.UTC().Format(time.RFC3339)
	case "unix":
		return at.Unix()
	}
	return at.UTC().Format(http.TimeFormat)
}

func (o *Operation) touchesBody() bool {
	for _, spot := range o.injected() {
		switch spot.Place {
		case PlaceHeader, PlacePrecondition, PlaceQuery, PlacePath:
		default:
			return true
		}
	}
	return false
}

// injected lists every place that Inject writes to.
func (o *Operation) injected() []Spot {
	spots := o.Key.spots()
	for _, c := range o.Key.Companions {
		spots = append(spots, c.Spot)
	}
	if o.Stamp.Set() {
		spots = append(spots, o.Stamp.spot())
	}
	return spots
}

// put sets a value at a place.
func (o *Operation) put(r Request, spot Spot, value any) (Request, error) {
	text := fmt.Sprint(value)
	var err error
	switch spot.Place {
	case PlaceHeader, PlacePrecondition:
		if strings.ContainsAny(text, "\r\n\x00") {
			return r, errors.New("a header cannot hold a line break")
		}
		r.Header.Set(spot.Name, text)
		return r, nil
	case PlaceQuery:
		r.Query, err = setForm(r.Query, spot.Name, text)
		return r, err
	case PlacePath:
		r.Path, err = setPath(o.Path, r.Path, spot.Name, text)
		return r, err
	case PlaceGraphQLVariable:
		return setBody(r, append([]string{"variables"}, Path(spot.Name).Segments()...), value)
	case PlaceGraphQLDirective:
		return putDirective(r, spot, text)
	case PlaceMailHeader:
		return putMailHeader(r, spot, text)
	case PlaceBody, PlaceForm:
		return o.putBody(r, spot, value)
	}
	return r, fmt.Errorf("nothing can be set at %s", spot.Place)
}

func (o *Operation) putBody(r Request, spot Spot, value any) (Request, error) {
	form := o.Encoding == EncodingForm || spot.Place == PlaceForm
	if form && len(r.Body) == 0 && r.mediaType() == "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	switch {
	case form && r.isForm():
		body, err := setForm(string(r.Body), spot.Name, fmt.Sprint(value))
		if err != nil {
			return r, err
		}
		r.Body = []byte(body)
		// Servers of form APIs take their parameters from the query too.
		r.Query, err = dropForm(r.Query, spot.Name)
		return r, err
	case !form && (r.isJSON() || len(r.Body) == 0):
		return setBody(r, Path(spot.Name).Segments(), value)
	}
	return r, fmt.Errorf("the body is %q, and the operation takes %s", r.mediaType(), o.Encoding)
}

func setBody(r Request, segments []string, value any) (Request, error) {
	body := r.Body
	if len(body) == 0 {
		body = []byte("{}")
		if r.mediaType() == "" {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	if (r.mediaType() != "" || len(r.Body) > 0) && !r.isJSON() {
		return r, fmt.Errorf("the body is %q, and the operation takes JSON", r.mediaType())
	}
	changed, err := setJSON(body, segments, value)
	if err != nil {
		return r, err
	}
	r.Body = changed
	return r, nil
}

func dropForm(text, name string) (string, error) {
	fields, err := parseForm(text)
	if err != nil {
		return "", err
	}
	var out []string
	for _, f := range fields {
		if !sameField(f.name, name) {
			out = append(out, f.raw)
		}
	}
	if len(out) == len(fields) {
		return text, nil
	}
	return strings.Join(out, "&"), nil
}

// setPath puts a value in the place of a placeholder.
func setPath(template, path, name, value string) (string, error) {
	segments := strings.Split(path, "/")
	for i, w := range strings.Split(template, "/") {
		before, inner, _ := strings.Cut(w, "{")
		placeholder, after, _ := strings.Cut(inner, "}")
		if placeholder != name || i >= len(segments) {
			continue
		}
		segments[i] = before + url.PathEscape(value) + after
		return strings.Join(segments, "/"), nil
	}
	return "", fmt.Errorf("the path has no %s", name)
}

func putDirective(r Request, spot Spot, value string) (Request, error) {
	v := newView(r)
	if err := v.readBody(); err != nil {
		return r, err
	}
	op, text, err := graphqlOf(v.json)
	if err != nil {
		return r, err
	}
	changed, variable, err := setDirective(op, text, spot.Name, spot.argument(), value)
	if err != nil {
		return r, err
	}
	if variable != "" {
		return setBody(r, []string{"variables", variable}, value)
	}
	return setBody(r, []string{"query"}, changed)
}

// argument is the directive's argument, key if the contract does not say.
func (s Spot) argument() string {
	if s.Argument == "" {
		return "key"
	}
	return s.Argument
}

// putMailHeader sets a header of the mail that a JSON body describes.
func putMailHeader(r Request, spot Spot, value string) (Request, error) {
	v := newView(r)
	if err := v.readBody(); err != nil {
		return r, err
	}
	at, _ := spot.At.Find(v.json)
	list, isList := at.([]any)
	if !isList && !(at == nil && spot.List) {
		return setBody(r, append(spot.At.Segments(), spot.Name), value)
	}
	set := []any{}
	for _, item := range list {
		if !isMailHeader(item, spot.Name) {
			set = append(set, item)
		}
	}
	return setBody(r, spot.At.Segments(), append(set, map[string]any{"Name": spot.Name, "Value": value}))
}

func isMailHeader(item any, name string) bool {
	object, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for member, v := range object {
		if text, ok := v.(string); ok && strings.EqualFold(member, "name") && strings.EqualFold(text, name) {
			return true
		}
	}
	return false
}

var randomUUID = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)

// ClientKey returns the key that the sender put into the request, "" if there is none, and whether it looks like one that the provider's client
// made up: such a key stands for one call and not for one business effect. Inject overwrites either.
func (o *Operation) ClientKey(r Request) (key string, minted bool) {
	v := newView(r)
	for _, spot := range o.Key.spots() {
		if key = v.at(o, spot); key != "" {
			break
		}
	}
	if key == "" {
		return "", false
	}
	if o.Key.Minted != "" {
		if pattern, err := regexp.Compile(o.Key.Minted); err == nil && pattern.MatchString(key) {
			return key, true
		}
	}
	return key, randomUUID.MatchString(key)
}

// at is the text at a place, "" if there is none or it cannot be read.
func (v *view) at(o *Operation, spot Spot) string {
	switch spot.Place {
	case PlacePrecondition:
		return v.Header.Get(spot.Name)
	case PlacePath:
		found, _ := matchPath(o.Path, v.segments)
		return found[spot.Name]
	case PlaceGraphQLVariable:
		if v.readBody() != nil {
			return ""
		}
		return Path("variables." + spot.Name).Text(v.json)
	case PlaceGraphQLDirective:
		op, err := v.readGraphQL()
		if err != nil || len(op.fields) != 1 {
			return ""
		}
		for _, d := range op.fields[0].directives {
			a, ok := d.arguments[spot.argument()]
			if d.name != spot.Name || !ok {
				continue
			}
			if a.variable != "" {
				return Path("variables." + a.variable).Text(v.json)
			}
			_, text, _ := graphqlOf(v.json)
			var s string
			if json.Unmarshal([]byte(text[a.start:a.end]), &s) == nil {
				return s
			}
		}
		return ""
	case PlaceMailHeader:
		if v.readBody() != nil {
			return ""
		}
		found, _ := spot.At.Find(v.json)
		if object, ok := found.(map[string]any); ok {
			return Path(spot.Name).Text(object)
		}
		return ""
	}
	values, err := v.values(spot.Place, spot.Name)
	if err != nil || len(values) == 0 {
		return ""
	}
	return values[0]
}
