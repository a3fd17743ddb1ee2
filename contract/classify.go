package contract

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/effectonce/effectonce"
)

// Response is a provider's whole answer to one attempt.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Beginning says that the answer was too large and Body is only its beginning.
	Beginning bool
}

// OmittedNamed is why a success has no result: an answer that said that it is done already named it (see [MeansElsewhere]).
const OmittedNamed = "named_by_error"

// Limits on what a failure quotes, and on a pause that a provider asks for.
const (
	MessageRunesMax   = 500
	ReferenceBytesMax = 512
	RetryAfterMax     = 24 * time.Hour
)

// Classify says what an answer means (S6.1, S6.3): the first rule that matches counts, and where none does the verdict is
// unknown whatever the file says. resend says that an earlier attempt may have reached the provider. A success whose body cannot
// be read, or lacks the reference or the echoed stamp that the contract promises, is unknown too. Whether a stamp is this
// operation's is for the caller to check (S6.7); see Foreign.
func (o *Operation) Classify(r Response, resend bool) effectonce.End {
	document, bodyErr := o.Answer.decode(r.Body, r.Beginning)
	end := effectonce.End{Verdict: effectonce.VerdictUnknown, RetryAfter: retryAfter(r.Header)}
	end.Failure = effectonce.Failure{Code: "unclassified", Status: r.Status, Message: "the contract says nothing about this answer"}

	rule, ok := o.rule(r, document, resend)
	if ok {
		end.Verdict = rule.Verdict
		end.Authoritative, end.StoredError = rule.Authoritative, rule.StoredError
		end.Failure.Code, end.Failure.Message = string(rule.Verdict), rule.Reason
	}
	if rule.Means == MeansElsewhere {
		end.Reference = rule.Reference.first(document)
		if len(end.Reference) > ReferenceBytesMax {
			end.Reference = ""
		}
	}
	if end.Verdict == effectonce.VerdictSucceeded {
		if rule.Means != MeansElsewhere {
			return o.success(r, document, bodyErr)
		}
		if end.Reference != "" {
			// The resource that this key created is named, and not shown.
			return effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: end.Reference, Omitted: OmittedNamed}
		}
		end.Verdict = effectonce.VerdictUnknown
	}
	if rule.Means != "" {
		end.Failure.Code = string(rule.Means)
	} else if code := firstText(o.Code, document); code != "" {
		end.Failure.Code = clip(code, 100)
	}
	if message := firstText(o.Message, document); message != "" {
		if end.Failure.Message != "" {
			end.Failure.Message += ": "
		}
		end.Failure.Message = clip(end.Failure.Message+message, MessageRunesMax)
	}
	return end
}

func (o *Operation) rule(r Response, document any, resend bool) (Rule, bool) {
	for _, rule := range o.Verdicts {
		if rule.When.holds(r, document, resend) {
			return rule, true
		}
	}
	return Rule{}, false
}

func (o *Operation) success(r Response, document any, bodyErr error) effectonce.End {
	unknown := func(code, message string) effectonce.End {
		return effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: code, Message: message, Status: r.Status}}
	}
	end := effectonce.End{Verdict: effectonce.VerdictSucceeded}
	if len(bytes.TrimSpace(r.Body)) == 0 {
		if o.Reference != "" || o.Stamp.Echoed {
			return unknown("empty_answer", "the answer says success and holds nothing")
		}
		return end
	}
	if bodyErr != nil {
		return unknown("garbled_answer", "the answer says success and its body is not "+strings.ToUpper(string(cmp.Or(o.Answer, FormatJSON))))
	}
	if o.Reference != "" {
		end.Reference = o.Reference.first(document)
		if (end.Reference == "" && !r.Beginning) || len(end.Reference) > ReferenceBytesMax {
			return unknown("no_reference", "the answer says success and does not hold "+string(o.Reference))
		}
	}
	if o.Stamp.Echoed && !r.Beginning && o.Stamp.read(o.Stamp.Path.first(document)) == "" {
		return unknown("no_stamp", "the answer says success and does not show the stamp that was sent")
	}
	if r.Beginning {
		end.Omitted = "too_large"
		return end
	}
	end.Result = o.Answer.result(r.Body)
	return end
}

// Foreign reports whether a successful answer shows a stamp that is not this one: it is about somebody else's resource
// (S6.7).
func (o *Operation) Foreign(r Response, stamp string) bool {
	if !o.Stamp.Set() {
		return false
	}
	document, err := o.Answer.decode(r.Body, r.Beginning)
	if err != nil {
		return false
	}
	v, ok := o.Stamp.Path.Find(document)
	shown := o.Stamp.read(o.Stamp.Path.Text(document))
	if shown == "" && o.Stamp.Append != "" {
		// A text without a mark says nothing about whose it is.
		return false
	}
	return ok && v != nil && shown != o.Stamp.Cut(stamp)
}

func (m Match) holds(r Response, document any, resend bool) bool {
	switch {
	case m.Attempt == OnFirst && resend, m.Attempt == OnResend && !resend:
		return false
	case len(m.Status) > 0 && !m.hasStatus(r.Status):
		return false
	}
	for name, want := range m.Header {
		got := r.Header.Get(name)
		if got == "" || (want != "*" && !strings.EqualFold(got, want)) {
			return false
		}
	}
	for path, values := range m.Body {
		if !slices.ContainsFunc(path.all(document), func(v any) bool { return allowed(textOf(v), values) }) {
			return false
		}
	}
	for _, path := range m.Missing {
		for _, v := range path.all(document) {
			if v != nil && v != "" {
				return false
			}
		}
	}
	return len(m.Text) == 0 || slices.ContainsFunc(m.Text, func(s string) bool { return bytes.Contains(r.Body, []byte(s)) })
}

func (m Match) hasStatus(status int) bool {
	for _, s := range m.Status {
		if status >= s.From && status <= s.To {
			return true
		}
	}
	return false
}

func allowed(got string, values []string) bool {
	if got == "" {
		return false
	}
	for _, v := range values {
		// A star at the beginning is any beginning, for names with a name space before them: "*#QueueDoesNotExist".
		if end, open := strings.CutPrefix(v, "*"); v == got || open && strings.HasSuffix(got, end) {
			return true
		}
	}
	return false
}

func firstText(paths []Path, document any) string {
	for _, p := range paths {
		if s := p.first(document); s != "" {
			return s
		}
	}
	return ""
}

// clip bounds text that a stranger wrote and takes out what could forge a log line.
func clip(s string, runesMax int) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > runesMax {
		return string(runes[:runesMax]) + "..."
	}
	return s
}

// retryAfter reads Retry-After as seconds, or as a date against the answer's own Date, so that no clock of ours is needed.
// What is negative or cannot be read is no wish.
func retryAfter(h http.Header) time.Duration {
	s := strings.TrimSpace(h.Get("Retry-After"))
	if s == "" {
		return 0
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n > int64(RetryAfterMax/time.Second) {
			return RetryAfterMax
		}
		return max(time.Duration(n)*time.Second, 0)
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), RetryAfterMax)
}
