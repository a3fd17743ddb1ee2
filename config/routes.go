package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/policy"
	"github.com/effectonce/effectonce/provider"
)

type egressForm struct {
	Path         string            `yaml:"path"`
	Listen       string            `yaml:"listen"`
	Provider     string            `yaml:"provider"`
	Intents      string            `yaml:"intents"`
	Tools        map[string]string `yaml:"tools"`
	Undescribed  string            `yaml:"undescribed"`
	Timeout      policy.Duration   `yaml:"timeout"`
	Wait         policy.Duration   `yaml:"wait"`
	AcceptReview bool              `yaml:"accept_review"`
}

// Route is a way through the egress proxy to a provider (S14.4).
type Route struct {
	// Path is the first segment of its path under the proxy, Provider the provider's name in the file.
	Path, Provider string
	// Listen is an address at whose root the route is as well, empty for none.
	Listen string
	API    provider.RawOptions
	// Intents is require, derive or observe.
	Intents string
	// Tools are the policies of operations, by the operation's name in the contract.
	Tools map[string]*Tool
	// PassUndescribed lets writes pass that the contract does not describe.
	PassUndescribed bool
	// Terms are those of operations without a policy; Wait is how long a caller waits, 0 for the default.
	Terms effectonce.Terms
	Wait  time.Duration
}

// routed finds the tools that a route uses, whose terms come from the route's contract.
func (r *reading) routed(forms []egressForm) {
	r.byRoute = map[string]*contract.Operation{}
	for _, form := range forms {
		s := r.providers[form.Provider]
		if s == nil || s.contract == nil {
			continue
		}
		c, err := s.onTheWire()
		if err != nil {
			continue
		}
		for operation, tool := range form.Tools {
			if o := c.Operations[operation]; o != nil {
				r.byRoute[tool] = o
			}
		}
	}
}

// onTheWire is the provider's contract for requests of its own clients.
func (s *source) onTheWire() (*contract.Contract, error) {
	return s.contract.With(s.settings(callForm{}))
}

func (r *reading) routes(forms []egressForm) {
	seen := map[string]bool{}
	for i, form := range forms {
		path := []string{"routes", strconv.Itoa(i)}
		if seen[form.Path] {
			r.on(join(path, "path"), fmt.Sprintf("%q is another route's already", form.Path), "give each route a path of its own")
		}
		seen[form.Path] = true
		r.listen(form.Listen, join(path, "listen"))
		r.route(form, path)
	}
}

// listen checks a route's address, which nobody else in the file may have.
func (r *reading) listen(address string, path []string) {
	if address == "" {
		return
	}
	if detail := notLoopback(address); detail != "" {
		r.on(path, detail, "use an address of this machine only, such as 127.0.0.1:7172: callers are not authenticated")
		return
	}
	if r.addresses == nil {
		r.addresses = map[string]bool{r.config.Listen: true}
	}
	if r.addresses[address] && !strings.HasSuffix(address, ":0") {
		r.on(path, fmt.Sprintf("%q is in use in this file already", address), "give it a port of its own")
	}
	r.addresses[address] = true
}

func (r *reading) route(form egressForm, path []string) {
	before := len(r.problems)
	out := Route{Path: form.Path, Listen: form.Listen, Provider: form.Provider, Intents: form.Intents, Tools: map[string]*Tool{}, Wait: form.Wait.Std(), Terms: effectonce.Terms{CallTimeout: form.Timeout.Std()}}
	switch {
	case form.Path == "":
		r.missing(join(path, "path"), "name it, like stripe: its clients then have the base URL http://127.0.0.1:7171/egress/stripe/")
	case !pathSegment(form.Path):
		r.on(join(path, "path"), "is not one segment of lower-case letters, digits, hyphens and underscores", "use a name like stripe")
	}
	switch form.Intents {
	case "":
		out.Intents = "require"
	case "require", "derive", "observe":
	default:
		r.on(join(path, "intents"), fmt.Sprintf("%.80q is not known", form.Intents), "use require, derive or observe")
	}
	switch form.Undescribed {
	case "", "refuse":
	case "pass":
		out.PassUndescribed = true
	default:
		r.on(join(path, "undescribed"), fmt.Sprintf("%.80q is not known", form.Undescribed), "use refuse, or pass to let them through unguarded")
	}
	if form.Provider == "" {
		r.missing(join(path, "provider"), "name one that is described under providers")
		return
	}
	s, ok := r.providers[form.Provider]
	if !ok {
		r.noProvider(form.Provider, join(path, "provider"))
		return
	}
	if s.contract == nil || r.has("providers", s.name) {
		return
	}
	c, err := s.onTheWire()
	if err != nil {
		r.callProblem(s, path, err)
		return
	}
	out.API = provider.RawOptions{Contract: c, BaseURL: s.form.BaseURL, APIVersion: s.form.APIVersion, Account: s.form.Account}
	if s.credential.form != "" {
		out.API.Credential = s.credential.read
	}
	if _, err := provider.NewRaw(out.API); err != nil {
		r.callProblem(s, path, err)
		return
	}
	r.routeTools(&out, form, c, path)
	r.routeTerms(out, form, c, path)
	if len(r.problems) == before {
		r.config.Routes = append(r.config.Routes, out)
	}
}

