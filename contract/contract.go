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
	// Sources are the evidence, by the name that claims refer to.
	Sources map[string]Source
	// Operations by name.
	Operations map[string]*Operation
}

// ScopePart is one thing that separates what a provider remembers.
type ScopePart string

// The scope parts. The base URL always belongs to the scope.
const (
	ScopeBaseURL    ScopePart = "base_url"
	ScopeAPIVersion ScopePart = "api_version"
	ScopeAccount    ScopePart = "account"
	ScopeCredential ScopePart = "credential"
)

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

// Key says where the downstream key goes and in which form (S3.9). The zero Key is that of a provider that has none.
type Key struct {
	Place  Place
	Name   string
	Form   effectonce.KeyForm
	Source Source
}

// Known reports whether the provider dedupes by a key, on good evidence.
func (k Key) Known() bool { return k.Place != "" && k.Source.Good() }

// Retention is the time for which the provider certainly remembers a key, counted from when it first got it.
type Retention struct {
	AtLeast time.Duration
	Forever bool
	Source  Source
}

// Known reports whether the retention can justify a resend.
func (r Retention) Known() bool { return (r.Forever || r.AtLeast > 0) && r.Source.Good() }

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
	Source Source
}

// Set reports whether there is a place for a stamp.
func (s Stamp) Set() bool { return s.Place != "" }

// LookUp says how to ask what an operation did, without any effect (S7.1). Nil: the provider cannot be asked.
type LookUp struct {
	// Path and Query are templates over the rendered request ({body.payment_intent}), and {stamp}, {downstream_key},
	// {reference}.
	Path  string
	Query map[string]string
	// Items is where an answer holds the resources (empty: the answer itself is the array). Stamp and Reference are paths in an
	// item.
	Items     Path
	Stamp     Path
	Reference Path
	Paging    Paging
	// Lag is how far the view may be behind. Where it is not known, absence can never be concluded.
	Lag    Span
	Source Source
}

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

// Operation is what one call of the provider promises. It is not changed after loading.
type Operation struct {
	// Name in its contract, and the contract's name and version; the version covers settings too.
	Name, Contract, Version string
	Method, Path            string
	Encoding                Encoding
	Key                     Key
	Retention               Retention
	Stamp                   Stamp
	// Reference is where a successful answer holds the id of what was created; empty: it need not hold one.
	Reference Path
	LookUp    *LookUp
	// Processing is the provider's longest processing (S5.11).
	Processing Span
	// Replay marks an answer as one from the provider's record of the key; a zero Header means there is no mark.
	Replay ReplayMark
	// Code and Message are where an error answer says what is wrong; the first that is there counts.
	Code, Message []Path
	Verdicts      []Rule
	Examples      []Example
	// Given lists what the operator has to give or may give, by the names of Settings' fields.
	Given []string
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
	// Reason is what people are told.
	Reason string
	Source Source
}

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
	Attempt On
}

// StatusRange is an inclusive range of statuses.
type StatusRange struct{ From, To int }

// Example is an answer with the verdict it must get.
type Example struct {
	Name   string
	Resend bool
	Response
	Want          effectonce.Verdict
	Authoritative bool
	StoredError   bool
	Reference     string
}
