package effectonce_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// requirement is a row of docs/requirements.md.
type requirement struct {
	number, text, status string
}

var (
	requirementRow = regexp.MustCompile(`^\| ((?:\d+(?:\.\d+a?)?)|I\d+) \| ([^|]+) \| (\w+) \|`)
	// citation matches S7.2, S7.5a, S17 and the invariants I1 to I11.
	citation = regexp.MustCompile(`\b(?:S(\d{1,2}(?:\.\d{1,2}a?)?)|(I(?:1[01]|[1-9])))\b`)
)

func requirements(t *testing.T) []requirement {
	t.Helper()
	data, err := os.ReadFile("docs/requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	var all []requirement
	for line := range strings.Lines(string(data)) {
		if m := requirementRow.FindStringSubmatch(line); m != nil {
			all = append(all, requirement{number: m[1], text: strings.TrimSpace(m[2]), status: m[3]})
		}
	}
	return all
}

// citations returns, for each number that a test cites, the test files that do.
func citations(t *testing.T) map[string][]string {
	t.Helper()
	cited := make(map[string][]string)
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		// The conformance suite is a test in files that are not named like one.
		suite := strings.HasPrefix(filepath.ToSlash(p), "store/storetest/") && strings.HasSuffix(p, ".go")
		if !suite && !strings.HasSuffix(p, "_test.go") || p == "speccoverage_test.go" {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, m := range citation.FindAllStringSubmatch(string(data), -1) {
			number := m[1] + m[2]
			if !slices.Contains(cited[number], p) {
				cited[number] = append(cited[number], p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return cited
}

// TestSpecCoverage compares what docs/requirements.md says is proved with what tests cite, and lists what nobody proves.
func TestSpecCoverage(t *testing.T) {
	t.Parallel()
	cited := citations(t)
	known := make(map[string]bool)
	var unproved []string
	for _, r := range requirements(t) {
		if known[r.number] {
			t.Errorf("docs/requirements.md: %s is there twice", r.number)
		}
		known[r.number] = true
		if section, _, ok := strings.Cut(r.number, "."); ok {
			known[section] = true
		}
		switch r.status {
		case "proved", "partly":
			if len(cited[r.number]) == 0 {
				t.Errorf("docs/requirements.md says that %s is %s (%s), and no test cites it", r.number, r.status, r.text)
			}
		case "later":
			unproved = append(unproved, r.number+" "+r.text)
		default:
			t.Errorf("docs/requirements.md: %s has the status %q: use proved, partly or later", r.number, r.status)
		}
	}
	if len(known) < 120 {
		t.Fatalf("docs/requirements.md: only %d requirements were read", len(known))
	}
	for _, number := range slices.Sorted(maps.Keys(cited)) {
		if !known[number] {
			t.Errorf("%s cite S%s, which is no requirement", strings.Join(cited[number], ", "), number)
		}
	}
	t.Logf("%d requirements are not proved in this version:\n\t%s", len(unproved), strings.Join(unproved, "\n\t"))
}
