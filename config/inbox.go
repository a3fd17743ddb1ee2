package config

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/policy"
)

type sourceForm struct {
	Verify    string          `yaml:"verify"`
	Unsigned  bool            `yaml:"unsigned"`
	Secret    references      `yaml:"secret"`
	Tolerance policy.Duration `yaml:"tolerance"`
	Header    string          `yaml:"header"`
	Encoding  string          `yaml:"encoding"`
	Prefix    string          `yaml:"prefix"`
	Format    string          `yaml:"format"`
	EventID   string          `yaml:"event_id"`
	Type      string          `yaml:"type"`
	Run       string          `yaml:"run"`
	Only      []string        `yaml:"only"`
	Lease     policy.Duration `yaml:"lease"`
	Timeout   policy.Duration `yaml:"timeout"`
	Attempts  int             `yaml:"attempts"`
	Deliver   *deliverForm    `yaml:"deliver"`
	NATS      *consumerForm   `yaml:"nats"`
}

type deliverForm struct {
	URL     string          `yaml:"url"`
	Secret  string          `yaml:"secret"`
	Timeout policy.Duration `yaml:"timeout"`
}

type consumerForm struct {
	URL         string `yaml:"url"`
	Stream      string `yaml:"stream"`
	Consumer    string `yaml:"consumer"`
	Credentials string `yaml:"credentials"`
}

type routeForm struct {
	Subjects   []string        `yaml:"subjects"`
	Webhook    *webhookForm    `yaml:"webhook"`
	NATS       *publisherForm  `yaml:"nats"`
	Attempts   int             `yaml:"attempts"`
	Backoff    policy.Duration `yaml:"backoff"`
	BackoffMax policy.Duration `yaml:"backoff_max"`
	Timeout    policy.Duration `yaml:"timeout"`
}

type webhookForm struct {
	URL    string `yaml:"url"`
	Secret string `yaml:"secret"`
}

type publisherForm struct {
	URL         string `yaml:"url"`
	Credentials string `yaml:"credentials"`
}

// references is one reference to a secret, or a list of them while the secret is rotated.
type references []string

func (s *references) decode(c *check, n *node, path []string) {
	if n.shape != shapeList {
		if c.is(n, shapeText, path) {
			*s = references{n.text}
		}
		return
	}
	if len(n.items) == 0 {
		c.at(n, field(path), "names no secret", "name one as env:NAME or file:path")
	}
	for i, item := range n.items {
		text := ""
		if c.is(item, shapeText, join(path, strconv.Itoa(i))) {
			text = item.text
		}
		*s = append(*s, text)
	}
}

// inbox reads where events come in.
func (r *reading) inbox(forms map[string]sourceForm) {
	r.config.Inbox, r.config.sources = map[string]events.Source{}, map[string]*node{}
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		form, path := forms[name], []string{"inbox", name}
		s := events.Source{
			Name: name, Verify: events.Verify(form.Verify), Unsigned: form.Unsigned, Tolerance: form.Tolerance.Std(),
			Header: form.Header, Encoding: form.Encoding, Prefix: form.Prefix, Format: events.Format(form.Format),
			EventID: form.EventID, Type: form.Type, Run: form.Run, Only: form.Only,
			Lease: form.Lease.Std(), Timeout: form.Timeout.Std(), Attempts: r.attempts(form.Attempts, path),
			Secrets: r.secrets(form.Secret, join(path, "secret")),
		}
		if d := form.Deliver; d != nil {
			s.Deliver = &events.Webhook{URL: d.URL, Secret: r.secret(d.Secret, false, join(path, "deliver", "secret")), Timeout: d.Timeout.Std()}
		}
		if n := form.NATS; n != nil {
			s.NATS = &events.Consumer{URL: n.URL, Stream: n.Stream, Consumer: n.Consumer, Credentials: r.secret(n.Credentials, true, join(path, "nats", "credentials"))}
		}
		s = s.WithDefaults()
		r.settings(s.Check(), path)
		r.config.Inbox[name], r.config.sources[name] = s, r.root.nearest(path)
	}
}

// outbox reads where outgoing messages go.
func (r *reading) outbox(forms []routeForm) {
	for i, form := range forms {
		path := []string{"outbox", strconv.Itoa(i)}
		route := events.Route{Subjects: form.Subjects, Attempts: r.attempts(form.Attempts, path), Backoff: form.Backoff.Std(), BackoffMax: form.BackoffMax.Std(), Timeout: form.Timeout.Std()}
		if h := form.Webhook; h != nil {
			route.Webhook = &events.Webhook{URL: h.URL, Secret: r.secret(h.Secret, false, join(path, "webhook", "secret"))}
		}
		if n := form.NATS; n != nil {
			route.NATS = &events.Publisher{URL: n.URL, Credentials: r.secret(n.Credentials, true, join(path, "nats", "credentials"))}
		}
		route = route.WithDefaults()
		r.settings(route.Check(), path)
		r.config.Outbox = append(r.config.Outbox, route)
		if pattern, by, shadowed := events.Shadowed(r.config.Outbox); shadowed {
			r.on(join(path, "subjects"), fmt.Sprintf("%.80q is never reached: outbox.%d takes all of it", pattern, by), "put this route in front of it, or take it out")
		}
	}
}

// attempts makes a 0 that is written down wrong, rather than taken for nothing.
func (r *reading) attempts(given int, path []string) int {
	if given == 0 && r.given(join(path, "attempts")) {
		return -1
	}
	return given
}

// settings reports what is wrong with a source or route, unless it only follows from something reported already.
func (r *reading) settings(wrong []*effectonce.Error, path []string) {
	for _, e := range wrong {
		at := path
		if e.Field != "" {
			at = join(path, strings.Split(e.Field, ".")...)
		}
		if !r.has(at...) {
			r.on(at, e.Detail, e.Remedy)
		}
	}
}

// secrets reads the references of a secret and those that it is rotated with.
func (r *reading) secrets(references []string, path []string) []events.Secret {
	var secrets []events.Secret
	for i, reference := range references {
		at := path
		if r.root.nearest(path).shape == shapeList {
			at = join(path, strconv.Itoa(i))
		}
		if secret := r.secret(reference, false, at); secret != nil {
			secrets = append(secrets, secret)
		}
	}
	return secrets
}

// secret reads a reference to a secret, which can have several lines if lines says so; nil where there is none, or after a problem.
func (r *reading) secret(reference string, lines bool, path []string) events.Secret {
	if reference == "" {
		return nil
	}
	c, err := parseCredential(reference, r.dir, r.env)
	if err != nil {
		r.on(path, err.Error(), "write env:NAME for an environment variable, or file:path for a file")
		return nil
	}
	c.lines = lines
	if _, err := c.read(context.Background()); err != nil {
		r.on(path, err.Error(), "put the secret there for the daemon")
		return nil
	}
	return c.read
}
