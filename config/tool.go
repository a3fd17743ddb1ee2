package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/policy"
	"github.com/effectonce/effectonce/provider"
)

// Tool is a tool of the file: its policy, and the provider that has its effect.
type Tool struct {
	// Policy reads its calls.
	Policy *policy.Tool
	// Provider has the effect; nil where the effect is the caller's own.
	Provider effectonce.Provider
	// ProviderName is the provider's name in the file, empty where there is none.
	ProviderName string

	config  *Config
	terms   effectonce.Terms
	adapter *provider.HTTP // Provider, as what it is; nil where there is none
	former  []former       // earlier identities that its operations have too
	// line and column are the tool's place in the file.
	line, column int
}

// Terms are the rules of the tool's new operations, from policy and contract.
func (t *Tool) Terms() effectonce.Terms { return t.terms }

// Intent reads a call into an intent that the guard takes: policy reading, terms and, where there is a provider, the frozen
// request with its scope (S3.10). The ID is empty where the policy has no template for it. Errors are those of
// [policy.Tool.Read], and of the provider adapter where the call's template needs an argument that was not given.
func (t *Tool) Intent(args json.RawMessage, meta policy.Meta) (effectonce.Intent, error) {
	reading, err := t.Policy.Read(args, meta)
	if err != nil {
		return effectonce.Intent{}, err
	}
	in := t.Policy.IntentOf(reading, args, meta)
	in.Under = t.under(in.Arguments, in.Business)
	if err := t.formerly(&in, args, meta); err != nil {
		return effectonce.Intent{}, err
	}
	if err := t.complete(&in, reading); err != nil {
		return effectonce.Intent{}, err
	}
	return in, nil
}

// complete gives an intent the terms and, where there is a provider, the frozen request (S3.10).
func (t *Tool) complete(in *effectonce.Intent, reading policy.Reading) (err error) {
	in.Terms = t.terms
	if t.adapter == nil {
		return nil
	}
	if in.Request, err = t.adapter.Render(reading.Template); err != nil {
		return err
	}
	in.RequestScope = t.adapter.Scope()
	return nil
}

// under reads the same call under another policy version (S3.11).
func (t *Tool) under(args, business json.RawMessage) func(context.Context, string) (json.RawMessage, error) {
	return func(ctx context.Context, version string) (json.RawMessage, error) {
		switch version {
		case t.Policy.Version:
			return business, nil
		case "":
			// Without a policy all arguments are compared as they are.
			return args, nil
		}
		if t.config.Documents == nil {
			return nil, &effectonce.Error{Code: effectonce.CodePolicyGone, Field: "policy", Detail: "the policy version of the first claim is not kept here", Remedy: "restore the configuration of that time"}
		}
		doc, err := t.config.Documents(ctx, version)
		if errors.Is(err, effectonce.ErrNotFound) {
			return nil, &effectonce.Error{Code: effectonce.CodePolicyGone, Field: "policy", Detail: "the store has no policy version " + version, Remedy: "restore the configuration of that time", Cause: err}
		}
		if err != nil {
			return nil, err
		}
		old, err := policy.FromDocument(doc)
		if err != nil {
			return nil, err
		}
		return old.Business(args)
	}
}

// tool checks a tool of the file and what it refers to.
func (r *reading) tool(name string, form toolForm) {
	path := []string{"tools", name}
	if strings.HasPrefix(name, events.ToolPrefix) {
		r.on(path, "begins with "+events.ToolPrefix+", as the tools of incoming events do", "give it another name")
	}
	spec := form.spec(name)
	spec.Call = r.call(join(path, "call"))
	if given := join(path, "retry", "attempts"); form.Retry.Attempts == 0 && r.given(given) && !r.has(given...) {
		r.on(given, "must be between 1 and 1000", "leave it out for the default; 1 never sends again")
	}
	at := r.root.nearest(path)
	t := &Tool{config: r.config, line: at.line, column: at.column, ProviderName: form.Call.Provider}
	compiled, problems := policy.Compile(spec)
	wrong := wrongly{arguments: r.has(join(path, "arguments")...), intentID: r.has(join(path, "intent_id")...)}
	for _, p := range problems {
		r.policyProblem(path, p, wrong)
	}
	t.Policy = compiled

	if form.Call.Provider == "" {
		r.callersOwn(form, path)
		if e := form.Contract; e != nil && (e.Keyed || e.LookUp) {
			r.readOnly(spec.Class, "contract describes an effect", path)
		}
	} else if !r.managed(t, spec, form, path) {
		return
	}
	if compiled == nil {
		return
	}
	t.terms = compiled.Terms()
	if t.adapter != nil {
		t.terms.Managed = true
		t.terms = t.adapter.Terms(t.terms)
	} else if o := r.byRoute[name]; o != nil && form.Contract == nil {
		t.terms = o.Terms(t.terms)
	}
	r.terms(t, form, path)
	r.config.Tools[name] = t
}

// wrongly says which sections could not be read as they stand, so that what the policy finds there may only follow from it.
type wrongly struct{ arguments, intentID bool }

