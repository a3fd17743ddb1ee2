package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// RawOptions say where requests go that a provider's own client made.
type RawOptions struct {
	// Contract says what the API promises, the operator's settings included (see [contract.Contract.With]).
	Contract *contract.Contract
	// BaseURL is where the API is: scheme, host and possibly a path, without credentials.
	BaseURL string
	// APIVersion goes into the header that the contract names, over the client's; empty: the client's own counts. Account names whose
	// account it is. Both belong to the scope.
	APIVersion string
	Account    string
	// Credential returns the secret when a request is sent; nil: each caller brings its own, which is never stored. It must be safe
	// for concurrent use.
	Credential func(ctx context.Context) (string, error)
	// Transport sends the requests; nil is a good default. See [HTTPOptions.Transport].
	Transport http.RoundTripper
	// Now is the worker's clock; nil is the machine's.
	Now func() time.Time
}

// Raw calls an HTTP API with requests that the provider's own client made: it freezes them ([Raw.Freeze]), puts downstream key and stamp
// into them each time they are sent, sends once, and keeps the answer as it came. It is safe for concurrent use.
type Raw struct {
	contract *contract.Contract
	http     HTTP // without an operation
	account  string
	digests  digests
}

// NewRaw checks the options. The error is an [effectonce.ErrInvalid] that names the field.
func NewRaw(o RawOptions) (*Raw, error) {
	if o.Contract == nil {
		return nil, invalid("contract", "is missing", "load one, such as stripe/v1")
	}
	base, err := parseBase(o.BaseURL)
	if err != nil {
		return nil, err
	}
	r := &Raw{contract: o.Contract, account: o.Account}
	h := &r.http
	h.base, h.credentialIn, h.credential, h.now = base, o.Contract.Credential, o.Credential, o.Now
	h.headers, h.fixed = map[string]string{}, map[string]string{}
	if h.now == nil {
		h.now = time.Now
	}
	if o.APIVersion != "" {
		if o.Contract.VersionHeader == "" {
			return nil, invalid("api_version", "contract "+o.Contract.Name+" has no place for it", "leave it out")
		}
		if !printable(o.APIVersion) {
			return nil, invalid("api_version", "holds a control character", "write the version as the API names it")
		}
		h.fixed[http.CanonicalHeaderKey(o.Contract.VersionHeader)] = o.APIVersion
	}
	switch signed := o.Contract.Signed.Kind; {
	case h.credential != nil && h.credentialIn.Header == "" && signed == "":
		return nil, invalid("credential", "contract "+o.Contract.Name+" has no place for it", "leave it out")
	case signed == signedSigV4 && h.credential == nil:
		return nil, invalid("credential", "is missing: the contract's requests are signed, and a client's signature does not hold for a request in which the key is set and that goes elsewhere",
			"give access_key_id:secret_access_key, or access_key_id:secret_access_key:session_token, by env: or file:")
	case signed != "" && signed != signedSigV4:
		return nil, invalid("contract", "contract "+o.Contract.Name+" signs requests in a way that cannot be done here: "+signed, "call this provider without the proxy")
	}
	h.setTransport(o.Transport)
	return r, nil
}

// Held reports whether the credential is held here, so that requests can be sent without their caller.
func (r *Raw) Held() bool { return r.http.credential != nil }

// Contract is what the API promises.
func (r *Raw) Contract() *contract.Contract { return r.contract }

// Target is the address of a request: the base URL, an escaped path under it that begins with a slash, and a raw query.
func (r *Raw) Target(path, query string) (*url.URL, error) {
	address := r.http.base.Scheme + "://" + r.http.base.Host + r.http.base.EscapedPath() + path
	if query != "" {
		address += "?" + query
	}
	u, err := url.Parse(address)
	if err != nil {
		// The parser's words repeat the address, which can hold anything.
		return nil, errors.New("the path or query is not valid")
	}
	return u, nil
}

