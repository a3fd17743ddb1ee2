package effectonce

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce/canon"
)

// KeyVersion is the v of the key formula (S3.1). It changes only if the formula does, which makes every
// identity a new one.
const KeyVersion = 1

// Key is the identity of an operation: SHA-256(JCS({v, tenant, tool, scope ids, intent_id})), computed from
// recorded fields only (S3.1). It is no credential: knowing it opens nothing (S3.6).
type Key canon.Digest

// String returns the key as 64 lower-case hex digits, its form on every wire.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Short returns the first twelve digits, for people.
func (k Key) Short() string { return k.String()[:12] }

// IsZero reports whether k is the zero key, which no operation has.
func (k Key) IsZero() bool { return k == Key{} }

// MarshalText implements encoding.TextMarshaler; the zero key is the empty string.
func (k Key) MarshalText() ([]byte, error) {
	if k.IsZero() {
		return []byte{}, nil
	}
	return []byte(k.String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*k = Key{}
		return nil
	}
	p, err := ParseKey(string(b))
	*k = p
	return err
}

// ParseKey reads a key from its 64 hex digits. The error is an [ErrInvalid].
func ParseKey(s string) (Key, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(Key{}) {
		return Key{}, invalid("key", fmt.Sprintf("%.80q is not a key", s), "a key has 64 hex digits")
	}
	return Key(b), nil
}

// Scope says which recorded ids are part of the key (S3.2).
type Scope string

// The scopes. Only business scope also stops two runs that do the same business operation (S2.5).
const (
	ScopeBusiness Scope = "business" // tenant, tool, intent id
	ScopeRun      Scope = "run"      // and run
	ScopeStep     Scope = "step"     // and run and step
)

// Identity is what a key is computed from; nothing else goes in (S3.1).
type Identity struct {
	Tenant   string
	Tool     string
	Scope    Scope
	Run      string
	Step     string
	IntentID string
	// Revision is 0 for the first operation of an intent and one more for each successor (S3.7).
	Revision int
}

// Key computes the key. It returns an [ErrInvalid] for an empty component: an empty string is never an identity.
func (id Identity) Key() (Key, error) {
	form := map[string]any{"v": KeyVersion}
	add := func(name, value string) error {
		if value == "" {
			return &Error{Code: CodeIntentIncomplete, Field: name, Detail: "is empty", Remedy: fmt.Sprintf("scope %s needs it", id.Scope)}
		}
		form[name] = value
		return nil
	}
	parts := [][2]string{{"tenant", id.Tenant}, {"tool", id.Tool}, {"intent_id", id.IntentID}}
	switch id.Scope {
	case ScopeBusiness:
	case ScopeRun:
		parts = append(parts, [2]string{"run", id.Run})
	case ScopeStep:
		parts = append(parts, [2]string{"run", id.Run}, [2]string{"step", id.Step})
	default:
		return Key{}, invalid("scope", fmt.Sprintf("%q is not a scope", id.Scope), "use business, run or step")
	}
	for _, p := range parts {
		if err := add(p[0], p[1]); err != nil {
			return Key{}, err
		}
	}
	if id.Revision < 0 {
		return Key{}, invalid("revision", "is negative", "the first operation of an intent has revision 0")
	}
	if id.Revision > 0 {
		form["revision"] = id.Revision
	}
	sum, err := canon.Sum(form)
	if err != nil {
		return Key{}, &Error{Code: CodeNotCanonical, Field: "intent_id", Detail: "has no canonical form", Cause: err}
	}
	return Key(sum), nil
}

// sameIntent reports whether two identities are revisions of one intent.
func (id Identity) sameIntent(other Identity) bool {
	if id.Tenant != other.Tenant || id.Tool != other.Tool || id.Scope != other.Scope || id.IntentID != other.IntentID {
		return false
	}
	return (id.Scope == ScopeBusiness || id.Run == other.Run) && (id.Scope != ScopeStep || id.Step == other.Step)
}

// KeyForm is the form in which a provider's contract asks for the downstream key (S3.9).
type KeyForm struct {
	// Encoding is "hex", "base64url", "base32" (lower case) or "uuid" (a lower-case UUID with version 4 bits). Empty means
	// uuid, which every provider surveyed so far accepts.
	Encoding string `json:"encoding,omitempty"`
	// LengthMax cuts hex, base64url and base32; 0 means no limit. Fewer than 22 characters would make collisions thinkable
	// and is refused by contract loading.
	LengthMax int `json:"length_max,omitempty"`
	// Prefix is put in front, and counts towards LengthMax.
	Prefix string `json:"prefix,omitempty"`
}

// DownstreamKey derives what the provider gets from the operation's key: an HMAC with the installation's secret,
// so that nobody who knows the business facts can guess it, stable over every attempt of an epoch (S3.9).
func DownstreamKey(secret []byte, key Key, epoch int, form KeyForm) string {
	return form.encode(derive(secret, key, "downstream:"+strconv.Itoa(epoch)))
}

// StampOf derives the mark that created resources bear. Unlike the downstream key it is the same in every epoch, so
// that a look-up finds whatever any attempt created (S3.9, S7.1).
func StampOf(secret []byte, key Key) string {
	return hex.EncodeToString(derive(secret, key, "stamp"))
}

func derive(secret []byte, key Key, purpose string) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("effectonce/" + purpose + "\x00"))
	mac.Write(key[:])
	return mac.Sum(nil)
}

func (f KeyForm) encode(sum []byte) string {
	var s string
	switch f.Encoding {
	case "hex":
		s = hex.EncodeToString(sum)
	case "base64url":
		s = base64.RawURLEncoding.EncodeToString(sum)
	case "base32":
		s = strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum))
	default:
		var u [16]byte
		copy(u[:], sum)
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		h := hex.EncodeToString(u[:])
		return f.Prefix + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	s = f.Prefix + s
	if f.LengthMax > 0 && len(s) > f.LengthMax {
		s = s[:f.LengthMax]
	}
	return s
}
