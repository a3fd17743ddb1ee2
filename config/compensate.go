package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/policy"
)

// compensations checks the tools that undo others, which are known when all of the file was read.
func (r *reading) compensations(forms map[string]toolForm) {
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		c := forms[name].Compensate
		if c == nil || c.Tool == "" {
			continue
		}
		path := []string{"tools", name}
		if _, known := forms[c.Tool]; !known {
			remedy := "describe it under tools"
			if near := policy.Nearest(c.Tool, maps.Keys(forms)); near != "" {
				remedy = "did you mean " + near + "?"
			}
			if at := join(path, "compensate", "tool"); !r.has(at...) {
				r.on(at, fmt.Sprintf("there is no tool %.80q", c.Tool), remedy)
			}
			continue
		}
		t, by := r.config.Tools[name], r.config.Tools[c.Tool]
		if t == nil || by == nil {
			continue
		}
		for _, p := range t.Policy.CheckCompensation(by.Policy) {
			if at := join(path, p.Path...); !r.has(at...) {
				r.on(at, p.Detail, p.Remedy)
			}
		}
	}
}

// Compensation makes the call that undoes op, an operation of this tool that took effect (S11.3): the tool that does it, and the
// intent. Its id is [effectonce.CompensationID] of op whatever the tool's own template says, so that there is one compensation,
// and its identity never ends. ok is false where the configuration does not say how the effect is undone. Errors are those of
// [Tool.Intent], or name what the operation lacks.
func (t *Tool) Compensation(op effectonce.Operation, meta policy.Meta) (tool string, in effectonce.Intent, ok bool, err error) {
	c := t.Policy.Spec().Compensate
	if c == nil {
		return "", effectonce.Intent{}, false, nil
	}
	by, known := t.config.Tools[c.Tool]
	if !known {
		return c.Tool, in, true, &effectonce.Error{Code: effectonce.CodeUnknownTool, Field: "compensate.tool", Detail: fmt.Sprintf("%q is not configured", c.Tool), Remedy: "add it to the configuration"}
	}
	args, err := t.Policy.Compensation(op, by.Policy)
	if err != nil {
		return c.Tool, in, true, err
	}
	id := effectonce.CompensationID(op.Key)
	reading, err := by.Policy.ReadNamed(args, meta, id)
	if err != nil {
		return c.Tool, in, true, err
	}
	in = by.Policy.IntentOf(reading, args, meta)
	in.Tenant, in.Scope, in.Compensates = op.Tenant, effectonce.ScopeBusiness, op.Key
	in.Under = by.under(in.Arguments, in.Business)
	return c.Tool, in, true, by.complete(&in, reading)
}
