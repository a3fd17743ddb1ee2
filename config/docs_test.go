package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/contract"
)

// fieldsOf lists the paths of all fields of a form, maps under their placeholder names.
func fieldsOf(t reflect.Type, path string) []string {
	switch {
	case t == reflect.TypeFor[normalisers]():
		return fieldsOf(reflect.TypeFor[amountForm](), path+".amount")
	case t == reflect.TypeFor[lifetime]():
		return fieldsOf(reflect.TypeFor[identityForm](), path)
	case reflect.PointerTo(t).Implements(customType):
		return nil
	case t.Kind() == reflect.Pointer:
		return fieldsOf(t.Elem(), path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return fieldsOf(t.Elem(), path)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		name := ".NAME"
		if strings.HasSuffix(path, "arguments") {
			name = ".ARG"
		}
		return fieldsOf(t.Elem(), path+name)
	case t.Kind() != reflect.Struct:
		return nil
	}
	var fields []string
	for i := range t.NumField() {
		f := t.Field(i)
		at := strings.TrimPrefix(path+"."+f.Tag.Get("yaml"), ".")
		fields = append(fields, at)
		fields = append(fields, fieldsOf(f.Type, at)...)
	}
	return fields
}

func TestEveryFieldIsDocumentedAndNoOther(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z_.]+)` \\|[^|]+\\|[^|]*\\| [^|]+ \\|$").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, m[1])
	}
	fields := fieldsOf(reflect.TypeFor[fileForm](), "")
	if len(fields) < 70 {
		t.Fatalf("only %d fields: %v", len(fields), fields)
	}
	for _, f := range fields {
		if !slices.Contains(documented, f) {
			t.Errorf("docs/configuration.md does not describe %s", f)
		}
	}
	for _, d := range documented {
		if !slices.Contains(fields, d) {
			t.Errorf("docs/configuration.md describes %s, which does not exist", d)
		}
	}
	for _, word := range canon.NormaliserNames() {
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/configuration.md does not describe the normaliser %s", word)
		}
	}
	for _, name := range []string{"stripe/v1", "http/keyed", "http/lookup", "http/none"} {
		if _, err := contract.Load(name); err != nil || !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/configuration.md does not name the contract %s (%v)", name, err)
		}
	}
}
