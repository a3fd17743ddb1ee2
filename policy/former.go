package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
)

// FormerMax is how many earlier identities a tool can have.
const FormerMax = 16

// WithFormerly is the same policy with the versions whose identities its operations have too (S3.12). They are part of its document,
// so that whoever finds one operation of the tool finds them all. The order of versions does not matter.
func (t *Tool) WithFormerly(versions []string) (*Tool, error) {
	versions = slices.Compact(slices.Sorted(slices.Values(versions)))
	document, err := documentOf(t.spec, versions)
	if err != nil {
		return nil, err
	}
	with := *t
	with.document, with.Version, with.formerly = document, versionOf(document), versions
	return &with, nil
}

// Formerly are the versions of the tool's policy with earlier identities, as [Tool.WithFormerly] was given them.
func (t *Tool) Formerly() []string { return slices.Clone(t.formerly) }

// Former computes the identity that calls of a tool had under an earlier version of its policy (S3.12). It is safe for
// concurrent use.
type Former struct {
	old   *Tool // as far as it decides about keys
	names map[string]bool
}

// Former returns what computes the identities of old, an earlier policy of the same tool. The error says, for people, why that is not
// possible from every call that t accepts.
func (t *Tool) Former(old *Tool) (*Former, error) {
	if old.intentID == nil && t.intentID != nil {
		return nil, errors.New("then the caller gave the intent id, and now the policy builds it")
	}
	identity := old.identity()
	spec := Spec{Name: t.Name, Scope: identity.Scope, IntentID: identity.IntentID, Retention: identity.Retention, Arguments: map[string]Argument{}}
	f := &Former{names: map[string]bool{}}
	if old.intentID != nil {
		for _, name := range old.intentID.names {
			if ref, _ := old.resolve(name); ref.meta == "" || slices.Contains(ownFields, ref.meta) {
				continue
			}
			if t.intentID == nil || !slices.Contains(t.intentID.names, name) {
				return nil, fmt.Errorf("then {%s} identified a call, and now intent_id does not name it, so that calls need not have it", name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(identity.Arguments)) {
		a := identity.Arguments[name]
		if why := t.lacks(name, a.Default != nil); why != "" {
			return nil, fmt.Errorf("then {%s} identified a call, and now it %s", name, why)
		}
		if a.Default == nil {
			// Whoever leaves it out now means what the default says, and gave it before.
			a.Default = t.spec.Arguments[name].Default
		}
		a.Kind, a.Normalise = old.arguments[name].kind, unfiltered(a.Normalise)
		spec.Arguments[name], f.names[name] = a, true
	}
	compiled, problems := Compile(spec)
	if len(problems) > 0 {
		return nil, errors.New("its reading of calls does not go together with this one: " + problems[0].String())
	}
	f.old = compiled
	return f, nil
}

// lacks says why not every call of the tool certainly has an argument, or not one that can identify it; "" if every call has it.
func (t *Tool) lacks(name string, hasDefault bool) string {
	a, declared := t.arguments[name]
	switch {
	case t.dropped(name):
		return "is dropped"
	case !declared:
		return "is not named under arguments (declare it as kind: material, required: true)"
	case a.kind == KindFree:
		return "is free text, which a model can rephrase (make it material)"
	case a.required, a.def != nil, hasDefault, a.kind == KindIdentity:
		return ""
	}
	return "is not required (say required: true)"
}

// unfiltered leaves out the normalisers that only refuse. An identity is the same with and without them, so a call that the old
// policy would have refused has the identity that another spelling of it may have been executed under.
func unfiltered(steps []Normaliser) []Normaliser {
	return slices.DeleteFunc(slices.Clone(steps), func(n Normaliser) bool {
		return n.Name == "ascii" || n.Name == "capture" && whole(n.Argument)
	})
}

// whole reports whether a pattern of capture keeps all of what it accepts: ^(...)$.
func whole(pattern string) bool {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil || re.Op != syntax.OpConcat || len(re.Sub) != 3 {
		return false
	}
	end := re.Sub[2].Op == syntax.OpEndText
	return re.Sub[0].Op == syntax.OpBeginText && re.Sub[1].Op == syntax.OpCapture && end
}

// Identity is the identity of a call; its IntentID is empty where the caller gives it, its Tenant always. ends is when it ended, zero for
// never: what was recorded under it may be forgotten then, however long identities are kept now. A call of which it cannot be computed
// is an *[effectonce.Error] that names the field: executed without it, it might be a second time.
func (f *Former) Identity(args json.RawMessage, meta Meta) (id effectonce.Identity, ends time.Time, err error) {
	given, err := decodeArguments(args)
	if err != nil {
		return id, ends, err
	}
	for name := range given {
		if !f.names[name] {
			delete(given, name)
		}
	}
	r := newReader(f.old, given, meta)
	if err := r.sort(); err != nil {
		return id, ends, formerly(err)
	}
	id = effectonce.Identity{Tool: f.old.Name, Scope: f.old.spec.Scope, Run: meta["run"], Step: meta["step"]}
	missing := ""
	switch {
	case id.Run == "" && id.Scope != effectonce.ScopeBusiness:
		missing = "run"
	case id.Step == "" && id.Scope == effectonce.ScopeStep:
		missing = "step"
	}
	if missing != "" {
		return id, ends, formerly(&effectonce.Error{Code: effectonce.CodeIntentIncomplete, Field: missing, Detail: "is missing"})
	}
	if id.IntentID, err = r.render(f.old.intentID); err != nil {
		return id, ends, formerly(err)
	}
	if ends, err = r.forgetAt(f.old.period); err != nil {
		return id, ends, formerly(err)
	}
	return id, ends, nil
}

func formerly(err error) error {
	var e *effectonce.Error
	if !errors.As(err, &e) {
		return err
	}
	return &effectonce.Error{Code: e.Code, Field: e.Field, Cause: e.Cause,
		Detail: "does not give the identity that the call had before the policy was edited, under which it may have been executed: " + e.Detail,
		Remedy: "send it as before the edit; if no call from before can come again, the operator ends the earlier identities (serve --new-identity)"}
}
