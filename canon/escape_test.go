package canon

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// S3.3
func TestEscapeComponent(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                     "",
		"ORD-4711_a.b~c@x+y=z": "ORD-4711_a.b~c@x+y=z",
		"a:b":                  "a%3Ab",
		"a/b":                  "a%2Fb",
		"{a}":                  "%7Ba%7D",
		"100%":                 "100%25",
		"a%3Ab":                "a%253Ab",
		"a b\n\x00\x7f":        "a%20b%0A%00%7F",
		"müller-中-😀":           "müller-中-😀",
		"a\u00a0b":             "a%C2%A0b",
		"a\u202eb\u200b":       "a%E2%80%AEb%E2%80%8B",
		"\ufeffx":              "%EF%BB%BFx",
		"\U000E0041":           "%F3%A0%81%81",
		"\xff\xc3":             "%FF%C3",
		"\ufffd":               "\ufffd",
	} {
		if got := EscapeComponent(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestEscapeComponentHidesNothing(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.Is(unicode.Cs, r) {
			continue
		}
		invisible := unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zs, unicode.Zl, unicode.Zp)
		if escaped := EscapeComponent(string(r)) != string(r); invisible && !escaped {
			t.Errorf("%U is invisible and not escaped", r)
		}
	}
	for i, span := range escapedSpans {
		if span.last < span.first || (i > 0 && span.first <= escapedSpans[i-1].last) {
			t.Errorf("span %d is out of order", i)
		}
	}
}

func component(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("ab%:/{}-3A25F \u00e9")), 0, 6, -1),
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 5), func(b []byte) string { return string(b) }),
	).Draw(t, label)
}

// S3.3
func TestNoTwoTuplesGiveOneID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		literal := rapid.StringOfN(rapid.RuneFrom([]rune("ab%:/-")), 0, 4, -1)
		literals := rapid.SliceOfN(literal.Filter(Separates), 1, 3).Draw(t, "literals")
		head, tail := literal.Draw(t, "head"), literal.Draw(t, "tail")
		join := func(components []string) string {
			var b strings.Builder
			b.WriteString(head)
			for i, c := range components {
				if i > 0 {
					b.WriteString(literals[i-1])
				}
				b.WriteString(EscapeComponent(c))
			}
			b.WriteString(tail)
			return b.String()
		}
		first := make([]string, len(literals)+1)
		second := make([]string, len(literals)+1)
		same := true
		for i := range first {
			first[i] = component(t, "first")
			second[i] = first[i]
			if rapid.Bool().Draw(t, "differs") {
				second[i] = component(t, "second")
			}
			same = same && first[i] == second[i]
		}
		if (join(first) == join(second)) != same {
			t.Fatalf("%q and %q give %q and %q", first, second, join(first), join(second))
		}
		for _, c := range first {
			escaped := EscapeComponent(c)
			if strings.ContainsAny(escaped, ":/{} ") {
				t.Fatalf("%q is escaped as %q", c, escaped)
			}
			if back, err := url.PathUnescape(escaped); err != nil || back != c {
				t.Fatalf("%q came back from %q as %q, %v", c, escaped, back, err)
			}
		}
	})
}

// S3.3
func TestComponent(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		in   any
		want any
	}{
		{"text", "ORD:4711", "ORD%3A4711"},
		{"integer", json.Number("4711.0"), "4711"},
		{"int", 4711, "4711"},
		{"true", true, "true"},
		{"false", false, "false"},
		{"missing", nil, refused(ProblemEmpty)},
		{"empty", "", refused(ProblemEmpty)},
		{"white space", " \u00a0", refused(ProblemEmpty)},
		{"no UTF-8", "\xff", refused(ProblemInvalidUTF8)},
		{"a fraction", json.Number("1.5"), refused(ProblemWrongType)},
		{"an unsafe integer", json.Number("9007199254740993"), refused(ProblemNumberUnsafe)},
		{"an array", []any{"a"}, refused(ProblemWrongType)},
		{"an object", map[string]any{}, refused(ProblemWrongType)},
	}
	for _, c := range cases {
		got, err := Component(c.in)
		if problem, ok := c.want.(refused); ok {
			if problemOf(err) != Problem(problem) || got != "" {
				t.Errorf("%s: got %q, %v", c.name, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestSeparates(t *testing.T) {
	t.Parallel()
	for literal, want := range map[string]bool{"": false, "-": false, "refund": false, ":": true, "/": true, "-x:": true} {
		if Separates(literal) != want {
			t.Errorf("%q: got %v", literal, !want)
		}
	}
}
