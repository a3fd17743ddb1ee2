package provider

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// RawBytesMax bounds the body of a request that is frozen.
const RawBytesMax = requestBytesMax

// frozenRaw is a client's request as every attempt sends it (S3.10), without key, stamp and credential. It is stored, so its form has a
// version; it has another name for it than [frozen], so that neither is taken for the other.
type frozenRaw struct {
	Raw       int    `json:"raw"`
	Contract  string `json:"contract"`
	Version   string `json:"contract_version"`
	Operation string `json:"operation"`
	// Scope is where it was bound for, as [RawCall.Scope] had it; InRequest and APIVersion are what of its scope the request itself shows, for
	// people.
	Scope      string `json:"scope"`
	InRequest  string `json:"scope_in_request,omitempty"`
	APIVersion string `json:"api_version,omitempty"`
	// Signed is for what its client signed, where the contract's requests are signed.
	Signed  signedScope `json:"signed,omitzero"`
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Query   string      `json:"query,omitempty"`
	Headers []rawHeader `json:"headers,omitempty"`
	Body    string      `json:"body,omitempty"`
	Bytes   string      `json:"body_base64,omitempty"` // instead of Body, where that is no text
}

const frozenRawVersion = 1

type rawHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// IsRaw reports whether a stored request is one of [Raw.Freeze], and which contract it was made for.
func IsRaw(request []byte) (contractName string, ok bool) {
	f, err := parseFrozenRaw(request)
	return f.Contract, err == nil
}

func parseFrozenRaw(request []byte) (frozenRaw, error) {
	var f frozenRaw
	if err := json.Unmarshal(request, &f); err != nil || f.Raw == 0 || f.Method == "" {
		return f, errors.New("the operation holds no request of a provider's own client")
	}
	if f.Raw != frozenRawVersion {
		return f, fmt.Errorf("the frozen request has form %d, which this version does not know", f.Raw)
	}
	if _, err := base64.StdEncoding.DecodeString(f.Bytes); err != nil {
		return f, errors.New("the frozen request cannot be read")
	}
	return f, nil
}

func (f frozenRaw) request() contract.Request {
	r := contract.Request{Method: f.Method, Path: f.Path, Query: f.Query, Header: http.Header{}, Body: []byte(f.Body)}
	if f.Bytes != "" {
		r.Body, _ = base64.StdEncoding.DecodeString(f.Bytes) // parseFrozenRaw checked it
	}
	for _, h := range f.Headers {
		r.Header.Add(h.Name, h.Value)
	}
	return r
}

// secretName finds headers and parameters that carry what opens something.
var secretName = regexp.MustCompile(`(?i)(^|[-_])(auth|authori[sz]ation|authenticat\w*|sig|session|sessionid)([-_]|$)|cookie|token|secret|passw|passphrase|signature|credential|key$`)

// Secret reports whether a header or parameter of this name may carry a credential. Such a header is never stored.
func Secret(name string) bool {
	return secretName.MatchString(name) && !strings.EqualFold(name, "Idempotency-Key") && !strings.EqualFold(name, "idempotency_key")
}

// transportNoise are headers about one send, or between neighbours on the way.
var transportNoise = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Expect", "Forwarded", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Traceparent", "Tracestate",
	"Trailer", "Transfer-Encoding", "Upgrade", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "X-Stripe-Client-Telemetry",
}

func noise(name string) bool {
	return slices.Contains(transportNoise, name) || strings.HasPrefix(name, "Effectonce-") || strings.HasPrefix(name, "Amz-Sdk-") || name == "X-Amz-Date" || name == "X-Amz-Content-Sha256"
}

// injectedHeaders are those that carry key, companions and stamp.
func injectedHeaders(o *contract.Operation) []string {
	var names []string
	add := func(place contract.Place, name string) {
		if place == contract.PlaceHeader || place == contract.PlacePrecondition {
			names = append(names, textproto.CanonicalMIMEHeaderKey(name))
		}
	}
	add(o.Key.Place, o.Key.Name)
	for _, s := range o.Key.Also {
		add(s.Place, s.Name)
	}
	for _, c := range o.Key.Companions {
		add(c.Place, c.Name)
	}
	add(o.Stamp.Place, string(o.Stamp.Field))
	return names
}

// Secrets are the headers of a caller that are never stored, for [Raw.Of]; nil where the credential is held here.
func (r *Raw) Secrets(o *contract.Operation, header http.Header) http.Header {
	if r.Held() {
		return nil
	}
	ours := injectedHeaders(o)
	secrets := http.Header{}
	for name, values := range header {
		if r.secret(o, name) && !slices.Contains(ours, name) && !noise(name) {
			secrets[name] = slices.Clone(values)
		}
	}
	return secrets
}