// policyProblem reports what the policy says is wrong, unless it may only follow from something reported already.
func (r *reading) policyProblem(path []string, p policy.Problem, wrong wrongly) {
	at := join(path, p.Path...)
	switch p.Path[0] {
	case "intent_id", "resource", "twins", "limits", "compensate":
		if wrong.arguments {
			return
		}
	case "arguments":
		if wrong.intentID && strings.HasSuffix(p.Detail, "not in intent_id") {
			return
		}
	case "name":
		at = path
	}
	if !r.has(at...) {
		r.on(at, p.Detail, p.Remedy)
	}
}

// given reports whether the file says something at a path.
func (r *reading) given(path []string) bool {
	n := r.root
	for _, name := range path {
		n = n.get(name)
	}
	return n != nil && n.shape != shapeNull
}

// call is the call section as canonical JSON, which belongs to the policy's version.
func (r *reading) call(path []string) json.RawMessage {
	if !r.given(path) {
		return nil
	}
	n := r.root
	for _, name := range path {
		n = n.get(name)
	}
	before := len(r.problems)
	raw := r.raw(n, path)
	r.problems = r.problems[:before] // decoding the form said it already, where it matters
	return raw
}

func (f toolForm) spec(name string) policy.Spec {
	s := policy.Spec{
		Name: name, Class: effectonce.Class(f.Class), Scope: effectonce.Scope(f.Scope), IntentID: f.IntentID, Drop: f.Drop,
		Resource: f.Resource, Timeout: f.Call.Timeout,
		Lease:    policy.Lease(f.Lease),
		Settle:   policy.Settle(f.Settle),
		Retry:    policy.Retry(f.Retry),
		Twins:    policy.Twins(f.Twins),
		Approval: f.Approval, AcceptReview: f.AcceptReview, ResendWhenAbsent: f.ResendWhenAbsent, Expiry: f.Expiry,
		Retention: policy.Retention{Result: f.Retention.Result, Run: f.Retention.Run},
	}
	if id := f.Retention.Identity.finite; id != nil {
		s.Retention.Identity = (*policy.Identity)(id)
	}
	if c := f.Compensate; c != nil {
		s.Compensate = (*policy.Compensate)(c)
	}
	for _, l := range f.Limits {
		s.Limits = append(s.Limits, policy.Limit{Name: l.Name, Amount: string(l.Amount), Max: string(l.Max), Per: l.Per})
	}
	if len(f.Arguments) > 0 {
		s.Arguments = map[string]policy.Argument{}
	}
	for name, a := range f.Arguments {
		s.Arguments[name] = policy.Argument{Kind: policy.Kind(a.Kind), Normalise: a.Normalise, Default: a.Default, OneOf: a.OneOf, Required: a.Required}
	}
	if e := f.Contract; e != nil {
		s.Contract = &policy.Effect{
			Keyed: e.Keyed, Retention: e.Retention.span, Forever: e.Retention.forever,
			KeyForm: effectonce.KeyForm{Encoding: e.KeyForm.Encoding, LengthMax: e.KeyForm.LengthMax, Prefix: e.KeyForm.Prefix},
			LookUp:  e.LookUp, Lag: e.Lag.span,
		}
	}
	return s
}

// callersOwn refuses what only means something for a provider.
func (r *reading) callersOwn(form toolForm, path []string) {
	c := form.Call
	given := map[string]bool{
		"operation": c.Operation != "", "body": c.Body != nil, "query": c.Query != nil, "headers": c.Headers != nil, "method": c.Method != "",
		"path": c.Path != "", "reference": c.Reference != "", "stamp": c.Stamp != nil, "look_up": c.LookUp != nil, "ensure": c.Ensure != nil,
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] && !r.has(join(path, "call", "provider")...) {
			r.on(join(path, "call", name), "says how to call a provider, and none is named", "name one in call.provider, or leave this out if the caller has the effect itself")
		}
	}
}

// managed finds the tool's provider and connects the tool to it. It reports whether it could.
func (r *reading) managed(t *Tool, spec policy.Spec, form toolForm, path []string) bool {
	if form.Contract != nil {
		r.on(join(path, "contract"), "is for effects that the caller has itself, and this tool has a provider", "leave it out: the provider's contract says it")
	}
	sound := r.converges(spec.Class, form.Call, path)
	sound = r.templates(spec, join(path, "call")) && sound
	s, ok := r.providers[form.Call.Provider]
	if !ok {
		r.noProvider(form.Call.Provider, join(path, "call", "provider"))
		return false
	}
	if s.contract == nil || r.has("providers", s.name) {
		return false
	}
	call, at := form.Call.applied(join(path, "call"))
	operation, err := s.contract.Resolve(call.Operation, s.settings(call))
	if err != nil {
		r.callProblem(s, at, err)
		return false
	}
	r.readOnly(spec.Class, effectOf(operation), path)
	if !sound || r.has(join(path, "call")...) {
		return false
	}
	adapter, err := s.connect(call)
	if err != nil {
		r.callProblem(s, at, err)
		return false
	}
	t.adapter, t.Provider = adapter, adapter
	return true
}

