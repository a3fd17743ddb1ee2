package canon

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeKeepsNumbersAsWritten(t *testing.T) {
	t.Parallel()
	got, err := Decode([]byte(` {"id": 9007199254740993, "amount": 480.00, "list": [1e2, -0, null, true, "\u00e9"], "empty": {}} `), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"id":     json.Number("9007199254740993"),
		"amount": json.Number("480.00"),
		"list":   []any{json.Number("1e2"), json.Number("-0"), nil, true, "é"},
		"empty":  map[string]any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// S4.4
func TestErrorsPointAtThePlaceAndNameTheRemedy(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, input, path string
		problem           Problem
	}{
		{"duplicate in an element", `{"lines":[{"k":1},{"k":1,"k":2}]}`, "/lines/1/k", ProblemDuplicateName},
		{"slash and tilde in a name", `{"a/b~c":{"x":1e400}}`, "/a~1b~0c/x", ProblemNumberNotFinite},
		{"unsafe integer", `{"order":{"id":9007199254740993}}`, "/order/id", ProblemNumberUnsafe},
		{"unsafe element", `[1,[2,1e30]]`, "/1/1", ProblemNumberUnsafe},
		{"lone surrogate", `{"to":["\ud800"]}`, "/to/0", ProblemLoneSurrogate},
		{"syntax in a member", `{"a":{"b":tru}}`, "/a/b", ProblemSyntax},
		{"whole document", `1 1`, "", ProblemSyntax},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := canonicalise([]byte(c.input))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if e.Path != c.path || e.Problem != c.problem {
				t.Errorf("got %q %q, want %q %q", e.Path, e.Problem, c.path, c.problem)
			}
			if !strings.Contains(err.Error(), e.Remedy) || !strings.Contains(err.Error(), e.Path) {
				t.Errorf("%q lacks path or remedy", err)
			}
		})
	}
}

func TestErrorsCannotForgeALogLineOrFillIt(t *testing.T) {
	t.Parallel()
	_, err := Decode([]byte(`{"a\nlevel=info ok\u202e":1e400}`), Limits{})
	if text := err.Error(); strings.ContainsAny(text, "\n\u202e") {
		t.Errorf("%q has control characters", text)
	}
	long := strings.Repeat("n", 100_000)
	_, err = Decode([]byte(`{"`+long+`":1e400}`), Limits{})
	if len(err.Error()) > 1000 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
	_, err = canonicalise([]byte(`{"card":"4242424242424242" x`))
	if strings.Contains(err.Error(), "4242") {
		t.Errorf("%q shows a value", err)
	}
}

// S4.4
func TestLimits(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	cases := []struct {
		name, input string
		limits      Limits
		problem     Problem
	}{
		{"default depth reached", nested(64), Limits{}, ""},
		{"default depth passed", nested(65), Limits{}, ProblemTooDeep},
		{"objects count for depth", `{"a":{"a":{}}}`, Limits{Depth: 2}, ProblemTooDeep},
		{"scalars do not count for depth", `[[1]]`, Limits{Depth: 2}, ""},
		{"deepest depth reached", nested(1000), Limits{Depth: 1 << 30}, ""},
		{"deepest depth passed", nested(1001), Limits{Depth: 1 << 30}, ProblemTooDeep},
		{"unclosed and deep", strings.Repeat("[", 1<<20), Limits{Depth: 1 << 30}, ProblemTooDeep},
		{"bytes reached", `"1234"`, Limits{Bytes: 6}, ""},
		{"bytes passed", `"12345"`, Limits{Bytes: 6}, ProblemTooLarge},
		{"default bytes passed", `"` + strings.Repeat("x", 1<<20) + `"`, Limits{}, ProblemTooLarge},
		{"members reached", `{"a":[1,2]}`, Limits{Members: 3}, ""},
		{"members passed", `{"a":[1,2,3]}`, Limits{Members: 3}, ProblemTooLarge},
		{"default members passed", "[" + strings.Repeat("0,", 100_000) + "0]", Limits{}, ProblemTooLarge},
		{"negative limits are defaults", `[1]`, Limits{Bytes: -1, Depth: -1, Members: -1}, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Decode([]byte(c.input), c.limits)
			if problemOf(err) != c.problem || (c.problem == "" && err != nil) {
				t.Errorf("got %v, want %q", err, c.problem)
			}
		})
	}
}
