package canon

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// safeIntegerMax is 2^53-1: the largest integer whose double belongs to it alone.
const safeIntegerMax = 1<<53 - 1

// doubleDigitsMax is the most significant digits that an exact decimal expansion of a double can have.
const doubleDigitsMax = 767

// shortDigitsMax is how many decimal digits every double of ordinary size carries without loss.
const shortDigitsMax = 15

func isNumberByte(c byte) bool {
	return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isNumber reports whether s is a number by RFC 8259's grammar, which is narrower than strconv's.
func isNumber(s string) bool {
	s = strings.TrimPrefix(s, "-")
	whole := digitsPrefix(s)
	if whole == 0 || (whole > 1 && s[0] == '0') {
		return false
	}
	s = s[whole:]
	if strings.HasPrefix(s, ".") {
		fraction := digitsPrefix(s[1:])
		if fraction == 0 {
			return false
		}
		s = s[1+fraction:]
	}
	if s == "" {
		return true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return s != "" && digitsPrefix(s) == len(s)
}

func digitsPrefix(s string) int {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

func notFinite() *Error {
	return &Error{
		Problem: ProblemNumberNotFinite,
		Detail:  "the number is not finite or beyond the range of a double",
		Remedy:  "send a finite number, or a string where the tool's policy says decimal",
	}
}

func unsafe(detail string) *Error {
	return &Error{
		Problem: ProblemNumberUnsafe,
		Detail:  detail,
		Remedy:  "send it as a string, or have the tool's policy normalise it as decimal",
	}
}

// parseDouble reads a literal that isNumber accepts. Underflow is no error here: appendNumber sees it.
func parseDouble(literal string) (float64, *Error) {
	f, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, notFinite()
	}
	return f, nil
}

// appendNumber writes the canonical form of a literal and refuses every literal that shares its double with another
// number: two amounts must never meet in one fingerprint (S4.2, S4.4).
func appendNumber(out []byte, literal string) ([]byte, *Error) {
	if isShortInteger(literal) {
		return append(out, literal...), nil
	}
	if !isNumber(literal) {
		return nil, &Error{Problem: ProblemSyntax, Detail: "not a JSON number", Remedy: "write numbers as RFC 8259 has them"}
	}
	f, err := parseDouble(literal)
	if err != nil {
		return nil, err
	}
	if err := checkMagnitude(f); err != nil {
		return nil, err
	}
	if !carries(f, literal) {
		return nil, unsafe("the number has more digits than a double carries")
	}
	return appendDouble(out, f)
}

// appendPlainNumber is RFC 8785 alone, merging what doubles merge: what the published vectors describe.
func appendPlainNumber(out []byte, literal string) ([]byte, *Error) {
	if !isNumber(literal) {
		return nil, syntaxError("not a JSON number", "write numbers as RFC 8259 has them")
	}
	f, err := parseDouble(literal)
	if err != nil {
		return nil, err
	}
	return appendDouble(out, f)
}

// isShortInteger recognises the common case that is its own canonical form.
func isShortInteger(literal string) bool {
	digits := strings.TrimPrefix(literal, "-")
	if digits == "" || len(digits) > shortDigitsMax || digitsPrefix(digits) != len(digits) {
		return false
	}
	return digits[0] != '0' || literal == "0"
}

func checkMagnitude(f float64) *Error {
	// A double beyond 2^53 is always an integer, also where its literal had a fraction.
	if math.Abs(f) > safeIntegerMax {
		return unsafe(fmt.Sprintf("the number's magnitude is above %d (2^53-1), where a double merges integers", safeIntegerMax))
	}
	return nil
}

// carries reports whether the literal is a rendering of f: the shortest one that RFC 8785 prints, or f rounded to as
// many digits as the literal has, as other languages print with a fixed precision. Anything else is a number of its
// own that only happens to fall on f.
func carries(f float64, literal string) bool {
	want := significant(literal)
	if len(want.digits) > doubleDigitsMax {
		return false
	}
	if want == significant(strconv.FormatFloat(f, 'e', -1, 64)) {
		return true
	}
	return want.digits != "" && want == significant(strconv.FormatFloat(f, 'e', len(want.digits)-1, 64))
}

// decimalForm is a number as 0.digits times ten to the power of exponent; digits has no zero at either end and is
// empty for zero. The sign is left out: rounding never changes it.
type decimalForm struct {
	digits   string
	exponent int64
}

// significant takes apart a literal that isNumber accepts. An exponent too long to parse is clamped, which is safe:
// with such a literal the double is zero or out of range.
func significant(literal string) decimalForm {
	mantissa := strings.TrimPrefix(literal, "-")
	var exponent int64
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		exponent = clampedInt(mantissa[i+1:])
		mantissa = mantissa[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	exponent += int64(len(whole))
	trimmed := strings.TrimLeft(digits, "0")
	exponent -= int64(len(digits) - len(trimmed))
	trimmed = strings.TrimRight(trimmed, "0")
	if trimmed == "" {
		return decimalForm{}
	}
	return decimalForm{digits: trimmed, exponent: exponent}
}

func clampedInt(s string) int64 {
	const limit = 1 << 40
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && strings.HasPrefix(s, "-") {
		return -limit
	}
	if err != nil {
		return limit
	}
	return max(-limit, min(limit, n))
}

// appendDouble writes a double as ECMAScript's Number::toString does (RFC 8785, section 3.2.2.3).
func appendDouble(out []byte, f float64) ([]byte, *Error) {
	text, err := jcs.NumberToJSON(f)
	if err != nil {
		return nil, notFinite()
	}
	return append(out, text...), nil
}