// effectOf says by what an operation shows that it changes something; "" if it shows nothing.
func effectOf(o *contract.Operation) string {
	switch {
	case o.Key.Place != "":
		return "contract " + o.Contract + " sends a key, by which repeats of an effect are found"
	case o.Stamp.Set():
		return "the call marks what it creates"
	case o.Method != http.MethodGet && o.Method != http.MethodHead:
		return "the call is a " + o.Method
	}
	return ""
}

// readOnly refuses to call something read_only that has an effect: it would be neither stored nor guarded (S11.2).
func (r *reading) readOnly(class effectonce.Class, effect string, path []string) {
	if class == effectonce.ClassReadOnly && effect != "" {
		r.on(join(path, "class"), "says read_only, and "+effect+": nothing would stop a second effect",
			"leave class out (non_idempotent), or say convergent if a repeat is harmless")
	}
}

func (r *reading) noProvider(name string, path []string) {
	names := slices.Sorted(maps.Keys(r.providers))
	remedy := "describe it under providers"
	if near := policy.Nearest(name, slices.Values(names)); near != "" {
		remedy = "did you mean " + near + "?"
	} else if len(names) > 0 {
		remedy += ", or use " + listed(names)
	}
	r.on(path, fmt.Sprintf("there is no provider %.80q", name), remedy)
}

// callProblem reports what the contract or the adapter refused, at the provider or at the call, which is at path.
func (r *reading) callProblem(s *source, path []string, err error) {
	var e *effectonce.Error
	if !errors.As(err, &e) {
		r.on(path, err.Error(), "correct the call")
		return
	}
	names := strings.FieldsFunc(e.Field, func(c rune) bool { return c == '.' || c == '[' || c == ']' })
	at := join(path, names...)
	if len(names) > 0 && names[0] == "ensure" {
		at = join(path[:3], names...)
	}
	if len(names) > 0 && slices.Contains(providerFields, names[0]) {
		at = append([]string{"providers", s.name}, names...)
	}
	remedy := e.Remedy
	if remedy == "" {
		remedy = "correct it"
	}
	if !r.has(at...) {
		r.on(at, e.Detail, remedy)
	}
}

// terms checks the tool's terms as a whole.
func (r *reading) terms(t *Tool, form toolForm, path []string) {
	t.terms = t.terms.WithDefaults()
	var e *effectonce.Error
	if err := t.terms.Check(); errors.As(err, &e) {
		at := join(path, "call", "timeout")
		if e.Field == "terms.retention" && form.Call.Provider != "" && r.root.get("providers").get(form.Call.Provider).get("retention") != nil {
			at = []string{"providers", form.Call.Provider, "retention"}
		} else if e.Field == "terms.retention" && form.Contract != nil {
			at = join(path, "contract", "retention")
		}
		if !r.has(at...) {
			r.on(at, fmt.Sprintf("%s: the provider remembers for %s, a call takes up to %s and the settle time is %s", e.Detail, t.terms.Retention, t.terms.CallTimeout, t.terms.Settle()), e.Remedy)
		}
	}
	if t.terms.ResendWhenAbsent && (!t.terms.LookUp || t.terms.LagUnknown) {
		r.on(join(path, "resend_when_absent"), "absence is never known: there is no look-up, or nobody says how far it may be behind", "leave it out, or describe the look-up with its lag")
	}
	r.horizon(t, path)
	r.decidable(t, form, path)
}

// horizon refuses to forget identities while a call of their period can still come again (S13.2).
func (r *reading) horizon(t *Tool, path []string) {
	id := t.Policy.Spec().Retention.Identity
	if id == nil {
		return
	}
	least, sum := t.Policy.Horizon(t.terms)
	if at := join(path, "retention", "identity", "for"); id.For.Std() < least && !r.has(at...) {
		r.on(at, "is shorter than the time in which a call of the period can still come again: "+sum, "raise it to at least that, or shorten retention.run or expiry if they are longer than they need to be")
	}
}

// decidable refuses a tool whose ambiguous ends nobody could decide, unless the policy says that a person will (S11.2).
func (r *reading) decidable(t *Tool, form toolForm, path []string) {
	if t.terms.Class != effectonce.ClassNonIdempotent || form.AcceptReview || t.terms.LookUp || r.hasExactly(path...) {
		return
	}
	window := t.terms.Forever || t.terms.Retention > 0
	if t.terms.Keyed && window || r.byRoute[t.Policy.Name] != nil && t.adapter == nil {
		return // of a tool of routes only, the route says it
	}
	detail := "has neither a key nor a look-up, so each ambiguous end would stop for a person"
	if t.terms.Keyed {
		detail = "has a key that is remembered for a time nobody states, and no look-up, so each ambiguous end would stop for a person"
	}
	remedy := "say accept_review: true if a person will decide, "
	switch {
	case form.Call.Provider == "":
		remedy += "or say under contract: what your own effect promises (keyed with retention, look_up)"
	case t.terms.Keyed:
		remedy += "or give the provider's retention"
	default:
		remedy += "or use a contract with a key or a look-up (http/keyed, http/lookup)"
	}
	r.on(path, detail, remedy)
}
