package canon

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// EscapeComponent makes one component of an intent id safe to join with others (S3.3): it percent-encodes, as the
// bytes of UTF-8, the characters that structure ids and templates (percent sign, colon, slash, braces), white space,
// controls, and characters that cannot be seen. Everything else stays readable. Different components stay different,
// and no escaped component contains a colon or a slash; see Separates. It accepts any string, also one that is no UTF-8.
func EscapeComponent(s string) string {
	if !strings.ContainsFunc(s, isEscaped) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if isEscaped(r) || (r == utf8.RuneError && size == 1) {
			for _, c := range []byte(s[i : i+size]) {
				const upperHex = "0123456789ABCDEF"
				b.Write([]byte{'%', upperHex[c>>4], upperHex[c&0xF]})
			}
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// Separates reports whether a template's literal text keeps the components on both sides of it apart: only a colon or a
// slash does, since components never contain one after EscapeComponent ("{a}-{b}" would give "x-y" and "z" the id of "x" and
// "y-z"). A template whose placeholders are all separated so is injective.
func Separates(literal string) bool { return strings.ContainsAny(literal, ":/") }

// Component turns a normalised value into an escaped component of an intent id. It takes a string, a boolean or an
// integer that has a canonical form, written as text; null and the empty string are refused as empty, never written as "" (S3.3), and so is a
// string of nothing but white space. A fraction, an array or an object identifies nothing and is a wrong_type.
func Component(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", emptyValue("a value that identifies something")
	case string:
		if strings.TrimSpace(v) == "" {
			return "", emptyValue("a value that identifies something")
		}
		if !utf8.ValidString(v) {
			return "", invalidUTF8()
		}
		return EscapeComponent(v), nil
	case bool:
		if v {
			return "true", nil
		}
		return "false", nil
	case json.Number, int, int64, float64:
		text, err := integerText(v)
		if err != nil {
			return "", err
		}
		return text, nil
	}
	return "", wrongType("a string or an integer", v)
}

// isEscaped is a fixed list and not a question to package unicode, whose tables grow with Go releases: the id of an
// intent must not change with the compiler (S3.12). Besides ASCII it has the characters that are spaces, controls,
// formatting, invisible, private or none at all.
func isEscaped(r rune) bool {
	if r < 0x80 {
		return r <= ' ' || r == 0x7F || r == '%' || r == ':' || r == '/' || r == '{' || r == '}'
	}
	for _, span := range escapedSpans {
		if r < span.first {
			return false
		}
		if r <= span.last {
			return true
		}
	}
	return false
}

var escapedSpans = []struct{ first, last rune }{
	{0x80, 0xA0},        // C1 controls, no-break space
	{0xAD, 0xAD},        // soft hyphen
	{0x34F, 0x34F},      // combining grapheme joiner
	{0x600, 0x605},      // Arabic number marks
	{0x61C, 0x61C},      // Arabic letter mark
	{0x6DD, 0x6DD},      // Arabic end of ayah
	{0x70F, 0x70F},      // Syriac abbreviation mark
	{0x890, 0x891},      // Arabic marks above
	{0x8E2, 0x8E2},      // Arabic disputed end of ayah
	{0x115F, 0x1160},    // Hangul fillers
	{0x1680, 0x1680},    // Ogham space
	{0x17B4, 0x17B5},    // Khmer inherent vowels
	{0x180B, 0x180F},    // Mongolian selectors
	{0x2000, 0x200F},    // spaces, zero width characters, direction marks
	{0x2028, 0x202F},    // separators, embeddings and overrides
	{0x205F, 0x206F},    // spaces, invisible operators, isolates
	{0x3000, 0x3000},    // ideographic space
	{0x3164, 0x3164},    // Hangul filler
	{0xE000, 0xF8FF},    // private use
	{0xFDD0, 0xFDEF},    // noncharacters
	{0xFE00, 0xFE0F},    // variation selectors
	{0xFEFF, 0xFEFF},    // zero width no-break space
	{0xFFA0, 0xFFA0},    // halfwidth Hangul filler
	{0xFFF0, 0xFFFB},    // specials
	{0xFFFE, 0xFFFF},    // noncharacters
	{0x110BD, 0x110BD},  // Kaithi number sign
	{0x110CD, 0x110CD},  // Kaithi number sign above
	{0x13430, 0x1343F},  // Egyptian format controls
	{0x1BCA0, 0x1BCA3},  // shorthand format controls
	{0x1D173, 0x1D17A},  // musical format controls
	{0xE0000, 0x10FFFF}, // tags, selectors, private use
}
