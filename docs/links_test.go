package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// pages returns every Markdown file of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name != ".." && strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(p, ".md") {
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// anchors returns the anchors of a page's headings, as they are made for the web.
func anchors(page string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(page, -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(m[1]))] = true
	}
	return found
}

// TestLinksLeadSomewhere follows each relative link of each page, to the file and to the heading.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// f[T](x) in a program is a call.
	program := regexp.MustCompile("(?ms)^```.*?^```")
	for _, page := range pages(t) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(program.ReplaceAllString(string(data), ""), -1) {
			target := m[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), filepath.FromSlash(file))
			}
			there, err := os.ReadFile(to)
			if err != nil {
				if info, statErr := os.Stat(to); statErr != nil || !info.IsDir() {
					t.Errorf("%s links to %s, which is not there", page, target)
				}
				continue
			}
			if anchor != "" && !anchors(string(there))[anchor] {
				t.Errorf("%s links to %s: there is no such heading", page, target)
			}
		}
	}
}

// TestDecisionsAreListed: each decision is in the list, and is short.
func TestDecisionsAreListed(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("adr/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if !strings.Contains(string(list), "("+filepath.Base(f)+")") {
			t.Errorf("%s is not listed in adr/README.md", f)
		}
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(data), "\n"); n > 25 {
			t.Errorf("%s has %d lines: a decision is told in about ten", f, n)
		}
	}
}
