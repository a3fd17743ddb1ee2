package contract

import (
	"time"

	"github.com/effectonce/effectonce"
)

// Contract is one provider's promises. It is not changed after loading.
type Contract struct {
	// Name is what configurations refer to ("stripe/v1"); Title is for people.
	Name, Title string
	// File is where it was read from.
	File string
	// Version is the SHA-256 of what the file says in canonical form, without its examples, as hex. A comment does
	// not change it; it is stored with each operation (S3.11).
	Version string
	// Scope lists what belongs to the scope in which the provider remembers a key (S3.10).
	Scope []ScopePart
	// Credential says how a request is authenticated.
	Credential Credential
	// VersionHeader carries the API version, where one is configured; empty: there is no such header.
	VersionHeader string
	// Hosts are where the provider's API is, for people and for checks of a configuration; Signed says how requests are signed.
	Hosts  []string
	Signed Signing
	// ScopeFrom says where a request shows the parts of the scope that it shows.
	ScopeFrom []ScopeFrom
	// Otherwise says what requests are that no operation describes.
	Otherwise Otherwise
	// Sources are the evidence, by the name that claims refer to.
	Sources map[string]Source
	// Operations by name.
	Operations map[string]*Operation
	// Requests are examples of requests, with the operation that each is.
	Requests []RequestExample
}

// ScopePart is one thing that separates what a provider remembers.
type ScopePart string

// The scope parts. The base URL always belongs to the scope.
const (
	ScopeBaseURL    ScopePart = "base_url"
	ScopeAPIVersion ScopePart = "api_version"
	ScopeAccount    ScopePart = "account"
	ScopeCredential ScopePart = "credential"
	ScopeRegion     ScopePart = "region"
	ScopeCluster    ScopePart = "cluster"
	ScopeEndpoint   ScopePart = "endpoint" // the operation's method and path
	ScopeAPIKey     ScopePart = "api_key"
	ScopeApp        ScopePart = "app"
	ScopeQueue      ScopePart = "queue"
	ScopeTopic      ScopePart = "topic"
	ScopeProject    ScopePart = "project"
	ScopeNamespace  ScopePart = "namespace"
	ScopeAuthor     ScopePart = "author"
	ScopeResource   ScopePart = "resource" // what the operation works on
)

// ScopeParts lists the parts there are.
var ScopeParts = []ScopePart{
	ScopeBaseURL, ScopeAPIVersion, ScopeAccount, ScopeCredential, ScopeRegion, ScopeCluster, ScopeEndpoint, ScopeAPIKey, ScopeApp, ScopeQueue,
	ScopeTopic, ScopeProject, ScopeNamespace, ScopeAuthor, ScopeResource,
}

// ScopeFrom is a part of the scope that a request shows: in a header, a parameter, a field, the host, a placeholder of the path or the
// credential scope of its signature. One that the request does not show has the value Default.
type ScopeFrom struct {
	Part    ScopePart
	In      Place
	Name    string
	Default string
}

// Signing says that a signature covers the body, so that whoever changes it has to sign again. The zero value: nothing is signed.
type Signing struct {
	// Kind is sigv4 or hmac; Service the service's name in the signature, for sigv4; Header where the signature is, for hmac.
	Kind, Service, Header string
}

// Credential says where a request carries its authentication: Prefix and the secret, in Header.
type Credential struct {
	Header, Prefix string
}

// Source is the evidence for claims.
type Source struct {
	// URL is where it says so; Checked the day on which somebody looked, as YYYY-MM-DD.
	URL     string
	Checked string
	Grade   Grade
	// Says is what it says, in our own words.
	Says string
}

// Good reports whether the source can carry a claim: it has an address and a date, and is not a third party's reading.
func (s Source) Good() bool {
	if s.URL == "" || s.Checked == "" {
		return false
	}
	switch s.Grade {
	case GradeOfficial, GradeSpecification, GradeMirror, GradeObserved, GradeOperator:
		return true
	}
	return false
}

// Grade says what kind of source it is.
type Grade string

// The grades. A reading by third parties carries no claim that could justify a resend.
const (
	GradeOfficial      Grade = "official"      // the provider's own page
	GradeSpecification Grade = "specification" // a standard, an official SDK or model file
	GradeMirror        Grade = "mirror"        // a copy of the official page
	GradeObserved      Grade = "observed"      // by running it
	GradeOperator      Grade = "operator"      // the operator of an installation vouches for it
	GradeReading       Grade = "reading"       // somebody else's reading of the provider's page
)

