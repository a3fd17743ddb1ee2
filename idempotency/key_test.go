package idempotency_test

import (
	"strings"
	"testing"

	"github.com/effectonce/effectonce/idempotency"
)

// S12.1
func TestParseKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 256)
	for _, tt := range []struct{ name, value, want string }{
		{"the draft's example", `"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"bare", `8e03978e-40d5-43e8-bc93-6894a57f9324`, "8e03978e-40d5-43e8-bc93-6894a57f9324"},
		{"white space around it", " \t\"a\" ", "a"},
		{"space inside", `"order 7"`, "order 7"},
		{"escapes", `"a\"b\\c"`, `a"b\c`},
		{"parameters", `"a";v=1;q="x;\"y";z;t=tok/en;b=?1;d=@1700000000`, "a"},
		{"space before a parameter", `"a"; v=1`, "a"},
		{"comma inside", `"a,b"`, "a,b"},
		{"base64", `aGVsbG8=/+`, "aGVsbG8=/+"},
		{"as long as can be", long[:255], long[:255]},
		{"nothing", ``, ""},
		{"empty string", `""`, ""},
		{"only a space", `" "`, ""},
		{"space at the end", `"a "`, ""},
		{"no closing quote", `"a`, ""},
		{"only a quote", `"`, ""},
		{"a backslash at the end", `"a\`, ""},
		{"an unknown escape", `"a\n"`, ""},
		{"text after the quote", `"a"b`, ""},
		{"two in one header", `"a", "b"`, ""},
		{"two bare ones in one header", `a, b`, ""},
		{"a parameter without a name", `"a";`, ""},
		{"a parameter without a value", `"a";v=`, ""},
		{"an upper-case parameter", `"a";V=1`, ""},
		{"a parameter with an open string", `"a";v="x`, ""},
		{"bare with space", `a b`, ""},
		{"bare with parameters", `a;v=1`, ""},
		{"bare with a quote", `a"b`, ""},
		{"control character", "\"a\x01b\"", ""},
		{"line break", "a\nb", ""},
		{"not ASCII", `"é"`, ""},
		{"bare, not ASCII", "cl\u00e9", ""},
		{"too long", long, ""},
		{"too long in quotes", `"` + long + `"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := idempotency.ParseKey(tt.value, 255)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("ParseKey(%q) = %q, %v; want %q", tt.value, got, err, tt.want)
			}
		})
	}
}

// FuzzParseKey: what is accepted is printable ASCII within its length, and has one quoted form, which means the same.
func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`"a"`, `a`, `"a\"b";v=1;w="x"`, `"a`, `a,b`, "\"a\x00\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := idempotency.ParseKey(value, 64)
		if err != nil {
			if key != "" {
				t.Fatalf("%q with an error", key)
			}
			return
		}
		if key == "" || len(key) > 64 || strings.Trim(key, " ") != key {
			t.Fatalf("%q is accepted as %q", value, key)
		}
		for _, c := range []byte(key) {
			if c < ' ' || c > '~' {
				t.Fatalf("%q is accepted as %q", value, key)
			}
		}
		quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		if again, err := idempotency.ParseKey(quoted, 64); err != nil || again != key {
			t.Fatalf("%q became %q, %v", key, again, err)
		}
	})
}