// routeTools finds the policies of a route's operations.
func (r *reading) routeTools(out *Route, form egressForm, c *contract.Contract, path []string) {
	for _, operation := range slices.Sorted(maps.Keys(form.Tools)) {
		at := join(path, "tools", operation)
		o := c.Operations[operation]
		if o == nil || o.Effect == contract.EffectRead {
			r.on(at, "is not an operation with an effect of contract "+c.Name, "use one of "+listed(writes(c)))
			continue
		}
		name := form.Tools[operation]
		tool := r.config.Tools[name]
		switch {
		case tool == nil && r.has("tools", name):
			continue
		case tool == nil:
			remedy := "describe it under tools"
			if near := policy.Nearest(name, maps.Keys(r.config.Tools)); near != "" {
				remedy = "did you mean " + near + "?"
			}
			r.on(at, fmt.Sprintf("there is no tool %.80q", name), remedy)
			continue
		case tool.adapter != nil:
			r.on(at, "tool "+name+" calls a provider by itself, and its operations could not be told from those of the route", "name a tool without call.provider")
			continue
		case tool.Policy.Spec().Class == effectonce.ClassReadOnly:
			r.on(at, "tool "+name+" is read_only, and the operation has an effect", "leave its class out")
			continue
		case out.Intents == "require" && tool.Policy.HasIntentID():
			r.on(join(path, "intents"), "requires the intent id in a header, and tool "+name+" builds it from the request", "say intents: derive, or take intent_id out of the tool")
			continue
		}
		out.Tools[operation] = tool
	}
}

// routeTerms refuses what could not work, or would end each ambiguous send with a person whom nobody told (S11.2).
func (r *reading) routeTerms(out Route, form egressForm, c *contract.Contract, path []string) {
	var stops []string
	for _, name := range writes(c) {
		o, terms, accepted := c.Operations[name], out.Terms, form.AcceptReview
		if t := out.Tools[name]; t != nil {
			terms, accepted = t.Policy.Terms(), accepted || t.Policy.Spec().AcceptReview
		}
		terms = o.Terms(terms).WithDefaults()
		var e *effectonce.Error
		if err := terms.Check(); errors.As(err, &e) {
			r.on(join(path, "timeout"), fmt.Sprintf("does not fit operation %s: %s %s", name, e.Field, e.Detail), "shorten it")
			return
		}
		window := terms.Keyed && (terms.Forever || terms.Retention > 0)
		if terms.Class == effectonce.ClassNonIdempotent && !window && !terms.LookUp && !accepted && out.Intents != "observe" {
			stops = append(stops, name)
		}
	}
	if len(stops) > 0 && !r.has(path...) {
		r.on(path, "has operations with neither a key that is surely remembered nor a look-up ("+listed(stops)+"), so each ambiguous end of them would stop for a person",
			"say accept_review: true if a person will decide")
	}
}

// writes lists the operations of a contract that have an effect.
func writes(c *contract.Contract) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.Operations)) {
		if c.Operations[name].Effect != contract.EffectRead {
			names = append(names, name)
		}
	}
	return names
}

func pathSegment(s string) bool {
	return len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	})
}

// Read is [Tool.Intent] for a call that comes as the provider's own client made it: without a rendered request, and with the policy's terms only.
func (t *Tool) Read(args json.RawMessage, meta policy.Meta) (effectonce.Intent, error) {
	in, err := t.Policy.Intent(args, meta)
	if err != nil {
		return in, err
	}
	in.Under = t.under(in.Arguments, in.Business)
	return in, t.formerly(&in, args, meta)
}

// Unsent reports whether an argument is free text or a key of the caller's, which is never sent (S4.3).
func (t *Tool) Unsent(name string) bool {
	spec := t.Policy.Spec()
	folded := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
	return spec.Arguments[name].Kind == policy.KindFree || slices.Contains(spec.Drop, name) || folded == "idempotencykey"
}
