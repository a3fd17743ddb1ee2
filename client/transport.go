package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// answerBytesMax bounds an answer: a page of operations, each with a result.
const answerBytesMax = 1 << 30

// Options configure a [Client]. The zero value works.
type Options struct {
	// HTTPClient sends the requests; nil means one that follows no redirect and never sends a POST twice. Its Timeout, if
	// any, must be longer than the longest wait and call.
	HTTPClient *http.Client
	// Actor is who asks, for the audit, where a request does not say.
	Actor string
}

// Client speaks to one daemon. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
	// actor is the default for intents.
	actor string
}

// New makes a client of the daemon at baseURL, like http://127.0.0.1:7171. The error is an [effectonce.ErrInvalid] for a URL
// that is none; nothing is sent yet.
func New(baseURL string, o Options) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "base_url", Detail: fmt.Sprintf("%.200q is not the address of a daemon", baseURL), Remedy: "use one like http://127.0.0.1:7171"}
	}
	c := &Client{base: strings.TrimSuffix(baseURL, "/"), http: o.HTTPClient, actor: o.Actor}
	if c.http == nil {
		c.http = &http.Client{Transport: transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return c, nil
}

// transport keeps connections only for a moment, shorter than a server does: a request on a connection that the server just
// closed would fail, since it is not sent again.
func transport() *http.Transport {
	return &http.Transport{
		Proxy:               nil, // the daemon is on this machine
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     3 * time.Second,
	}
}

// post sends a JSON body and decodes the answer into v.
func (c *Client) post(ctx context.Context, path string, q url.Values, body, v any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "body", Detail: "the request cannot be encoded as JSON", Remedy: "give arguments and results as valid JSON", Cause: err}
	}
	return c.send(ctx, http.MethodPost, path, q, b, v)
}

func (c *Client) get(ctx context.Context, path string, q url.Values, v any) error {
	return c.send(ctx, http.MethodGet, path, q, nil, v)
}

// send makes one request. The error is an *[effectonce.Error], or a *refused around one where the refusal shows the operation.
func (c *Client) send(ctx context.Context, method, path string, q url.Values, body []byte, v any) error {
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	var reader io.Reader
	if body != nil {
		// Hidden from the http package, which would otherwise keep the body for sending it again.
		reader = struct{ io.Reader }{bytes.NewReader(body)}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "base_url", Detail: "the request cannot be made", Cause: err}
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	if body != nil {
		req.ContentLength = int64(len(body))
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unreachable(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, answerBytesMax))
	if err != nil {
		return c.unreachable(err)
	}
	return c.decode(resp, data, v)
}

func (c *Client) decode(resp *http.Response, data []byte, v any) error {
	strange := func(cause error) error {
		return &effectonce.Error{Code: effectonce.CodeInternal, Detail: fmt.Sprintf("%s answered %d with something that is not the API's", c.base, resp.StatusCode), Remedy: "check the address", Cause: cause}
	}
	ct, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch {
	case ct == "application/problem+json":
		var p problem
		if err := json.Unmarshal(data, &p); err != nil || p.Code == "" {
			return strange(err)
		}
		if p.Operation == nil {
			return p.err()
		}
		return &refused{err: p.err(), outcome: p.Operation.outcome()}
	case resp.StatusCode == http.StatusNoContent:
		return nil
	case resp.StatusCode >= 300 || ct != "application/json":
		return strange(nil)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return strange(err)
	}
	return nil
}

// unreachable describes a request without an answer. Whether the daemon has acted is then not known, unless nobody listens.
func (c *Client) unreachable(err error) error {
	e := &effectonce.Error{
		Code: effectonce.CodeStoreUnavailable, Sent: effectonce.SentUnknown, Detail: "no answer from " + c.base,
		Remedy: "ask again with the same intent; it has its effect once", Cause: err,
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		e.Sent, e.Detail, e.Remedy = effectonce.SentNo, "nobody answers at "+c.base, "is the daemon running? start it with: effectonce serve"
	}
	return e
}

// refused is a refusal that shows the operation as it stands.
type refused struct {
	err     *effectonce.Error
	outcome effectonce.Outcome
}

func (r *refused) Error() string { return r.err.Error() }
func (r *refused) Unwrap() error { return r.err }

// split returns the plain error, and the operation that the refusal shows, if it does.
func split(err error) (effectonce.Outcome, error) {
	var r *refused
	if errors.As(err, &r) {
		return r.outcome, r.err
	}
	return effectonce.Outcome{}, err
}
