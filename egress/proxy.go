package egress

import (
	"net/http"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/loopback"
)

// Prefix is where routes are under a daemon's address.
const Prefix = "/egress/"

// Proxy is the handler of routes: /egress/NAME/ is the base URL of route NAME's provider. It is no open proxy: a request goes to its route's
// provider or nowhere. It is safe for concurrent use.
type Proxy struct{ routes map[string]*Route }

// NewProxy makes the handler.
func NewProxy(routes []*Route) *Proxy {
	p := &Proxy{routes: map[string]*Route{}}
	for _, r := range routes {
		p.routes[r.o.Name] = r
	}
	return p
}

// Takes reports whether a request is for the proxy.
func (p *Proxy) Takes(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, Prefix) }

// ServeHTTP implements [http.Handler].
func (p *Proxy) ServeHTTP(w http.ResponseWriter, request *http.Request) { p.answer(w, request, "") }

// At is the handler of one route alone, at the root of an address of its own: for clients whose base URL has no place for a path.
func (p *Proxy) At(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) { p.answer(w, request, name) })
}

// answer serves a request for a route, or, without one, for the route that its path names.
func (p *Proxy) answer(w http.ResponseWriter, request *http.Request, name string) {
	route, in, err := p.find(request, name)
	if err != nil {
		answer, _ := problemOf(err)
		if route != nil {
			answer = route.problem(err)
		}
		answer.reply().write(w)
		return
	}
	route.serve(w, request, in)
}

// find checks what can be seen of a request before its body, and finds its route: the one that is named, or that its path names.
func (p *Proxy) find(request *http.Request, name string) (*Route, *incoming, error) {
	if err := loopback.Check(request, "proxy"); err != nil {
		return nil, nil, err
	}
	if request.URL.Host != "" || request.URL.Scheme != "" || request.URL.Opaque != "" {
		return nil, nil, &misdirected{CodeNotAProxy, "the request names another address than this one", "give the client the route's address as its base URL, and no proxy"}
	}
	rest := strings.TrimPrefix(request.URL.EscapedPath(), "/")
	if name == "" {
		path, ok := strings.CutPrefix(request.URL.EscapedPath(), Prefix)
		if !ok {
			return nil, nil, noRoute()
		}
		name, rest, _ = strings.Cut(path, "/")
	}
	route := p.routes[name]
	if route == nil {
		return nil, nil, noRoute()
	}
	switch request.Method {
	case http.MethodConnect, http.MethodTrace:
		return route, nil, &misdirected{CodeNotAProxy, "the method " + request.Method + " is not passed on", "use the methods of the provider's API"}
	}
	if upgrades(request.Header) {
		return route, nil, errUpgrade
	}
	rest = "/" + rest
	if err := checkPath(rest, request.URL.RawQuery); err != nil {
		return route, nil, err
	}
	asks, err := askOf(request.Header)
	if err != nil {
		return route, nil, err
	}
	in := &incoming{ask: asks, length: request.ContentLength, Request: contract.Request{
		Method: request.Method, Path: rest, Query: request.URL.RawQuery, Host: route.host(), Header: request.Header,
	}}
	if request.Body != nil && request.Body != http.NoBody {
		in.rest = request.Body
	}
	return route, in, nil
}

func noRoute() error {
	return &misdirected{CodeNoRoute, "there is no route at this path", "routes are in the configuration, and begin with " + Prefix + "NAME/"}
}

// host is where the route's requests go.
func (r *Route) host() string {
	u, err := r.raw.Target("/", "")
	if err != nil {
		return ""
	}
	return u.Host
}

// serve does with a request what its kind asks for.
func (r *Route) serve(w http.ResponseWriter, request *http.Request, in *incoming) {
	which, op, err := r.sort(in)
	if err != nil {
		r.refuse(w, err)
		return
	}
	r.o.Metrics.request(r.o.Name, which)
	if r.o.Intents == Observe && which != kindRead && which != kindConvergent {
		r.observe(w, request, op, in, which)
		return
	}
	if r.passes(which) {
		r.pass(w, request, in)
		return
	}
	if err := r.refusal(which, in); err != nil {
		r.refuse(w, err)
		return
	}
	// The body is read: the server's time-out for the request must not end the waiting.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	answer, err := r.write(request.Context(), op, in)
	if err != nil {
		r.refuse(w, err)
		return
	}
	answer.write(w)
}

// passes reports whether a request goes on as it is.
func (r *Route) passes(which kind) bool {
	return which == kindRead || which == kindConvergent || which == kindUndescribed && r.o.PassUndescribed
}

// refusal is why a request is not sent, nil if it is to be guarded.
func (r *Route) refusal(which kind, in *incoming) error {
	switch which {
	case kindUndescribed:
		return &undescribed{contract: r.raw.Contract().Name, method: in.Method, path: in.Path}
	case kindTooLarge:
		return &effectonce.Error{Code: effectonce.CodeTooLarge, Field: "body", Detail: "the body of a guarded write is larger than a mebibyte; nothing was sent", Remedy: "send a reference to what is large"}
	}
	return nil
}