// Authenticate puts the credential that is held here into a request without an effect, in the place of the client's, and signs it where the contract's requests
// are signed; body is what it sends. Without a held credential the request stays as it is.
func (r *Raw) Authenticate(ctx context.Context, request *http.Request, body []byte) error {
	for name, value := range r.http.fixed {
		request.Header.Set(name, value)
	}
	if !r.Held() {
		return nil
	}
	secret, err := r.http.secret(ctx)
	if err != nil {
		return err
	}
	where := signedScopeOf(request.Header)
	for name := range request.Header {
		if Secret(name) {
			request.Header.Del(name)
		}
	}
	return r.authenticate(request, body, secret, where)
}

// authenticate sets the held credential.
func (r *Raw) authenticate(request *http.Request, body []byte, secret string, where signedScope) error {
	if r.contract.Signed.Kind == signedSigV4 {
		return signV4(request, body, secret, where, r.contract.Signed.Service, r.http.now())
	}
	return r.http.authenticate(request, secret)
}

// RawCall is an [effectonce.Provider] for frozen requests and, where callers bring their credentials, with the headers of the caller
// that is here.
type RawCall struct {
	raw *Raw
	// secrets are the caller's headers that are not stored; token is what of them tells whose account it is.
	secrets http.Header
	token   string

	mu   sync.Mutex
	last Answer
	got  bool
}

var _ effectonce.Provider = (*RawCall)(nil)

// Of is the provider for a caller with these secrets (see [Raw.Secrets]); nil for background work, which needs a held credential.
func (r *Raw) Of(secrets http.Header) *RawCall {
	return &RawCall{raw: r, secrets: secrets, token: callersToken(secrets)}
}

// Answer is the last answer that the provider gave to this caller's attempt, however large; false if there was none.
func (c *RawCall) Answer() (Answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last, c.got
}

// Scope implements [effectonce.Provider]: the present base URL, the configured API version and account, and a digest of the credential where
// nothing else tells whose account it is. What of the scope a request itself shows is frozen with it, and sent again.
func (c *RawCall) Scope() string {
	ctx, cancel := context.WithTimeout(context.Background(), credentialTimeout)
	defer cancel()
	secret, err := c.secret(ctx)
	if err != nil {
		return "credential=unavailable"
	}
	return c.raw.scope(secret)
}

func (r *Raw) scope(secret string) string {
	s := "base_url=" + url.QueryEscape(r.http.base.String())
	for _, version := range r.http.fixed {
		s += " api_version=" + url.QueryEscape(version)
	}
	if r.account != "" {
		s += " account=" + url.QueryEscape(r.account)
	}
	// Where nobody says whose account it is, the credential stands for it.
	if secret != "" && (r.account == "" || slices.Contains(r.contract.Scope, contract.ScopeCredential)) {
		s += " credential=" + r.digests.of(secret)
	}
	return s
}

func (c *RawCall) secret(ctx context.Context) (string, error) {
	if c.raw.Held() {
		return c.raw.http.secret(ctx)
	}
	return c.token, nil
}

// adapter is the HTTP adapter for the operation of a frozen request.
func (c *RawCall) adapter(f frozenRaw) (*HTTP, error) {
	operation, ok := c.raw.contract.Operations[f.Operation]
	if !ok || f.Contract != c.raw.contract.Name {
		return nil, fmt.Errorf("the request was made for %s %s, which is not what is configured now", f.Contract, f.Operation)
	}
	h := c.raw.http
	h.operation, h.version = operation, operation.Version
	return &h, nil
}

// ready reads a frozen request and checks that it would go now where it was bound for.
func (c *RawCall) ready(ctx context.Context, stored []byte) (f frozenRaw, h *HTTP, secret string, failed *effectonce.End) {
	refuse := func(code, message string) (frozenRaw, *HTTP, string, *effectonce.End) {
		end := notSent(code, message)
		return f, nil, "", &end
	}
	f, err := parseFrozenRaw(stored)
	if err != nil {
		return refuse("request_invalid", err.Error())
	}
	if h, err = c.adapter(f); err != nil {
		return refuse("other_operation", err.Error())
	}
	if secret, err = c.secret(ctx); err != nil {
		return refuse("credential_unavailable", err.Error())
	}
	if f.Scope != c.raw.scope(secret) {
		return refuse("scope_changed", "the request was made for another base URL, API version, account or credential")
	}
	return f, h, secret, nil
}

