package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
)

// WaitMax bounds ?wait=, and so how long a request is held open for somebody else's outcome.
const WaitMax = 60 * time.Second

// endpoint describes one path and method, for the router and for the OpenAPI document.
type endpoint struct {
	method, path, id, tag, summary, description string
	query                                       []*huma.Param
	// example is a body that works; bodyMax bounds it (0: BodyBytesMax).
	example any
	bodyMax int64
	answers []answer
	// problems are the codes that it can answer besides those that any request can get.
	problems []effectonce.Code
}

// answer is one kind of answer that is no refusal.
type answer struct {
	status  int
	body    reflect.Type
	what    string
	example any
}

// reply is what a handler returns.
type reply struct {
	status int
	body   any
	header http.Header
}

// none is the body of a request that has none.
type none struct{}

// call is a request as a handler gets it: checked and parsed.
type call[B any] struct {
	ctx   context.Context
	key   effectonce.Key
	run   string
	step  string
	path  func(name string) string
	query url.Values
	wait  time.Duration
	body  B
}

// register routes an endpoint and documents it.
func register[B any](s *server, e endpoint, serve func(call[B]) (reply, error)) {
	schema := document[B](s, &e)
	s.mux.HandleFunc(e.method+" "+e.path, func(w http.ResponseWriter, r *http.Request) {
		rep, err := handle(s, e, schema, w, r, serve)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		maps.Copy(w.Header(), rep.header)
		if rep.status == http.StatusNoContent {
			w.WriteHeader(rep.status)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		s.encode(w, rep.status, rep.body)
	})
}

func handle[B any](s *server, e endpoint, schema *huma.Schema, w http.ResponseWriter, r *http.Request, serve func(call[B]) (reply, error)) (reply, error) {
	c := call[B]{ctx: r.Context(), run: r.PathValue("run"), step: r.PathValue("step"), path: r.PathValue}
	var err error
	if c.query, err = parseQuery(r, e.query); err != nil {
		return reply{}, err
	}
	if c.wait, err = waitOf(r, c.query, e.query); err != nil {
		return reply{}, err
	}
	if strings.Contains(e.path, "{key}") {
		if c.key, err = effectonce.ParseKey(r.PathValue("key")); err != nil {
			return reply{}, err
		}
	}
	if schema != nil {
		limit := e.bodyMax
		if limit == 0 {
			limit = BodyBytesMax
		}
		if err := s.read(w, r, schema, limit, &c.body); err != nil {
			return reply{}, err
		}
	}
	return serve(c)
}

// repeats is the query parameter that may be given several times.
const repeats = "state"

// parseQuery refuses parameters that the endpoint does not have: a misspelt filter must not list everything.
func parseQuery(r *http.Request, params []*huma.Param) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("query", "is not a valid query string", "escape it as a URL query")
	}
	names := make([]string, 0, len(params))
	for _, p := range params {
		names = append(names, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(names, name) {
			remedy := "this path has no query parameters"
			if len(names) > 0 {
				remedy = "its query parameters are " + strings.Join(names, ", ")
			}
			return nil, invalid(pathOf("query", "/"+escape(name)), "is not a parameter of this path", remedy)
		}
		if len(q[name]) > 1 && name != repeats {
			return nil, invalid("query."+name, "is given twice", "give it once")
		}
	}
	return q, nil
}

// waitOf reads ?wait=30s, or Prefer: wait=30 (RFC 7240) where there is no wait in the query.
func waitOf(r *http.Request, q url.Values, params []*huma.Param) (time.Duration, error) {
	if !slices.ContainsFunc(params, func(p *huma.Param) bool { return p.Name == "wait" }) {
		return 0, nil
	}
	if v := q.Get("wait"); v != "" {
		return bounded("query.wait", v, 0, WaitMax)
	}
	for _, h := range r.Header.Values("Prefer") {
		for _, pref := range strings.FieldsFunc(h, func(c rune) bool { return c == ',' || c == ';' }) {
			name, value, _ := strings.Cut(strings.TrimSpace(pref), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
			if err != nil || n < 0 {
				return 0, invalid("Prefer", "wait is not a number of seconds", "send Prefer: wait=30")
			}
			// A preference is not a demand: what is too long is shortened (RFC 7240).
			return time.Duration(min(n, int(WaitMax.Seconds()))) * time.Second, nil
		}
	}
	return 0, nil
}

// bounded reads a duration between low and high.
func bounded(field, v string, low, high time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, invalid(field, "is not a duration", "write it like 30s or 5m")
	}
	if d < low || d > high {
		return 0, invalid(field, fmt.Sprintf("must be between %s and %s", low, high), "write it like 30s")
	}
	return d, nil
}
