package contract

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// RequestBytesMax bounds the body of a request that is matched, read or changed.
const RequestBytesMax = 16 << 20

// Request is a request to a provider as it is on the wire.
type Request struct {
	Method string
	// Path is the escaped path under the provider's base URL, beginning with a slash; Query the raw query without the question mark.
	Path  string
	Query string
	// Host is where the request goes, for contracts that find a region or an account in it; it may be empty.
	Host   string
	Header http.Header
	Body   []byte
}

// mediaType is the type of the body without its parameters, in lower case; "" where there is none.
func (r Request) mediaType() string {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		t, _, _ = strings.Cut(r.Header.Get("Content-Type"), ";")
		t = strings.ToLower(strings.TrimSpace(t))
	}
	return t
}

func (r Request) isForm() bool { return r.mediaType() == "application/x-www-form-urlencoded" }

// isJSON holds for JSON's own type, for types made of it (application/x-amz-json-1.1), and for a body without a type that begins like
// an object.
func (r Request) isJSON() bool {
	t := r.mediaType()
	if t == "" {
		return strings.HasPrefix(strings.TrimSpace(string(r.Body)), "{")
	}
	return t == "application/json" || strings.HasSuffix(t, "+json") || strings.HasPrefix(t, "application/x-amz-json") || t == "text/json"
}

// plain says whether the body can be read as it is: it is neither compressed nor too large.
func (r Request) plain() error {
	if e := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); e != "" && e != "identity" {
		return errors.New("the body is compressed (" + e + "), so nothing can be read or set in it")
	}
	if len(r.Body) > RequestBytesMax {
		return errors.New("the body is too large to be read")
	}
	return nil
}

// view is a request with its parts decoded when they are asked for.
type view struct {
	Request
	segments  []string
	pathErr   error
	bodyRead  bool
	json      any
	form      []formField
	bodyErr   error
	queryRead bool
	query     []formField
	queryErr  error
	graphql   *graphqlOperation
	graphErr  error
}

func newView(r Request) *view {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	v := &view{Request: r}
	v.segments, v.pathErr = pathSegments(r.Path)
	return v
}

// pathSegments decodes a path. What servers read in different ways (empty and dot segments, an encoded slash, a path parameter) is an
// error, so that no spelling of a path gets past its operation.
func pathSegments(path string) ([]string, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, errors.New("the path does not begin with a slash")
	}
	raw := strings.Split(path[1:], "/")
	if len(raw) > 1 && raw[len(raw)-1] == "" {
		raw = raw[:len(raw)-1]
	}
	var segments []string
	for i, one := range raw {
		s, err := url.PathUnescape(one)
		switch {
		case err != nil:
			return nil, errors.New("the path is not encoded correctly")
		case one == "" && !(i == 0 && len(raw) == 1), s == ".", s == "..", strings.ContainsAny(s, "/\\;\x00"):
			return nil, errors.New("the path has a segment that servers read in different ways")
		}
		segments = append(segments, s)
	}
	return segments, nil
}

func (v *view) readBody() error {
	if v.bodyRead {
		return v.bodyErr
	}
	v.bodyRead = true
	if v.bodyErr = v.plain(); v.bodyErr != nil {
		return v.bodyErr
	}
	switch {
	case len(v.Body) == 0:
	case v.isForm():
		v.form, v.bodyErr = parseForm(string(v.Body))
	case v.isJSON():
		v.json, v.bodyErr = decodeJSON(v.Body)
	default:
		v.bodyErr = errors.New("the body is neither a form nor JSON")
	}
	return v.bodyErr
}

func (v *view) readQuery() error {
	if !v.queryRead {
		v.queryRead = true
		v.query, v.queryErr = parseForm(v.Request.Query)
	}
	return v.queryErr
}

func (v *view) readGraphQL() (graphqlOperation, error) {
	if v.graphql == nil && v.graphErr == nil {
		if v.graphErr = v.readBody(); v.graphErr == nil {
			var op graphqlOperation
			op, _, v.graphErr = graphqlOf(v.json)
			v.graphql = &op
		}
	}
	if v.graphErr != nil {
		return graphqlOperation{}, v.graphErr
	}
	return *v.graphql, nil
}

// values returns what the request holds at a place. The error says that the place cannot be read, so that nothing is known.
func (v *view) values(place Place, name string) ([]string, error) {
	switch place {
	case PlaceHeader:
		return v.Header.Values(name), nil
	case PlaceContentType:
		if t := v.mediaType(); t != "" {
			return []string{t}, nil
		}
		return nil, nil
	case PlaceHost:
		return []string{v.Host}, nil
	case PlaceQuery:
		if err := v.readQuery(); err != nil {
			return nil, err
		}
		return formValues(v.query, name), nil
	case PlaceForm:
		// Servers of form APIs take their parameters from the query too.
		if err := v.readQuery(); err != nil {
			return nil, err
		}
		values := formValues(v.query, name)
		if len(v.Body) == 0 {
			return values, nil
		}
		if err := v.readBody(); err != nil {
			return nil, err
		}
		return append(values, formValues(v.form, name)...), nil
	case PlaceBody:
		if err := v.readBody(); err != nil {
			return nil, err
		}
		if v.form != nil {
			return formValues(v.form, name), nil
		}
		if s := Path(name).Text(v.json); s != "" {
			return []string{s}, nil
		}
		return nil, nil
	case PlaceGraphQL:
		op, err := v.readGraphQL()
		if err != nil {
			return nil, err
		}
		if name == "" {
			return []string{op.kind}, nil
		}
		var fields []string
		for _, f := range op.fields {
			fields = append(fields, f.name)
		}
		return fields, nil
	}
	return nil, errors.New("there is nothing to read at " + string(place))
}

// overridden says that a header or parameter asks the server to take another method than the one on the wire.
func (v *view) overridden() bool {
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		if v.Header.Get(name) != "" {
			return true
		}
	}
	if err := v.readQuery(); err != nil {
		return true
	}
	return slices.ContainsFunc(v.query, func(f formField) bool { return strings.EqualFold(f.name, "_method") })
}
