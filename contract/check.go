package contract

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/effectonce/effectonce"
)

// keyLengthMin is the shortest downstream key of which no collision is thinkable (S3.9).
const keyLengthMin = 22

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?$`)
	headerPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// check refuses what is incomplete, and what would be dangerous to believe (S14.5).
func (c *Contract) check(p *problems) {
	if !namePattern.MatchString(c.Name) {
		p.add("contract", fmt.Sprintf("%q is not a name", c.Name), "write provider/version in lower case, such as stripe/v1")
	}
	if len(c.Operations) == 0 {
		p.add("operations", "is empty", "describe at least one operation")
	}
	if c.VersionHeader != "" && !headerPattern.MatchString(c.VersionHeader) {
		p.add("api_version", fmt.Sprintf("%q is not a header name", c.VersionHeader), "name the header that carries the API version")
	}
	for name, o := range c.Operations {
		at := "operations." + name
		if !namePattern.MatchString(name) {
			p.add(at, "is not a name", "use lower case, digits, dots and underscores")
		}
		o.check(p, at)
	}
}

func (o *Operation) check(p *problems, at string) {
	for _, g := range o.Given {
		if !slices.Contains(settingNames, g) {
			p.add(at+".given", fmt.Sprintf("%q is not a setting", g), "use "+strings.Join(settingNames, ", "))
		}
	}
	switch o.Method {
	case "POST", "PUT", "PATCH", "DELETE":
	default:
		p.add(at+".method", fmt.Sprintf("%q has no effect that could be guarded", o.Method), "use POST, PUT, PATCH or DELETE")
	}
	if o.Encoding != EncodingForm && o.Encoding != EncodingJSON {
		p.add(at+".encoding", fmt.Sprintf("%q is not an encoding", o.Encoding), "use form or json")
	}
	if !strings.HasPrefix(o.Path, "/") && !(o.Path == "" && slices.Contains(o.Given, "path")) {
		p.add(at+".path", "does not begin with a slash", "write the path under the base URL")
	}
	o.checkKey(p, at)
	o.checkStamp(p, at)
	o.checkLookUp(p, at)
	if len(o.Verdicts) == 0 {
		p.add(at+".verdicts", "is missing", "say at least which answer is a success; everything else is unknown")
	}
	for i, rule := range o.Verdicts {
		o.checkRule(p, fmt.Sprintf("%s.verdicts[%d]", at, i), rule)
	}
}

func (o *Operation) checkKey(p *problems, at string) {
	k := o.Key
	if k.Place == "" {
		if o.Retention.AtLeast > 0 || o.Retention.Forever {
			p.add(at+".retention", "is stated, and there is no key that could be remembered", "describe the key, or leave retention out")
		}
		return
	}
	if k.Place != PlaceHeader && k.Place != PlaceBody && k.Place != PlaceQuery {
		p.add(at+".key.in", fmt.Sprintf("%q is not a place", k.Place), "use header, body or query")
	}
	if k.Name == "" || (k.Place == PlaceHeader && !headerPattern.MatchString(k.Name)) || len(Path(k.Name).Segments()) == 0 {
		p.add(at+".key.name", fmt.Sprintf("%q is not a name", k.Name), "name the header, field or parameter that carries the key")
	}
	if !slices.Contains([]string{"", "uuid", "hex", "base64url"}, k.Form.Encoding) {
		p.add(at+".key.encoding", fmt.Sprintf("%q is not an encoding", k.Form.Encoding), "use uuid, hex or base64url")
	}
	if strings.ContainsFunc(k.Form.Prefix, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.add(at+".key.prefix", "holds more than printable ASCII", "leave it out")
	}
	room := k.Form.LengthMax - len(k.Form.Prefix)
	uuid := k.Form.Encoding == "" || k.Form.Encoding == "uuid"
	switch {
	case k.Form.LengthMax == 0:
	case room < keyLengthMin:
		p.add(at+".key.length_max", fmt.Sprintf("leaves %d characters, of which two operations could get the same", room), fmt.Sprintf("at least %d are needed besides the prefix", keyLengthMin))
	case uuid && room < 36:
		p.add(at+".key.length_max", "is too short for a UUID", "use base64url or hex")
	}
	r := o.Retention
	if r.Forever && r.AtLeast > 0 {
		p.add(at+".retention", "is both forever and a time", "say one of them")
	}
	// A window that ends before one call is over protects nothing.
	call := effectonce.DefaultTerms().Processing
	if o.Processing.Known() {
		call = o.Processing.AtMost
	}
	if r.AtLeast > 0 && r.AtLeast <= call {
		p.add(at+".retention.at_least", fmt.Sprintf("the window of %s is shorter than a call, which may be processed for %s", r.AtLeast, call), "leave retention out; then nothing is resent")
	}
}

func (o *Operation) checkStamp(p *problems, at string) {
	s := o.Stamp
	if s == (Stamp{}) {
		return
	}
	if s.Place != PlaceHeader && s.Place != PlaceBody && s.Place != PlaceQuery {
		p.add(at+".stamp.in", fmt.Sprintf("%q is not a place", s.Place), "use header, body or query")
	}
	if len(s.Field.Segments()) == 0 || (s.Place == PlaceHeader && !headerPattern.MatchString(string(s.Field))) {
		p.add(at+".stamp.field", "is missing or no field", "name where the stamp goes, such as metadata.effectonce")
	}
	if len(s.Path.Segments()) == 0 {
		p.add(at+".stamp.path", "is missing", "say where the created resource shows the stamp; one that cannot be read back proves nothing")
	}
	if s.Echoed && !s.Source.Good() {
		p.add(at+".stamp.echoed", "has no source", "name one, or leave it out")
	}
	if o.Key.Place == s.Place && o.Key.Place != "" && strings.EqualFold(strings.Join(Path(o.Key.Name).Segments(), "."), strings.Join(s.Field.Segments(), ".")) {
		p.add(at+".stamp.field", "is the place of the key", "use two places")
	}
}

func (o *Operation) checkLookUp(p *problems, at string) {
	l := o.LookUp
	if l == nil {
		return
	}
	at += ".look_up"
	if !o.Stamp.Set() {
		p.add(at, "looks for a stamp that the operation does not set", "describe the stamp; equal amounts are not identity")
	}
	if len(l.Stamp.Segments()) == 0 {
		p.add(at+".stamp", "is missing", "say where an item shows the stamp")
	}
	if len(l.Reference.Segments()) == 0 {
		p.add(at+".reference", "is missing", "say where an item shows its id")
	}
	if !strings.HasPrefix(l.Path, "/") {
		p.add(at+".path", "does not begin with a slash", "write the path under the base URL; a look-up is a GET")
	}
	paging := l.Paging
	switch paging.Kind {
	case PagingNone:
	case PagingStartingAfter:
		if paging.More == "" {
			p.add(at+".paging.more", "is missing", "say where an answer tells that there is another page")
		}
	case PagingCursor:
		if paging.Next == "" {
			p.add(at+".paging.next", "is missing", "say where an answer holds the next cursor")
		}
	case PagingPage:
		if paging.First == nil {
			p.add(at+".paging.first", "is missing", "say which number the first page has; a wrong one would miss a page")
		}
	default:
		p.add(at+".paging.kind", fmt.Sprintf("%q is not a kind of paging", paging.Kind), "use starting_after, page, cursor, or none for a list that is always whole")
	}
	if paging.Kind != PagingNone && paging.Parameter == "" {
		p.add(at+".paging.parameter", "is missing", "name the parameter of the next page")
	}
}

// timeouts are the statuses by which a machine in front of the provider says that it gave up waiting.
var timeouts = []int{http.StatusRequestTimeout, http.StatusGatewayTimeout, 522, 524, 598, 599}

func (o *Operation) checkRule(p *problems, at string, r Rule) {
	if !slices.Contains(effectonce.Verdicts, r.Verdict) {
		p.add(at+".verdict", fmt.Sprintf("%q is not a verdict", r.Verdict), "use succeeded, rejected, throttled, in_flight or unknown")
		return
	}
	if r.When.Attempt != OnAny && r.When.Attempt != OnFirst && r.When.Attempt != OnResend {
		p.add(at+".when.attempt", fmt.Sprintf("%q is not an attempt", r.When.Attempt), "use first, resend or any")
	}
	if len(r.When.Status) == 0 {
		p.add(at+".when.status", "is missing", "name the statuses")
	}
	if r.Authoritative && r.Verdict != effectonce.VerdictRejected {
		p.add(at+".authoritative", "is only for rejected", "leave it out")
	}
	if r.Authoritative && o.Key.Place == "" {
		p.add(at+".authoritative", "is said of a provider that keeps no record of a key", "leave it out")
	}
	if r.StoredError && (o.Key.Place == "" || (r.Verdict != effectonce.VerdictUnknown && r.Verdict != effectonce.VerdictRejected)) {
		p.add(at+".stored_error", "is only for errors of a provider with a key", "leave it out")
	}
	if r.Verdict == effectonce.VerdictUnknown {
		return
	}
	if r.Verdict == effectonce.VerdictNotSent {
		p.add(at+".verdict", "calls a request that was answered not sent", "use throttled if the provider says that it did not execute, or unknown")
		return
	}
	if !r.Source.Good() {
		p.add(at+".source", fmt.Sprintf("%s needs a source with address, date and a grade better than reading", r.Verdict), "name one, or say unknown")
	}
	o.checkDanger(p, at, r)
}

// checkDanger refuses verdicts that statuses cannot carry.
func (o *Operation) checkDanger(p *problems, at string, r Rule) {
	specific := len(r.When.Body) > 0 || len(r.When.Header) > 0
	for _, s := range r.When.Status {
		only := s.From == s.To
		switch {
		case r.Verdict == effectonce.VerdictSucceeded && s.From >= 200 && s.To <= 299:
		case r.Verdict == effectonce.VerdictSucceeded && !(specific && only && s.From >= 400):
			p.add(at+".verdict", "calls a status outside 200 to 299 a success", "say in body or header what exactly proves it, or use unknown")
		case s.From < 400:
			if r.Verdict != effectonce.VerdictSucceeded {
				p.add(at+".verdict", fmt.Sprintf("calls status %d %s", s.From, r.Verdict), "use unknown; the request may have been executed")
			}
		case r.Verdict == effectonce.VerdictInFlight && s.To <= 499 && o.Key.Place != "":
		case r.Verdict == effectonce.VerdictInFlight:
			p.add(at+".verdict", "says in_flight of a server error, or without a key", "use unknown")
		case slices.ContainsFunc(timeouts, func(t int) bool { return t >= s.From && t <= s.To }):
			p.add(at+".verdict", fmt.Sprintf("calls a time-out %s", r.Verdict), "use unknown; what timed out may have been executed")
		case s.To >= 499 && !(specific && only):
			p.add(at+".verdict", fmt.Sprintf("calls a server error %s without evidence", r.Verdict), "use unknown, or say in body or header what exactly proves it, for one status")
		case r.Verdict == effectonce.VerdictRejected && s.From <= 409 && s.To >= 409 && !(specific && only):
			p.add(at+".verdict", "calls every conflict rejected", "a conflict may be the echo of an earlier request; use unknown, or say in body or header what exactly proves it")
		case r.Authoritative && !o.marked(r) && hasAny(s, 401, 403, 407, 429):
			p.add(at+".authoritative", "is said of a check in front of the record of keys", "leave it out, or demand the mark of a replay in header")
		}
	}
}

// marked reports whether the rule demands the mark of a replayed answer.
func (o *Operation) marked(r Rule) bool {
	for name := range r.When.Header {
		if o.Replay.Header != "" && strings.EqualFold(name, o.Replay.Header) {
			return true
		}
	}
	return false
}

func hasAny(s StatusRange, statuses ...int) bool {
	return slices.ContainsFunc(statuses, func(n int) bool { return n >= s.From && n <= s.To })
}
