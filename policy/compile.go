package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Problem is one thing wrong with a policy. Path leads to the field, by the names of the file: {"arguments", "amount", "kind"}.
type Problem struct {
	Path           []string
	Detail, Remedy string
}

// String names field, problem and remedy.
func (p Problem) String() string {
	return strings.Join(p.Path, ".") + ": " + p.Detail + ": " + p.Remedy
}

// Tool is a checked policy, ready to read calls.
type Tool struct {
	// Name is the tool's name.
	Name string
	// Version is the SHA-256 of Document in lower-case hex.
	Version string

	spec      Spec
	document  []byte
	formerly  []string
	arguments map[string]*argument
	drop      map[string]bool
	intentID  *template
	resource  *template
	period    *template
	limits    []limit
}

// argument is a declared argument, compiled.
type argument struct {
	kind     Kind
	asText   bool
	steps    []canon.Normaliser
	amount   *Amount
	def      any
	required bool
	captures bool     // a step is a capture
	oneOf    []string // the allowed values in canonical form; none: any
	why      string
}

// Limits of a policy, so that no file makes the daemon work for long.
const (
	argumentsMax   = 500
	normalisersMax = 20
	templateMax    = 1024 // bytes
)

// Compile checks a policy whole and returns all its problems, or the tool if there are none.
func Compile(spec Spec) (*Tool, []Problem) {
	c := &compiler{tool: &Tool{Name: spec.Name, spec: spec, arguments: map[string]*argument{}, drop: map[string]bool{}}}
	c.words(spec)
	c.declare(spec)
	c.amounts(spec)
	c.defaults(spec)
	c.tool.intentID = c.template([]string{"intent_id"}, spec.IntentID, KindIdentity)
	c.tool.resource = c.template([]string{"resource"}, spec.Resource, KindIdentity, KindMaterial)
	c.identities(spec)
	c.retention(spec)
	c.limits(spec)
	c.compensate(spec)
	c.twins(spec)
	c.times(spec)
	c.contract(spec)
	if len(c.problems) > 0 {
		return nil, c.problems
	}
	document, err := documentOf(spec, nil)
	if err != nil {
		c.add("cannot be written as JSON: "+err.Error(), "use plain values", "call")
		return nil, c.problems
	}
	c.tool.document = document
	c.tool.Version = versionOf(document)
	return c.tool, nil
}

type compiler struct {
	tool     *Tool
	problems []Problem
}

func (c *compiler) add(detail, remedy string, path ...string) {
	c.problems = append(c.problems, Problem{Path: path, Detail: detail, Remedy: remedy})
}

// saidOf reports whether a section has a problem already.
func (c *compiler) saidOf(section string) bool {
	return slices.ContainsFunc(c.problems, func(p Problem) bool { return p.Path[0] == section })
}

// saidOfArgument reports whether an argument has a problem already.
func (c *compiler) saidOfArgument(name string) bool {
	return slices.ContainsFunc(c.problems, func(p Problem) bool { return len(p.Path) > 1 && p.Path[0] == "arguments" && p.Path[1] == name })
}

func (c *compiler) addError(err error, path ...string) {
	var e *canon.Error
	if errors.As(err, &e) {
		c.add(e.Detail, e.Remedy, path...)
		return
	}
	c.add(err.Error(), "correct it", path...)
}

func (c *compiler) words(spec Spec) {
	if strings.TrimSpace(spec.Name) == "" || len(spec.Name) > effectonce.IdentifierBytesMax {
		c.add("a tool needs a name of 1 to 512 bytes", "name the tool as its callers do", "name")
	}
	c.oneOf(string(spec.Class), []string{string(effectonce.ClassReadOnly), string(effectonce.ClassConvergent), string(effectonce.ClassNonIdempotent)}, "class")
	c.oneOf(string(spec.Scope), []string{string(effectonce.ScopeBusiness), string(effectonce.ScopeRun), string(effectonce.ScopeStep)}, "scope")
	c.oneOf(spec.Twins.Do, []string{"allow", "hold", "reject", "off"}, "twins", "do")
}

// oneOf accepts what is empty: nothing was said.
func (c *compiler) oneOf(word string, words []string, path ...string) {
	if word != "" && !slices.Contains(words, word) {
		c.add(fmt.Sprintf("%.40q is not known", word), "use "+strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1], path...)
	}
}

func (c *compiler) declare(spec Spec) {
	if len(spec.Arguments) > argumentsMax {
		c.add(fmt.Sprintf("more than %d arguments", argumentsMax), "name only those that are not simply material", "arguments")
		return
	}
	for _, name := range spec.Drop {
		if name == "" {
			c.add("names nothing", "name an argument", "drop")
		}
		c.tool.drop[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Arguments)) {
		c.declareOne(name, spec.Arguments[name])
	}
}

