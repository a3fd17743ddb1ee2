package canon

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// AmountUnit says what an amount argument counts.
type AmountUnit string

// The units of an amount argument; the words are the policy's.
const (
	UnitMajor AmountUnit = "major" // 480 or "480.00" is four hundred and eighty euros
	UnitMinor AmountUnit = "minor" // 48000 is four hundred and eighty euros
)

// AmountValue is an amount of money, exact, in the minor unit of its currency.
type AmountValue struct {
	// Minor counts minor units (cents for EUR, whole yen for JPY, thousandths for KWD). It may be negative: whether that is
	// allowed is the policy's matter.
	Minor int64
	// Currency is the upper-case ISO 4217 code.
	Currency string
	// Exponent is how many decimal digits the minor unit has.
	Exponent int
}

// ParseAmount reads an amount of money (S4.1): a decoded JSON number, a string with a plain decimal number, or an int,
// int64 or float64. In UnitMajor "480", 480, 480.00 and 4.8e2 with EUR are 48000 minor units; in UnitMinor 48000 is
// 48000. Nothing is rounded: more decimal digits than the currency has are refused, zeros excepted. So are grouping,
// currency signs and a decimal comma, which mean different numbers in different places, white space, and what does
// not fit 64 bits. All as an *Error without a path.
func ParseAmount(value any, currency string, unit AmountUnit) (AmountValue, error) {
	code, exponent, err := Currency(currency)
	if err != nil {
		return AmountValue{}, err
	}
	shift := exponent
	switch unit {
	case UnitMajor:
	case UnitMinor:
		shift = 0
	default:
		return AmountValue{}, &Error{
			Problem: ProblemUnknownName,
			Detail:  "an amount's unit is neither major nor minor",
			Remedy:  "say unit: major or unit: minor",
		}
	}
	number, problem := decimalOf(value)
	if problem != nil {
		return AmountValue{}, problem
	}
	minor, problem := number.minorUnits(shift, code)
	if problem != nil {
		return AmountValue{}, problem
	}
	return AmountValue{Minor: minor, Currency: code, Exponent: exponent}, nil
}

// Canonical is the amount's form in a fingerprint. The minor units are a string, so that they are exact beyond 2^53.
func (a AmountValue) Canonical() map[string]any {
	return map[string]any{"currency": a.Currency, "minor": strconv.FormatInt(a.Minor, 10)}
}

// Decimal writes the amount in major units with exactly the currency's digits: "480.00" for EUR, "480" for JPY.
func (a AmountValue) Decimal() string {
	sign, digits := "", strconv.FormatInt(a.Minor, 10)
	if a.Minor < 0 {
		sign, digits = "-", digits[1:]
	}
	if a.Exponent == 0 {
		return sign + digits
	}
	if missing := a.Exponent + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	point := len(digits) - a.Exponent
	return sign + digits[:point] + "." + digits[point:]
}

// exactDecimal is a number taken apart without loss.
type exactDecimal struct {
	negative bool
	decimalForm
}

// decimalOf reads a number, or a string that contains exactly one and nothing else.
func decimalOf(value any) (exactDecimal, *Error) {
	switch v := value.(type) {
	case json.Number:
		return parseDecimal(string(v))
	case string:
		return decimalText(v)
	case int:
		return parseDecimal(strconv.Itoa(v))
	case int64:
		return parseDecimal(strconv.FormatInt(v, 10))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return exactDecimal{}, notFinite()
		}
		return parseDecimal(strconv.FormatFloat(v, 'e', -1, 64))
	case nil:
		return exactDecimal{}, emptyValue("a number")
	}
	return exactDecimal{}, wrongType("a number or a string with one", value)
}

