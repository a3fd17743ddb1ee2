package effectonce

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/effectonce/effectonce/canon"
)

// DefaultTenant is the tenant of an intent that names none.
const DefaultTenant = "default"

// Limits of an intent's fields, in bytes.
const (
	IdentifierBytesMax = 512     // tenant, tool, run, step, intent id, resource, actor
	ReasonBytesMax     = 2048    // reasons given by people or agents
	ResultBytesMax     = 1 << 20 // a larger result is not kept (S6.8)
	FailureBytesMax    = 1 << 16 // a larger refusal is kept as code and message only
)

// Intent is what somebody authorised, in business terms. The orchestration layer makes it from recorded fields; a model
// does not (S3.1).
type Intent struct {
	Tenant string // DefaultTenant if empty
	Tool   string
	Run    string
	Step   string
	Scope  Scope // ScopeBusiness if empty
	// ID names the intent in business terms: "refund:order-8812:ticket-5521".
	ID string
	// Arguments is what the caller gave, as JSON: kept for the audit, never sent. Nil means Business.
	Arguments json.RawMessage
	// Business holds the identity and material arguments after the policy's normalisers (S4.1, S4.3), as JSON. It is
	// fingerprinted, and it is what a provider gets. Nil means Arguments.
	Business json.RawMessage
	// Request is the frozen request (S3.10) and RequestScope where it is bound for. Nil means Business.
	Request      []byte
	RequestScope string
	// Resource names what the operation acts on (S7.1), Twin what makes a twin (S3.8; zero: the fingerprint, if the
	// terms ask for twins).
	Resource string
	Twin     canon.Digest
	// Actor is who asks, for the audit.
	Actor string
	// Terms are fixed with the first claim. What is zero takes its default.
	Terms Terms
	// Formerly are the identities that the intent had under the other live identity versions of its tool (S3.12). It is one
	// operation under all of them. An empty IntentID is ID: the caller gave it then as now.
	Formerly []Identity
	// Limits are the totals that the operation counts against (S8.3).
	Limits []Limit
	// ForgetAt is when the identity of the intent ends, because its business period is over; zero for never (S13.2).
	ForgetAt time.Time
	// Compensates, if set, makes this the operation that undoes another one (S11.3). Give it [CompensationID] as ID.
	Compensates Key
	// Reason says why it is compensated, for the audit.
	Reason string
	// Supersedes, if set, makes this the successor of an earlier operation of the same intent (S3.7).
	Supersedes *Supersede
	// Under returns the business arguments under another policy version, for a repeat of an operation whose first claim
	// was made under it (S3.11). Nil where there is only one way to read the arguments.
	Under func(ctx context.Context, policy string) (json.RawMessage, error)
}

// Supersede names a predecessor and why the mind was changed (S3.7).
type Supersede struct {
	Key    Key
	Reason string
	// Force supersedes although the predecessor is unresolved; the successor is held for approval.
	Force bool
}

// Arguments encodes v as the JSON arguments of an intent. It panics if v cannot be encoded, which is a defect in the
// calling program.
func Arguments(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("effectonce: arguments cannot be encoded: " + err.Error())
	}
	return b
}

// normalise fills defaults and checks everything that can be wrong with an intent before anything is stored.
func (in Intent) normalise() (Intent, error) {
	if in.Tenant == "" {
		in.Tenant = DefaultTenant
	}
	if in.Scope == "" {
		in.Scope = ScopeBusiness
	}
	if in.Business == nil {
		in.Business = in.Arguments
	}
	if in.Business == nil {
		in.Business = json.RawMessage("{}")
	}
	if in.Arguments == nil {
		in.Arguments = in.Business
	}
	in.Terms = in.Terms.WithDefaults()
	for _, f := range [][2]string{{"tenant", in.Tenant}, {"tool", in.Tool}, {"run", in.Run}, {"step", in.Step}, {"intent_id", in.ID}, {"resource", in.Resource}, {"actor", in.Actor}} {
		if len(f[1]) > IdentifierBytesMax {
			return in, invalid(f[0], "is longer than 512 bytes", "use the business id, not a text")
		}
		if err := plain(f[0], f[1]); err != nil {
			return in, err
		}
	}
	if in.Tool == "" {
		return in, invalid("tool", "is missing", "name the tool")
	}
	if in.ID == "" {
		return in, &Error{Code: CodeIntentIncomplete, Field: "intent_id", Detail: "is missing", Remedy: "name the intent in business terms, like refund:order-8812:ticket-5521"}
	}
	in.Formerly = slices.Clone(in.Formerly)
	for i := range in.Formerly {
		in.Formerly[i].Tenant, in.Formerly[i].Tool = in.Tenant, in.Tool
		if in.Formerly[i].IntentID == "" {
			in.Formerly[i].IntentID = in.ID
		}
	}
	if in.Supersedes != nil {
		if in.Supersedes.Reason == "" {
			return in, invalid("supersedes.reason", "is missing", "say why the mind was changed")
		}
		if len(in.Supersedes.Reason) > ReasonBytesMax {
			return in, invalid("supersedes.reason", "is longer than 2048 bytes", "shorten it")
		}
	}
	if len(in.Reason) > ReasonBytesMax {
		return in, invalid("reason", "is longer than 2048 bytes", "shorten it")
	}
	if err := checkLimits(in.Limits); err != nil {
		return in, err
	}
	return in, in.Terms.Check()
}

// plain refuses names that look like another name and are not it: what people cannot see must not make a new identity.
func plain(field, s string) error {
	if strings.TrimSpace(s) != s {
		return invalid(field, "begins or ends with white space", "take it off")
	}
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsGraphic(r) || r != ' ' && unicode.IsSpace(r) {
			return invalid(field, fmt.Sprintf("holds the character %U, which cannot be seen, or is not UTF-8", r), "use visible characters and plain spaces")
		}
	}
	return nil
}

// canonical returns the canonical bytes of JSON arguments and their fingerprint (S4.1).
func canonical(field string, args json.RawMessage) ([]byte, canon.Digest, error) {
	v, err := canon.Decode(args, canon.DefaultLimits)
	if err == nil {
		if _, ok := v.(map[string]any); !ok {
			return nil, canon.Digest{}, invalid(field, "is not a JSON object", "give the arguments by name")
		}
		v, err = canon.NFC(v)
	}
	var b []byte
	if err == nil {
		b, err = canon.Encode(v)
	}
	if err != nil {
		return nil, canon.Digest{}, &Error{Code: CodeNotCanonical, Field: field, Cause: err}
	}
	return b, sha256.Sum256(b), nil
}

// differing names the top-level business arguments in which two canonical forms differ (S4.5).
func differing(a, b []byte) []string {
	var x, y map[string]json.RawMessage
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return nil
	}
	var names []string
	for name, v := range x {
		if w, ok := y[name]; !ok || string(v) != string(w) {
			names = append(names, name)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