func (c *compiler) declareOne(name string, given Argument) {
	path := func(field ...string) []string { return append([]string{"arguments", name}, field...) }
	if normal, err := canon.NFC(name); err != nil || normal != name || strings.TrimSpace(name) != name || name == "" || strings.ContainsAny(name, "{}") {
		c.add("is not usable as an argument's name", "use letters, digits, _ and - (in Unicode NFC)", path()...)
	}
	if c.tool.dropped(name) {
		c.add("is dropped: a key that the caller supplies is recorded and never used", "take it out of arguments; if it is no such key, rename it or take it out of drop", path()...)
	}
	c.oneOf(string(given.Kind), []string{string(KindIdentity), string(KindMaterial), string(KindFree)}, path("kind")...)
	a := &argument{kind: given.Kind, required: given.Required}
	c.tool.arguments[name] = a
	if a.kind == "" {
		a.kind = KindMaterial
	}
	if a.kind == KindFree {
		c.allow(name, given)
		if len(given.Normalise) > 0 {
			c.add("a free argument is kept as it is", "leave normalise out, or make it material", path("normalise")...)
		}
		if given.Default != nil {
			c.add("a free argument is never sent, so a default has no meaning", "leave default out, or make it material", path("default")...)
		}
		a.why = "the policy calls it free: kept for the audit, neither compared nor sent"
		return
	}
	if len(given.Normalise) > normalisersMax {
		c.add(fmt.Sprintf("more than %d normalisers", normalisersMax), "use fewer", path("normalise")...)
		return
	}
	a.asText = a.kind == KindIdentity
	for i, step := range given.Normalise {
		switch step.Name {
		case "integer", "decimal", "amount":
			a.asText = false
		}
		if step.Name == "amount" {
			if i != len(given.Normalise)-1 {
				c.add("amount is not the last normaliser", "put it at the end", path("normalise")...)
			}
			a.amount = step.Amount
			if a.amount == nil {
				a.amount = &Amount{}
			}
			continue
		}
		n, err := canon.ParseNormaliser(step.Name, step.Argument)
		if err != nil {
			c.addError(err, path("normalise")...)
			continue
		}
		a.steps = append(a.steps, n)
		a.captures = a.captures || step.Name == "capture"
	}
	a.why = a.because(given)
	if !c.saidOfArgument(name) {
		c.allow(name, given)
	}
}

// because says for people why the argument is what it is.
func (a *argument) because(given Argument) string {
	why := "the policy calls it " + string(a.kind)
	if given.Kind == "" {
		why = "the policy gives it no kind, so it is material"
	}
	var steps []string
	if a.asText {
		steps = append(steps, "text")
	}
	for _, s := range given.Normalise {
		steps = append(steps, s.Name)
	}
	if len(steps) > 0 {
		why += "; normalised by " + strings.Join(steps, ", ")
	}
	return why
}

func (c *compiler) amounts(spec Spec) {
	for _, name := range slices.Sorted(maps.Keys(c.tool.arguments)) {
		amount := c.tool.arguments[name].amount
		if amount == nil {
			continue
		}
		path := []string{"arguments", name, "normalise"}
		c.oneOf(amount.Unit, []string{string(canon.UnitMajor), string(canon.UnitMinor)}, path...)
		switch {
		case amount.Currency == "" && amount.Code == "":
			c.add("an amount needs its currency", "say {amount: {currency: ARGUMENT}} or {amount: {code: EUR}}", path...)
		case amount.Currency != "" && amount.Code != "":
			c.add("an amount has both currency and code", "keep one", path...)
		case amount.Code != "":
			if _, _, err := canon.Currency(amount.Code); err != nil {
				c.addError(err, path...)
			}
		default:
			c.currencyArgument(amount.Currency, path)
		}
	}
}

func (c *compiler) currencyArgument(name string, path []string) {
	a, ok := c.tool.arguments[name]
	switch {
	case !ok:
		c.add(fmt.Sprintf("the currency argument %.80q is not declared", name), "declare it under arguments, for example {kind: material, normalise: [upper]}", path...)
	case a.kind == KindFree:
		c.add(fmt.Sprintf("the currency argument %q is free, and what is free does not change what is asked", name), "make it material", path...)
	case a.amount != nil:
		c.add(fmt.Sprintf("the currency argument %q is an amount itself", name), "name the argument that holds the currency's code", path...)
	}
}

func (c *compiler) defaults(spec Spec) {
	for _, name := range slices.Sorted(maps.Keys(c.tool.arguments)) {
		a, given := c.tool.arguments[name], spec.Arguments[name].Default
		if given == nil || a.kind == KindFree {
			continue
		}
		path := []string{"arguments", name, "default"}
		v, err := canon.Decode(given, canon.DefaultLimits)
		if err == nil {
			v, err = canon.NFC(v)
		}
		if err == nil {
			_, err = canon.Encode(v) // the policy itself is stored in canonical form
		}
		if err != nil {
			c.addError(err, path...)
			continue
		}
		if v == nil {
			c.add("null is no default", "leave it out", path...)
			continue
		}
		a.def = v
		if a.amount != nil && a.amount.Code == "" {
			continue
		}
		normal, err := a.normalise(v, a.fixedCode())
		if err != nil {
			c.addError(err, path...)
			continue
		}
		if err := a.allowed("default", normal); err != nil && !c.saidOfArgument(name) {
			c.add("is not in one_of", "use one of "+a.choices(), path...)
		}
	}
}

