package canon

import (
	"strconv"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// NFC returns a value with every string and object name in Unicode Normalisation Form C (S4.1), so that a composed and
// a decomposed "é" are one. The input is never changed. Two names of one object that become equal are refused as
// duplicate_name. It is for decoded trees; values of types that Decode does not make stay as they are.
//
// Unicode promises never to change the NFC of characters that are assigned, so digests outlive releases.
func NFC(v any) (any, error) {
	out, err := nfc(v, 0)
	if err != nil {
		return nil, err
	}
	return out, nil
}

func nfc(v any, open int) (any, *Error) {
	if err := enter(open); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case string:
		return norm.NFC.String(v), nil
	case []any:
		return nfcArray(v, open)
	case map[string]any:
		return nfcObject(v, open)
	}
	return v, nil
}

func nfcArray(elements []any, open int) (any, *Error) {
	out := make([]any, len(elements))
	for i, element := range elements {
		normal, err := nfc(element, open+1)
		if err != nil {
			return nil, err.inside(strconv.Itoa(i))
		}
		out[i] = normal
	}
	return out, nil
}

func nfcObject(members map[string]any, open int) (any, *Error) {
	out := make(map[string]any, len(members))
	for name, member := range members {
		normalName := norm.NFC.String(name)
		if _, twice := out[normalName]; twice {
			return nil, (&Error{
				Problem: ProblemDuplicateName,
				Detail:  "two names of one object are the same text in Unicode NFC",
				Remedy:  "send each name once",
			}).inside(normalName)
		}
		normal, err := nfc(member, open+1)
		if err != nil {
			return nil, err.inside(name)
		}
		out[normalName] = normal
	}
	return out, nil
}

// isDecimalDigit reports whether r is a decimal digit of any script.
func isDecimalDigit(r rune) bool { return unicode.Is(unicode.Nd, r) }
