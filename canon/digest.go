package canon

import (
	"crypto/sha256"
	"encoding/hex"
)

// Digest is a SHA-256 of a canonical form. It is comparable and can be a map key.
type Digest [sha256.Size]byte

// Sum returns the SHA-256 of Encode(v), and Encode's *Error where v has no canonical form (S4.1).
func Sum(v any) (Digest, error) {
	data, err := Encode(v)
	if err != nil {
		return Digest{}, err
	}
	return sha256.Sum256(data), nil
}

// ParseDigest reads the form that String writes: 64 lower-case hexadecimal digits and nothing else, so that one
// digest has one spelling.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	if len(s) != hex.EncodedLen(len(d)) {
		return Digest{}, digestError("wrong length")
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return Digest{}, digestError("a character that is no lower-case hexadecimal digit")
		}
	}
	if _, err := hex.Decode(d[:], []byte(s)); err != nil {
		return Digest{}, digestError("no hexadecimal number")
	}
	return d, nil
}

func digestError(what string) error {
	return &Error{Problem: ProblemSyntax, Detail: "not a digest: " + what, Remedy: "use 64 lower-case hexadecimal digits"}
}

// String returns 64 lower-case hexadecimal digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText writes what String writes.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDigest reads, and leaves d alone if it cannot.
func (d *Digest) UnmarshalText(text []byte) error {
	parsed, err := ParseDigest(string(text))
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
