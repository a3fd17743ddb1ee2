package events

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

func secret(context.Context) (string, error) { return "whsec", nil }

func fields(s Source) []string {
	var fields []string
	for _, e := range s.WithDefaults().Check() {
		fields = append(fields, e.Field)
	}
	return fields
}

// S9.1
func TestASourceNeedsASenderAndAnID(t *testing.T) {
	t.Parallel()
	signed := []Secret{secret}
	for name, c := range map[string]struct {
		source Source
		want   []string
	}{
		"stripe":                   {Source{Name: "stripe", Verify: VerifyStripe, Secrets: signed}, nil},
		"rotation":                 {Source{Name: "stripe", Verify: VerifyStripe, Secrets: []Secret{secret, secret}}, nil},
		"github":                   {Source{Name: "github", Verify: VerifyGitHub, Secrets: signed, Only: []string{"push"}}, nil},
		"standard webhooks":        {Source{Name: "a.b_c-1", Verify: VerifyStandardWebhooks, Secrets: signed}, nil},
		"hmac":                     {Source{Name: "x", Verify: VerifyHMAC, Secrets: signed, Header: "X-Signature", EventID: "{id}"}, nil},
		"hmac without a header":    {Source{Name: "x", Verify: VerifyHMAC, Secrets: signed}, []string{"header", "event_id"}},
		"hmac in another encoding": {Source{Name: "x", Verify: VerifyHMAC, Secrets: signed, Header: "X S", Encoding: "hexa", EventID: "{id}"}, []string{"header", "encoding"}},
		"none":                     {Source{Name: "x", Verify: VerifyNone, EventID: "{id}"}, []string{"verify"}},
		"none, said":               {Source{Name: "x", Verify: VerifyNone, Unsigned: true, EventID: "{id}"}, nil},
		"none with a secret":       {Source{Name: "x", Verify: VerifyNone, Unsigned: true, Secrets: signed, EventID: "{id}"}, []string{"secret"}},
		"cloud events":             {Source{Name: "x", Verify: VerifyNone, Unsigned: true, Format: FormatCloudEvents}, nil},
		"nothing said":             {Source{Name: "x"}, []string{"verify"}},
		"unsigned and signed":      {Source{Name: "x", Verify: VerifyStripe, Unsigned: true, Secrets: signed}, []string{"unsigned"}},
		"no secret":                {Source{Name: "x", Verify: VerifyGitHub}, []string{"secret"}},
		"a header of hmac":         {Source{Name: "x", Verify: VerifyStripe, Secrets: signed, Header: "X"}, []string{"header"}},
		"tolerance":                {Source{Name: "x", Verify: VerifyStripe, Secrets: signed, Tolerance: 25 * time.Hour}, []string{"tolerance"}},
		"a name":                   {Source{Name: "A/b", Verify: VerifyStripe, Secrets: signed}, []string{""}},
		"a template":               {Source{Name: "x", Verify: VerifyStripe, Secrets: signed, EventID: "x", Run: "{a}{b}", Type: "{"}, []string{"event_id", "type", "run"}},
		"only without a type":      {Source{Name: "x", Verify: VerifyHMAC, Secrets: signed, Header: "X", EventID: "{id}", Only: []string{"a", "a"}}, []string{"only", "only"}},
		"deliver":                  {Source{Name: "x", Verify: VerifyStripe, Secrets: signed, Deliver: &Webhook{URL: "http://127.0.0.1:9000/e"}}, nil},
		"deliver to nowhere":       {Source{Name: "x", Verify: VerifyStripe, Secrets: signed, Deliver: &Webhook{URL: "ftp://x", Timeout: time.Hour}}, []string{"deliver.url", "deliver.timeout"}},
		"nats":                     {Source{Name: "x", NATS: &Consumer{URL: "nats://127.0.0.1:4222", Stream: "ORDERS", Consumer: "effectonce"}}, nil},
		"nats, wrong":              {Source{Name: "x", Verify: VerifyStripe, Secrets: signed, NATS: &Consumer{URL: "nats://u:p@h", Stream: "a.b"}}, []string{"nats.url", "nats.stream", "nats.consumer", "verify", "secret"}},
	} {
		if got := fields(c.source); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// S9.2
func TestARouteGoesSomewhere(t *testing.T) {
	t.Parallel()
	hook := &Webhook{URL: "https://example.com/hook"}
	for name, c := range map[string]struct {
		route Route
		want  []string
	}{
		"webhook":       {Route{Subjects: []string{"orders.*", "refunds.>"}, Webhook: hook}, nil},
		"nats":          {Route{Subjects: []string{">"}, NATS: &Publisher{URL: "tls://h:4222"}}, nil},
		"nowhere":       {Route{Subjects: []string{">"}}, []string{""}},
		"both":          {Route{Subjects: []string{">"}, Webhook: hook, NATS: &Publisher{URL: "nats://h"}}, []string{"nats"}},
		"no subject":    {Route{Webhook: hook}, []string{"subjects"}},
		"wrong subject": {Route{Subjects: []string{"a..b", "a.>.b", "a*", "a b"}, Webhook: hook}, []string{"subjects", "subjects", "subjects", "subjects"}},
		"pace":          {Route{Subjects: []string{"a"}, Webhook: hook, Attempts: 1001, Backoff: time.Hour, BackoffMax: time.Minute, Timeout: time.Hour}, []string{"attempts", "backoff_max", "timeout"}},
		"a secret":      {Route{Subjects: []string{"a"}, Webhook: &Webhook{URL: "https://u:p@h"}}, []string{"webhook.url"}},
	} {
		var got []string
		for _, e := range c.route.WithDefaults().Check() {
			got = append(got, e.Field)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSubjectsMatchAsInNATS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a", "a", true}, {"a", "a.b", false}, {"a.*", "a.b", true}, {"a.*", "a", false}, {"a.*", "a.b.c", false},
		{"*.b", "a.b", true}, {"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a.b", true}, {"a.*.c", "a.x.c", true},
	} {
		if got := (Route{Subjects: []string{c.pattern}}).Matches(c.subject); got != c.want {
			t.Errorf("%s and %s: %v", c.pattern, c.subject, got)
		}
		if c.want && !covers(c.pattern, c.subject) {
			t.Errorf("%s covers %s", c.pattern, c.subject)
		}
	}
	routes := []Route{{Subjects: []string{"a.*", "b.>"}}, {Subjects: []string{"a.>", "b.*"}}}
	if pattern, by, ok := Shadowed(routes); !ok || pattern != "b.*" || by != 0 {
		t.Errorf("shadowed: %s %d %v", pattern, by, ok)
	}
	if _, _, ok := Shadowed(routes[:1]); ok {
		t.Error("the first is never shadowed")
	}
}

func TestPlaceholdersOfATemplate(t *testing.T) {
	t.Parallel()
	names, detail := placeholders("refund:{data.object.order}/{header.x-id}")
	if detail != "" || strings.Join(names, " ") != "data.object.order header.x-id" {
		t.Errorf("%v %s", names, detail)
	}
	for _, s := range []string{"}", "{", "{a", "{a{b}", "{}", "{a b}", "{a..b}", "{.a}", "{header}", "{a}-{b}"} {
		if _, detail := placeholders(s); detail == "" {
			t.Errorf("%s is taken", s)
		}
	}
}
