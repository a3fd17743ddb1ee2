package idempotency

import (
	"errors"
	"strings"
)

// HeaderKey is the request header that carries the client's key.
const HeaderKey = "Idempotency-Key"

// errTooLong is the mistake of a key that is well formed and too long.
var errTooLong = errors.New("it is too long")

// ParseKey reads the value of an Idempotency-Key header: a structured-field string (RFC 9651, section 3.3.3), whose parameters are
// ignored, or a bare key, as most clients send it. `"a-1"` and `a-1` are the same key. A key has visible ASCII characters, and a quoted
// one also spaces inside; it has at most bytesMax bytes.
func ParseKey(value string, bytesMax int) (string, error) {
	value = strings.Trim(value, " \t")
	key, err := value, error(nil)
	if strings.HasPrefix(value, `"`) {
		key, err = quoted(value)
	} else {
		err = bare(value)
	}
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", errors.New("it is empty")
	case strings.Trim(key, " ") != key:
		return "", errors.New("it begins or ends with a space")
	case len(key) > bytesMax:
		return "", errTooLong
	}
	return key, nil
}

// bare checks a key without quotes. What separates the parts of a header field is refused: a proxy that joins two headers must not
// make a third key.
func bare(key string) error {
	for _, c := range []byte(key) {
		switch {
		case c <= ' ' || c >= 0x7f:
			return errors.New("a key without quotes has visible ASCII characters only")
		case strings.IndexByte(`",;\`, c) >= 0:
			return errors.New("put a key with quotes, commas, semicolons or backslashes into double quotes")
		}
	}
	return nil
}

// quoted reads a structured-field string and what follows it.
func quoted(value string) (string, error) {
	var key strings.Builder
	for i := 1; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			return key.String(), parameters(value[i+1:])
		case c == '\\':
			i++
			if i == len(value) || value[i] != '"' && value[i] != '\\' {
				return "", errors.New("a backslash stands before a double quote or another backslash only")
			}
			key.WriteByte(value[i])
		case c < ' ' || c >= 0x7f:
			return "", errors.New("a key has printable ASCII characters only")
		default:
			key.WriteByte(c)
		}
	}
	return "", errors.New("the closing quote is missing")
}

// parameters checks the form of an item's parameters. They mean nothing here.
func parameters(s string) error {
	malformed := errors.New("only parameters (;name=value) may follow the closing quote")
	for s != "" {
		if s[0] != ';' {
			return malformed
		}
		s = strings.TrimLeft(s[1:], " ")
		n := 0
		for n < len(s) && (isLower(s[n]) || s[n] == '*' || n > 0 && (isDigit(s[n]) || strings.IndexByte("_-.", s[n]) >= 0)) {
			n++
		}
		if n == 0 {
			return malformed
		}
		if s = s[n:]; s == "" || s[0] != '=' {
			continue
		}
		rest, ok := bareItem(s[1:])
		if !ok {
			return malformed
		}
		s = rest
	}
	return nil
}

// bareItem skips a parameter's value: a string, or a number, token, byte sequence, boolean or date by their characters.
func bareItem(s string) (rest string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		for i := 1; i < len(s); i++ {
			switch {
			case s[i] == '\\':
				i++
			case s[i] == '"':
				return s[i+1:], true
			}
		}
		return "", false
	}
	n := 0
	for n < len(s) && s[n] > ' ' && s[n] < 0x7f && strings.IndexByte(`";,\()<>[]{}`, s[n]) < 0 {
		n++
	}
	return s[n:], n > 0
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
