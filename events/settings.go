package events

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// Secret returns a secret. It is called each time the secret is used, so that a rotated one counts at once. Nil: there is none.
type Secret func(ctx context.Context) (string, error)

// Verify says how the sender of an event is known.
type Verify string

// The ways to verify a sender.
const (
	VerifyStripe           Verify = "stripe"            // Stripe-Signature
	VerifyGitHub           Verify = "github"            // X-Hub-Signature-256
	VerifyStandardWebhooks Verify = "standard_webhooks" // webhook-id, webhook-timestamp, webhook-signature
	VerifyHMAC             Verify = "hmac"              // HMAC-SHA256 of the body, in a header
	VerifyNone             Verify = "none"              // not at all: whoever reaches the port can send events
)

var verifications = []Verify{VerifyStripe, VerifyGitHub, VerifyStandardWebhooks, VerifyHMAC, VerifyNone}

// Format says what the body of an event is.
type Format string

// The formats.
const (
	FormatJSON        Format = "json"        // a JSON object
	FormatCloudEvents Format = "cloudevents" // CloudEvents 1.0 over HTTP, in binary or structured mode
)

// What holds for a source that does not say it.
const (
	DefaultTolerance      = 5 * time.Minute
	DefaultDeliverTimeout = 30 * time.Second
	DefaultEventLease     = time.Minute
	DefaultEventTimeout   = 15 * time.Minute
	DefaultEventAttempts  = 30
)

// Source is where events come in: POST /v1/inbox/NAME, or a NATS JetStream consumer. It is plain data; [Source.Check] says whether
// it can work.
type Source struct {
	Name   string
	Verify Verify // of HTTP sources only
	// Unsigned admits VerifyNone.
	Unsigned bool
	// Secrets verify signatures; any of them can, while one is rotated.
	Secrets []Secret
	// Tolerance is how old a signed timestamp may be (stripe, standard_webhooks).
	Tolerance time.Duration
	// Header holds the signature of VerifyHMAC, in Encoding ("hex" or "base64") after Prefix.
	Header, Encoding, Prefix string
	// Format is json if empty.
	Format Format
	// EventID, Type and Run are templates over the event: {a.b} of the body, {header.name}. An empty Type is none, or the
	// subject of a NATS message; an empty Run is "SOURCE:EVENT_ID"; an empty EventID of a NATS source is the message's Nats-Msg-Id,
	// else stream and sequence.
	EventID, Type, Run string
	// Only lists the types that are taken; none: all. Others are answered and not stored.
	Only []string
	// Lease is for how long a consumer that claims an event owns it without a heartbeat, Timeout bounds it with all heartbeats, and
	// Attempts is how often an event is handed out before a person has to look.
	Lease, Timeout time.Duration
	Attempts       int
	// Deliver pushes each event to a consumer; nil: consumers claim events.
	Deliver *Webhook
	NATS    *Consumer
}

// Webhook is an HTTP address that gets events. With a Secret they are signed as Standard Webhooks says.
type Webhook struct {
	URL     string
	Secret  Secret
	Timeout time.Duration // of one delivery to a consumer; a route has its own
}

// Consumer is a durable consumer of a JetStream stream, from which events come in.
type Consumer struct {
	URL              string
	Stream, Consumer string
	Credentials      Secret // the content of a credentials file; nil: none is needed
}

// WithDefaults fills what the kind of a source implies.
func (s Source) WithDefaults() Source {
	if s.Format == "" {
		s.Format = FormatJSON
	}
	if s.Tolerance == 0 {
		s.Tolerance = DefaultTolerance
	}
	if s.Verify == VerifyHMAC && s.Encoding == "" {
		s.Encoding = "hex"
	}
	if s.Lease == 0 {
		s.Lease = DefaultEventLease
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultEventTimeout
	}
	if s.Attempts == 0 {
		s.Attempts = DefaultEventAttempts
	}
	id, kind := "", ""
	switch {
	case s.Format == FormatCloudEvents:
		// A producer keeps ids unique per source only.
		id, kind = "{source}:{id}", "{type}"
	case s.Verify == VerifyStripe:
		id, kind = "{id}", "{type}"
	case s.Verify == VerifyGitHub:
		id, kind = "{header.x-github-delivery}", "{header.x-github-event}"
	case s.Verify == VerifyStandardWebhooks:
		id = "{header.webhook-id}"
	}
	if s.EventID == "" {
		s.EventID = id
	}
	if s.Type == "" {
		s.Type = kind
	}
	if s.Deliver != nil && s.Deliver.Timeout == 0 {
		deliver := *s.Deliver
		deliver.Timeout = DefaultDeliverTimeout
		s.Deliver = &deliver
	}
	return s
}

