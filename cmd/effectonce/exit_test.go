package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
)

// Every code's exit code is among those that --help explains.
func TestEveryExitCodeIsExplained(t *testing.T) {
	t.Parallel()
	for _, k := range effectonce.Registry {
		if !strings.Contains(description, fmt.Sprintf("\n%d ", k.Exit)) && !strings.Contains(description, fmt.Sprintf(" %d ", k.Exit)) {
			t.Errorf("%s ends with exit code %d, which --help does not explain", k.Code, k.Exit)
		}
		if k.Exit == 0 || k.Exit == exitCounts || k.Exit == exitInterrupted {
			t.Errorf("%s ends with exit code %d, which means something else", k.Code, k.Exit)
		}
	}
}

func TestErrorsAreOneLineOrOneDocument(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		line string
		exit int
	}{
		{"a code with field and remedy", invalid("amount", "is missing", "give it"), "effectonce: amount is missing (give it)", 2},
		{"a detail that is a sentence of its own", &effectonce.Error{Code: effectonce.CodeStaleVersion, Field: "head", Detail: `the head of "a" is "b"`}, `effectonce: head: the head of "a" is "b"`, 5},
		{"a detail about what the field is not", &effectonce.Error{Code: effectonce.CodeNotFound, Field: "run", Detail: `nothing is recorded of a run "x"`}, `effectonce: run: nothing is recorded of a run "x"`, 4},
		{"a mismatch names the fields", &effectonce.Error{Code: effectonce.CodePayloadMismatch, Detail: "other arguments", Fields: []string{"amount"}}, "effectonce: other arguments: amount", 3},
		{"a code alone has its title", &effectonce.Error{Code: effectonce.CodeNotFound}, "effectonce: there is no such operation", 4},
		{"wrapped", fmt.Errorf("listing: %w", effectonce.ErrStoreUnavailable), "effectonce: the store is not available", 8},
		{"the command line's own", &lineError{code: 8, name: "port_in_use", detail: "in use", remedy: "choose another"}, "effectonce: in use (choose another)", 8},
		{"interrupted", fmt.Errorf("demo: %w", context.Canceled), "effectonce: interrupted", 130},
		{"anything else is a defect", errors.New("boom"), "effectonce: boom", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out, errs strings.Builder
			c := &terminal{out: &out, err: &errs}
			if got := c.fail(tt.err); got != tt.exit {
				t.Errorf("exit code %d, want %d", got, tt.exit)
			}
			if got := strings.TrimSpace(errs.String()); got != tt.line || out.Len() > 0 {
				t.Errorf("said %q on standard error and %q on standard output, want %q", got, out.String(), tt.line)
			}
			errs.Reset()
			c.json = true
			c.fail(tt.err)
			if !strings.Contains(out.String(), fmt.Sprintf(`"exit": %d`, tt.exit)) || errs.Len() > 0 {
				t.Errorf("with --json: %q on standard output, %q on standard error", out.String(), errs.String())
			}
		})
	}
}
