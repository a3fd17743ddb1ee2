package effectonce

import (
	"time"

	"github.com/effectonce/effectonce/canon"
)

// Verdict is what an attempt's end means (S6.1). The zero value is none: the attempt has not ended.
type Verdict string

// The verdicts. Anything unclassified is unknown.
const (
	VerdictSucceeded Verdict = "succeeded"
	VerdictRejected  Verdict = "rejected"  // definitive refusal
	VerdictNotSent   Verdict = "not_sent"  // no byte of the request can have left (S6.2)
	VerdictThrottled Verdict = "throttled" // the contract says that the provider did not execute
	VerdictInFlight  Verdict = "in_flight" // the provider is still working on this key
	VerdictUnknown   Verdict = "unknown"
)

// Verdicts lists all verdicts.
var Verdicts = []Verdict{VerdictSucceeded, VerdictRejected, VerdictNotSent, VerdictThrottled, VerdictInFlight, VerdictUnknown}

// End is how an attempt ended, as its provider adapter classified it from evidence (S6.3).
type End struct {
	Verdict Verdict
	// Result is the provider's answer as JSON, for succeeded; Reference the id of what it created. Omitted says why
	// there is no Result although there was one; Digest is then still set (S6.8).
	Result    []byte
	Reference string
	Omitted   string
	Digest    canon.Digest
	// Failure describes a refusal or the ambiguity, for people and the audit.
	Failure Failure
	// Authoritative says, for rejected, that the provider answered from or into its record of the key (S6.4): only then
	// does it settle an operation that an earlier attempt may have settled otherwise.
	Authoritative bool
	// StoredError says that the provider stored this error under the key and would only replay it (S6.5).
	StoredError bool
	// RetryAfter is the pause the provider asked for, 0 for none.
	RetryAfter time.Duration
}

// Found is what a look-up says (S7.1).
type Found string

// The answers of a look-up. A failed look-up is never absent.
const (
	FoundNone        Found = "" // no look-up exists or none was made
	FoundOne         Found = "one"
	FoundMany        Found = "many"
	FoundAbsent      Found = "absent"
	FoundUnavailable Found = "unavailable"
)

// Finding is a look-up's answer. Found means: bearing this operation's stamp or reference; an equal amount is not
// identity.
type Finding struct {
	Found     Found
	Result    []byte
	Reference string
	Omitted   string
	Digest    canon.Digest
	// Detail says what was seen, for the audit: "3 pages, 214 refunds, none stamped".
	Detail string
}