var (
	sourceName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// Bounds of what settings can say.
const (
	timeoutMax   = 10 * time.Minute
	toleranceMax = 24 * time.Hour
	templateMax  = 1024 // bytes
)

// Check returns everything that is wrong with a source after its defaults were filled; each error names the field in Field, as
// effectonce.yaml has it ("deliver.url").
func (s Source) Check() []*effectonce.Error {
	var w wrongs
	if !sourceName.MatchString(s.Name) {
		w.add("", fmt.Sprintf("%.80q cannot be the name of a source", s.Name), "use 1 to 64 of a-z, 0-9, dots, hyphens and underscores")
	}
	if s.NATS != nil {
		s.checkNATS(&w)
	} else {
		s.checkVerify(&w)
	}
	if s.Format != FormatJSON && s.Format != FormatCloudEvents {
		w.add("format", fmt.Sprintf("%.40q is not known", s.Format), "use json or cloudevents")
	}
	for _, t := range [][2]string{{"event_id", s.EventID}, {"type", s.Type}, {"run", s.Run}} {
		w.template(t[0], t[1])
	}
	if s.EventID == "" && s.NATS == nil && (s.Verify == VerifyHMAC || s.Verify == VerifyNone) {
		w.add("event_id", "is missing", `say what identifies an event, such as "{id}" or "{header.x-event-id}"`)
	}
	for i, kind := range s.Only {
		if strings.TrimSpace(kind) == "" || slices.Contains(s.Only[:i], kind) {
			w.add("only", fmt.Sprintf("%.80q names nothing, or is there twice", kind), "name each type once")
		}
	}
	if len(s.Only) > 0 && s.Type == "" && s.NATS == nil {
		w.add("only", "names types, and nothing says what an event's type is", `say type: "{type}"`)
	}
	if s.Lease < time.Second {
		w.add("lease", "is shorter than a second", "leave it out for 1m")
	}
	if s.Timeout < s.Lease {
		w.add("timeout", fmt.Sprintf("is shorter than the lease (%s)", s.Lease), "leave it out for 15m")
	}
	if s.Attempts < 1 || s.Attempts > 1000 {
		w.add("attempts", "must be between 1 and 1000", "leave it out for 30")
	}
	if s.Deliver != nil {
		w.webhook("deliver", *s.Deliver)
	}
	return w.list
}

func (s Source) checkVerify(w *wrongs) {
	signed := false
	switch s.Verify {
	case "":
		w.add("verify", "is missing", "use stripe, github, standard_webhooks or hmac; or none, with unsigned: true")
	case VerifyNone:
		if !s.Unsigned {
			w.add("verify", "is none: whoever reaches the port can send events", "verify the sender, or say unsigned: true")
		}
		if len(s.Secrets) > 0 {
			w.add("secret", "verifies nothing, since verify is none", "say what it verifies: stripe, github, standard_webhooks or hmac")
		}
	case VerifyStripe, VerifyGitHub, VerifyStandardWebhooks, VerifyHMAC:
		signed = true
	default:
		w.add("verify", fmt.Sprintf("%.40q is not known", s.Verify), "use stripe, github, standard_webhooks, hmac or none")
	}
	if signed && len(s.Secrets) == 0 {
		w.add("secret", "is missing", "name it as env:NAME or file:path; a list while it is rotated")
	}
	if signed && s.Unsigned {
		w.add("unsigned", "is said of a source whose sender is verified", "leave it out")
	}
	if s.Tolerance < time.Second || s.Tolerance > toleranceMax {
		w.add("tolerance", "must be between 1s and 24h", "leave it out for 5m")
	}
	s.checkHMAC(w)
}

func (s Source) checkHMAC(w *wrongs) {
	if s.Verify != VerifyHMAC {
		for _, f := range [][2]string{{"header", s.Header}, {"encoding", s.Encoding}, {"prefix", s.Prefix}} {
			if f[1] != "" && slices.Contains(verifications, s.Verify) {
				w.add(f[0], "is for verify: hmac", "leave it out")
			}
		}
		return
	}
	if s.Header == "" {
		w.add("header", "is missing", "name the header that holds the signature")
	} else if !headerName.MatchString(s.Header) {
		w.add("header", "is not a header name", "use letters, digits and hyphens")
	}
	if s.Encoding != "hex" && s.Encoding != "base64" {
		w.add("encoding", fmt.Sprintf("%.40q is not known", s.Encoding), "use hex or base64")
	}
}

func (s Source) checkNATS(w *wrongs) {
	w.nats("nats", s.NATS.URL)
	for _, f := range [][2]string{{"stream", s.NATS.Stream}, {"consumer", s.NATS.Consumer}} {
		if f[1] == "" || strings.ContainsAny(f[1], " \t.*>/\\") {
			w.add("nats."+f[0], "is missing, or has characters that NATS refuses", "use letters, digits, - and _")
		}
	}
	given := []struct {
		name string
		set  bool
	}{{"verify", s.Verify != ""}, {"secret", len(s.Secrets) > 0}, {"unsigned", s.Unsigned}, {"header", s.Header != ""}, {"encoding", s.Encoding != ""}, {"prefix", s.Prefix != ""}}
	for _, g := range given {
		if g.set {
			w.add(g.name, "is for events over HTTP; NATS verifies who publishes", "leave it out")
		}
	}
}

// wrongs collects what is wrong with settings.
type wrongs struct{ list []*effectonce.Error }

func (w *wrongs) add(field, detail, remedy string) {
	w.list = append(w.list, &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: detail, Remedy: remedy})
}

