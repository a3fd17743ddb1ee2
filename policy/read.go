package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// Meta is call metadata: run, step, and what the context of the request gives. It comes from the orchestration layer,
// never from a model.
type Meta map[string]string

// Reading is what a policy makes of one call.
type Reading struct {
	// IntentID is built from the template; empty if the policy has none.
	IntentID string
	// Business has the identity and material arguments after defaults and normalisers, in canonical form. An amount is
	// {"currency": "EUR", "minor": "48000"} there.
	Business json.RawMessage
	// Template is Business as the call's templates see it: see the package comment.
	Template json.RawMessage
	// Free has the free arguments as they were given; they are for the audit only.
	Free json.RawMessage
	// Fingerprint is the digest of Business (S4.1).
	Fingerprint canon.Digest
	// Twin is the digest of the fields that make a twin; zero: the fingerprint is what makes one (S3.8).
	Twin canon.Digest
	// Resource names what the operation acts on; empty if the policy has no template for it (S7.1).
	Resource string
	// Limits are the totals that the call counts against (S8.3), and ForgetAt is when its identity ends, zero for never (S13.2).
	Limits   []effectonce.Limit
	ForgetAt time.Time
	// Values explains each argument that was given or has a default, by name.
	Values map[string]Value
}

// Value explains what became of one argument.
type Value struct {
	Kind Kind `json:"kind"`
	// Given is the argument as it came, nil if a default stands in for it; Normalised what it became, nil for what is
	// free or dropped.
	Given      json.RawMessage `json:"given,omitempty"`
	Normalised json.RawMessage `json:"normalised,omitempty"`
	Why        string          `json:"why"`
}

// ignoredKey is the argument name, folded, that is dropped in every policy.
const ignoredKey = "idempotencykey"

func (t *Tool) dropped(name string) bool {
	return t.drop[name] || strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name)) == ignoredKey
}

// Read reads the arguments of one call, a JSON object. Every error is an *[effectonce.Error] that names the field
// ("arguments.amount") and the remedy: not_canonical for what has no canonical form (S4.4), intent_incomplete for a
// missing component of the intent id (S3.3), invalid for the rest, such as a component with characters that cannot be seen.
// Nothing is ever guessed.
func (t *Tool) Read(args json.RawMessage, meta Meta) (Reading, error) {
	given, err := decodeArguments(args)
	if err != nil {
		return Reading{}, err
	}
	r := newReader(t, given, meta)
	if err := r.sort(); err != nil {
		return Reading{}, err
	}
	return r.reading(t.intentID, t.period)
}

// ReadNamed is [Tool.Read] for a call whose intent id is given, not built: it has no period, so that its identity never ends.
func (t *Tool) ReadNamed(args json.RawMessage, meta Meta, id string) (Reading, error) {
	given, err := decodeArguments(args)
	if err != nil {
		return Reading{}, err
	}
	r := newReader(t, given, meta)
	if err := r.sort(); err != nil {
		return Reading{}, err
	}
	out, err := r.reading(nil, nil)
	out.IntentID = id
	return out, err
}

// Business reads only what is compared of a call, for a repeat under the version of its first claim (S3.11).
func (t *Tool) Business(args json.RawMessage) (json.RawMessage, error) {
	given, err := decodeArguments(args)
	if err != nil {
		return nil, err
	}
	r := newReader(t, given, nil)
	if err := r.sort(); err != nil {
		return nil, err
	}
	business, err := canon.Encode(r.business)
	if err != nil {
		return nil, fieldError("arguments", err)
	}
	return business, nil
}

func newReader(t *Tool, given map[string]any, meta Meta) *reader {
	return &reader{tool: t, meta: meta, given: given,
		business: map[string]any{}, template: map[string]any{}, free: map[string]any{}, values: map[string]Value{}}
}

