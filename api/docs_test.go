package api

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

var update = flag.Bool("update", false, "write the generated documents")

// docs/errors.md says what the registry says.
func TestErrorsDocument(t *testing.T) {
	t.Parallel()
	const path = "../docs/errors.md"
	var b strings.Builder
	b.WriteString("# Error codes\n\n" +
		"Made from the registry in `errors.go` by `go test ./api -run TestErrorsDocument -update`. Codes are the same in the library, the API's problem\n" +
		"documents, the command line's JSON and logs. `next` is what an agent should do. Codes with a status below 300 say how an operation\n" +
		"stands: the API then answers with the operation and not with a problem.\n\n" +
		"| code | HTTP | next | exit | what it means |\n|---|---|---|---|---|\n")
	for _, k := range effectonce.Registry {
		fmt.Fprintf(&b, "| `%s` | %d | `%s` | %d | **%s.** %s |\n", k.Code, k.Status, k.Next, k.Exit, k.Title, k.Help)
	}
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != b.String() {
		t.Errorf("docs/errors.md is out of date (%v): run go test ./api -run TestErrorsDocument -update", err)
	}
}

var (
	example = regexp.MustCompile("(?s)```sh\n(.*?)\n```\n+```json\n(.*?)\n```")
	curl    = regexp.MustCompile(`(?m)^curl -s '?http://127\.0\.0\.1:7171([^' ]+)'?(?: -H 'Content-Type: application/json' -d '(.*)')?$`)
)

// Every example of docs/api.md is sent, in their order and to a daemon without configuration, and the answer compared.
func TestExamplesOfTheDocumentAreTrue(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, nil)
	f.server.tools = nil
	examples := example.FindAllStringSubmatch(string(doc), -1)
	if n := strings.Count(string(doc), "curl -s"); n != len(examples) || n == 0 {
		t.Fatalf("%d examples, %d of them with an answer", n, len(examples))
	}
	key := ""
	for _, e := range examples {
		if strings.Contains(e[1], "two minutes later") {
			f.later(2 * time.Minute)
		}
		m := curl.FindStringSubmatch(e[1])
		if m == nil {
			t.Fatalf("not understood: %s", e[1])
		}
		method := "GET"
		if m[2] != "" {
			method = "POST"
		}
		a := f.send(method, strings.ReplaceAll(m[1], "$KEY", key), strings.ReplaceAll(m[2], "'$KEY'", key))
		if k, ok := a.get("key").(string); ok && k != "" && !strings.HasSuffix(m[1], "/explain") {
			key = k
		}
		var want any
		if err := json.Unmarshal([]byte(e[2]), &want); err != nil {
			t.Fatalf("%s: %v", e[2], err)
		}
		if err := covers(want, any(a.body)); err != nil {
			t.Errorf("%s\nanswers %s\nbut %v", e[1], a.raw, err)
		}
	}
}

// covers reports where got lacks something of want. A text of one … stands for any.
func covers(want, got any) error {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for name, v := range w {
			if err := covers(v, g[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return fmt.Errorf("%d elements, want %d", len(g), len(w))
		}
		for i := range w {
			if err := covers(w[i], g[i]); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	default:
		if w == "…" && got != nil || w == got {
			return nil
		}
		return fmt.Errorf("%v, want %v", got, w)
	}
	return nil
}
