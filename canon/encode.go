package canon

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Encode writes the RFC 8785 form of a tree as Decode makes it: members sorted by UTF-16 code units, shortest
// escapes, numbers as ECMAScript prints them, no white space. Besides Decode's types it accepts int, int64, float64,
// map[string]string and []string. It does not change strings: Unicode normalisation is NFC's work.
//
// It is stricter than RFC 8785, which lets a double merge numbers (S4.4): integers of a magnitude above 2^53-1,
// however they are spelled, and fractions that are no rendering of their double are refused as number_unsafe. All
// spellings of one number (480, 480.0, 4.8e2) come out the same, and -0 is 0 (S4.2). Strings that are no UTF-8, other
// types and trees deeper than 1000 levels (cyclic ones among them) are refused too, each with an *Error that points at the place.
func Encode(v any) ([]byte, error) {
	e := encoder{out: make([]byte, 0, usualBytes), number: appendNumber, double: appendSafeDouble}
	return e.encode(v)
}

// usualBytes is room for the arguments of a usual tool call, so that their buffer never grows.
const usualBytes = 256

type encoder struct {
	out    []byte
	number func(out []byte, literal string) ([]byte, *Error)
	double func(out []byte, f float64) ([]byte, *Error)
}

// encode exists so that a nil *Error does not become a non-nil error.
func (e *encoder) encode(v any) ([]byte, error) {
	if err := e.value(v, 0); err != nil {
		return nil, err
	}
	return e.out, nil
}

func appendSafeDouble(out []byte, f float64) ([]byte, *Error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, notFinite()
	}
	if err := checkMagnitude(f); err != nil {
		return nil, err
	}
	return appendDouble(out, f)
}

func (e *encoder) value(v any, open int) *Error {
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	case string:
		return e.string(v)
	case json.Number:
		return e.appended(e.number(e.out, string(v)))
	case float64:
		return e.appended(e.double(e.out, v))
	case int:
		return e.appended(e.number(e.out, strconv.Itoa(v)))
	case int64:
		return e.appended(e.number(e.out, strconv.FormatInt(v, 10)))
	case []any:
		return array(e, v, open+1)
	case []string:
		return array(e, v, open+1)
	case map[string]any:
		return object(e, v, open+1)
	case map[string]string:
		return object(e, v, open+1)
	default:
		return &Error{
			Problem: ProblemWrongType,
			Detail:  fmt.Sprintf("a value of type %T has no canonical form", v),
			Remedy:  "use the types of a decoded JSON document",
		}
	}
	return nil
}

func (e *encoder) appended(out []byte, err *Error) *Error {
	if err != nil {
		return err
	}
	e.out = out
	return nil
}

func enter(open int) *Error {
	if open > depthMax {
		return &Error{
			Problem: ProblemTooDeep,
			Detail:  fmt.Sprintf("nested deeper than %d arrays and objects", depthMax),
			Remedy:  "use a flatter value, and none that contains itself",
		}
	}
	return nil
}

func array[E any](e *encoder, elements []E, open int) *Error {
	if err := enter(open); err != nil {
		return err
	}
	e.out = append(e.out, '[')
	for i, element := range elements {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.value(element, open); err != nil {
			return err.inside(strconv.Itoa(i))
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func object[E any](e *encoder, members map[string]E, open int) *Error {
	if err := enter(open); err != nil {
		return err
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.SortFunc(names, compareUTF16)
	e.out = append(e.out, '{')
	for i, name := range names {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.string(name); err != nil {
			return err
		}
		e.out = append(e.out, ':')
		if err := e.value(members[name], open); err != nil {
			return err.inside(name)
		}
	}
	e.out = append(e.out, '}')
	return nil
}

// compareUTF16 orders by UTF-16 code units (RFC 8785, section 3.2.3). That differs from the order of bytes only
// where a character beyond the basic plane, whose first unit is a surrogate, meets one from U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	if i == len(a) || i == len(b) {
		return len(a) - len(b)
	}
	for i > 0 && !utf8.RuneStart(a[i]) {
		i--
	}
	ra, _ := utf8.DecodeRuneInString(a[i:])
	rb, _ := utf8.DecodeRuneInString(b[i:])
	if (ra > 0xFFFF) != (rb > 0xFFFF) {
		return int(firstUnit(ra)) - int(firstUnit(rb))
	}
	return int(ra) - int(rb)
}

func firstUnit(r rune) rune {
	if r > 0xFFFF {
		return 0xD800 + (r-0x10000)>>10
	}
	return r
}

const hexDigits = "0123456789abcdef"

func (e *encoder) string(s string) *Error {
	if !utf8.ValidString(s) {
		return invalidUTF8()
	}
	e.out = append(e.out, '"')
	plain := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		e.out = append(e.out, s[plain:i]...)
		e.out = appendEscape(e.out, c)
		plain = i + 1
	}
	e.out = append(e.out, s[plain:]...)
	e.out = append(e.out, '"')
	return nil
}

func appendEscape(out []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(out, '\\', c)
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	return append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
}
