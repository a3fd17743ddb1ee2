package canon

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Decode reads one JSON document strictly (S4.4). The tree consists of nil, bool, string, json.Number, []any and
// map[string]any; a number keeps the literal it was written with, so that a normaliser can still see an integer which
// no double carries.
//
// Refused, always with an *Error that points at the place: anything that is not RFC 8259, a byte order mark, empty
// input, data after the document, bytes that are no UTF-8, lone surrogates, an object name that appears twice (also in
// different escapes), a number beyond the range of a double, NaN and infinities, and what exceeds the limits. Nothing is ever repaired
// or dropped.
func Decode(data []byte, limits Limits) (any, error) {
	limits = limits.withDefaults()
	if len(data) > limits.Bytes {
		return nil, &Error{
			Problem: ProblemTooLarge,
			Detail:  fmt.Sprintf("the document has %d bytes, the limit is %d", len(data), limits.Bytes),
			Remedy:  "send less, or a reference to what is large",
		}
	}
	if len(data) >= 3 && data[0] == 0xEF && data[1] == 0xBB && data[2] == 0xBF {
		return nil, syntaxError("the document starts with a byte order mark", "send UTF-8 without one")
	}
	d := &decoder{data: data, limits: limits}
	d.skipSpace()
	if d.at == len(data) {
		return nil, syntaxError("the document is empty", "send one JSON value")
	}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	d.skipSpace()
	if d.at != len(data) {
		return nil, syntaxError(fmt.Sprintf("data after the document, at byte %d", d.at), "send one JSON value")
	}
	return v, nil
}

type decoder struct {
	data    []byte
	at      int
	members int
	limits  Limits
}

func syntaxError(detail, remedy string) *Error {
	return &Error{Problem: ProblemSyntax, Detail: detail, Remedy: remedy}
}

func (d *decoder) unexpected(want string) *Error {
	if d.at >= len(d.data) {
		return syntaxError("the document ends where "+want+" must stand", "send a whole JSON value")
	}
	return syntaxError(fmt.Sprintf("byte %d is not %s", d.at, want), "send JSON as RFC 8259 has it")
}

func (d *decoder) skipSpace() {
	for d.at < len(d.data) {
		switch d.data[d.at] {
		case ' ', '\t', '\n', '\r':
			d.at++
		default:
			return
		}
	}
}

func (d *decoder) take(c byte) bool {
	if d.at < len(d.data) && d.data[d.at] == c {
		d.at++
		return true
	}
	return false
}

// value reads a value that starts at the current byte; open is the number of containers around it.
func (d *decoder) value(open int) (any, *Error) {
	if d.at >= len(d.data) {
		return nil, d.unexpected("a value")
	}
	switch c := d.data[d.at]; {
	case c == '{':
		return d.object(open + 1)
	case c == '[':
		return d.array(open + 1)
	case c == '"':
		return d.stringValue()
	case c == '-' || (c >= '0' && c <= '9'):
		return d.number()
	default:
		return d.word()
	}
}

