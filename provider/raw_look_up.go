package provider

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// omittedNamed is why a success has no result: the look-up that found it shows something about the resource, and not the resource.
const omittedNamed = "named_by_look_up"

func lookUpsOf(o *contract.Operation) []*contract.LookUp {
	if len(o.LookUps) == 0 && o.LookUp != nil {
		return []*contract.LookUp{o.LookUp}
	}
	return o.LookUps
}

// LooksUp reports whether it can be asked what a request did.
func LooksUp(o *contract.Operation, request contract.Request) bool {
	anything := contract.Known{Key: "k", Stamp: strings.Repeat("0", contract.StampLength), Reference: "r", FirstSent: time.Unix(1, 0)}
	return slices.ContainsFunc(lookUpsOf(o), func(l *contract.LookUp) bool {
		_, err := o.Search(l, request, anything)
		return err == nil
	})
}

// LookUp implements [effectonce.Provider]: it asks each look-up of the contract, to its end. Whatever cannot be asked or read is unavailable, never
// absent; so is what a contract does not find that changed since the request was frozen (S3.11, S7.1).
func (c *RawCall) LookUp(ctx context.Context, call effectonce.Call) effectonce.Finding {
	f, h, secret, failed := c.ready(ctx, call.Request)
	if failed != nil {
		return unavailable(failed.Failure.Message)
	}
	known := contract.Known{Key: call.DownstreamKey, Stamp: call.Stamp, Reference: call.Reference, Doubtful: true, FirstSent: call.FirstSent}
	if !known.FirstSent.IsZero() {
		known.Age = max(h.now().Sub(known.FirstSent), 0)
	}
	var findings []effectonce.Finding
	for _, l := range lookUpsOf(h.operation) {
		findings = append(findings, c.search(ctx, h.operation, l, f, known, secret))
	}
	finding := contract.Combine(findings...)
	if finding.Found == effectonce.FoundAbsent && f.Version != h.version {
		finding = unavailable("none is ours, by another contract than that of the first claim")
	}
	for _, one := range secretsIn(secret, c.secrets) {
		finding.Detail, finding.Reference = redact(finding.Detail, one), redact(finding.Reference, one)
		if finding.Result != nil {
			finding.Result = []byte(redact(string(finding.Result), one))
		}
	}
	return finding
}

// search runs one look-up.
func (c *RawCall) search(ctx context.Context, o *contract.Operation, l *contract.LookUp, f frozenRaw, known contract.Known, secret string) effectonce.Finding {
	// What shows only that something happened to a resource (an event) can show several for one request, and tells less than the answer
	// to a repeat, as long as the provider surely remembers the key.
	about := len(l.Reference.Segments()) > 1
	if about && o.Key.Known() && o.Retention.Known() && (o.Retention.Forever || known.Age < o.Retention.AtLeast/2) {
		return unavailable("a repeat under the key tells more")
	}
	s, err := o.Search(l, f.request(), known)
	if err != nil {
		return unavailable(err.Error())
	}
	for {
		next, more := s.Next()
		if !more {
			break
		}
		response, err := c.ask(ctx, next, f, secret)
		if err != nil {
			s.Fail(err)
			break
		}
		s.Take(response)
	}
	finding := s.Finding()
	switch {
	case about && finding.Found == effectonce.FoundMany:
		return unavailable(finding.Detail + ", and which of them is what was asked for is not known")
	case about && finding.Found == effectonce.FoundOne:
		finding.Result, finding.Omitted = nil, omittedNamed
	}
	return finding
}

// ask sends a request without an effect.
func (c *RawCall) ask(ctx context.Context, r contract.Request, f frozenRaw, secret string) (contract.Response, error) {
	target, err := c.raw.Target(r.Path, r.Query)
	if err != nil {
		return contract.Response{}, err
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, target.String(), strings.NewReader(string(r.Body)))
	if err != nil {
		return contract.Response{}, errors.New("the request has no valid address")
	}
	request.Header = r.Header
	for name, value := range c.raw.http.fixed {
		request.Header.Set(name, value)
	}
	request.Header.Set("User-Agent", "effectonce")
	for name, values := range c.secrets {
		request.Header[name] = slices.Clone(values)
	}
	if c.raw.Held() {
		if err := c.raw.authenticate(request, r.Body, secret, f.Signed); err != nil {
			return contract.Response{}, err
		}
	}
	response, err := c.raw.http.lookUps.RoundTrip(request)
	if err != nil {
		return contract.Response{}, errors.New(transportText(err))
	}
	defer response.Body.Close()
	a, err := readAnswer(response, pageBytesMax)
	if err != nil {
		return contract.Response{}, errors.New("the answer could not be read: " + transportText(err))
	}
	return contract.Response{Status: response.StatusCode, Header: response.Header, Body: a.body, Beginning: a.beginning}, nil
}
