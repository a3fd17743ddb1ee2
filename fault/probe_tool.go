package fault

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/provider"
)

func effectArguments(effect string) json.RawMessage {
	return effectonce.Arguments(map[string]string{"effect": effect})
}

// provider is the production provider for the tool, under the generic contract that fits what is promised.
func (t ProbeTool) provider() (*provider.HTTP, error) {
	base, path, query, err := splitURL("url", t.URL)
	if err != nil {
		return nil, err
	}
	name := "http/none"
	switch {
	case t.KeyHeader != "":
		name = "http/keyed"
	case t.LookUp != nil:
		name = "http/lookup"
	}
	c, err := contract.Load(name)
	if err != nil {
		return nil, err
	}
	settings := contract.Settings{
		Method: t.Method, Path: path, Encoding: t.Encoding, KeyHeader: t.KeyHeader, Retention: t.Retention, Forever: t.Forever,
		Processing: t.Processing, Reference: contract.Path(t.Reference),
	}
	if t.Stamp != "" {
		settings.Stamp = &contract.StampSetting{Field: contract.Path(t.Stamp)}
	}
	if t.LookUp != nil {
		if settings.LookUp, err = t.LookUp.setting(); err != nil {
			return nil, err
		}
	}
	o := provider.HTTPOptions{Contract: c, Settings: settings, BaseURL: base, Body: t.Body, Query: query, Headers: t.Headers}
	if t.Credential != "" {
		o.Credential = func(context.Context) (string, error) { return t.Credential, nil }
	}
	return provider.NewHTTP(o)
}

func (l ProbeLookUp) setting() (*contract.LookUpSetting, error) {
	_, path, query, err := splitURL("look_up.path", "http://host"+l.Path)
	if err != nil {
		return nil, err
	}
	s := &contract.LookUpSetting{
		Path: argument(path), Query: map[string]string{}, Items: contract.Path(l.Items), Stamp: contract.Path(l.Stamp), Reference: contract.Path(l.Reference),
		Paging: contract.Paging{Kind: contract.PagingNone}, Lag: l.Lag,
	}
	for name, value := range query {
		s.Query[name] = argument(value)
	}
	return s, nil
}

// argument writes the placeholder as look-ups name it.
func argument(template string) string {
	return strings.ReplaceAll(template, "{effect}", "{argument.effect}")
}

// splitURL takes an address apart, leaving placeholders as they are.
func splitURL(field, address string) (base, path string, query map[string]string, err error) {
	bad := probeInvalid(field, "is not an address", "write http://host/path")
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return "", "", nil, bad
	}
	rest, raw, _ := strings.Cut(rest, "?")
	host, path, _ := strings.Cut(rest, "/")
	if host == "" {
		return "", "", nil, bad
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return "", "", nil, bad
	}
	query = map[string]string{}
	for name, all := range values {
		query[name] = all[0]
	}
	return scheme + "://" + host, "/" + path, query, nil
}

// terms are short ones, so that a probe does not take hours: what the user promises about the tool, and small allowances for this
// machine. Real time passes in a probe, so they are kept like any others.
func (t ProbeTool) terms(p *provider.HTTP, timeout time.Duration) effectonce.Terms {
	terms := effectonce.Terms{
		Class: effectonce.ClassNonIdempotent, Managed: true,
		CallTimeout: timeout, Grace: time.Second, Heartbeat: min(time.Second, timeout+time.Second),
		Pause: 500 * time.Millisecond, Transit: 500 * time.Millisecond, Processing: t.Processing,
		Attempts: 4, Within: timeout + 15*time.Second, Backoff: 50 * time.Millisecond, BackoffMax: 500 * time.Millisecond,
		ResendWhenAbsent: t.LookUp != nil && t.LookUp.ResendWhenAbsent, Expiry: time.Hour,
	}
	return p.Terms(terms)
}

// settleMax bounds the wait for a guarded operation to settle.
func (o ProbeOptions) settleMax() time.Duration {
	d := 4*o.Timeout + 2*o.Tool.Processing + time.Minute
	if o.Tool.LookUp != nil && o.Tool.LookUp.Lag != nil {
		d += *o.Tool.LookUp.Lag
	}
	return d
}