// stringValue keeps a failed string from becoming a non-nil any.
func (d *decoder) stringValue() (any, *Error) {
	s, err := d.string()
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (d *decoder) enter(open int) *Error {
	if open > d.limits.Depth {
		return &Error{
			Problem: ProblemTooDeep,
			Detail:  fmt.Sprintf("nested deeper than %d arrays and objects", d.limits.Depth),
			Remedy:  "send a flatter document",
		}
	}
	return nil
}

func (d *decoder) member() *Error {
	d.members++
	if d.members > d.limits.Members {
		return &Error{
			Problem: ProblemTooLarge,
			Detail:  fmt.Sprintf("more than %d members and elements in the document", d.limits.Members),
			Remedy:  "send less, or a reference to what is large",
		}
	}
	return nil
}

func (d *decoder) object(open int) (any, *Error) {
	if err := d.enter(open); err != nil {
		return nil, err
	}
	d.at++ // {
	object := make(map[string]any)
	d.skipSpace()
	if d.take('}') {
		return object, nil
	}
	for {
		if err := d.member(); err != nil {
			return nil, err
		}
		if err := d.memberInto(object, open); err != nil {
			return nil, err
		}
		d.skipSpace()
		if d.take('}') {
			return object, nil
		}
		if !d.take(',') {
			return nil, d.unexpected("a comma or the end of the object")
		}
		d.skipSpace()
	}
}

func (d *decoder) memberInto(object map[string]any, open int) *Error {
	if d.at >= len(d.data) || d.data[d.at] != '"' {
		return d.unexpected("an object name in double quotes")
	}
	name, err := d.string()
	if err != nil {
		return err
	}
	if _, twice := object[name]; twice {
		return (&Error{
			Problem: ProblemDuplicateName,
			Detail:  "the name appears twice in its object",
			Remedy:  "send each name once",
		}).inside(name)
	}
	d.skipSpace()
	if !d.take(':') {
		return d.unexpected("a colon").inside(name)
	}
	d.skipSpace()
	v, err := d.value(open)
	if err != nil {
		return err.inside(name)
	}
	object[name] = v
	return nil
}

func (d *decoder) array(open int) (any, *Error) {
	if err := d.enter(open); err != nil {
		return nil, err
	}
	d.at++ // [
	elements := []any{}
	d.skipSpace()
	if d.take(']') {
		return elements, nil
	}
	for {
		if err := d.member(); err != nil {
			return nil, err
		}
		d.skipSpace()
		v, err := d.value(open)
		if err != nil {
			return nil, err.inside(strconv.Itoa(len(elements)))
		}
		elements = append(elements, v)
		d.skipSpace()
		if d.take(']') {
			return elements, nil
		}
		if !d.take(',') {
			return nil, d.unexpected("a comma or the end of the array")
		}
	}
}

func (d *decoder) number() (any, *Error) {
	end := d.at
	for end < len(d.data) && isNumberByte(d.data[end]) {
		end++
	}
	literal := string(d.data[d.at:end])
	if literal == "-" && end < len(d.data) && d.data[end] == 'I' {
		return nil, notFinite() // -Infinity
	}
	if !isNumber(literal) {
		return nil, syntaxError(fmt.Sprintf("byte %d starts no JSON number", d.at), "write numbers as RFC 8259 has them")
	}
	if _, err := parseDouble(literal); err != nil {
		return nil, err
	}
	d.at = end
	return json.Number(literal), nil
}

// word reads true, false and null, and names the tokens that other languages print for numbers JSON does not have.
func (d *decoder) word() (any, *Error) {
	start := d.at
	end := start
	for end < len(d.data) && isLetter(d.data[end]) {
		end++
	}
	switch string(d.data[start:end]) {
	case "true":
		d.at = end
		return true, nil
	case "false":
		d.at = end
		return false, nil
	case "null":
		d.at = end
		return nil, nil
	case "NaN", "nan", "Infinity", "Inf", "inf", "infinity":
		return nil, notFinite()
	}
	return nil, d.unexpected("a JSON value")
}

func isLetter(c byte) bool { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') }

// string reads a string or object name whose opening quote is the current byte.
func (d *decoder) string() (string, *Error) {
	d.at++ // the opening quote
	start := d.at
	// Most strings have no escape: they are one copy.
	for d.at < len(d.data) {
		switch c := d.data[d.at]; {
		case c == '"':
			s := d.data[start:d.at]
			d.at++
			return validUTF8(s)
		case c == '\\':
			return d.escapedString(start)
		case c < 0x20:
			return "", d.unexpected("allowed in a string unescaped")
		default:
			d.at++
		}
	}
	return "", d.unexpected("the end of a string")
}

func validUTF8(s []byte) (string, *Error) {
	if !utf8.Valid(s) {
		return "", invalidUTF8()
	}
	return string(s), nil
}

func invalidUTF8() *Error {
	return &Error{Problem: ProblemInvalidUTF8, Detail: "a string is not valid UTF-8", Remedy: "send UTF-8"}
}

// escapedString goes on with a string at its first escape.
func (d *decoder) escapedString(start int) (string, *Error) {
	s := append([]byte(nil), d.data[start:d.at]...)
	for d.at < len(d.data) {
		switch c := d.data[d.at]; {
		case c == '"':
			d.at++
			return validUTF8(s)
		case c == '\\':
			var err *Error
			if s, err = d.escape(s); err != nil {
				return "", err
			}
		case c < 0x20:
			return "", d.unexpected("allowed in a string unescaped")
		default:
			s = append(s, c)
			d.at++
		}
	}
	return "", d.unexpected("the end of a string")
}

func (d *decoder) escape(s []byte) ([]byte, *Error) {
	d.at++ // the backslash
	if d.at >= len(d.data) {
		return nil, d.unexpected("an escape")
	}
	c := d.data[d.at]
	switch c {
	case '"', '\\', '/':
		s = append(s, c)
	case 'b':
		s = append(s, '\b')
	case 'f':
		s = append(s, '\f')
	case 'n':
		s = append(s, '\n')
	case 'r':
		s = append(s, '\r')
	case 't':
		s = append(s, '\t')
	case 'u':
		return d.unicodeEscape(s)
	default:
		return nil, d.unexpected("an escape that JSON knows")
	}
	d.at++
	return s, nil
}

func (d *decoder) unicodeEscape(s []byte) ([]byte, *Error) {
	d.at++ // the u
	unit, ok := d.hex4()
	if !ok {
		return nil, d.unexpected("four hexadecimal digits")
	}
	switch {
	case unit >= 0xDC00 && unit <= 0xDFFF:
		return nil, loneSurrogate()
	case unit < 0xD800 || unit > 0xDFFF:
		return utf8.AppendRune(s, rune(unit)), nil
	}
	if !d.take('\\') || !d.take('u') {
		return nil, loneSurrogate()
	}
	low, ok := d.hex4()
	if !ok {
		return nil, d.unexpected("four hexadecimal digits")
	}
	if low < 0xDC00 || low > 0xDFFF {
		return nil, loneSurrogate()
	}
	return utf8.AppendRune(s, rune(0x10000+(unit-0xD800)<<10+(low-0xDC00))), nil
}

func loneSurrogate() *Error {
	return &Error{
		Problem: ProblemLoneSurrogate,
		Detail:  "a string has half a surrogate pair, which is no character",
		Remedy:  "send whole characters; a text cut in the middle of one must be cut elsewhere",
	}
}

func (d *decoder) hex4() (uint32, bool) {
	if len(d.data)-d.at < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(d.data[d.at:d.at+4]), 16, 16)
	if err != nil {
		return 0, false
	}
	d.at += 4
	return uint32(n), true
}