// Intent reads a call into an intent with the policy's terms; the Run and Step are the metadata's. Its ID is empty if the
// policy has no template for it.
func (t *Tool) Intent(args json.RawMessage, meta Meta) (effectonce.Intent, error) {
	r, err := t.Read(args, meta)
	if err != nil {
		return effectonce.Intent{}, err
	}
	return t.IntentOf(r, args, meta), nil
}

// IntentOf is Intent for a call that was read already: r is what Read returned for the same args and meta.
func (t *Tool) IntentOf(r Reading, args json.RawMessage, meta Meta) effectonce.Intent {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	return effectonce.Intent{
		Tool: t.Name, Run: meta["run"], Step: meta["step"], Scope: t.spec.Scope, ID: r.IntentID,
		Arguments: args, Business: r.Business, Resource: r.Resource, Twin: r.Twin, Limits: r.Limits, ForgetAt: r.ForgetAt, Terms: t.Terms(),
	}
}

func decodeArguments(args json.RawMessage) (map[string]any, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		return map[string]any{}, nil
	}
	v, err := canon.Decode(args, canon.DefaultLimits)
	if err == nil {
		v, err = canon.NFC(v)
	}
	if err != nil {
		return nil, fieldError("arguments", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "arguments", Detail: "are not a JSON object", Remedy: "give the arguments by name"}
	}
	return object, nil
}

// reader holds one call while it is read.
type reader struct {
	tool     *Tool
	meta     Meta
	given    map[string]any
	business map[string]any
	template map[string]any
	free     map[string]any
	values   map[string]Value
}

// sort brings every argument where its kind belongs. Amounts come last, since they need their currency.
func (r *reader) sort() error {
	var amounts []string
	for _, name := range slices.Sorted(maps.Keys(r.given)) {
		if _, declared := r.tool.arguments[name]; !declared {
			if err := r.undeclared(name); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.tool.arguments)) {
		if r.tool.arguments[name].amount != nil {
			amounts = append(amounts, name)
			continue
		}
		if err := r.declared(name); err != nil {
			return err
		}
	}
	for _, name := range amounts {
		if err := r.declared(name); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) undeclared(name string) error {
	v := r.given[name]
	if r.tool.dropped(name) {
		r.values[name] = Value{Kind: KindDropped, Given: plain(v), Why: "a key that the caller supplies: recorded, neither compared nor sent"}
		return nil
	}
	return r.put(name, v, v, Value{Kind: KindMaterial, Given: plain(v), Why: "the policy does not name it, so it is material"})
}

func (r *reader) declared(name string) error {
	a := r.tool.arguments[name]
	v, present := r.given[name]
	if a.kind == KindFree {
		if present {
			r.free[name] = v
			r.values[name] = Value{Kind: KindFree, Given: plain(v), Why: a.why}
		}
		if a.required && v == nil {
			return missing(name)
		}
		return nil
	}
	value := Value{Kind: a.kind, Why: a.why}
	if present {
		value.Given = plain(v)
	}
	if v == nil {
		if a.def == nil {
			if a.required {
				return missing(name)
			}
			return nil
		}
		v = a.def
		value.Why += "; the policy's default stands in for it"
	}
	if a.amount != nil {
		return r.amount(name, a, v, value)
	}
	normal, err := a.normalise(v, "")
	if err != nil {
		return fieldError("arguments."+name, err)
	}
	if err := a.allowed("arguments."+name, normal); err != nil {
		return err
	}
	return r.put(name, normal, normal, value)
}

func missing(name string) error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "arguments." + name, Detail: "is missing", Remedy: "the policy requires it: give it"}
}

func (r *reader) amount(name string, a *argument, v any, value Value) error {
	code := a.fixedCode()
	if code == "" {
		given, ok := r.business[a.amount.Currency]
		if !ok {
			return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "arguments." + a.amount.Currency, Detail: "is missing", Remedy: "give the currency of " + name}
		}
		if code, ok = given.(string); !ok {
			return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "arguments." + a.amount.Currency, Detail: "is not a currency's code", Remedy: "give it as a string, such as \"EUR\""}
		}
		if _, _, err := canon.Currency(code); err != nil {
			return fieldError("arguments."+a.amount.Currency, err)
		}
	}
	normal, err := a.normalise(v, code)
	if err != nil {
		return fieldError("arguments."+name, err)
	}
	amount, ok := normal.(canon.AmountValue)
	if !ok {
		return &effectonce.Error{Code: effectonce.CodeInternal, Field: "arguments." + name, Detail: "did not become an amount"}
	}
	return r.put(name, amount.Canonical(), map[string]any{"minor": amount.Minor, "decimal": amount.Decimal(), "currency": amount.Currency}, value)
}

