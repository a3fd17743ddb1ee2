package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/contract"
)

// Transport is a route for Go programs: the [http.RoundTripper] of a client that calls the provider under its own address. It does what the
// proxy does; a problem comes as a response like any other. It is safe for concurrent use.
type Transport struct{ route *Route }

// NewTransport makes the round tripper of a route.
func NewTransport(r *Route) *Transport { return &Transport{r} }

// Intent names what a request is to do, where its headers do not: see [WithIntent].
type Intent struct{ ID, Run, Step, Actor string }

type intentKey struct{}

// WithIntent names the intent of the write that is sent under the context. It is for clients that do not let headers be set; headers count first.
func WithIntent(ctx context.Context, i Intent) context.Context {
	return context.WithValue(ctx, intentKey{}, i)
}

// RoundTrip implements [http.RoundTripper]. A request to another address than the route's is an error: it would not be guarded.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	in, err := t.incoming(request)
	if err != nil {
		closeBody(request)
		return nil, err
	}
	response, err := t.route.roundTrip(request, in)
	if in.rest == nil || err != nil {
		closeBody(request)
	}
	return response, err
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // there is nobody to tell
	}
}

func (t *Transport) incoming(request *http.Request) (*incoming, error) {
	base, err := t.route.raw.Target("", "")
	if err != nil {
		return nil, err
	}
	path, ok := strings.CutPrefix(request.URL.EscapedPath(), base.EscapedPath())
	if !ok || request.URL.Scheme != base.Scheme || !strings.EqualFold(request.URL.Host, base.Host) || request.URL.User != nil {
		return nil, errors.New("egress: the request goes to another address than that of route " + t.route.o.Name + ", and would not be guarded")
	}
	if path == "" {
		path = "/"
	}
	if !strings.HasPrefix(path, "/") {
		return nil, errors.New("egress: the request goes to another path than that of route " + t.route.o.Name + ", and would not be guarded")
	}
	if err := checkPath(path, request.URL.RawQuery); err != nil {
		return nil, err
	}
	if upgrades(request.Header) {
		return nil, errUpgrade
	}
	header := http.Header{}
	for name, values := range request.Header {
		// A program can write names as it likes; what is looked for here has one spelling.
		for _, v := range values {
			header.Add(name, v)
		}
	}
	asks, err := askOf(header)
	if err != nil {
		return nil, err
	}
	if i, ok := request.Context().Value(intentKey{}).(Intent); ok && asks.id == "" {
		asks.id, asks.run, asks.step, asks.actor = i.ID, i.Run, i.Step, i.Actor
	}
	in := &incoming{ask: asks, length: request.ContentLength, Request: contract.Request{
		Method: request.Method, Path: path, Query: request.URL.RawQuery, Host: base.Host, Header: header,
	}}
	if in.Method == "" {
		in.Method = http.MethodGet
	}
	if request.Body != nil && request.Body != http.NoBody {
		in.rest = request.Body
		if in.length == 0 {
			in.length = -1
		}
	}
	return in, nil
}

// roundTrip is [Route.serve] without a connection of a caller's.
func (r *Route) roundTrip(request *http.Request, in *incoming) (*http.Response, error) {
	which, op, err := r.sort(in)
	if err != nil {
		return r.response(request, r.problem(err).reply()), nil
	}
	r.o.Metrics.request(r.o.Name, which)
	if r.o.Intents == Observe && which != kindRead && which != kindConvergent {
		done := r.watch(request.Context(), op, in, which)
		response, err := r.send(request, in)
		if err != nil {
			done(0)
			return nil, err
		}
		done(response.StatusCode)
		return response, nil
	}
	if r.passes(which) {
		return r.send(request, in)
	}
	err = r.refusal(which, in)
	var answer reply
	if err == nil {
		answer, err = r.write(request.Context(), op, in)
	}
	if err != nil {
		answer = r.problem(err).reply()
	}
	return r.response(request, answer), nil
}

// send sends a request that passes.
func (r *Route) send(request *http.Request, in *incoming) (*http.Response, error) {
	out := request.Clone(request.Context())
	out.GetBody = nil
	switch {
	case in.rest != nil:
		out.Body, out.ContentLength = struct {
			io.Reader
			io.Closer
		}{in.rest, request.Body}, in.length
	case len(in.Body) > 0:
		out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(in.Body)), int64(len(in.Body))
	default:
		out.Body, out.ContentLength = nil, 0
	}
	out.Header = in.Header.Clone()
	if err := r.outgoing(out, in); err != nil {
		return nil, err
	}
	return r.passing.RoundTrip(out)
}

// response is a reply as the client sees it.
func (r *Route) response(request *http.Request, p reply) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(p.status) + " " + http.StatusText(p.status), StatusCode: p.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: p.header,
		Body: io.NopCloser(bytes.NewReader(p.body)), ContentLength: int64(len(p.body)), Request: request,
	}
}
