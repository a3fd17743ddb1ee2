package canon

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
)

func TestEncodeAcceptsGoValues(t *testing.T) {
	t.Parallel()
	got, err := Encode(map[string]any{
		"int": 480, "int64": int64(-9007199254740991), "float": 0.1, "number": json.Number("4.8e2"), "zero": math.Copysign(0, -1),
		"nil": nil, "bool": false, "any": []any{"x", 1}, "strings": []string{"b", "a"}, "map": map[string]string{"b": "2", "a": "1"},
		"nil list": []any(nil), "nil map": map[string]any(nil),
	})
	want := `{"any":["x",1],"bool":false,"float":0.1,"int":480,"int64":-9007199254740991,"map":{"a":"1","b":"2"},` +
		`"nil":null,"nil list":[],"nil map":{},"number":480,"strings":["b","a"],"zero":0}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
}

// S4.4
func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	cyclic := []any{nil}
	cyclic[0] = cyclic
	cases := []struct {
		name    string
		value   any
		problem Problem
	}{
		{"an int beyond 2^53-1", 1 << 53, ProblemNumberUnsafe},
		{"an int64 beyond 2^53-1", int64(math.MinInt64), ProblemNumberUnsafe},
		{"a double beyond 2^53-1", 1e30, ProblemNumberUnsafe},
		{"NaN", math.NaN(), ProblemNumberNotFinite},
		{"an infinity", math.Inf(-1), ProblemNumberNotFinite},
		{"a literal that only Go reads, hexadecimal", json.Number("0x1p4"), ProblemSyntax},
		{"a literal that only Go reads, Inf", json.Number("Inf"), ProblemSyntax},
		{"a literal that only Go reads, underscore", json.Number("1_0"), ProblemSyntax},
		{"an empty literal", json.Number(""), ProblemSyntax},
		{"an exponent that overflows 64 bits", json.Number("1e-99999999999999999999"), ProblemNumberUnsafe},
		{"a string that is no UTF-8", "\xff", ProblemInvalidUTF8},
		{"a name that is no UTF-8", map[string]any{"\xff": 1}, ProblemInvalidUTF8},
		{"an unknown type", struct{}{}, ProblemWrongType},
		{"a map with other keys", map[int]any{1: 1}, ProblemWrongType},
		{"a value that contains itself", cyclic, ProblemTooDeep},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := Encode([]any{c.value})
			if problemOf(err) != c.problem || got != nil {
				t.Errorf("got %s, %v, want %q", got, err, c.problem)
			}
			if digest, err := Sum(c.value); err == nil || !digest.IsZero() {
				t.Errorf("Sum gave %s, %v", digest, err)
			}
		})
	}
}

func TestDigestText(t *testing.T) {
	t.Parallel()
	digest, err := Sum(map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
	if digest.String() != want || digest.IsZero() {
		t.Errorf("got %s", digest)
	}
	text, err := json.Marshal(map[string]Digest{"digest": digest})
	if err != nil || string(text) != `{"digest":"`+want+`"}` {
		t.Errorf("marshalled to %s, %v", text, err)
	}
	var back struct{ Digest Digest }
	if err := json.Unmarshal(text, &back); err != nil || back.Digest != digest {
		t.Errorf("came back as %s, %v", back.Digest, err)
	}
	for _, bad := range []string{"", want[1:], want + "0", "X" + want[1:], "A" + want[1:], " " + want[1:]} {
		if d, err := ParseDigest(bad); problemOf(err) != ProblemSyntax || !d.IsZero() {
			t.Errorf("%q gave %s, %v", bad, d, err)
		}
		kept := digest
		if err := kept.UnmarshalText([]byte(bad)); err == nil || kept != digest {
			t.Errorf("%q changed a digest to %s, %v", bad, kept, err)
		}
	}
}

func TestWithinPutsNamesBeforeAPath(t *testing.T) {
	t.Parallel()
	_, err := Encode(map[string]any{"id": 1 << 60})
	moved := Within("arguments", err)
	var e *Error
	if !errors.As(moved, &e) || e.Path != "/arguments/id" {
		t.Errorf("got %v", moved)
	}
	errors.As(err, &e)
	if e.Path != "/id" {
		t.Errorf("Within changed the error it was given: %v", err)
	}
	other := errors.New("other")
	if Within("x", other) != other || Within("x", nil) != nil {
		t.Error("Within changed another error")
	}
}
