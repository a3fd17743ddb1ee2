package egress

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"encoding/json"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/provider"
)

// Intents says where the intents of a route's writes come from.
type Intents string

// The ways.
const (
	// Require takes the intent id from the header Effectonce-Intent, and refuses a write without it.
	Require Intents = "require"
	// Derive builds it by the tool's policy from what the request says. Operations whose tool has no template need the header.
	Derive Intents = "derive"
	// Observe holds nothing back, and records what would have been (S14.8).
	Observe Intents = "observe"
)

// What holds where the options say nothing.
const (
	DefaultWait = 25 * time.Second
	// BodyBytesMax bounds the body of a write.
	BodyBytesMax = provider.RawBytesMax
)

// Tool is the policy of a route's operation. Methods are safe for concurrent use; every error is an *[effectonce.Error].
type Tool interface {
	// Intent reads a call into an intent with the policy's terms. Its ID is empty if the policy has no template for it.
	Intent(args json.RawMessage, meta map[string]string) (effectonce.Intent, error)
	// Unsent reports whether an argument is free text, or a key of the caller's, which is never sent (S4.3).
	Unsent(name string) bool
	// Builds reports whether the policy has a template for the intent id.
	Builds() bool
}

// Options describe a route.
type Options struct {
	// Name is the route's: the first segment of its path under the proxy, and the beginning of the names of tools without a policy
	// (stripe.refunds.create).
	Name string
	// Guard is what writes go through. Where callers bring their own credentials, give it [Access].
	Guard *effectonce.Guard
	// API is the provider: contract, address and credential.
	API provider.RawOptions
	// Intents is Require if empty.
	Intents Intents
	// Tools are the policies of operations, by the operation's name in the contract. An operation without one has the terms of the contract, and its
	// intent id from the header.
	Tools map[string]Tool
	// Terms are those of operations without a policy, as far as the contract leaves them open.
	Terms effectonce.Terms
	// PassUndescribed lets writes pass that the contract does not describe, unguarded. Otherwise they are refused.
	PassUndescribed bool
	// InRun stands between a write that names a run and the provider, for runs that can be undone; nil:
	// nothing does.
	InRun func(run string, p effectonce.Provider) effectonce.Provider
	// Wait is how long a caller waits for an outcome that is not certain yet; 0 means DefaultWait, less than 0 not at all.
	Wait time.Duration
	// Logger gets one line for each write; nil means slog.Default. Metrics counts requests; nil: nobody does.
	Logger  *slog.Logger
	Metrics *Metrics
	// Random makes the names of observations; nil is crypto/rand.
	Random io.Reader
	// Now is the worker's clock, for how long things took; nil is the machine's.
	Now func() time.Time
}

// Route is the way to one provider. It is safe for concurrent use.
type Route struct {
	o       Options
	raw     *provider.Raw
	passing http.RoundTripper
	log     *slog.Logger
}

// New checks the options. The error is an [effectonce.ErrInvalid] that names the field.
func New(o Options) (*Route, error) {
	switch o.Intents = cmp.Or(o.Intents, Require); o.Intents {
	case Require, Derive, Observe:
	default:
		return nil, invalid("intents", fmt.Sprintf("%q is not a way to get intents", o.Intents), "use require, derive or observe")
	}
	if !segment(o.Name) {
		return nil, invalid("path", "is not one segment of lower-case letters, digits, hyphens and underscores", "use a name like stripe")
	}
	if o.Guard == nil {
		return nil, invalid("guard", "is missing", "give the guard")
	}
	raw, err := provider.NewRaw(o.API)
	if err != nil {
		return nil, err
	}
	r := &Route{o: o, raw: raw, log: o.Logger, passing: passing(o.API.Transport)}
	if r.log == nil {
		r.log = slog.Default()
	}
	if r.o.Wait == 0 {
		r.o.Wait = DefaultWait
	}
	if r.o.Now == nil {
		r.o.Now = time.Now
	}
	for _, name := range slices.Sorted(maps.Keys(o.Tools)) {
		operation, ok := o.API.Contract.Operations[name]
		if !ok || operation.Effect == contract.EffectRead {
			return nil, invalid("tools."+name, "is not an operation with an effect of contract "+o.API.Contract.Name, "use one of "+strings.Join(Writes(o.API.Contract), ", "))
		}
		if o.Intents == Require && o.Tools[name].Builds() {
			return nil, invalid("tools."+name, "builds its intent ids from the request, and the route requires them in a header", "say intents: derive")
		}
	}
	for _, name := range Writes(o.API.Contract) {
		terms := o.Terms
		if t := o.Tools[name]; t != nil {
			continue // its terms come with each intent
		}
		if err := o.API.Contract.Operations[name].Terms(terms).WithDefaults().Check(); err != nil {
			return nil, invalid("terms", "do not fit operation "+name+" of contract "+o.API.Contract.Name+": "+detail(err), "shorten timeout")
		}
	}
	return r, nil
}

// Writes lists the operations of a contract that have an effect.
func Writes(c *contract.Contract) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.Operations)) {
		if c.Operations[name].Effect != contract.EffectRead {
			names = append(names, name)
		}
	}
	return names
}

// Name is the route's name.
func (r *Route) Name() string { return r.o.Name }

// Provider is the provider of an operation of this route for background work; nil if the operation is not of this route, or if only its caller
// has the credential (S3.10).
func (r *Route) Provider(op effectonce.Operation) effectonce.Provider {
	name, ok := provider.IsRaw(op.Request)
	if !ok || !r.raw.Held() || name != r.raw.Contract().Name {
		return nil
	}
	return r.raw.Of(nil)
}

// ProviderOf finds the provider of an operation among routes: that whose scope is the operation's, or else one of the same contract, whose other
// scope then stops for a person; nil if there is none.
func ProviderOf(routes []*Route, op effectonce.Operation) effectonce.Provider {
	var other effectonce.Provider
	for _, r := range routes {
		p := r.Provider(op)
		switch {
		case p == nil:
		case p.Scope() == op.RequestScope:
			return p
		case other == nil:
			other = p
		}
	}
	return other
}

func segment(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	})
}

func invalid(field, detail, remedy string) *effectonce.Error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}

func detail(err error) string {
	var e *effectonce.Error
	if errors.As(err, &e) {
		return strings.TrimSpace(e.Field + " " + e.Detail)
	}
	return err.Error()
}
