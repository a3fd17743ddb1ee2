package contract

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The guide names every field of the file and every built-in contract, and the example in it is a contract.
func TestGuide(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../docs/contracts.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	_, example, _ := strings.Cut(text, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := Parse("contracts.md", []byte(example)); err != nil {
		t.Error(err)
	}
	for _, name := range append(fieldNames(reflect.TypeFor[fileContract]()), settingNames...) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
			t.Errorf("%s is not in docs/contracts.md", name)
		}
	}
	for _, c := range Builtin() {
		if !strings.Contains(text, "\n| `"+c.Name+"` |") {
			t.Errorf("docs/contracts.md does not list the contract %s", c.Name)
		}
	}
}

func fieldNames(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			names = append(names, fieldNames(f.Type)...)
		} else if tag := f.Tag.Get("yaml"); tag != "" {
			names = append(append(names, tag), fieldNames(f.Type)...)
		}
	}
	return names
}
