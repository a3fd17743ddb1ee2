package contract

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// The reference names every field of the file, and the example in it is a contract.
func TestReadme(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	_, example, _ := strings.Cut(text, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := Parse("README.md", []byte(example)); err != nil {
		t.Error(err)
	}
	for _, name := range append(fieldNames(reflect.TypeFor[fileContract]()), settingNames...) {
		if !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
			t.Errorf("%s is not in README.md", name)
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
		if tag := t.Field(i).Tag.Get("yaml"); tag != "" {
			names = append(append(names, tag), fieldNames(t.Field(i).Type)...)
		}
	}
	return names
}
