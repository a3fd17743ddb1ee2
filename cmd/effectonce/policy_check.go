package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/config"
	"github.com/effectonce/effectonce/policy"
)

type policyCheckCommand struct {
	File  string `arg:"" optional:"" default:"effectonce.yaml" help:"The configuration."`
	Store string `placeholder:"STORE" help:"Also compare the tools with their operations in this store, as serve does: a SQLite file, a PostgreSQL URL or env:NAME."`
}

// Help implements kong.HelpProvider.
func (policyCheckCommand) Help() string {
	return `Environment variables and files that the configuration names must be there, as they must for the daemon. Nothing is called and
nothing is stored. The exit code is 2 if there is any problem.

With --store it also says which identities of earlier policies are kept, and refuses an edit that loses one.`
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
	// Limits, Forgets, Results and Compensation are what the file says, in words; Formerly are the earlier identities in the store.
	Limits       []string `json:"limits,omitempty"`
	Results      string   `json:"results,omitempty"`
	Forgets      string   `json:"forgets,omitempty"`
	Compensation string   `json:"compensation,omitempty"`
	Formerly     []string `json:"formerly,omitempty"`
}

// Run checks the file.
func (p *policyCheckCommand) Run(ctx context.Context, c *terminal) error {
	cfg, err := loadConfig(c, p.File)
	if err != nil {
		return err
	}
	if err := p.compare(ctx, c, cfg); err != nil {
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
		checked := checkedTool{Name: name, Class: terms.Class, Scope: scope, IntentID: spec.IntentID,
			Provider: t.ProviderName, Keyed: terms.Keyed, LookUp: terms.LookUp, Policy: t.Policy.Version, Formerly: t.Formerly()}
		checked.keeps(spec)
		found = append(found, checked)
	}
	if c.json {
		return c.show(map[string]any{"file": cfg.File, "tools": found, "problems": []configProblem{}})
	}
	c.say("%s is valid.", cfg.File)
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	for _, t := range found {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", t.Name, t.Class, firstOf(t.IntentID, "intent id from the caller"), t.afterAmbiguity())
	}
	for _, t := range found {
		for _, l := range t.Limits {
			fmt.Fprintf(w, "  %s\tlimit\t%s\n", t.Name, l)
		}
		for _, line := range [][2]string{{"results", t.Results}, {"identities", t.Forgets}, {"undone by", t.Compensation}} {
			if line[1] != "" {
				fmt.Fprintf(w, "  %s\t%s\t%s\n", t.Name, line[0], line[1])
			}
		}
		for _, words := range t.Formerly {
			fmt.Fprintf(w, "  %s\tbefore\t%s\n", t.Name, printed(words))
		}
	}
	return w.Flush()
}

// compare finds the earlier identities in the store that is named.
func (p *policyCheckCommand) compare(ctx context.Context, c *terminal, cfg *config.Config) error {
	if p.Store == "" {
		return nil
	}
	where, err := parseStore(c, p.Store)
	if err != nil {
		return err
	}
	if err := where.missing(); err != nil {
		return invalid("store", "cannot be read: "+err.Error(), "name the daemon's store, or leave it out")
	}
	store, err := where.look(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return cfg.FindIdentities(ctx, store)
}

// keeps says in words what a policy says about limits, retention and compensation.
func (t *checkedTool) keeps(spec policy.Spec) {
	for _, l := range spec.Limits {
		words := fmt.Sprintf("%s: %s of %s", l.Name, firstOf(l.Amount, "1"), l.Max)
		if l.Per > 0 {
			words += " per " + l.Per.Written()
		}
		t.Limits = append(t.Limits, words)
	}
	if r := spec.Retention.Result; r > 0 {
		t.Results = "kept " + r.Written()
	}
	if id := spec.Retention.Identity; id != nil {
		t.Forgets = "kept " + id.For.Written() + " after the end of the period " + id.Period
	}
	if c := spec.Compensate; c != nil {
		t.Compensation = c.Tool
	}
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