func decimalText(s string) (exactDecimal, *Error) {
	if s == "" {
		return exactDecimal{}, emptyValue("a number")
	}
	plain := strings.TrimPrefix(s, "-")
	for i := range len(plain) {
		if !isDigit(plain[i]) && plain[i] != '.' {
			return exactDecimal{}, &Error{
				Problem: ProblemNotNormalisable,
				Detail:  "not a plain decimal number: it has something other than digits, one decimal point and a leading minus",
				Remedy:  "send it like 1480.50: no grouping, no currency sign, no decimal comma, no exponent, no spaces",
			}
		}
	}
	if digitsPrefix(plain) == 0 {
		return exactDecimal{}, notDecimal()
	}
	// Leading zeros are how some write fixed widths; they are no JSON, but they mean one thing only.
	for len(plain) > 1 && plain[0] == '0' && isDigit(plain[1]) {
		plain = plain[1:]
	}
	if s[0] == '-' {
		plain = "-" + plain
	}
	return parseDecimal(plain)
}

func notDecimal() *Error {
	return &Error{Problem: ProblemNotNormalisable, Detail: "not a decimal number", Remedy: "send it like 1480.50"}
}

func parseDecimal(literal string) (exactDecimal, *Error) {
	if !isNumber(literal) {
		return exactDecimal{}, notDecimal()
	}
	d := exactDecimal{decimalForm: significant(literal)}
	d.negative = literal[0] == '-' && d.digits != ""
	return d, nil
}

// decimalDigitsMax bounds how long a number can be when it is written out, so that 1e300000 costs nothing.
const decimalDigitsMax = 400

// plain writes the number out without an exponent and without needless zeros.
func (d exactDecimal) plain() (string, *Error) {
	if d.digits == "" {
		return "0", nil
	}
	if d.exponent > decimalDigitsMax || d.exponent < -decimalDigitsMax || len(d.digits) > decimalDigitsMax {
		return "", &Error{
			Problem: ProblemTooLarge,
			Detail:  fmt.Sprintf("a number of more than %d digits", decimalDigitsMax),
			Remedy:  "send a shorter number",
		}
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	point := int(d.exponent)
	switch {
	case point <= 0:
		return sign + "0." + strings.Repeat("0", -point) + d.digits, nil
	case point >= len(d.digits):
		return sign + d.digits + strings.Repeat("0", point-len(d.digits)), nil
	}
	return sign + d.digits[:point] + "." + d.digits[point:], nil
}

// isInteger reports whether the number has no fraction.
func (d exactDecimal) isInteger() bool { return d.exponent >= int64(len(d.digits)) }

func (d exactDecimal) minorUnits(shift int, currency string) (int64, *Error) {
	if d.digits == "" {
		return 0, nil
	}
	d.exponent += int64(shift)
	if !d.isInteger() {
		return 0, &Error{
			Problem: ProblemNotNormalisable,
			Detail:  fmt.Sprintf("the amount has more decimal digits than %d, which is what %s has here", shift, currency),
			Remedy:  "send an amount that can be paid exactly; nothing is rounded",
		}
	}
	const int64Digits = 19
	if d.exponent <= int64Digits {
		text, err := d.plain()
		if err != nil {
			return 0, err
		}
		if n, parseErr := strconv.ParseInt(text, 10, 64); parseErr == nil {
			return n, nil
		}
	}
	return 0, &Error{
		Problem: ProblemTooLarge,
		Detail:  "the amount does not fit 64 bits of minor units",
		Remedy:  "send a smaller amount",
	}
}

func emptyValue(want string) *Error {
	return &Error{Problem: ProblemEmpty, Detail: "missing or empty where " + want + " is needed", Remedy: "send " + want}
}

func wrongType(want string, got any) *Error {
	return &Error{
		Problem: ProblemWrongType,
		Detail:  fmt.Sprintf("%s where %s is needed", typeWord(got), want),
		Remedy:  "send " + want,
	}
}

// typeWord names a decoded value's type as JSON does.
func typeWord(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number, int, int64, float64:
		return "a number"
	case []any, []string:
		return "an array"
	case map[string]any, map[string]string:
		return "an object"
	}
	return fmt.Sprintf("a value of type %T", v)
}
