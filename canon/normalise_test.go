package canon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// refused marks a table's expected problem.
type refused Problem

// S3.3, S4.1
func TestNormalisers(t *testing.T) {
	t.Parallel()
	number := func(s string) any { return json.Number(s) }
	cases := []struct {
		normaliser, arg string
		in, want        any
	}{
		{"trim", "", " A-1\t\n", "A-1"},
		{"trim", "", "\u00a0A 1\u2003", "A 1"},
		{"trim", "", number("1"), refused(ProblemWrongType)},
		{"trim", "", nil, refused(ProblemWrongType)},
		{"upper", "", "ord-é7", "ORD-É7"},
		{"lower", "", "ORD-É7", "ord-é7"},
		{"lower", "", []any{"A"}, refused(ProblemWrongType)},
		{"nfc", "", "e\u0301", "é"},
		{"nfc", "", number("1"), number("1")},
		{"nfkc", "", "Ｏ－８８１２", "O-8812"},
		{"nfkc", "", "ﬁ\u00a0①", "fi 1"},
		{"nfkc", "", "e\u0301", "é"},
		{"nfkc", "", "\u0421-1", "\u0421-1"},         // a Cyrillic letter is another letter
		{"nfkc", "", "O\u200b-8812", "O\u200b-8812"}, // what cannot be seen stays, for others to refuse
		{"nfkc", "", number("1"), refused(ProblemWrongType)},
		{"ascii", "", "O-8812 {~}", "O-8812 {~}"},
		{"ascii", "", "", ""},
		{"ascii", "", "\u041e-8812", refused(ProblemNotNormalisable)},
		{"ascii", "", "O\u200b-8812", refused(ProblemNotNormalisable)},
		{"ascii", "", "O\t8812", refused(ProblemNotNormalisable)},
		{"ascii", "", "O\x7f", refused(ProblemNotNormalisable)},
		{"ascii", "", nil, refused(ProblemWrongType)},
		{"digits", "", "ORD-0047 / 11", "004711"},
		{"digits", "", number("4711"), "4711"},
		{"digits", "", number("4.711e3"), "4711"},
		{"digits", "", number("-4711"), refused(ProblemNotNormalisable)},
		{"digits", "", number("47.11"), refused(ProblemWrongType)},
		{"digits", "", number("9007199254740993"), refused(ProblemNumberUnsafe)},
		{"digits", "", "none", refused(ProblemNotNormalisable)},
		{"digits", "", "47١١", refused(ProblemNotNormalisable)},
		{"digits", "", "47１", refused(ProblemNotNormalisable)},
		{"digits", "", "47²", refused(ProblemNotNormalisable)},
		{"digits", "", true, refused(ProblemWrongType)},
		{"digits", "", nil, refused(ProblemEmpty)},
		{"capture", `order-(\d+)`, "please refund order-4711, thanks", "4711"},
		{"capture", `order-(\d+)`, "order-4711 is order-4711", "4711"},
		{"capture", `order-(\d+)`, "order-4711 or order-4712", refused(ProblemNotNormalisable)},
		{"capture", `order-(\d+)`, "order 4711", refused(ProblemNotNormalisable)},
		{"capture", `order-(\d*)`, "order-", refused(ProblemNotNormalisable)},
		{"capture", `order-(\d*)`, "order-, order-1", refused(ProblemNotNormalisable)},
		{"capture", `^(?:ORD|order)-(\d+)$`, "ORD-1", "1"},
		{"capture", `(\d+)`, number("4711"), refused(ProblemWrongType)},
		{"text", "", "0047", "0047"},
		{"text", "", number("47.0"), "47"},
		{"text", "", number("-0"), "0"},
		{"text", "", number("47.5"), refused(ProblemWrongType)},
		{"text", "", number("9007199254740993"), refused(ProblemNumberUnsafe)},
		{"text", "", nil, refused(ProblemEmpty)},
		{"text", "", map[string]any{}, refused(ProblemWrongType)},
		{"integer", "", number("40"), number("40")},
		{"integer", "", number("4e1"), number("40")},
		{"integer", "", "40.0", number("40")},
		{"integer", "", "-040", number("-40")},
		{"integer", "", number("-0.0"), number("0")},
		{"integer", "", "40.5", refused(ProblemNotNormalisable)},
		{"integer", "", "9007199254740993", refused(ProblemNumberUnsafe)},
		{"integer", "", "", refused(ProblemEmpty)},
		{"integer", "", false, refused(ProblemWrongType)},
		{"decimal", "", number("9007199254740993"), "9007199254740993"},
		{"decimal", "", number("480.50"), "480.5"},
		{"decimal", "", number("4.8e2"), "480"},
		{"decimal", "", "0480.00", "480"},
		{"decimal", "", number("1e-7"), "0.0000001"},
		{"decimal", "", number("-0"), "0"},
		{"decimal", "", number("-1.5E+1"), "-15"},
		{"decimal", "", "1,5", refused(ProblemNotNormalisable)},
		{"decimal", "", "NaN", refused(ProblemNotNormalisable)},
		{"decimal", "", number("1e-300000"), refused(ProblemTooLarge)},
		{"decimal", "", strings.Repeat("9", 401), refused(ProblemTooLarge)},
		{"currency", "", "eur", "EUR"},
		{"currency", "", "euro", refused(ProblemUnknownCurrency)},
		{"time", "", "2026-11-30T14:00:00Z", "2026-11-30T14:00:00Z"},
		{"time", "", "2026-11-30T15:00:00+01:00", "2026-11-30T14:00:00Z"},
		{"time", "", "2026-11-30t14:00:00.000z", "2026-11-30T14:00:00Z"},
		{"time", "", "2026-11-30T14:00:00.120-00:00", "2026-11-30T14:00:00.12Z"},
		{"time", "", "2026-12-01T00:30:00.123456789000+10:30", "2026-11-30T14:00:00.123456789Z"},
		{"time", "", "2026-11-30T14:00:00.1234567891Z", refused(ProblemNotNormalisable)},
		{"time", "", "2026-11-30T14:00:00", refused(ProblemNotNormalisable)},
		{"time", "", "2026-11-30 14:00", refused(ProblemNotNormalisable)},
		{"time", "", "2026-11-30", refused(ProblemNotNormalisable)},
		{"time", "", "2026-11-30T14:00:00,5Z", refused(ProblemNotNormalisable)},
		{"time", "", "2026-11-30T4:00:00Z", refused(ProblemNotNormalisable)},
		{"time", "", "2026-11-30T14:00:00+24:00", refused(ProblemNotNormalisable)},
		{"time", "", "2026-11-30T14:00:60Z", refused(ProblemNotNormalisable)},
		{"time", "", "2026-02-30T14:00:00Z", refused(ProblemNotNormalisable)},
		{"time", "", "0000-01-01T00:00:00+01:00", refused(ProblemNotNormalisable)},
		{"time", "", "9999-12-31T23:59:59-01:00", refused(ProblemNotNormalisable)},
		{"time", "", "tomorrow", refused(ProblemNotNormalisable)},
		{"time", "", number("1764511200"), refused(ProblemWrongType)},
		{"date", "", "2026-11-30", "2026-11-30"},
		{"date", "", "2026-02-29", refused(ProblemNotNormalisable)},
		{"date", "", "2026-11-30T14:00:00Z", refused(ProblemNotNormalisable)},
		{"date", "", "30.11.2026", refused(ProblemNotNormalisable)},
	}
	for _, c := range cases {
		n, err := ParseNormaliser(c.normaliser, c.arg)
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.Normalise(c.in)
		if problem, ok := c.want.(refused); ok {
			if problemOf(err) != Problem(problem) || got != nil {
				t.Errorf("%s of %v: got %v, %v, want %q", n.Name(), c.in, got, err, problem)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s of %v: got %v, %v, want %v", n.Name(), c.in, got, err, c.want)
			continue
		}
		if again, err := n.Normalise(got); c.normaliser != "capture" && (err != nil || again != got) {
			t.Errorf("%s of its own %v: got %v, %v", n.Name(), got, again, err)
		}
	}
}

func TestParseNormaliserRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, arg string }{
		{"trimm", ""}, {"", ""}, {"Trim", ""}, {"trim", "x"},
		{"capture", ""}, {"capture", `\d+`}, {"capture", `(\d)(\d)`}, {"capture", `(`},
	} {
		if n, err := ParseNormaliser(c.name, c.arg); problemOf(err) != ProblemUnknownName || n != nil {
			t.Errorf("%s(%s): got %v, %v", c.name, c.arg, n, err)
		}
	}
	for _, name := range NormaliserNames() {
		arg := ""
		if name == "capture" {
			arg = "(x)"
		}
		n, err := ParseNormaliser(name, arg)
		if err != nil || !strings.HasPrefix(n.Name(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// S4.2
func TestDefault(t *testing.T) {
	t.Parallel()
	n := Default("EUR")
	for in, want := range map[any]any{nil: "EUR", "EUR": "EUR", "USD": "USD", "": "", false: false} {
		if got, err := n.Normalise(in); err != nil || got != want {
			t.Errorf("%v: got %v, %v", in, got, err)
		}
	}
}

// S4.1
func TestNFC(t *testing.T) {
	t.Parallel()
	decomposed := map[string]any{"cafe\u0301": []any{"A\u030a", json.Number("1"), nil, map[string]any{"x": "e\u0301"}}}
	got, err := NFC(decomposed)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"café": []any{"Å", json.Number("1"), nil, map[string]any{"x": "é"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, kept := decomposed["cafe\u0301"]; !kept {
		t.Error("NFC changed its input")
	}
	before, err1 := Sum(decomposed)
	after, err2 := Sum(got)
	if err1 != nil || err2 != nil || before == after {
		t.Error("Encode must not normalise by itself")
	}
	_, err = NFC(map[string]any{"a": []any{map[string]any{"é": 1, "e\u0301": 2}}})
	if problemOf(err) != ProblemDuplicateName || !strings.HasPrefix(err.Error(), "/a/0/é") {
		t.Errorf("names that become equal: %v", err)
	}
	deep := any("x")
	for range depthMax + 1 {
		deep = []any{deep}
	}
	if _, err := NFC(deep); problemOf(err) != ProblemTooDeep {
		t.Errorf("a deep value: %v", err)
	}
}

// S3.3: whoever is refused is told which character it was.
func TestASCIINamesTheCharacter(t *testing.T) {
	t.Parallel()
	n, err := ParseNormaliser("ascii", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Normalise("ticket \u0422-1"); err == nil || !strings.Contains(err.Error(), "U+0422") {
		t.Errorf("got %v", err)
	}
}
