package canon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gowebpki/jcs"
)

func seed(f *testing.F) {
	inputs, err := filepath.Glob(filepath.Join("testdata", "rfc8785", "*.input.json"))
	if err != nil || len(inputs) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, input := range inputs {
		data, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{
		``, `{"a":1,"\u0061":2}`, `"\ud800"`, `1e400`, `[9007199254740993]`, `[-0.0,1E-7,480.50]`, "\"\xff\"", `{"😀":1,"ﬃ":2}`,
		`[[[[[[[[]]]]]]]]`, `0.1000000000000000055511151231257827021181583404541015625`, `"e` + "\u0301" + `"`,
	} {
		f.Add([]byte(text))
	}
}

// What is read and has a canonical form is one, and stays what it is when it is read again.
func FuzzDecode(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data, Limits{})
		if err != nil {
			requireError(t, err)
			return
		}
		once, err := Encode(v)
		if err != nil {
			requireError(t, err)
			return
		}
		again, err := Decode(once, Limits{Bytes: len(once) + 1})
		if err != nil {
			t.Fatalf("%q became %q, which is refused: %v", data, once, err)
		}
		twice, err := Encode(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q became %q and then %q (%v)", data, once, twice, err)
		}
		normal, err := NFC(v)
		if err != nil {
			requireError(t, err)
			return
		}
		if _, err := Sum(normal); err != nil {
			t.Fatalf("%q has no digest in NFC: %v", data, err)
		}
	})
}

func requireError(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Problem == "" || e.Detail == "" || e.Remedy == "" {
		t.Fatalf("%#v says too little", err)
	}
}

// Where this package accepts a document, another implementation accepts it too and writes the same bytes.
func FuzzEncodeAgainstJCS(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data, Limits{})
		if err != nil {
			return
		}
		plain, err := encodePlain(v)
		if err != nil {
			t.Fatalf("%q has no RFC 8785 form: %v", data, err)
		}
		want, jcsErr := jcs.Transform(data)
		if jcsErr != nil {
			return // its limits are its own
		}
		if !bytes.Equal(plain, want) {
			t.Fatalf("%q became %q, and %q with jcs", data, plain, want)
		}
		if strict, err := Encode(v); err == nil && !bytes.Equal(strict, want) {
			t.Fatalf("%q became %q, and %q with jcs", data, strict, want)
		}
	})
}

func FuzzParseAmount(f *testing.F) {
	for _, s := range []string{"480", "480.00", "-0.01", "1,480", "", "00480.5", ".5", "92233720368547758.08"} {
		f.Add(s, "EUR")
	}
	f.Add("1", "JPY")
	f.Add("1.0001", "CLF")
	f.Fuzz(func(t *testing.T, value, currency string) {
		amount, err := ParseAmount(value, currency, UnitMajor)
		if err != nil {
			requireError(t, err)
			return
		}
		again, err := ParseAmount(amount.Decimal(), amount.Currency, UnitMajor)
		if err != nil || again != amount {
			t.Fatalf("%q %q: %+v came back as %+v, %v", value, currency, amount, again, err)
		}
	})
}

func FuzzNormaliseTime(f *testing.F) {
	for _, s := range []string{"2026-11-30T14:00:00Z", "2026-11-30t14:00:00.120+01:00", "2026-11-30", "0000-01-01T00:00:00+00:01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, err := instant(s)
		if err != nil {
			requireError(t, err)
			return
		}
		if twice, err := instant(once.(string)); err != nil || twice != once {
			t.Fatalf("%q became %v and then %v, %v", s, once, twice, err)
		}
	})
}