func (c *compiler) twins(spec Spec) {
	if len(spec.Twins.On) > 0 && spec.Twins.Do == "off" {
		c.add("twins are off, and on says what makes one", "keep one of the two", "twins", "on")
	}
	seen := map[string]bool{}
	for _, name := range spec.Twins.On {
		a, ok := c.tool.arguments[name]
		switch {
		case seen[name]:
			c.add(fmt.Sprintf("%q is named twice", name), "name it once", "twins", "on")
		case !ok:
			c.add(fmt.Sprintf("%.80q is not an argument that the policy names%s", name, didYouMean(name, maps.Keys(c.tool.arguments))), "declare it under arguments", "twins", "on")
		case a.kind == KindFree:
			c.add(fmt.Sprintf("%q is free text, by which nothing is compared", name), "name identity or material arguments", "twins", "on")
		}
		seen[name] = true
	}
}

func (c *compiler) times(spec Spec) {
	if spec.Retry.Attempts < 0 || spec.Retry.Attempts > 1000 {
		c.add("must be between 1 and 1000", "leave it out for the default", "retry", "attempts")
	}
	t := c.tool.Terms()
	full := t.WithDefaults()
	if full.BackoffMax < full.Backoff {
		c.add(fmt.Sprintf("backoff (%s) is longer than backoff_max (%s)", full.Backoff, full.BackoffMax), "raise backoff_max", "retry", "backoff")
	}
	if full.Within < full.CallTimeout {
		c.add(fmt.Sprintf("the total time (%s) is shorter than one call (%s)", full.Within, full.CallTimeout), "raise retry.within or lower the call's timeout", "retry", "within")
	}
	if h := full.Heartbeat; h > 0 && (h >= full.LeaseCap() || h < 3*time.Second) {
		c.add(fmt.Sprintf("must be at least 3s and below the lease it divides, %s (timeout %s + grace %s)", full.LeaseCap(), full.CallTimeout, full.Grace), "correct it or leave it out", "lease", "heartbeat")
	}
	var e *effectonce.Error
	if err := full.Check(); errors.As(err, &e) && len(c.problems) == 0 {
		c.add(e.Detail, e.Remedy, termPath(e.Field)...)
	}
}

func (c *compiler) contract(spec Spec) {
	e := spec.Contract
	if e == nil {
		return
	}
	if e.Retention > 0 && e.Forever {
		c.add("the key is remembered for ever and for a time", "keep one", "contract", "retention")
	}
	if !e.Keyed && (e.Retention > 0 || e.Forever) {
		c.add("has a retention and is not keyed", "say keyed: true, or leave retention out", "contract", "retention")
	}
	if e.Lag != nil && !e.LookUp {
		c.add("has a lag and no look-up", "say look_up: true, or leave lag out", "contract", "lag")
	}
	f := e.KeyForm
	c.oneOf(f.Encoding, []string{"hex", "base64url", "base32", "uuid"}, "contract", "key_form", "encoding")
	if f.LengthMax != 0 && f.LengthMax-len(f.Prefix) < 22 {
		c.add("leaves fewer than 22 characters for the key, so that collisions are thinkable", "raise length_max or shorten the prefix", "contract", "key_form", "length_max")
	}
	if f.LengthMax != 0 && (f.Encoding == "uuid" || f.Encoding == "") {
		c.add("a UUID is never cut", "use encoding: hex or base64url, or leave length_max out", "contract", "key_form", "length_max")
	}
}

// termPath is where a policy says what the root calls by the name of a term.
func termPath(field string) []string {
	switch name := strings.TrimPrefix(field, "terms."); name {
	case "call_timeout":
		return []string{"call", "timeout"}
	case "grace", "heartbeat":
		return []string{"lease", name}
	case "pause", "transit", "processing", "margin":
		return []string{"settle", name}
	case "attempts", "within", "backoff", "backoff_max":
		return []string{"retry", name}
	case "retention", "lag":
		return []string{"contract", name}
	default:
		return []string{name}
	}
}

// Spec returns the policy as it was written. The caller does not change it.
func (t *Tool) Spec() Spec { return t.spec }

// HasIntentID reports whether the policy builds the intent id; if not, the orchestrator gives it.
func (t *Tool) HasIntentID() bool { return t.intentID != nil }

// Document returns the policy as canonical JSON, the form in which it is stored. The caller does not change it.
func (t *Tool) Document() []byte { return bytes.Clone(t.document) }

var _ json.Marshaler = (*Tool)(nil)

// MarshalJSON writes Document.
func (t *Tool) MarshalJSON() ([]byte, error) { return t.document, nil }