// Call implements [effectonce.Provider] like [HTTP.Call]: it sends once, and the contract says what the answer means. A success has
// the answer as its result, a refusal as its failure's answer; see [ParseAnswer].
func (c *RawCall) Call(ctx context.Context, call effectonce.Call) effectonce.End {
	late := c.raw.http.lateness(call.SendWithin)
	f, h, secret, failed := c.ready(ctx, call.Request)
	if failed != nil {
		return *failed
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, call.SendWithin)
		defer cancel()
	}
	request, err := c.request(f, h.operation, call, secret)
	if err != nil {
		return notSent("request_invalid", err.Error())
	}
	response, a, failed := h.exchange(ctx, request, late, readRaw)
	if failed != nil {
		return c.redacted(*failed, secret)
	}
	end := h.judge(response, a, call, f.Version != h.version)
	return c.redacted(c.keep(end, response, a), secret)
}

// request is the frozen request with key, stamp and credential.
func (c *RawCall) request(f frozenRaw, operation *contract.Operation, call effectonce.Call, secret string) (*http.Request, error) {
	frozen := f.request()
	for name, value := range c.raw.http.fixed {
		frozen.Header.Set(name, value)
	}
	filled, err := operation.Inject(frozen, call.DownstreamKey, call.Stamp, call.FirstSent)
	if err != nil {
		return nil, err
	}
	target, err := c.raw.Target(filled.Path, filled.Query)
	if err != nil {
		return nil, err
	}
	r := &http.Request{Method: filled.Method, URL: target, Host: target.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: filled.Header}
	r.Header.Del("Content-Length")
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header.Set("User-Agent", "effectonce")
	}
	// Bytes are given back as they come, to whoever asks later: so they are not to be compressed.
	r.Header.Set("Accept-Encoding", "identity")
	// A body that nobody can rewind cannot be sent twice: see frozen.request.
	r.Body = &onceBody{Reader: strings.NewReader(string(filled.Body))}
	r.ContentLength = int64(len(filled.Body))
	for name, values := range c.secrets {
		r.Header[name] = slices.Clone(values)
	}
	if !c.raw.Held() {
		return r, nil
	}
	if err := c.raw.authenticate(r, filled.Body, secret, f.Signed); err != nil {
		return nil, err
	}
	return r, nil
}

// keep puts the whole answer where a repeat finds it.
func (c *RawCall) keep(end effectonce.End, response contract.Response, a answer) effectonce.End {
	whole := Answer{Status: response.Status, Header: keptHeaders(response.Header), Body: a.raw}
	c.mu.Lock()
	c.last, c.got = whole, a.raw != nil
	c.mu.Unlock()
	switch end.Verdict {
	case effectonce.VerdictSucceeded:
		end.Result = nil
		if a.raw == nil {
			end.Omitted = "too_large"
		} else if end.Omitted != contract.OmittedNamed {
			end.Omitted, end.Result = "", whole.encode()
		}
	case effectonce.VerdictRejected:
		if end.Failure.Status == 0 {
			end.Failure.Status = response.Status
		}
		end.Failure.Answer = string(whole.encode())
	}
	return end
}

// redacted takes the credential out of what a provider or a transport wrote.
func (c *RawCall) redacted(end effectonce.End, secret string) effectonce.End {
	for _, s := range secretsIn(secret, c.secrets) {
		end.Failure.Message, end.Failure.Code = redact(end.Failure.Message, s), redact(end.Failure.Code, s)
		end.Failure.Answer, end.Reference = redact(end.Failure.Answer, s), redact(end.Reference, s)
		if end.Result != nil {
			end.Result = []byte(redact(string(end.Result), s))
		}
	}
	return end
}
