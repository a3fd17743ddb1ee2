package contract

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Effect says what a repeat of an operation does at the provider.
type Effect string

// The effects.
const (
	EffectKeyed      Effect = "keyed"      // repeats under one key have one effect, as far as the contract promises
	EffectConvergent Effect = "convergent" // repeats are harmless: the request names the state that it asks for
	EffectNone       Effect = "none"       // nothing protects from a second effect
	EffectRead       Effect = "read"       // no effect
)

// Places that only requests on the wire have; see also PlaceHeader and its companions.
const (
	PlaceForm             Place = "form"              // a parameter of a form API, in the body or in the query
	PlaceContentType      Place = "content_type"      // the media type of the body
	PlaceHost             Place = "host"              // the host that the request goes to
	PlacePath             Place = "path"              // a placeholder of the path
	PlaceGraphQL          Place = "graphql"           // the fields at the root of a GraphQL operation; without a name its kind
	PlaceGraphQLVariable  Place = "graphql_variable"  // a variable of a GraphQL operation
	PlaceGraphQLDirective Place = "graphql_directive" // an argument of a directive on the field of a GraphQL operation
	PlaceMailHeader       Place = "mail_header"       // a header of the mail that a request describes
	PlacePrecondition     Place = "precondition"      // a header by which the provider refuses a second effect
	PlaceCredentialScope  Place = "credential_scope"  // the credential scope of an AWS signature: date, region or service
)

// Condition tells requests of one method and path apart. It holds where the place has one of the values ("*" is any, a star at the end is any ending, one at the beginning any beginning);
// with Absent, where the place is empty. Of a place that has several values, one has to fit for an operation with an effect and
// all for a read; where the place cannot be read no condition holds.
type Condition struct {
	In     Place
	Name   string
	Values []string
	Absent bool
}

func (c Condition) holds(v *view, read bool) bool {
	got, err := v.values(c.In, c.Name)
	if err != nil {
		return false
	}
	if read && c.In == PlaceForm && len(v.Body) == 0 && v.Method != http.MethodGet && v.Method != http.MethodHead {
		// A body that is not there, or was not read, says nothing about what else is asked for.
		return false
	}
	if c.In == PlaceGraphQL && c.Name == "" && len(got) == 1 {
		return matchesOne(got[0], c.Values)
	}
	if c.In == PlaceGraphQL {
		// The one field that is there; several would be several effects.
		op, _ := v.readGraphQL()
		return op.kind == "mutation" && len(op.fields) == 1 && op.fields[0].name == c.Name && op.fields[0].alias == ""
	}
	if c.Absent {
		return len(got) == 0
	}
	if len(got) == 0 {
		return false
	}
	fits := func(s string) bool { return matchesOne(s, c.Values) }
	if read {
		return !slices.ContainsFunc(got, func(s string) bool { return !fits(s) })
	}
	return slices.ContainsFunc(got, fits)
}

func matchesOne(s string, values []string) bool {
	for _, want := range values {
		start, open := strings.CutSuffix(want, "*")
		end, closing := strings.CutPrefix(want, "*")
		if s == want || s != "" && (open && strings.HasPrefix(s, start) || closing && strings.HasSuffix(s, end)) {
			return true
		}
	}
	return false
}

// Otherwise says what a contract makes of requests that none of its operations describes.
type Otherwise struct {
	// Reads are the methods of which every other request has no effect.
	Reads []string
	// Writes names the operation that stands for every other request with another method; empty: nobody knows what such a request
	// does, and it must not pass unguarded.
	Writes string
}

// Match finds the operation that a request is. A request without an effect gets an operation of [EffectRead], with no name if no
// operation describes it. ok is false for a request that may have an effect and that nobody described: it must not pass unguarded
// unless the operator says so. A request that servers could read in different ways (an odd path, a method that a header overrides, a
// name twice in a JSON object) is never taken for a read.
func (c *Contract) Match(r Request) (op *Operation, ok bool) {
	v := newView(r)
	if v.pathErr != nil || v.overridden() {
		return nil, false
	}
	var best *Operation
	for _, name := range slices.Sorted(maps.Keys(c.Operations)) {
		o := c.Operations[name]
		if o.Path == "" || !o.describes(v) {
			continue
		}
		if best == nil || o.narrower(best) {
			best = o
		}
	}
	switch {
	case best != nil:
		return best, true
	case slices.Contains(c.Otherwise.Reads, r.Method):
		return &Operation{Contract: c.Name, Version: c.Version, Method: r.Method, Effect: EffectRead}, true
	case c.Otherwise.Writes != "":
		o, found := c.Operations[c.Otherwise.Writes]
		return o, found
	}
	return nil, false
}

func (o *Operation) describes(v *view) bool {
	if v.Method != o.Method && !(o.Method == http.MethodGet && v.Method == http.MethodHead) {
		return false
	}
	if _, ok := matchPath(o.Path, v.segments); !ok {
		return false
	}
	for _, c := range o.Where {
		if !c.holds(v, o.Effect == EffectRead) {
			return false
		}
	}
	return true
}

// narrower says that o describes fewer requests than the other: by more literal segments, then by more conditions. Of two that are equal
// the more careful one counts.
func (o *Operation) narrower(other *Operation) bool {
	a, b := o.rank(), other.rank()
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return false
}

func (o *Operation) rank() [4]int {
	literal, open := 0, 1
	for segment := range strings.SplitSeq(strings.Trim(o.Path, "/"), "/") {
		switch {
		case strings.HasSuffix(segment, "...}"):
			open = 0
		case !strings.Contains(segment, "{"):
			literal += 1000 + len(segment)
		default:
			before, rest, _ := strings.Cut(segment, "{")
			_, after, _ := strings.Cut(rest, "}")
			literal += len(before) + len(after)
		}
	}
	care := map[Effect]int{EffectKeyed: 3, EffectNone: 2, EffectConvergent: 1, EffectRead: 0}
	exact := 0
	for _, c := range o.Where {
		exact += 2
		if slices.ContainsFunc(c.Values, func(s string) bool { return strings.HasPrefix(s, "*") || strings.HasSuffix(s, "*") }) {
			exact--
		}
	}
	return [4]int{open, literal, exact, care[o.Effect]}
}

// matchPath matches decoded segments with a template: {name} is one segment or a part of one, {name...} at the end the rest. It returns
// what the placeholders stand for.
func matchPath(template string, segments []string) (map[string]string, bool) {
	found := map[string]string{}
	want := strings.Split(strings.TrimPrefix(template, "/"), "/")
	if len(want) > 1 && want[len(want)-1] == "" {
		want = want[:len(want)-1]
	}
	for i, w := range want {
		if name, rest := strings.CutSuffix(w, "...}"); rest {
			if i > len(segments) {
				return nil, false
			}
			found[strings.TrimPrefix(name, "{")] = strings.Join(segments[i:], "/")
			return found, true
		}
		if i >= len(segments) {
			return nil, false
		}
		before, inner, has := strings.Cut(w, "{")
		if !has {
			if w != segments[i] {
				return nil, false
			}
			continue
		}
		name, after, _ := strings.Cut(inner, "}")
		s := segments[i]
		if len(s) <= len(before)+len(after) || !strings.HasPrefix(s, before) || !strings.HasSuffix(s, after) {
			return nil, false
		}
		found[name] = s[len(before) : len(s)-len(after)]
	}
	return found, len(want) == len(segments)
}