// secret reports whether a request's header carries a credential. What the contract calls business or scope is none, whatever its name.
func (r *Raw) secret(o *contract.Operation, name string) bool {
	if in := r.http.credentialIn.Header; in != "" && strings.EqualFold(name, in) {
		return true
	}
	named := slices.ContainsFunc(o.Fingerprint.Headers, func(h string) bool { return strings.EqualFold(h, name) }) ||
		slices.ContainsFunc(o.ScopeFrom, func(s contract.ScopeFrom) bool {
			return s.In == contract.PlaceHeader && strings.EqualFold(s.Name, name)
		})
	return !named && Secret(name)
}

// Freeze makes the stored form of a request that a provider's own client made, bound for where it would go now. The error is an
// [effectonce.Error] that names what cannot be frozen: a credential outside of the headers, a body that is too large or has no place for the
// key, or a scope that the request does not show.
func (c *RawCall) Freeze(o *contract.Operation, request contract.Request) ([]byte, error) {
	if len(request.Body) > RawBytesMax {
		return nil, &effectonce.Error{Code: effectonce.CodeTooLarge, Field: "body", Detail: "the body of a guarded write is larger than a mebibyte", Remedy: "send a reference to what is large"}
	}
	if !utf8.ValidString(request.Path) || !utf8.ValidString(request.Query) {
		return nil, invalid("path", "or query is not UTF-8", "encode it")
	}
	query, err := url.ParseQuery(request.Query)
	if err != nil {
		return nil, invalid("query", "cannot be read", "encode it")
	}
	for name := range query {
		if Secret(name) && !(o.Key.Place == contract.PlaceQuery && o.Key.Name == name) {
			return nil, invalid("query."+name, "may be a credential, and queries of writes are stored", "send the credential in a header")
		}
	}
	f := frozenRaw{
		Raw: frozenRawVersion, Contract: o.Contract, Version: o.Version, Operation: o.Name,
		Method: request.Method, Path: request.Path, Query: request.Query,
	}
	if utf8.Valid(request.Body) {
		f.Body = string(request.Body)
	} else {
		f.Bytes = base64.StdEncoding.EncodeToString(request.Body)
	}
	ours := injectedHeaders(o)
	for _, name := range slices.Sorted(maps.Keys(request.Header)) {
		if c.raw.secret(o, name) || noise(name) || slices.Contains(ours, name) {
			continue
		}
		for _, value := range request.Header[name] {
			if !utf8.ValidString(value) {
				return nil, invalid("header."+name, "is not UTF-8", "encode it")
			}
			f.Headers = append(f.Headers, rawHeader{name, value})
		}
	}
	if err := c.raw.freezeScope(&f, o, request); err != nil {
		return nil, err
	}
	// Whether it can be sent is found out now, and not when somebody waits for it.
	if _, err := o.Inject(f.request(), "0123456789abcdef0123456789abcdef", strings.Repeat("0", contract.StampLength), c.raw.http.now()); err != nil {
		return nil, invalid("request", "has no place for the downstream key or the stamp: "+err.Error(), "send it as the provider's documentation shows it, not compressed")
	}
	f.Scope = c.Scope()
	b, err := json.Marshal(f)
	if err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "request", Cause: err}
	}
	return b, nil
}

// configured are the parts of a scope that the configuration or the credential tells where the request does not.
var configured = []contract.ScopePart{
	contract.ScopeBaseURL, contract.ScopeAPIVersion, contract.ScopeAccount, contract.ScopeCredential, contract.ScopeAPIKey, contract.ScopeApp, contract.ScopeAuthor,
}

func (r *Raw) freezeScope(f *frozenRaw, o *contract.Operation, request contract.Request) error {
	shown, missing := o.ScopeOf(request)
	for _, part := range missing {
		shows := slices.ContainsFunc(o.ScopeFrom, func(s contract.ScopeFrom) bool { return s.Part == part })
		if shows && !slices.Contains(configured, part) {
			return invalid("request", "does not show its "+string(part)+", in which alone the provider remembers a key", "send it where the provider's documentation says")
		}
	}
	f.InRequest = shown
	if name := r.contract.VersionHeader; name != "" {
		f.APIVersion = request.Header.Get(name)
	}
	if r.contract.Signed.Kind == signedSigV4 {
		f.Signed = signedScopeOf(request.Header)
		if f.Signed.Region == "" {
			return invalid("header.Authorization", "is no AWS signature, which says in which region the request is meant", "let the client sign, with any credential")
		}
	}
	return nil
}
