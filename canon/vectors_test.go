package canon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// canonicalise decodes and encodes, as every caller does.
func canonicalise(data []byte) ([]byte, error) {
	v, err := Decode(data, Limits{})
	if err != nil {
		return nil, err
	}
	return Encode(v)
}

// encodePlain is RFC 8785 without the stricter rules about numbers.
func encodePlain(v any) ([]byte, error) {
	e := encoder{number: appendPlainNumber, double: appendDouble}
	return e.encode(v)
}

func problemOf(err error) Problem {
	var e *Error
	if errors.As(err, &e) {
		return e.Problem
	}
	return ""
}

func readFile(t *testing.T, elements ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type vectorFile struct {
	Canonical []struct{ Input, Output, SHA256 string }
	Refused   []struct {
		Input    string
		InputHex string `json:"input_hex"`
		Problem  Problem
	}
	Normalised []struct {
		Normaliser, Input, Output string
		Problem                   Problem
	}
}

func readVectors(t *testing.T) vectorFile {
	t.Helper()
	var file vectorFile
	if err := json.Unmarshal(readFile(t, "testdata", "vectors.json"), &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// S4.2
func TestVectorsThatHaveACanonicalForm(t *testing.T) {
	t.Parallel()
	for _, vector := range readVectors(t).Canonical {
		got, err := canonicalise([]byte(vector.Input))
		if err != nil {
			t.Errorf("%s: %v", vector.Input, err)
			continue
		}
		if string(got) != vector.Output {
			t.Errorf("%s: got %s, want %s", vector.Input, got, vector.Output)
		}
		v, err := Decode([]byte(vector.Input), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		digest, err := Sum(v)
		if err != nil || digest.String() != vector.SHA256 {
			t.Errorf("%s: digest %s (%v), want %s", vector.Input, digest, err, vector.SHA256)
		}
		if digest != sha256.Sum256(got) {
			t.Errorf("%s: Sum is not the SHA-256 of Encode", vector.Input)
		}
	}
}

// S3.3, S4.1
func TestVectorsOfNormalisers(t *testing.T) {
	t.Parallel()
	for _, vector := range readVectors(t).Normalised {
		n, err := ParseNormaliser(vector.Normaliser, "")
		if err != nil {
			t.Fatal(err)
		}
		v, err := Decode([]byte(vector.Input), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := n.Normalise(v)
		if problemOf(err) != vector.Problem {
			t.Errorf("%s of %s: %v, want %q", vector.Normaliser, vector.Input, err, vector.Problem)
		}
		if vector.Problem != "" {
			continue
		}
		if got, err := Encode(out); err != nil || string(got) != vector.Output {
			t.Errorf("%s of %s: got %s (%v), want %s", vector.Normaliser, vector.Input, got, err, vector.Output)
		}
	}
}

// S4.4
func TestVectorsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, vector := range readVectors(t).Refused {
		input := []byte(vector.Input)
		if vector.InputHex != "" {
			var err error
			if input, err = hex.DecodeString(vector.InputHex); err != nil {
				t.Fatal(err)
			}
		}
		got, err := canonicalise(input)
		if problemOf(err) != vector.Problem {
			t.Errorf("%q: got %s and %v (%q), want %q", input, got, err, problemOf(err), vector.Problem)
		}
		var e *Error
		if errors.As(err, &e) && (e.Remedy == "" || e.Detail == "") {
			t.Errorf("%q: the error has no detail or remedy: %v", input, err)
		}
	}
}

func TestPublishedDocumentsOfRFC8785(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"arrays", "french", "structures", "unicode", "values", "weird"} {
		input := readFile(t, "testdata", "rfc8785", name+".input.json")
		want := strings.TrimRight(string(readFile(t, "testdata", "rfc8785", name+".output.json")), "\r\n")
		v, err := Decode(input, Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := encodePlain(v)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s (%v), want %s", name, got, err, want)
		}
		strict, err := Encode(v)
		if name == "values" { // it has 1E30, which a double merges with other integers
			if problemOf(err) != ProblemNumberUnsafe {
				t.Errorf("values: Encode gave %s, %v", strict, err)
			}
			continue
		}
		if err != nil || string(strict) != want {
			t.Errorf("%s: Encode gave %s (%v), want %s", name, strict, err, want)
		}
	}
}

func TestPublishedNumbersOfRFC8785(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(string(readFile(t, "testdata", "rfc8785", "numbers.txt"))), "\n")
	for _, line := range lines {
		bits, want, _ := strings.Cut(line, " ")
		n, err := strconv.ParseUint(bits, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		f := math.Float64frombits(n)
		got, err := encodePlain(f)
		if want == "refused" {
			if problemOf(err) != ProblemNumberNotFinite {
				t.Errorf("%s: got %s, %v", bits, got, err)
			}
			if _, err := Encode(f); problemOf(err) != ProblemNumberNotFinite {
				t.Errorf("%s: Encode said %v", bits, err)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s (%v), want %s", bits, got, err, want)
		}
		// What is printed is read as the same double.
		if again, err := encodePlain(json.Number(want)); err != nil || string(again) != want {
			t.Errorf("%s: %s again became %s (%v)", bits, want, again, err)
		}
	}
	if len(lines) != 26 {
		t.Errorf("read %d of the table's 26 numbers", len(lines))
	}
}

// RFC 8785, section 3.2.3: the example of member order.
func TestPublishedMemberOrderOfRFC8785(t *testing.T) {
	t.Parallel()
	got, err := canonicalise([]byte(`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",` +
		`"1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`))
	if err != nil {
		t.Fatal(err)
	}
	at := -1
	for _, value := range []string{
		"Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis", "Euro Sign",
		"Emoji: Grinning Face", "Hebrew Letter Dalet With Dagesh",
	} {
		next := strings.Index(string(got), `"`+value+`"`)
		if next <= at {
			t.Errorf("%q is out of order in %s", value, got)
		}
		at = next
	}
}