// Place is where in a request something goes.
type Place string

// The places.
const (
	PlaceHeader Place = "header"
	PlaceBody   Place = "body"
	PlaceQuery  Place = "query"
)

// Encoding is how a request's body is written.
type Encoding string

// The encodings.
const (
	EncodingForm Encoding = "form" // application/x-www-form-urlencoded, nested names in brackets
	EncodingJSON Encoding = "json"
)

// Spot is a place with a name in it.
type Spot struct {
	Place Place
	// Name of the header, parameter, field, variable, placeholder, mail header or directive.
	Name string
	// Argument of a directive. At is where the body holds the mail's headers: an object of them, or with List a list of objects with Name
	// and Value.
	Argument string
	At       Path
	List     bool
}

// Companion is what has to go along with a key: a constant, or the time of the first send.
type Companion struct {
	Spot
	Value     any    // a constant: text, a number or a boolean
	FirstSent string // the format of the time of the first send: http, rfc3339 or unix; empty: Value counts
}

// Key says where the downstream key goes and in which form (S3.9). The zero Key is that of a provider that has none.
type Key struct {
	Place Place
	Name  string
	// Argument, At and List: see Spot. Also are further places of the same key.
	Argument string
	At       Path
	List     bool
	Also     []Spot
	// Companions go along on every send.
	Companions []Companion
	Form       effectonce.KeyForm
	// LengthMin and Charset (a class of a regular expression) are what the provider accepts; the loader checks the form against them.
	LengthMin int
	Charset   string
	// Minted is a pattern of the keys that the provider's own clients make up. They are overwritten; a key that does not look so was
	// chosen by the caller. Empty: a random UUID.
	Minted string
	// Required says that the provider refuses a request without a key; ServerMints that it makes one up.
	Required, ServerMints bool
	Source                Source
}

// spots lists every place of the key.
func (k Key) spots() []Spot {
	if k.Place == "" {
		return nil
	}
	return append([]Spot{{Place: k.Place, Name: k.Name, Argument: k.Argument, At: k.At, List: k.List}}, k.Also...)
}

// Known reports whether the provider dedupes by a key, on good evidence.
func (k Key) Known() bool { return k.Place != "" && k.Source.Good() }

// RetentionKind says what ends the provider's memory of a key.
type RetentionKind string

// The kinds. The last three never justify a resend (S14.5).
const (
	RetentionAtLeast     RetentionKind = "at_least"     // a time
	RetentionLifetime    RetentionKind = "lifetime"     // as long as what was created exists
	RetentionWhileActive RetentionKind = "while_active" // as long as what was created is open or running: nobody knows for how long
	RetentionUnpublished RetentionKind = "unpublished"  // the provider does not say
	RetentionBestEffort  RetentionKind = "best_effort"  // the provider says that it may forget
)

// Retention is the time for which the provider certainly remembers a key, counted from when it first got it.
type Retention struct {
	Kind    RetentionKind
	AtLeast time.Duration
	Forever bool
	// Starts is where the provider counts from: first_receipt, first_completion, resource_end or client_declared. Every one of them but the last is not
	// before the first send, from which the window is counted (S7.2); client_declared is the first_sent of a companion.
	Starts string
	// After is what the key does when it is forgotten: new_effect (also where nobody says) or refused.
	After string
	// BodyBytesMax bounds the requests for which the promise holds; 0: there is no bound.
	BodyBytesMax int
	Source       Source
}

// Known reports whether the retention can justify a resend.
func (r Retention) Known() bool {
	switch r.Kind {
	case RetentionWhileActive, RetentionUnpublished, RetentionBestEffort:
		return false
	}
	return (r.Forever || r.AtLeast > 0) && r.Source.Good()
}

// Span is a sourced upper bound on a duration.
type Span struct {
	AtMost time.Duration
	Stated bool
	Source Source
}

// Known reports whether the bound is stated on good evidence.
func (s Span) Known() bool { return s.Stated && s.Source.Good() }

// Stamp says where a created resource is marked, and where an answer shows the mark.
type Stamp struct {
	Place Place
	Field Path
	// Path is where the created resource shows it.
	Path Path
	// Echoed says that a successful answer always shows it, so that one without it is not ours (S6.7).
	Echoed bool
	// At and List: see Spot, for mail headers.
	At   Path
	List bool
	// LengthMax cuts the stamp, which has StampLength characters; 0: it is whole.
	LengthMax int
	// Append is the mark that a text of the caller's gets at its end, with the stamp in the place of {stamp}; empty: the stamp is the whole field.
	Append string
	// InLookUp says that a look-up shows it.
	InLookUp bool
	Source   Source
}

