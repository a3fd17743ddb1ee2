package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/effectonce/effectonce"
)

// timeouts are the statuses by which a machine in front of the provider says that it gave up waiting.
var timeouts = []int{http.StatusRequestTimeout, http.StatusGatewayTimeout, 522, 524, 598, 599}

func (o *Operation) checkRule(p *problems, at string, r Rule) {
	if !slices.Contains(effectonce.Verdicts, r.Verdict) {
		p.add(at+".verdict", fmt.Sprintf("%q is not a verdict", r.Verdict), "use succeeded, rejected, throttled, in_flight, unknown, done_elsewhere, expired or mismatch")
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
	if r.Authoritative && (o.Replays.Errors == "not_stored" || o.Replays.Errors == "reexecuted") && !o.marked(r) {
		p.add(at+".authoritative", fmt.Sprintf("is said of a provider whose errors are %s", o.Replays.Errors), "leave it out, or demand the mark of a replay in header")
	}
	if r.StoredError && (o.Replays.Errors == "not_stored" || o.Replays.Errors == "reexecuted") {
		p.add(at+".stored_error", fmt.Sprintf("is said of a provider whose errors are %s", o.Replays.Errors), "leave it out")
	}
	if len(r.When.Body) > 0 && o.Answer == FormatText {
		p.add(at+".when.body", "looks into an answer without structure", "say answer: json or xml, or use text")
	}
	if r.Means == MeansElsewhere && len(r.Reference.Segments()) == 0 {
		p.add(at+".reference", "is missing", "say where the answer names the resource that is there already")
	}
	if r.Proves != "" && (r.Proves != "key" || r.Means != MeansElsewhere || o.Key.Place == "") {
		p.add(at+".proves", "says key of an answer that is not done_elsewhere, or without a key", "use proves: key only where a source says that the named resource is what this key created")
	}
	if r.Reference != "" && r.Means != MeansElsewhere {
		p.add(at+".reference", "is only for done_elsewhere", "leave it out")
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
	if r.Means == MeansExpired && o.Key.Place == "" {
		p.add(at+".verdict", "says expired of a request without a key", "use unknown")
	}
	if r.Verdict == effectonce.VerdictNotSent {
		p.add(at+".verdict", "calls a request that was answered not sent", "use throttled if the provider says that it did not execute, or unknown")
		return
	}
	if !r.Source.Good() {
		p.add(at+".source", fmt.Sprintf("%s needs a source with address, date and a grade better than reading", r.Verdict), "name one, or say unknown")
	}
	if slices.Contains(r.When.Text, "") {
		p.add(at+".when.text", "holds an empty text, which every body has", "say what exactly proves it")
	}
	o.checkDanger(p, at, r)
}

// checkDanger refuses verdicts that statuses cannot carry.
func (o *Operation) checkDanger(p *problems, at string, r Rule) {
	specific := len(r.When.Body) > 0 || len(r.When.Header) > 0 || len(r.When.Text) > 0
	exact := r.When.exact()
	for _, s := range r.When.Status {
		only := s.From == s.To
		switch {
		case r.Verdict == effectonce.VerdictSucceeded && s.From >= 200 && s.To <= 299:
			if !only && hasAny(s, 202) {
				p.add(at+".verdict", "calls 202 a success with others: it says that the request was accepted, not that it was executed", "list the statuses, and give 202 a rule of its own with the source that says what is done by then")
			}
		case r.Verdict == effectonce.VerdictSucceeded && !(exact && only && s.From >= 400):
			p.add(at+".verdict", "calls a status outside 200 to 299 a success", "say in body or header what exactly proves it, or use unknown")
		case s.From < 400:
			// Some APIs say in the body of a 200 what went wrong, or create something that was declined with a 201.
			if r.Verdict != effectonce.VerdictSucceeded && !(only && (s.From == 200 || s.From == 201) && (len(r.When.Body) > 0 || len(r.When.Text) > 0)) {
				p.add(at+".verdict", fmt.Sprintf("calls status %d %s", s.From, r.Verdict), "use unknown; the request may have been executed")
			}
		case r.Verdict == effectonce.VerdictInFlight && s.To <= 499 && o.Key.Place != "":
		case r.Verdict == effectonce.VerdictInFlight:
			p.add(at+".verdict", "says in_flight of a server error, or without a key", "use unknown")
		case slices.ContainsFunc(timeouts, func(t int) bool { return t >= s.From && t <= s.To }):
			p.add(at+".verdict", fmt.Sprintf("calls a time-out %s", r.Verdict), "use unknown; what timed out may have been executed")
		case s.To >= 499 && !(exact && only):
			p.add(at+".verdict", fmt.Sprintf("calls a server error %s without evidence", r.Verdict), "use unknown, or say in body or header what exactly proves it, for one status")
		case r.Verdict == effectonce.VerdictRejected && s.From <= 409 && s.To >= 409 && !(specific && only):
			p.add(at+".verdict", "calls every conflict rejected", "a conflict may be the echo of an earlier request; use unknown, or say in body or header what exactly proves it")
		case r.Authoritative && !o.marked(r) && hasAny(s, 401, 403, 407, 429):
			p.add(at+".authoritative", "is said of a check in front of the record of keys", "leave it out, or demand the mark of a replay in header")
		}
	}
}

// exact reports whether the condition demands something definite of header or body, not only that anything is there.
func (m Match) exact() bool {
	definite := func(values ...string) bool {
		return !slices.ContainsFunc(values, func(v string) bool { return strings.Trim(v, "*") == "" })
	}
	for _, values := range m.Body {
		if len(values) > 0 && definite(values...) {
			return true
		}
	}
	for _, value := range m.Header {
		if definite(value) {
			return true
		}
	}
	return len(m.Text) > 0 && definite(m.Text...)
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
