package config

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/policy"
)

// source is a provider of the file, checked.
type source struct {
	name       string
	form       providerForm
	contract   *contract.Contract // nil after a problem
	credential credential
}

func (r *reading) provider(name string, form providerForm) {
	if r.providers == nil {
		r.providers = map[string]*source{}
	}
	s := &source{name: name, form: form}
	r.providers[name] = s
	path := []string{"providers", name}
	if form.Contract == "" {
		r.missing(join(path, "contract"), "name what it promises, such as stripe/v1 or http/none; effectonce contracts ls lists them")
	} else {
		s.contract = r.findContract(form.Contract, join(path, "contract"))
	}
	r.baseURL(form.BaseURL, join(path, "base_url"))
	r.credentialOf(s, join(path, "credential"))
}

// missing reports an absent field, unless it is there and was wrong.
func (r *reading) missing(path []string, remedy string) {
	if !r.has(path...) {
		r.on(path, "is missing", remedy)
	}
}

func (r *reading) findContract(name string, path []string) *contract.Contract {
	if c, ok := r.own[name]; ok {
		return c
	}
	if c, err := contract.Load(name); err == nil {
		return c
	}
	names := r.contractNames()
	remedy := "effectonce contracts ls lists them; your own go into the directory that contracts: names"
	if near := policy.Nearest(name, slices.Values(names)); near != "" {
		remedy = "did you mean " + near + "?"
	}
	r.on(path, fmt.Sprintf("there is no contract %.80q", name), remedy)
	return nil
}

func (r *reading) baseURL(text string, path []string) {
	const remedy = "write it like https://api.example.com"
	if text == "" {
		r.missing(path, remedy)
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The parser's message repeats the text, which can hold a password.
		r.on(path, "is not a URL", remedy)
	case u.User != nil:
		r.on(path, "holds a user or password; secrets in clear are refused", "take it out and use credential: env:NAME")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		r.on(path, "is not an http or https URL", remedy)
	case u.RawQuery != "" || u.Fragment != "":
		r.on(path, "has a query or fragment", remedy)
	}
}

func (r *reading) credentialOf(s *source, path []string) {
	if s.form.Credential == "" {
		return
	}
	const remedy = "write env:NAME for an environment variable, or file:path for a file"
	parsed, err := parseCredential(s.form.Credential, r.dir, r.env)
	if err != nil {
		r.on(path, err.Error(), remedy)
		return
	}
	s.credential = parsed
	if _, err := parsed.read(context.Background()); err != nil {
		remedy := "set it for the daemon"
		if parsed.form == "file" {
			remedy = "put the secret there"
		}
		r.on(path, err.Error(), remedy)
	}
}

// settings are what the operator gives where the contract leaves it open, from the provider and from the call.
func (s *source) settings(call callForm) contract.Settings {
	f := s.form
	out := contract.Settings{
		Method: call.Method, Path: call.Path, Encoding: contract.Encoding(f.Encoding), KeyHeader: f.KeyHeader,
		Retention: f.Retention.span.Std(), Forever: f.Retention.forever, Processing: f.Processing.Std(),
		Reference: contract.Path(call.Reference), Rejected: f.Rejected, Throttled: f.Throttled,
	}
	if st := call.Stamp; st != nil {
		out.Stamp = &contract.StampSetting{Place: contract.Place(st.In), Field: contract.Path(st.Field), Path: contract.Path(st.Path), Echoed: st.Echoed}
	}
	if l := call.LookUp; l != nil {
		out.LookUp = &contract.LookUpSetting{
			Path: l.Path, Query: l.Query, Items: contract.Path(l.Items), Stamp: contract.Path(l.Stamp), Reference: contract.Path(l.Reference),
			Paging: contract.Paging{Kind: contract.PagingKind(l.Paging.Kind), Parameter: l.Paging.Parameter, More: contract.Path(l.Paging.More), Next: contract.Path(l.Paging.Next), First: l.Paging.First},
		}
		lag := l.Lag.span
		if lag == nil {
			lag = f.Lag.span
		}
		if lag != nil {
			std := lag.Std()
			out.LookUp.Lag = &std
		}
	}
	return out
}

// providerFields are the fields that stand with the provider; the others stand with the call.
var providerFields = []string{"base_url", "credential", "api_version", "account", "encoding", "key_header", "retention", "forever", "processing", "rejected", "throttled"}
