package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/fault/twin"
)

// The help is where the errors about a plan point: it has every word, and what it gives as an example is one.
func TestTheHelpOfTheTwinExplainsFaultPlans(t *testing.T) {
	t.Parallel()
	help := twinCommand{}.Help()
	for _, word := range []any{
		twin.TargetRefunds, twin.TargetLookup, twin.TargetAny, twin.Instead, twin.BeforeEffect, twin.AfterEffect,
		twin.Drop, twin.Reset, twin.Hang, twin.Status, twin.Cut, twin.Garble, twin.Foreign, twin.Slow, twin.Twice, twin.Hold,
	} {
		var text string
		switch w := word.(type) {
		case twin.Target:
			text = string(w)
		case twin.When:
			text = string(w)
		case twin.What:
			text = string(w)
		}
		if !regexp.MustCompile(`\b` + text + `\b`).MatchString(help) {
			t.Errorf("the help does not name %s", text)
		}
	}
	_, examples, _ := strings.Cut(help, "Examples:")
	lines := regexp.MustCompile(`(?m)^  (\S.*?)   `).FindAllStringSubmatch(examples, -1)
	if len(lines) < 3 {
		t.Fatalf("%d examples in %q", len(lines), examples)
	}
	for _, m := range lines {
		if plan, err := twin.ParsePlan(m[1]); err != nil || len(plan) == 0 {
			t.Errorf("the example %q is no plan: %v", m[1], err)
		}
	}
}
