package egress

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// incoming is a request as it came, from the proxy or from the round tripper.
type incoming struct {
	contract.Request
	// rest is the body, or what of it is not in Request.Body yet; nil where there is none. length is its whole length, -1 if that is not known.
	rest   io.Reader
	length int64
	ask    ask
}

// ask is what a caller says about the intent.
type ask struct{ id, run, step, tenant, actor string }

// The headers of an intent. They are never sent on.
const (
	HeaderIntent = "Effectonce-Intent"
	HeaderRun    = "Effectonce-Run"
	HeaderStep   = "Effectonce-Step"
	HeaderTenant = "Effectonce-Tenant"
	HeaderActor  = "Effectonce-Actor"
)

func askOf(h http.Header) (ask, error) {
	var a ask
	for name, to := range map[string]*string{HeaderIntent: &a.id, HeaderRun: &a.run, HeaderStep: &a.step, HeaderTenant: &a.tenant, HeaderActor: &a.actor} {
		values := h.Values(name)
		if len(values) > 1 {
			return a, invalid(name, "is there more than once", "send it once")
		}
		if len(values) == 1 {
			*to = values[0]
		}
	}
	if a.tenant != "" && a.tenant != effectonce.DefaultTenant {
		return a, invalid(HeaderTenant, "names another tenant than "+effectonce.DefaultTenant+", and there is only that one", "leave it out")
	}
	return a, nil
}

// kind says what is done with a request.
type kind string

const (
	kindRead        kind = "read"        // no effect: it passes
	kindConvergent  kind = "convergent"  // repeats are harmless, and nobody named an intent: it passes
	kindUndescribed kind = "undescribed" // a write that the contract does not describe
	kindTooLarge    kind = "too_large"   // a write whose body is too large to be guarded
	kindWrite       kind = "write"       // guarded
)

// sort reads what has to be read of a request, and finds out what it is. Bodies are read of requests that may have an effect only.
func (r *Route) sort(in *incoming) (kind, *contract.Operation, error) {
	c := r.raw.Contract()
	if in.rest != nil {
		var start bytes.Buffer
		n, err := io.Copy(&start, io.LimitReader(in.rest, BodyBytesMax+1))
		if err != nil {
			return "", nil, &bodyError{err}
		}
		if n > BodyBytesMax {
			op, ok := c.Match(in.Request)
			in.rest = io.MultiReader(&start, in.rest)
			switch {
			case ok && op.Effect == contract.EffectRead:
				return kindRead, op, nil
			case ok:
				return kindTooLarge, op, nil
			}
			return kindUndescribed, nil, nil
		}
		in.Body, in.rest, in.length = start.Bytes(), nil, n
	}
	op, ok := c.Match(in.Request)
	switch {
	case !ok:
		return kindUndescribed, nil, nil
	case op.Effect == contract.EffectRead:
		return kindRead, op, nil
	case op.Effect == contract.EffectConvergent && op.EffectSource.Good() && in.ask.id == "" && r.o.Tools[op.Name] == nil:
		return kindConvergent, op, nil
	}
	return kindWrite, op, nil
}

// bodyError says that a request's body did not come whole.
type bodyError struct{ cause error }

func (e *bodyError) Error() string { return "the body could not be read: " + e.cause.Error() }
func (e *bodyError) Unwrap() error { return e.cause }

// checkPath refuses paths that servers read in different ways, so that none leads out of the route (and so past the contract).
func checkPath(path, query string) error {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\") {
		return invalid("path", "is not a path that can be passed on", "send it as the provider's documentation shows it")
	}
	for one := range strings.SplitSeq(path, "/") {
		s, err := url.PathUnescape(one)
		if err != nil || s == "." || s == ".." || strings.ContainsAny(s, "\x00\r\n\\") || strings.HasPrefix(s, "../") || strings.HasSuffix(s, "/..") || strings.Contains(s, "/../") {
			return invalid("path", "has a segment that servers read in different ways", "send it as the provider's documentation shows it")
		}
	}
	if strings.ContainsFunc(query, func(c rune) bool { return c <= 0x20 || c == 0x7f }) {
		return invalid("query", "holds a control character or a space", "encode it")
	}
	return nil
}

// upgrades reports whether a request asks for another protocol, which nothing could be read of.
func upgrades(h http.Header) bool {
	if h.Get("Upgrade") != "" {
		return true
	}
	for _, v := range h.Values("Connection") {
		for one := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(one), "upgrade") {
				return true
			}
		}
	}
	return false
}

var errUpgrade = errors.New("the request asks for another protocol")
