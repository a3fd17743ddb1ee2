package provider

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/contract"
)

// requestBytesMax bounds a rendered body.
const requestBytesMax = 1 << 20

// HTTPOptions say which API is called and how.
type HTTPOptions struct {
	// Contract says what the API promises; Operation is one of its operations, and may be empty if there is only one. Settings
	// are the facts that the contract leaves to the operator.
	Contract  *contract.Contract
	Operation string
	Settings  contract.Settings
	// BaseURL is where the API is: scheme, host and possibly a path, without credentials.
	BaseURL string
	// APIVersion goes into the header that the contract names; Account names whose account it is. Both belong to the scope.
	APIVersion string
	Account    string
	// Credential returns the secret when a request is sent; nil: none is needed. It is called for each attempt and must be
	// safe for concurrent use.
	Credential func(ctx context.Context) (string, error)
	// Body is the template of the body; nil stands for all arguments. Path fills the placeholders of the contract's path; one that is
	// missing here is taken from the argument of the same name. Query and Headers are added to the request.
	Body    map[string]any
	Path    map[string]string
	Query   map[string]string
	Headers map[string]string
	// Ensure makes the calls those of a convergent tool.
	Ensure *Ensure
	// Transport sends the requests; nil is a good default. Of an *http.Transport a copy is used for each call, without
	// connection reuse. Any other must not send a request twice by itself.
	Transport http.RoundTripper
	// Now is the worker's clock; nil is the machine's.
	Now func() time.Time
}

// HTTP is an [effectonce.Provider] that calls an HTTP API by its contract. It is safe for concurrent use.
type HTTP struct {
	operation     *contract.Operation
	version       string // of the contract, settings included
	base          *url.URL
	credentialIn  contract.Credential
	credential    func(ctx context.Context) (string, error)
	body          any // nil: all arguments
	pathTemplate  []piece
	pathTemplates map[string][]piece
	query         map[string]string
	headers       map[string]string
	ensure        *Ensure
	fixed         map[string]string // headers that the contract needs: the API version
	transport     http.RoundTripper
	lookUps       http.RoundTripper
	now           func() time.Time
	scope         *scope
}

var headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")

// NewHTTP checks the options. The error is an [effectonce.ErrInvalid] that names the field.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	if o.Contract == nil {
		return nil, invalid("contract", "is missing", "load one, such as stripe/v1")
	}
	operation, err := o.Contract.Resolve(o.Operation, o.Settings)
	if err != nil {
		return nil, err
	}
	base, err := parseBase(o.BaseURL)
	if err != nil {
		return nil, err
	}
	h := &HTTP{
		operation: operation, version: operation.Version, base: base,
		credentialIn: o.Contract.Credential, credential: o.Credential,
		query: o.Query, headers: map[string]string{}, fixed: map[string]string{}, now: o.Now,
	}
	if h.now == nil {
		h.now = time.Now
	}
	if h.credential != nil && h.credentialIn.Header == "" {
		return nil, invalid("credential", "contract "+o.Contract.Name+" has no place for it", "leave it out")
	}
	if o.APIVersion != "" {
		if o.Contract.VersionHeader == "" {
			return nil, invalid("api_version", "contract "+o.Contract.Name+" has no place for it", "leave it out")
		}
		if !printable(o.APIVersion) {
			return nil, invalid("api_version", "holds a control character", "write the version as the API names it")
		}
		h.fixed[textproto.CanonicalMIMEHeaderKey(o.Contract.VersionHeader)] = o.APIVersion
	}
	if err := h.setTemplates(o); err != nil {
		return nil, err
	}
	if err := h.setEnsure(o); err != nil {
		return nil, err
	}
	h.setTransport(o.Transport)
	h.scope = newScope(o, base)
	return h, nil
}

func parseBase(s string) (*url.URL, error) {
	if s == "" {
		return nil, invalid("base_url", "is missing", "write https://host")
	}
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, invalid("base_url", "is not an address", "write https://host")
	}
	if u.User != nil {
		return nil, invalid("base_url", "holds a credential", "use credential")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, invalid("base_url", "has a query or a fragment", "write scheme, host and path only")
	}
	u.Host = strings.ToLower(u.Host)
	if u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u, nil
}

func (h *HTTP) setTemplates(o HTTPOptions) error {
	if o.Body != nil {
		tree, err := jsonTree(o.Body)
		if err != nil {
			return invalid("body", "is not JSON: "+err.Error(), "use text, numbers, booleans, lists and maps")
		}
		if h.operation.Encoding == contract.EncodingForm {
			if tree, err = nested(tree, "body"); err != nil {
				return err
			}
		}
		if err := checkTemplates(tree, "body"); err != nil {
			return err
		}
		h.body = tree
	}
	var err error
	if h.pathTemplate, err = parsePieces(h.operation.Path); err != nil {
		return invalid("path", err.Error(), "write /v1/things/{argument}")
	}
	h.pathTemplates = map[string][]piece{}
	for _, p := range h.pathTemplate {
		if p.name != "" {
			h.pathTemplates[p.name] = []piece{{name: p.name}}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Path)) {
		template := o.Path[name]
		if _, ok := h.pathTemplates[name]; !ok {
			return invalid("path."+name, "the path "+h.operation.Path+" has no such placeholder", "leave it out")
		}
		if h.pathTemplates[name], err = parsePieces(template); err != nil {
			return invalid("path."+name, err.Error(), "write {argument}")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Query)) {
		if err := checkTemplates(o.Query[name], "query."+name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		if err := h.setHeader(name, o.Headers[name]); err != nil {
			return err
		}
	}
	return nil
}

func (h *HTTP) setHeader(name, template string) error {
	at := "headers." + name
	if !headerName.MatchString(name) {
		return invalid(at, "is not a header name", "use letters, digits and hyphens")
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	_, fixed := h.fixed[canonical]
	switch {
	case strings.EqualFold(name, h.credentialIn.Header), canonical == "Authorization", canonical == "Cookie", canonical == "Proxy-Authorization":
		return invalid(at, "may hold a secret, which must not be stored with the request", "use credential")
	case fixed, contract.ReservedHeader(name):
		return invalid(at, "is set by effectonce", "leave it out")
	case h.operation.Key.Place == contract.PlaceHeader && strings.EqualFold(name, h.operation.Key.Name),
		h.operation.Stamp.Place == contract.PlaceHeader && strings.EqualFold(name, string(h.operation.Stamp.Field)):
		return invalid(at, "is the place of the downstream key or the stamp", "leave it out; effectonce sets it")
	}
	if err := checkTemplates(template, at); err != nil {
		return err
	}
	h.headers[canonical] = template
	return nil
}

// Operation is what the contract promises about the calls, with the operator's settings.
func (h *HTTP) Operation() *contract.Operation { return h.operation }

// Terms fills what the contract promises into a policy's terms.
func (h *HTTP) Terms(base effectonce.Terms) effectonce.Terms { return h.operation.Terms(base) }

// jsonTree brings configured values to the types of decoded JSON.
func jsonTree(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return canon.Decode(b, canon.DefaultLimits)
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\uFFFD' })
}

func invalid(field, detail, remedy string) error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}

var _ effectonce.Provider = (*HTTP)(nil)
