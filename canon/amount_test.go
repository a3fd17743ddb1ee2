package canon

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

// S4.1, S4.2
func TestParseAmount(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		value    any
		currency string
		unit     AmountUnit
		minor    int64
		decimal  string
	}{
		{"whole number", json.Number("480"), "EUR", UnitMajor, 48000, "480.00"},
		{"two digits", json.Number("480.00"), "EUR", UnitMajor, 48000, "480.00"},
		{"exponent", json.Number("4.8e2"), "EUR", UnitMajor, 48000, "480.00"},
		{"string", "480", "EUR", UnitMajor, 48000, "480.00"},
		{"string with one digit", "480.0", "EUR", UnitMajor, 48000, "480.00"},
		{"string with zeros beyond the exponent", "480.000", "EUR", UnitMajor, 48000, "480.00"},
		{"string with leading zeros", "00480.50", "EUR", UnitMajor, 48050, "480.50"},
		{"int", 480, "EUR", UnitMajor, 48000, "480.00"},
		{"int64", int64(480), "EUR", UnitMajor, 48000, "480.00"},
		{"float64", 480.1, "EUR", UnitMajor, 48010, "480.10"},
		{"minor number", json.Number("48000"), "EUR", UnitMinor, 48000, "480.00"},
		{"minor string", "48000", "EUR", UnitMinor, 48000, "480.00"},
		{"minor with zeros", json.Number("48000.0"), "EUR", UnitMinor, 48000, "480.00"},
		{"yen have no decimals", "480", "JPY", UnitMajor, 480, "480"},
		{"yen with zeros", "480.00", "JPY", UnitMajor, 480, "480"},
		{"yen minor", "480", "JPY", UnitMinor, 480, "480"},
		{"Kuwaiti dinar", "4.8", "KWD", UnitMajor, 4800, "4.800"},
		{"Bahraini dinar", "0.001", "BHD", UnitMajor, 1, "0.001"},
		{"unidad de fomento", "1.0001", "CLF", UnitMajor, 10001, "1.0001"},
		{"currency in lower case", "1", "eur", UnitMajor, 100, "1.00"},
		{"one cent", "0.01", "EUR", UnitMajor, 1, "0.01"},
		{"negative", "-480.5", "EUR", UnitMajor, -48050, "-480.50"},
		{"negative cent", json.Number("-0.01"), "EUR", UnitMajor, -1, "-0.01"},
		{"zero", json.Number("0"), "EUR", UnitMajor, 0, "0.00"},
		{"negative zero", json.Number("-0.00"), "EUR", UnitMajor, 0, "0.00"},
		{"beyond a double", "90071992547409.93", "EUR", UnitMajor, 9007199254740993, "90071992547409.93"},
		{"largest", "92233720368547758.07", "EUR", UnitMajor, math.MaxInt64, "92233720368547758.07"},
		{"smallest", json.Number("-9223372036854775808"), "EUR", UnitMinor, math.MinInt64, "-92233720368547758.08"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseAmount(c.value, c.currency, c.unit)
			if err != nil {
				t.Fatal(err)
			}
			if got.Minor != c.minor || got.Decimal() != c.decimal || got.Currency != strings.ToUpper(c.currency) {
				t.Errorf("got %+v, %s, want %d, %s", got, got.Decimal(), c.minor, c.decimal)
			}
			// What is written is read as the same amount.
			if again, err := ParseAmount(got.Decimal(), c.currency, UnitMajor); err != nil || again != got {
				t.Errorf("%s came back as %+v, %v", got.Decimal(), again, err)
			}
		})
	}
}

