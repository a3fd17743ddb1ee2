package canon

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Normaliser brings one argument into one spelling before it is compared, digested or made part of an id (S4.1). It
// never changes its input. It refuses, with an *Error without a path, what it cannot read for certain; it never guesses
// and never turns one type silently into another.
type Normaliser interface {
	// Name is the word that policies use, with its argument in parentheses where it has one.
	Name() string
	// Normalise returns the value in its one spelling; all but capture leave their own result as it is.
	Normalise(v any) (any, error)
}

type normaliser struct {
	name string
	do   func(v any) (any, error)
}

func (n normaliser) Name() string                 { return n.name }
func (n normaliser) Normalise(v any) (any, error) { return n.do(v) }

// plainNormalisers are those without an argument.
var plainNormalisers = map[string]func(v any) (any, error){
	"trim":     onString(func(s string) (any, error) { return strings.TrimSpace(s), nil }),
	"upper":    onString(func(s string) (any, error) { return strings.ToUpper(s), nil }),
	"lower":    onString(func(s string) (any, error) { return strings.ToLower(s), nil }),
	"digits":   digits,
	"nfc":      NFC,
	"nfkc":     onString(func(s string) (any, error) { return norm.NFKC.String(s), nil }),
	"ascii":    onString(ascii),
	"text":     text,
	"integer":  integer,
	"decimal":  decimal,
	"currency": onString(func(s string) (any, error) { code, _, err := Currency(s); return code, err }),
	"time":     onString(instant),
	"date":     onString(date),
}

// NormaliserNames lists what ParseNormaliser knows, sorted, for messages and documentation.
func NormaliserNames() []string {
	names := []string{"capture"}
	for name := range plainNormalisers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ParseNormaliser finds a normaliser by the name that a policy uses; arg is "" for all but capture.
//
//   - trim, upper, lower: text without white space around it, or in one case.
//   - digits: the ASCII digits of a text or integer, as text; digits of other scripts and a text without any are refused.
//   - capture: arg is a regular expression (RE2) with exactly one group; the result is what it captures. No match, an
//     empty capture, and matches that capture different things are refused.
//   - nfc: Unicode NFC of all text and names in a value (NFC).
//   - nfkc: Unicode NFKC of a text, in which fullwidth, halfwidth, superscript, ligature and other compatibility forms are the plain
//     characters. It is for ids; for other text it loses meaning ("10²" becomes "102"). Letters of other scripts that only look
//     alike stay what they are.
//   - ascii: text in printable ASCII as it is; any other character is refused by name.
//   - text: an integer as text, and text as it is, for ids that models send as either.
//   - integer: a whole number, also from text ("40", "40.0"), as a number; what a double cannot carry is refused.
//   - decimal: any number, also from text, as exact text without exponent and needless zeros ("480.5").
//   - currency: an ISO 4217 code in upper case.
//   - time: an RFC 3339 time with an offset, in UTC with the shortest fraction; a time without one is refused.
//   - date: a day, YYYY-MM-DD, without a time.
//
// Amounts need their currency, mostly another argument: ParseAmount. An unknown name or a wrong arg is an *Error with
// the problem unknown_name.
func ParseNormaliser(name, arg string) (Normaliser, error) {
	if name == "capture" {
		return parseCapture(arg)
	}
	do, ok := plainNormalisers[name]
	if !ok {
		return nil, unknownName(fmt.Sprintf("no normaliser is called %q", name), "use one of "+strings.Join(NormaliserNames(), ", "))
	}
	if arg != "" {
		return nil, unknownName(fmt.Sprintf("the normaliser %s takes no argument", name), "leave the argument out")
	}
	return normaliser{name: name, do: do}, nil
}

// Default returns a normaliser that puts value in the place of null, as which callers pass an absent argument, so that
// an explicit default and an absent field are one (S4.2). It leaves everything else alone.
func Default(value any) Normaliser {
	return normaliser{name: "default", do: func(v any) (any, error) {
		if v == nil {
			return value, nil
		}
		return v, nil
	}}
}

func unknownName(detail, remedy string) error {
	return &Error{Problem: ProblemUnknownName, Detail: detail, Remedy: remedy}
}

// notNormalisable is an error rather than an *Error so that it can be returned beside a nil value.
func notNormalisable(detail, remedy string) error {
	return &Error{Problem: ProblemNotNormalisable, Detail: detail, Remedy: remedy}
}

func onString(do func(s string) (any, error)) func(v any) (any, error) {
	return func(v any) (any, error) {
		s, ok := v.(string)
		if !ok {
			return nil, wrongType("a string", v)
		}
		out, err := do(s)
		if err != nil {
			return nil, err
		}
		return out, nil
	}
}

func ascii(s string) (any, error) {
	for _, r := range s {
		if r < ' ' || r > '~' {
			return nil, notNormalisable(fmt.Sprintf("the text holds %U, which is not printable ASCII", r), "send it in ASCII letters, digits and signs")
		}
	}
	return s, nil
}

func digits(v any) (any, error) {
	if s, ok := v.(string); ok {
		return digitsOf(s)
	}
	s, err := integerText(v)
	if err != nil {
		return nil, err
	}
	if s[0] == '-' {
		return nil, notNormalisable("a negative number where digits are needed", "send a number that is not negative")
	}
	return s, nil
}

func digitsOf(s string) (any, error) {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9':
			b.WriteRune(r)
		case isForeignDigit(r):
			return nil, notNormalisable("a text with digits other than 0 to 9", "send ASCII digits")
		}
	}
	if b.Len() == 0 {
		return nil, notNormalisable("a text without any digit", "send the number that it stands for")
	}
	return b.String(), nil
}