func (r *reader) put(name string, business, template any, value Value) error {
	normal, err := canon.Encode(business)
	if err != nil {
		return fieldError("arguments."+name, err)
	}
	value.Normalised = normal
	r.business[name], r.template[name], r.values[name] = business, template, value
	return nil
}

func (r *reader) reading(intentID, period *template) (Reading, error) {
	out := Reading{Values: r.values, Free: plain(r.free)}
	var err error
	if out.Business, err = canon.Encode(r.business); err != nil {
		return Reading{}, fieldError("arguments", err)
	}
	if out.Fingerprint, err = canon.Sum(r.business); err != nil {
		return Reading{}, fieldError("arguments", err)
	}
	out.Template = plain(r.template)
	if out.IntentID, err = r.render(intentID); err != nil {
		return Reading{}, err
	}
	if out.Resource, err = r.render(r.tool.resource); err != nil {
		return Reading{}, err
	}
	if out.Limits, err = r.limits(); err != nil {
		return Reading{}, err
	}
	if out.ForgetAt, err = r.forgetAt(period); err != nil {
		return Reading{}, err
	}
	out.Twin, err = r.twin()
	return out, err
}

func (r *reader) render(t *template) (string, error) {
	if t == nil {
		return "", nil
	}
	return t.render(r.component)
}

func (r *reader) component(name string) (string, error) {
	field, v, err := r.value(name)
	if err != nil {
		return "", err
	}
	c, err := canon.Component(v)
	if err != nil {
		return "", componentError(field, err)
	}
	if text, ok := v.(string); ok {
		if err := visible(field, text); err != nil {
			return "", err
		}
	}
	return c, nil
}

// value is what a placeholder stands for, nil if that was not given, and the field that gives it.
func (r *reader) value(name string) (field string, v any, err error) {
	ref, _ := r.tool.resolve(name)
	if ref.meta != "" {
		field = "context." + ref.meta
		if slices.Contains(ownFields, ref.meta) {
			field = ref.meta
		}
		given, ok := r.meta[ref.meta]
		if !ok {
			return field, nil, nil
		}
		normal, err := canon.NFC(given)
		if err != nil {
			return field, nil, fieldError(field, err)
		}
		return field, normal, nil
	}
	v = r.template[ref.argument]
	if parts, ok := v.(map[string]any); ok && ref.part != "" {
		v = parts[ref.part]
	}
	return "arguments." + ref.argument, v, nil
}

// ownFields are the metadata that requests have fields of their own for; the rest is their context.
var ownFields = []string{"run", "step", "actor"}

// twin is the digest of the fields that make a twin; zero if none of them was given, so that calls which lack them all
// do not look alike.
func (r *reader) twin() (canon.Digest, error) {
	fields := map[string]any{}
	for _, name := range r.tool.spec.Twins.On {
		if v, ok := r.business[name]; ok {
			fields[name] = v
		}
	}
	if len(fields) == 0 {
		return canon.Digest{}, nil
	}
	sum, err := canon.Sum(map[string]any{"twins_on": fields})
	if err != nil {
		return canon.Digest{}, fieldError("arguments", err)
	}
	return sum, nil
}

// plain writes a decoded value as JSON, numbers as they were spelled.
func plain(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// Decoded trees and what normalisers make of them always can be written.
		panic(fmt.Sprintf("policy: cannot write a %T: %v", v, err))
	}
	return bytes.TrimSpace(b.Bytes())
}