// S4.1, S4.4
func TestParseAmountRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		value    any
		currency string
		unit     AmountUnit
		problem  Problem
	}{
		{"a third digit of a euro", "480.005", "EUR", UnitMajor, ProblemNotNormalisable},
		{"a third digit of a euro as a number", json.Number("480.005"), "EUR", UnitMajor, ProblemNotNormalisable},
		{"a tenth of a yen", "480.5", "JPY", UnitMajor, ProblemNotNormalisable},
		{"half a minor unit", "0.5", "EUR", UnitMinor, ProblemNotNormalisable},
		{"a sum of doubles", math.Nextafter(0.3, 1), "EUR", UnitMajor, ProblemNotNormalisable},
		{"grouping with commas", "1,480.00", "EUR", UnitMajor, ProblemNotNormalisable},
		{"grouping with points", "1.480.00", "EUR", UnitMajor, ProblemNotNormalisable},
		{"a decimal comma", "480,00", "EUR", UnitMajor, ProblemNotNormalisable},
		{"grouping with spaces", "1 480", "EUR", UnitMajor, ProblemNotNormalisable},
		{"a currency sign", "€480", "EUR", UnitMajor, ProblemNotNormalisable},
		{"a currency word", "480 EUR", "EUR", UnitMajor, ProblemNotNormalisable},
		{"an exponent in a string", "4.8e2", "EUR", UnitMajor, ProblemNotNormalisable},
		{"white space", " 480", "EUR", UnitMajor, ProblemNotNormalisable},
		{"a plus sign", "+480", "EUR", UnitMajor, ProblemNotNormalisable},
		{"two minus signs", "--480", "EUR", UnitMajor, ProblemNotNormalisable},
		{"a minus alone", "-", "EUR", UnitMajor, ProblemNotNormalisable},
		{"accounting parentheses", "(480)", "EUR", UnitMajor, ProblemNotNormalisable},
		{"no digit before the point", ".50", "EUR", UnitMajor, ProblemNotNormalisable},
		{"no digit after the point", "480.", "EUR", UnitMajor, ProblemNotNormalisable},
		{"digits of another script", "٤٨٠", "EUR", UnitMajor, ProblemNotNormalisable},
		{"words", "all of it", "EUR", UnitMajor, ProblemNotNormalisable},
		{"the empty string", "", "EUR", UnitMajor, ProblemEmpty},
		{"null", nil, "EUR", UnitMajor, ProblemEmpty},
		{"a boolean", true, "EUR", UnitMajor, ProblemWrongType},
		{"an object", map[string]any{}, "EUR", UnitMajor, ProblemWrongType},
		{"NaN", math.NaN(), "EUR", UnitMajor, ProblemNumberNotFinite},
		{"one more than 64 bits", "92233720368547758.08", "EUR", UnitMajor, ProblemTooLarge},
		{"a huge exponent", json.Number("1e300"), "EUR", UnitMajor, ProblemTooLarge},
		{"a longer exponent than anything", json.Number("1e99999999999999999999"), "EUR", UnitMajor, ProblemTooLarge},
		{"an unknown currency", "1", "EURO", UnitMajor, ProblemUnknownCurrency},
		{"no currency", "1", "", UnitMajor, ProblemUnknownCurrency},
		{"gold", "1", "XAU", UnitMajor, ProblemUnknownCurrency},
		{"a letter that only looks like I", "1", "ıdr", UnitMajor, ProblemUnknownCurrency},
		{"no unit", "1", "EUR", "", ProblemUnknownName},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseAmount(c.value, c.currency, c.unit)
			if problemOf(err) != c.problem || got != (AmountValue{}) {
				t.Errorf("got %+v, %v, want %q", got, err, c.problem)
			}
		})
	}
}

// S4.1, S4.2
func TestAmountsInAFingerprint(t *testing.T) {
	t.Parallel()
	digest := func(value any, currency string, unit AmountUnit) Digest {
		amount, err := ParseAmount(value, currency, unit)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Sum(amount.Canonical())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := digest("480", "EUR", UnitMajor)
	if digest(json.Number("48000"), "eur", UnitMinor) != want || digest(json.Number("480.00"), "EUR", UnitMajor) != want {
		t.Error("two spellings of one amount differ")
	}
	if digest("480.01", "EUR", UnitMajor) == want || digest("480", "USD", UnitMajor) == want || digest("-480", "EUR", UnitMajor) == want {
		t.Error("two amounts are one")
	}
	if digest("90071992547409.93", "EUR", UnitMajor) == digest("90071992547409.92", "EUR", UnitMajor) {
		t.Error("two amounts beyond a double are one")
	}
	amount, err := ParseAmount("480", "EUR", UnitMajor)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := Encode(amount.Canonical()); err != nil || string(data) != `{"currency":"EUR","minor":"48000"}` {
		t.Errorf("the canonical form is %s, %v", data, err)
	}
}

func TestCurrencyTable(t *testing.T) {
	t.Parallel()
	for code, exponent := range currencyExponents {
		if len(code) != 3 || upperASCII(code) != code {
			t.Errorf("%q is no currency code", code)
		}
		if exponent < 0 || exponent > 4 {
			t.Errorf("%s has the exponent %d", code, exponent)
		}
	}
	// The lists have no code twice: that would be a table whose content hangs on chance.
	listed := 0
	for _, codes := range []string{currenciesExponent0, currenciesExponent2, currenciesExponent3, currenciesExponent4} {
		listed += len(strings.Fields(codes))
	}
	if listed != len(currencyExponents) {
		t.Errorf("%d codes are listed, %d are different", listed, len(currencyExponents))
	}
	for code, want := range map[string]int{"EUR": 2, "USD": 2, "JPY": 0, "KWD": 3, "BHD": 3, "CLF": 4, "UYW": 4, "HUF": 2, "ISK": 0, "UGX": 0, "MGA": 2, "AFN": 2} {
		if _, got, err := Currency(code); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", code, got, err, want)
		}
	}
}