// isForeignDigit reports whether NFKC makes an ASCII digit of r, or r is a decimal digit of another script: dropping
// one would make two numbers one.
func isForeignDigit(r rune) bool {
	if r < 0x80 {
		return false
	}
	if strings.ContainsAny(norm.NFKC.String(string(r)), "0123456789") {
		return true
	}
	return isDecimalDigit(r)
}

func parseCapture(pattern string) (Normaliser, error) {
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return nil, unknownName("the pattern of capture is no regular expression: "+err.Error(), "use RE2 syntax")
	}
	if expression.NumSubexp() != 1 {
		return nil, unknownName(
			fmt.Sprintf("the pattern of capture has %d groups", expression.NumSubexp()),
			"mark what is wanted with exactly one group, such as order-([0-9]+), and the others as (?:...)")
	}
	return normaliser{
		name: "capture(" + pattern + ")",
		do:   onString(func(s string) (any, error) { return capture(expression, s) }),
	}, nil
}

func capture(expression *regexp.Regexp, s string) (any, error) {
	found := ""
	for _, match := range expression.FindAllStringSubmatch(s, -1) {
		if match[1] == "" {
			return nil, notNormalisable("what the text's match captures is empty", "send an identifier of the form "+expression.String())
		}
		if found != "" && match[1] != found {
			return nil, notNormalisable("the text matches more than once, with different results", "send one identifier only")
		}
		found = match[1]
	}
	if found == "" {
		return nil, notNormalisable("the text does not match "+expression.String(), "send an identifier of that form")
	}
	return found, nil
}

func text(v any) (any, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	s, err := integerText(v)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// integerText writes a number, never a string, as an integer. It refuses fractions and numbers beyond a double's
// integers: what is an identifier there was most likely damaged by a double on its way here.
func integerText(v any) (string, error) {
	switch v.(type) {
	case json.Number, int, int64, float64:
	case nil:
		return "", emptyValue("a string or an integer")
	default:
		return "", wrongType("a string or an integer", v)
	}
	d, problem := decimalOf(v)
	if problem != nil {
		return "", problem
	}
	if !d.isInteger() {
		return "", wrongType("a string or an integer", v)
	}
	return d.safeInteger()
}

// safeInteger returns error, not *Error, so that callers can hand its results on as they are.
func (d exactDecimal) safeInteger() (string, error) {
	s, problem := d.plain()
	if problem != nil {
		return "", problem
	}
	if _, problem := appendNumber(nil, s); problem != nil {
		return "", problem
	}
	return s, nil
}

func integer(v any) (any, error) {
	d, problem := decimalOf(v)
	if problem != nil {
		return nil, problem
	}
	if !d.isInteger() {
		return nil, notNormalisable("a number with a fraction where an integer is needed", "send a whole number")
	}
	s, err := d.safeInteger()
	if err != nil {
		return nil, err
	}
	return json.Number(s), nil
}

func decimal(v any) (any, error) {
	d, problem := decimalOf(v)
	if problem != nil {
		return nil, problem
	}
	s, problem := d.plain()
	if problem != nil {
		return nil, problem
	}
	return s, nil
}
