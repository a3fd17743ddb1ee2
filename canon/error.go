package canon

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem says in one word why a value was refused. The words are stable: test vectors and API answers carry them.
type Problem string

// The problems that this package reports.
const (
	ProblemSyntax          Problem = "syntax"            // not JSON, or not one whole document
	ProblemInvalidUTF8     Problem = "invalid_utf8"      // bytes that are no UTF-8
	ProblemDuplicateName   Problem = "duplicate_name"    // an object has one name twice, however it is spelled
	ProblemLoneSurrogate   Problem = "lone_surrogate"    // half a UTF-16 pair as an escape
	ProblemNumberNotFinite Problem = "number_not_finite" // NaN, an infinity, or beyond the range of a double
	ProblemNumberUnsafe    Problem = "number_unsafe"     // a double would merge it with another number
	ProblemTooDeep         Problem = "too_deep"          // nested beyond the limit
	ProblemTooLarge        Problem = "too_large"         // more bytes, members or digits than the limit
	ProblemWrongType       Problem = "wrong_type"        // a value of a type that cannot stand here
	ProblemNotNormalisable Problem = "not_normalisable"  // right type, but not in a form that the normaliser accepts
	ProblemEmpty           Problem = "empty"             // missing or empty where a value is needed
	ProblemUnknownCurrency Problem = "unknown_currency"  // no ISO 4217 code with a minor unit
	ProblemUnknownName     Problem = "unknown_name"      // no normaliser of that name, or a wrong argument for it
)

// errorPathRunesMax bounds how much of a path, which strangers can choose, gets into an error's text.
const errorPathRunesMax = 200

// Error is the only error type that this package returns. It never contains a value of the document, only names.
type Error struct {
	// Path is an RFC 6901 pointer to the refused value; "" is the whole document.
	Path string
	// Problem is the stable word for what is wrong.
	Problem Problem
	// Detail says what was found, Remedy what to do about it.
	Detail, Remedy string
}

// Error names the field, what is wrong with it and the remedy, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(quotePath(e.Path))
		b.WriteString(": ")
	}
	b.WriteString(e.Detail)
	if e.Remedy != "" {
		b.WriteString("; ")
		b.WriteString(e.Remedy)
	}
	return b.String()
}

// Within puts one object name in front of the path of an *Error inside err, for callers that walk fields
// themselves. Any other error is returned unchanged, nil included.
func Within(name string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	moved := *e
	moved.Path = pointer(name) + e.Path
	return &moved
}

// inside is Within for the package's own recursion, where the error is known to be an *Error nobody else holds.
func (e *Error) inside(name string) *Error {
	e.Path = pointer(name) + e.Path
	return e
}

func pointer(name string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// quotePath leaves ordinary paths readable and quotes those with characters that could forge a log line.
func quotePath(path string) string {
	if n := utf8.RuneCountInString(path); n > errorPathRunesMax {
		path = string([]rune(path)[:errorPathRunesMax]) + "..."
	}
	if quoted := strconv.Quote(path); quoted != `"`+path+`"` {
		return quoted
	}
	return path
}
