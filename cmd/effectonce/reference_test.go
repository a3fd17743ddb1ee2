package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
)

var update = flag.Bool("update", false, "write the generated part of docs/cli.md")

const (
	referencePage = "../../docs/cli.md"
	referenceHead = "## Reference\n"
)

// The page says what the program says. Not parallel: the width of help is an environment variable.
func TestReferenceIsWhatTheProgramSays(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(page), referenceHead)
	if !found {
		t.Fatalf("%s has no heading %q", referencePage, referenceHead)
	}
	want := []byte(before + referenceHead + reference(t))
	if *update {
		if err := os.WriteFile(referencePage, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(page, want) {
		t.Errorf("%s is out of date: go test ./cmd/effectonce -run TestReference -update", referencePage)
	}
}

func reference(t *testing.T) string {
	var b strings.Builder
	b.WriteString("\n### Exit codes\n\n| exit code | when |\n|---|---|\n| 0 | done |\n")
	codes := map[int][]string{exitCounts: {"demo or probe: the counts are not as they must be"}, exitInterrupted: {"interrupted, or not confirmed"},
		exitUnavailable: {"the daemon cannot be reached, or its port is in use"}}
	for _, k := range effectonce.Registry {
		codes[k.Exit] = append(codes[k.Exit], "`"+string(k.Code)+"`")
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		fmt.Fprintf(&b, "| %d | %s |\n", code, strings.Join(codes[code], ", "))
	}
	b.WriteString("\n`ops watch` ends with 6 or 7 according to the operation. The codes are explained in [errors.md](errors.md).\n")
	for _, command := range []string{"", "serve", "migrate", "ops", "ops ls", "ops show", "ops watch", "ops resolve", "runs", "runs ls", "runs show", "runs undo", "outbox", "outbox ls", "outbox show", "outbox retry", "limits", "policy check", "sweep", "explain", "demo", "twin", "probe", "version"} {
		line := strings.TrimSpace("effectonce " + command)
		code, out, errs := answer(t, nil, "", append(strings.Fields(command), "--help")...)
		if code != 0 || errs != "" {
			t.Errorf("%s --help: exit code %d, %s", line, code, errs)
		}
		fmt.Fprintf(&b, "\n### %s\n\n```text\n%s\n```\n", line, strings.TrimSpace(out))
	}
	return b.String()
}
