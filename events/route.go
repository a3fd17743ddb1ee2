package events

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// What holds for a route that does not say it.
const (
	DefaultRouteAttempts   = 12
	DefaultRouteBackoff    = time.Second
	DefaultRouteBackoffMax = 5 * time.Minute
	DefaultRouteTimeout    = 10 * time.Second
)

// Route is where outgoing messages of some subjects go: to a Webhook or to NATS, one of the two. Of several the first that matches
// counts. It is plain data.
type Route struct {
	// Subjects are patterns as NATS has them: * is one part between dots, > at the end is one or more.
	Subjects []string
	Webhook  *Webhook
	NATS     *Publisher
	// Attempts is how often a message is tried before it is parked; Backoff the pause after the first failure, which doubles up to
	// BackoffMax; Timeout bounds one try.
	Attempts            int
	Backoff, BackoffMax time.Duration
	Timeout             time.Duration
}

// Publisher is a NATS server with JetStream, to which messages are published under their subject.
type Publisher struct {
	URL         string
	Credentials Secret // the content of a credentials file; nil: none is needed
}

// WithDefaults fills what a route does not say.
func (r Route) WithDefaults() Route {
	if r.Attempts == 0 {
		r.Attempts = DefaultRouteAttempts
	}
	if r.Backoff == 0 {
		r.Backoff = DefaultRouteBackoff
	}
	if r.BackoffMax == 0 {
		r.BackoffMax = max(DefaultRouteBackoffMax, r.Backoff)
	}
	if r.Timeout == 0 {
		r.Timeout = DefaultRouteTimeout
	}
	return r
}

// Matches reports whether messages of a subject go this way.
func (r Route) Matches(subject string) bool {
	return slices.ContainsFunc(r.Subjects, func(pattern string) bool { return matches(pattern, subject) })
}

// Check returns everything that is wrong with a route after its defaults were filled; each error names the field in Field
// ("webhook.url").
func (r Route) Check() []*effectonce.Error {
	var w wrongs
	if len(r.Subjects) == 0 {
		w.add("subjects", "is missing or empty", `name subjects or patterns, such as "orders.*", or ">" for all`)
	}
	for _, pattern := range r.Subjects {
		if detail := wrongPattern(pattern); detail != "" {
			w.add("subjects", fmt.Sprintf("%.80q %s", pattern, detail), `write parts with dots between them; * stands for one part, > at the end for the rest`)
		}
	}
	switch {
	case r.Webhook == nil && r.NATS == nil:
		w.add("", "says nowhere to go", "give webhook: {url: ...} or nats: {url: ...}")
	case r.Webhook != nil && r.NATS != nil:
		w.add("nats", "stands beside webhook, and a message goes one way", "keep one of the two")
	}
	if r.Webhook != nil {
		w.webhook("webhook", *r.Webhook)
	}
	if r.NATS != nil {
		w.nats("nats", r.NATS.URL)
	}
	if r.Attempts < 1 || r.Attempts > 1000 {
		w.add("attempts", "must be between 1 and 1000", "leave it out for 12")
	}
	if r.BackoffMax < r.Backoff {
		w.add("backoff_max", fmt.Sprintf("is shorter than backoff (%s)", r.Backoff), "raise it")
	}
	if r.Timeout > timeoutMax {
		w.add("timeout", "must be at most 10m", "leave it out for 10s")
	}
	return w.list
}

// Shadowed reports whether no message can reach the last of routes through one of its patterns, because an earlier route takes all
// that it matches, and names that pattern.
func Shadowed(routes []Route) (pattern string, by int, shadowed bool) {
	last := len(routes) - 1
	for _, pattern := range routes[last].Subjects {
		for i, earlier := range routes[:last] {
			if slices.ContainsFunc(earlier.Subjects, func(wide string) bool { return covers(wide, pattern) }) {
				return pattern, i, true
			}
		}
	}
	return "", 0, false
}

func wrongPattern(pattern string) string {
	if strings.ContainsFunc(pattern, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "has white space or control characters"
	}
	parts := strings.Split(pattern, ".")
	for i, part := range parts {
		switch {
		case part == "":
			return "has an empty part"
		case part == ">" && i < len(parts)-1:
			return "has a > that is not at the end"
		case part != "*" && part != ">" && strings.ContainsAny(part, "*>"):
			return "has a wildcard inside a part"
		}
	}
	return ""
}

// matches reports whether a pattern matches a subject.
func matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, part := range want {
		if part == ">" {
			return len(have) > i
		}
		if i >= len(have) || part != "*" && part != have[i] {
			return false
		}
	}
	return len(want) == len(have)
}

// covers reports whether wide matches every subject that narrow matches.
func covers(wide, narrow string) bool {
	w, n := strings.Split(wide, "."), strings.Split(narrow, ".")
	for i, part := range w {
		switch {
		case part == ">":
			return len(n) > i
		case i >= len(n) || n[i] == ">", part != "*" && part != n[i]:
			return false
		}
	}
	return len(w) == len(n)
}
