package config

import (
	"maps"
	"slices"

	"github.com/effectonce/effectonce/provider"
)

// services says how the providers of the file are asked without a tool, as a sweep does (S7.5a).
func (r *reading) services() {
	r.config.Providers = map[string]provider.RawOptions{}
	for _, name := range slices.Sorted(maps.Keys(r.providers)) {
		s := r.providers[name]
		if s.contract == nil || r.has("providers", name) {
			continue
		}
		c, err := s.onTheWire()
		if err != nil {
			// What the file says of the provider is for its calls only.
			c = s.contract
		}
		api := provider.RawOptions{Contract: c, BaseURL: s.form.BaseURL, APIVersion: s.form.APIVersion, Account: s.form.Account}
		if s.credential.form != "" {
			api.Credential = s.credential.read
		}
		r.config.Providers[name] = api
	}
}

// ToolsOf lists the tools whose effects a provider has: those that call it, and the policies of its routes.
func (c *Config) ToolsOf(provider string) []string {
	found := map[string]bool{}
	for name, t := range c.Tools {
		if t.ProviderName == provider {
			found[name] = true
		}
	}
	for _, route := range c.Routes {
		if route.Provider != provider {
			continue
		}
		for _, t := range route.Tools {
			found[t.Policy.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