// StampLength is how many characters a stamp has; StampLengthMin is how many must be left of it.
const (
	StampLength    = 64
	StampLengthMin = 22
)

// Cut is the stamp as the provider gets it.
func (s Stamp) Cut(stamp string) string {
	if s.LengthMax > 0 && len(stamp) > s.LengthMax {
		return stamp[:s.LengthMax]
	}
	return stamp
}

func (s Stamp) spot() Spot {
	return Spot{Place: s.Place, Name: string(s.Field), At: s.At, List: s.List}
}

// Set reports whether there is a place for a stamp.
func (s Stamp) Set() bool { return s.Place != "" }

// By says by what a look-up recognises what an operation did.
type By string

// The ways of recognising. Equal amounts are not identity.
const (
	ByStamp     By = "stamp"
	ByKey       By = "key"
	ByReference By = "reference" // the id that an answer named
)

// LookUp says how to ask what an operation did, without any effect (S7.1). Nil: the provider cannot be asked.
type LookUp struct {
	Name string
	// Method is GET, or POST for an API that reads by POST; Encoding and Body are then the body, with templates in its texts.
	Method   string
	Encoding Encoding
	Body     map[string]any
	Header   map[string]string
	// Path and Query are templates over the rendered request ({body.payment_intent}), and {stamp}, {downstream_key},
	// {reference}.
	Path  string
	Query map[string]string
	// By is how an item is recognised: Stamp, Key or Reference is where it shows that.
	By By
	// Answer is the format of the answer. Items is where it holds the resources (empty: the answer itself is the array, or with Single the resource).
	// Stamp, Key and Reference are paths in an item.
	Answer    Format
	Single    bool
	Items     Path
	Stamp     Path
	Key       Path
	Reference Path
	// AbsentStatus are the statuses by which the provider says that there is nothing; only a sourced one counts.
	AbsentStatus []int
	Paging       Paging
	// Consistency is strong, eventual or unknown. Lag is how far the view may be behind. Where it is not known, absence can never be concluded.
	Consistency string
	Lag         Span
	// Horizon is how far back the view certainly reaches; 0: to the beginning. AbsentMeansUnknown says that what is not found may exist all the same.
	Horizon            time.Duration
	AbsentMeansUnknown bool
	Source             Source
}

// Conclusive reports whether an absence that this look-up saw can ever count.
func (l *LookUp) Conclusive() bool { return l.Lag.Known() && !l.AbsentMeansUnknown }

// PagingKind is how a list goes on.
type PagingKind string

// The kinds of paging.
const (
	PagingNone          PagingKind = "none"           // one answer holds everything
	PagingStartingAfter PagingKind = "starting_after" // the parameter is the last item's reference
	PagingPage          PagingKind = "page"           // the parameter is a page number; an empty page is behind the end
	PagingCursor        PagingKind = "cursor"         // the parameter is what the answer holds at Next; none there is the end
)

// Paging says how a list goes on to its end.
type Paging struct {
	Kind      PagingKind `json:"kind"`
	Parameter string     `json:"parameter,omitempty"`
	// More is where an answer says with a boolean whether there is another page; needed for starting_after.
	More Path `json:"more,omitempty"`
	// Next is where an answer holds the next cursor.
	Next Path `json:"next,omitempty"`
	// First is the number of the first page; there is no default, since a wrong one misses a page.
	First *int `json:"first,omitempty"`
}

// Format is how an answer is written. Paths lead through XML as they do through JSON: element names, without the root's.
type Format string

// The formats.
const (
	FormatJSON Format = "json"
	FormatXML  Format = "xml"
	FormatForm Format = "form"
	FormatText Format = "text" // no structure: only rules over status, header and text
)

