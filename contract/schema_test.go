package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// S14.5: the published schema is the loader's. To write it anew: UPDATE_SCHEMA=1 go test ./contract -run TestSchemaIsPublished
func TestSchemaIsPublished(t *testing.T) {
	t.Parallel()
	const file = "../docs/contract.schema.json"
	if os.Getenv("UPDATE_SCHEMA") != "" {
		if err := os.WriteFile(file, Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(published) != string(Schema()) {
		t.Errorf("%s is not what the loader reads; see the comment of this test", file)
	}
}

// Every built-in contract is valid by the schema, and what the schema refuses the loader refuses too.
func TestSchemaAndLoaderAgree(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("providers")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile("providers/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if problems := validate(schema, plain(t, data), ""); len(problems) > 0 {
			t.Errorf("%s: %s", f.Name(), strings.Join(problems, "; "))
		}
	}
	for name, replace := range map[string][2]string{
		"an unknown field":    {"reference: id\n    look", "referense: id\n    look"},
		"a word there is not": {"kind: cursor", "kind: cursors"},
		"no operations":       {"operations:", "requests: []\nx:"},
		"no verdict":          {"verdict: succeeded, ", ""},
		"a wrong grade":       {"grade: official", "grade: good"},
		"a wrong duration":    {"24h", "a day"},
		"a wrong place":       {"in: header", "in: head"},
		"a wrong type":        {"length_max: 40", "length_max: long"},
	} {
		text := strings.Replace(small, replace[0], replace[1], 1)
		if problems := validate(schema, plain(t, []byte(text)), ""); len(problems) == 0 {
			t.Errorf("%s: the schema accepts it", name)
		}
		var refused Problems
		if _, err := Parse("x.yaml", []byte(text)); !errors.As(err, &refused) {
			t.Errorf("%s: the loader accepts it", name)
		}
	}
}

func plain(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// validate checks the keywords that Schema uses.
func validate(schema map[string]any, v any, at string) []string {
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, at+": "+fmt.Sprintf(format, args...)) }
	if alternatives, ok := schema["oneOf"].([]any); ok {
		for _, a := range alternatives {
			if len(validate(a.(map[string]any), v, at)) == 0 {
				return nil
			}
		}
		return []string{at + ": is none of the alternatives"}
	}
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, v) {
		add("%v is not one of %v", v, words)
	}
	switch schema["type"] {
	case "string":
		s, ok := v.(string)
		if !ok {
			add("%v is no text", v)
			break
		}
		if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(s) {
			add("%q does not fit %s", s, pattern)
		}
	case "integer":
		if n, ok := v.(float64); !ok || n != float64(int(n)) || n < 0 {
			add("%v is no whole number", v)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			add("%v is neither true nor false", v)
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			add("is no list")
		}
		for i, item := range list {
			problems = append(problems, validate(schema["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case "object":
		object, ok := v.(map[string]any)
		if !ok {
			add("is no object")
		}
		if required, ok := schema["required"].([]any); ok {
			for _, name := range required {
				if _, there := object[name.(string)]; !there {
					add("%s is missing", name)
				}
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, child := range object {
			where := strings.TrimPrefix(at+"."+name, ".")
			if p, ok := properties[name].(map[string]any); ok {
				problems = append(problems, validate(p, child, where)...)
				continue
			}
			switch more := schema["additionalProperties"].(type) {
			case bool:
				add("%s is not a field", name)
			case map[string]any:
				problems = append(problems, validate(more, child, where)...)
			}
		}
	}
	return problems
}