func (w *wrongs) template(field, text string) {
	if text == "" {
		return
	}
	if len(text) > templateMax {
		w.add(field, fmt.Sprintf("is longer than %d bytes", templateMax), "shorten it")
		return
	}
	names, detail := placeholders(text)
	if detail == "" && len(names) == 0 && field != "type" {
		detail = "has no placeholder, so every event would be the same"
	}
	if detail != "" {
		w.add(field, detail, "write placeholders as {name}, {a.b} or {header.name}")
	}
}

// placeholders lists the names between braces, and says what is wrong with a template.
func placeholders(text string) (names []string, detail string) {
	for rest := text; rest != ""; {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			break
		}
		if rest[at] == '}' {
			return nil, "has a } without a {"
		}
		end := strings.IndexAny(rest[at+1:], "{}")
		if end < 0 || rest[at+1+end] == '{' {
			return nil, "has a { without a }"
		}
		name := rest[at+1 : at+1+end]
		if name == "" || strings.ContainsAny(name, " \t") || strings.Contains("."+name+".", "..") || name == "header" {
			return nil, fmt.Sprintf("has the placeholder {%.40s}, which names nothing", name)
		}
		if len(names) > 0 && !strings.ContainsAny(rest[:at], ":/") {
			return nil, fmt.Sprintf("does not keep {%.40s} and {%.40s} apart: put a colon or a slash between them", names[len(names)-1], name)
		}
		names, rest = append(names, name), rest[at+end+2:]
	}
	return names, ""
}

func (w *wrongs) webhook(field string, h Webhook) {
	u, err := url.Parse(h.URL)
	switch {
	case h.URL == "":
		w.add(field+".url", "is missing", "write it like https://host/events")
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		w.add(field+".url", "is not an http or https URL", "write it like https://host/events")
	case u.User != nil:
		// The URL is shown in lists and logs.
		w.add(field+".url", "holds a user or password", "take it out; use secret, by which the receiver verifies the signature")
	}
	if h.Timeout < 0 || h.Timeout > timeoutMax {
		w.add(field+".timeout", "must be at most 10m", "leave it out for 30s")
	}
}

func (w *wrongs) nats(field, address string) {
	u, err := url.Parse(address)
	switch {
	case address == "":
		w.add(field+".url", "is missing", "write it like nats://127.0.0.1:4222")
	case err != nil, !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme), u.Host == "":
		w.add(field+".url", "is not the address of a NATS server", "write it like nats://127.0.0.1:4222")
	case u.User != nil:
		w.add(field+".url", "holds a user, password or token", "take it out and use credentials")
	}
}