// Operation is what one call of the provider promises. It is not changed after loading.
type Operation struct {
	// Name in its contract, and the contract's name and version; the version covers settings too.
	Name, Contract, Version string
	// Method, Path and Where are how a request of it looks; see Contract.Match.
	Method, Path string
	Where        []Condition
	// Effect is what a repeat does; EffectSource its evidence, without which a convergent operation counts as none.
	Effect       Effect
	EffectSource Source
	Encoding     Encoding
	Key          Key
	Retention    Retention
	Stamp        Stamp
	Fingerprint  Fingerprint
	Replays      ReplayModel
	// Scope and ScopeFrom are the contract's parts of the scope and the operation's own.
	Scope     []ScopePart
	ScopeFrom []ScopeFrom
	Signed    Signing
	// Answer is the format of the provider's answers.
	Answer Format
	// Reference is where a successful answer holds the id of what was created; empty: it need not hold one.
	Reference Path
	// LookUp is the first of LookUps: the one whose absence counts. The others can only find.
	LookUp  *LookUp
	LookUps []*LookUp
	// Processing is the provider's longest processing (S5.11).
	Processing Span
	// Replay marks an answer as one from the provider's record of the key; a zero Header means there is no mark.
	Replay ReplayMark
	// Code and Message are where an error answer says what is wrong; the first that is there counts.
	Code, Message []Path
	Verdicts      []Rule
	Examples      []Example
	// Compensation is how the operation is undone; nil: nobody says.
	Compensation *Compensation
	// Sweep says how what it did is listed by time; nil: it cannot be.
	Sweep *Sweep
	// Given lists what the operator has to give or may give, by the names of Settings' fields.
	Given []string

	// versionHeader goes along with a look-up.
	versionHeader string
}

// Fingerprint says what the provider compares under a key (full, vars or none; empty: nobody says), and what of a request is business: Headers
// are, and the fields in Exclude are not (S4).
type Fingerprint struct {
	Provider string
	Exclude  []Path
	Headers  []string
	Source   Source
}

// ReplayModel says what a repeat under the same key gets: after a success original or current_state; after an error replayed, not_stored, reexecuted
// or partial. Empty: nobody says.
type ReplayModel struct {
	Success, Errors string
	Source          Source
}

// Compensation names the operation of the same contract that undoes this one, by the id of what was created or by its key.
type Compensation struct {
	Operation string
	By        string // id or key
	Source    Source
}

// ReplayMark is a response header with a value that marks a replayed answer.
type ReplayMark struct{ Header, Value string }

// Rule is one line of the verdict table. The first that matches counts; where none does the verdict is unknown (S6.1).
type Rule struct {
	When    Match
	Verdict effectonce.Verdict
	// Authoritative and StoredError: see effectonce.End.
	Authoritative bool
	StoredError   bool
	// Means is what the answer says beyond its verdict, "" if nothing.
	Means Means
	// Reference is where an answer that means done_elsewhere names the resource. Proves says what the source says about it: key, if it is
	// certainly what this key created, so that the answer is a success.
	Reference Path
	Proves    string
	// Reason is what people are told.
	Reason string
	Source Source
}

// Means is a verdict of the file that is more than one of the core's.
type Means string

// The meanings.
const (
	// MeansElsewhere: the answer names a resource that is there already. It may be ours: it is looked up by its reference.
	MeansElsewhere Means = "done_elsewhere"
	// MeansExpired: the provider refused, since the key is too old. This send had no effect; an earlier one may have had.
	MeansExpired Means = "expired"
	// MeansMismatch: the key is on record with another request. What that did is not known.
	MeansMismatch Means = "mismatch"
)

// On says for which attempts a rule holds.
type On string

// The attempts.
const (
	OnAny    On = "any"
	OnFirst  On = "first"
	OnResend On = "resend" // an earlier attempt may have reached the provider
)

// Match is a rule's condition; all parts that are set must hold.
type Match struct {
	Status []StatusRange
	// Header maps a name to its value, compared without case; "*" is any value but the empty one.
	Header map[string]string
	// Body maps a path to the values allowed there; "*" is any value but null and the empty string.
	Body map[Path][]string
	// Missing lists paths at which the body holds nothing.
	Missing []Path
	// Text lists stretches of which the body, as it is, holds at least one.
	Text    []string
	Attempt On
}

// StatusRange is an inclusive range of statuses.
type StatusRange struct{ From, To int }

// RequestExample is a request with the operation that it must be matched with: its name, read, or unknown for a write that nobody described.
type RequestExample struct {
	Name string
	Request
	Want string
}

// Example is an answer with the verdict it must get.
type Example struct {
	Name   string
	Resend bool
	Response
	Want          effectonce.Verdict
	Authoritative bool
	StoredError   bool
	Means         Means
	Reference     string
}
