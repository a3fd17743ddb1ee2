package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/effectonce/effectonce"

// required returns the modules that go.mod names.
func required(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, m := range regexp.MustCompile(`(?m)^(?:\t|require )(\S+) v\S+`).FindAllStringSubmatch(string(data), -1) {
		modules = append(modules, m[1])
	}
	return modules
}

// imported returns the modules that the program and its tests import directly, with "program" or "tests".
func imported(t *testing.T) map[string]string {
	t.Helper()
	modules := required(t)
	used := make(map[string]string)
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if name != ".." && strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != ".." {
				return filepath.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if !strings.Contains(strings.Split(path, "/")[0], ".") || path == module || strings.HasPrefix(path, module+"/") {
				continue
			}
			best := ""
			for _, m := range modules {
				if (path == m || strings.HasPrefix(path, m+"/")) && len(m) > len(best) {
					best = m
				}
			}
			if best == "" {
				t.Errorf("%s imports %s, which no module of go.mod provides", p, path)
				continue
			}
			inTests := strings.HasSuffix(p, "_test.go") || strings.Contains(filepath.ToSlash(p), "store/storetest/")
			if !inTests {
				used[best] = "program"
			} else if used[best] == "" {
				used[best] = "tests"
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// TestEachDependencyHasAReason compares the table of dependencies.md with what is imported.
func TestEachDependencyHasAReason(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\| (\S+\.\S+/\S+|\S+\.\S+) \| (program|tests) \| (.{10,}) \|$`).FindAllStringSubmatch(string(data), -1) {
		documented[m[1]] = m[2]
	}
	used := imported(t)
	for m, where := range used {
		if documented[m] != where {
			t.Errorf("dependencies.md says %q of %s, it is used in the %s: give one line of reason", documented[m], m, where)
		}
	}
	for m := range documented {
		if used[m] == "" {
			t.Errorf("dependencies.md has %s, which nothing imports", m)
		}
	}
}
