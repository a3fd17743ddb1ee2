package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/config"
)

type policyCheckCommand struct {
	File string `arg:"" optional:"" default:"effectonce.yaml" help:"The configuration."`
}

// Help implements kong.HelpProvider.
func (policyCheckCommand) Help() string {
	return `Environment variables and files that the configuration names must be there, as they must for the daemon. Nothing is called and
nothing is stored. The exit code is 2 if there is any problem.`
}

// configProblem is one problem as JSON.
type configProblem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Field  string `json:"field,omitempty"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
}

func (p configProblem) line() string {
	return config.Problem(p).String()
}

func configurationProblem(problems config.Problems) problem {
	k := effectonce.KindOf(effectonce.CodeInvalid)
	p := problem{Type: "/errors/" + string(k.Code), Title: "The configuration is not valid", Status: k.Status, Code: k.Code, Exit: k.Exit,
		Remedy: "correct the fields named above; docs/configuration.md describes each"}
	for _, q := range problems {
		p.Problems = append(p.Problems, configProblem(q))
	}
	p.Detail = fmt.Sprintf("the configuration has %d problems", len(problems))
	if len(problems) == 1 {
		p.Detail = "the configuration has a problem"
	}
	return p
}

// checkedTool is what a checked file says about a tool.
type checkedTool struct {
	Name     string           `json:"name"`
	Class    effectonce.Class `json:"class"`
	Scope    effectonce.Scope `json:"scope"`
	IntentID string           `json:"intent_id,omitempty"`
	Provider string           `json:"provider,omitempty"`
	Keyed    bool             `json:"keyed"`
	LookUp   bool             `json:"look_up"`
	Policy   string           `json:"policy"`
}

// Run checks the file.
func (p *policyCheckCommand) Run(c *terminal) error {
	cfg, err := loadConfig(c, p.File)
	if err != nil {
		return err
	}
	found := []checkedTool{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		t := cfg.Tools[name]
		terms, spec := t.Terms(), t.Policy.Spec()
		scope := spec.Scope
		if scope == "" {
			scope = effectonce.ScopeBusiness
		}
		found = append(found, checkedTool{Name: name, Class: terms.Class, Scope: scope, IntentID: spec.IntentID,
			Provider: t.ProviderName, Keyed: terms.Keyed, LookUp: terms.LookUp, Policy: t.Policy.Version})
	}
	if c.json {
		return c.show(map[string]any{"file": cfg.File, "tools": found, "problems": []configProblem{}})
	}
	c.say("%s is valid.", cfg.File)
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	for _, t := range found {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", t.Name, t.Class, firstOf(t.IntentID, "intent id from the caller"), t.afterAmbiguity())
	}
	return w.Flush()
}

// afterAmbiguity says what an attempt with an unknown end leads to.
func (t checkedTool) afterAmbiguity() string {
	switch {
	case t.Class != effectonce.ClassNonIdempotent:
		return ""
	case t.Keyed && t.LookUp:
		return "unclear ends: look-up, or resend under the key"
	case t.Keyed:
		return "unclear ends: resend under the key"
	case t.LookUp:
		return "unclear ends: look-up"
	}
	return "unclear ends: a person decides"
}
