package events

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/effectonce/effectonce"
)

func headerOf(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestTemplatesOverEvents(t *testing.T) {
	t.Parallel()
	body := `{"id": "evt_1", "n": 7, "big": 1.5, "empty": "", "null": null, "yes": true, "data": {"object": {"order": "a/b", "items": [{"id": "x"}]}}, "blank": " a\u00a0b\n", "percent": "10%"}`
	h := headerOf("X-GitHub-Delivery", "d-1", "X-Twice", "a", "X-Twice", "b")
	for _, c := range []struct{ template, want, missing string }{
		{"{id}", "evt_1", ""},
		{"evt:{id}", "evt:evt_1", ""},
		{"{n}", "7", ""},
		{"{yes}", "true", ""},
		{"{data.object.order}", "a/b", ""},
		{"{id}:{data.object.order}", "evt_1:a%2Fb", ""},
		{"{data.object.items.0.id}", "x", ""},
		{"{header.x-github-delivery}", "d-1", ""},
		{"{blank}", "%20a%C2%A0b%0A", ""},
		{"{percent}", "10%25", ""},
		{"{big}", "", "{big}"},
		{"{empty}", "", "{empty}"},
		{"{null}", "", "{null}"},
		{"{data}", "", "{data}"},
		{"{data.none.x}", "", "{data.none.x}"},
		{"{data.object.items.1.id}", "", "{data.object.items.1.id}"},
		{"{header.x-none}", "", "{header.x-none}"},
		{"{header.x-twice}", "", "{header.x-twice}"},
	} {
		got, err := parseTemplate(c.template).expand(h, decode([]byte(body)))
		if got != c.want || (err == nil) != (c.missing == "") || err != nil && !strings.HasPrefix(err.Error(), c.missing) {
			t.Errorf("%s: %q, %v", c.template, got, err)
		}
	}
}

// Two different tuples never give one id: one event would be lost.
func TestDifferentComponentsGiveDifferentIDs(t *testing.T) {
	t.Parallel()
	tmpl := parseTemplate("x-{a}-:{b}/{c}")
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringOfN(rapid.RuneFrom([]rune("ab:/%-2F3A \n")), 1, 5, -1)
		draw := func() map[string]any {
			return map[string]any{"a": value.Draw(t, "a"), "b": value.Draw(t, "b"), "c": value.Draw(t, "c")}
		}
		one, two := draw(), draw()
		x, err := tmpl.expand(nil, one)
		y, err2 := tmpl.expand(nil, two)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if (x == y) != cmp.Equal(one, two) {
			t.Fatalf("%v and %v give %q and %q", one, two, x, y)
		}
	})
}

func TestAnEventSurvivesStorage(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"a": 1}`, "", "\xff\x00\x01"} {
		e := Event{Source: "s", ID: "i", Run: "s:i", Type: "t", ContentType: "text/plain", Headers: map[string]string{"ce-id": "i"}, Body: []byte(body)}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back Event
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if string(back.Body) != body || back.Run != e.Run || back.Headers["ce-id"] != "i" {
			t.Errorf("%q came back as %+v from %s", body, back, b)
		}
	}
}

// S9.1: what is compared is source and id alone, so that a redelivery with another body is the same event.
func TestTheIntentOfAnEventIsItsIdentity(t *testing.T) {
	t.Parallel()
	one, err := Event{Source: "s", ID: "i", Body: []byte("1")}.Intent()
	two, err2 := Event{Source: "s", ID: "i", Body: []byte("2"), Run: "other", Type: "x"}.Intent()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	if string(one.Business) != string(two.Business) || string(one.Arguments) != string(two.Arguments) {
		t.Errorf("%s and %s", one.Business, two.Business)
	}
	if one.Tool != "inbox.s" || one.ID != "i" || one.Run != "s:i" || one.Scope != effectonce.ScopeBusiness || one.Terms.Class != effectonce.ClassConvergent {
		t.Errorf("%+v", one)
	}
	if err := one.Terms.WithDefaults().Check(); err != nil {
		t.Error(err)
	}
}

func TestCloudEvents(t *testing.T) {
	t.Parallel()
	r := newReader(Source{Name: "ce", Verify: VerifyNone, Unsigned: true, Format: FormatCloudEvents, Run: "order:{data.order}"}.WithDefaults())
	binary := []string{"Content-Type", "application/json", "ce-specversion", "1.0", "ce-id", "A-1", "ce-source", "/shop/caf%C3%A9", "ce-type", "order.paid"}
	structured := `{"specversion": "1.0", "id": "A-1", "source": "/shop/café", "type": "order.paid", "datacontenttype": "application/json", "data": {"order": "7"}}`
	var ids []string
	for _, c := range []struct {
		header http.Header
		body   string
	}{
		{headerOf(binary...), `{"order": "7"}`},
		{headerOf("Content-Type", "application/cloudevents+json; charset=utf-8"), structured},
	} {
		e, err := r.read(c.header, []byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != "order.paid" || e.Run != "order:7" || e.Attributes["source"] != "/shop/café" || string(e.Body) != c.body {
			t.Errorf("%+v", e)
		}
		ids = append(ids, e.ID)
	}
	if ids[0] != ids[1] || ids[0] != "%2Fshop%2Fcafé:A-1" {
		t.Errorf("the modes give the ids %q", ids)
	}
	for name, c := range map[string]struct {
		header http.Header
		body   string
		field  string
	}{
		"a batch":        {headerOf("Content-Type", "application/cloudevents-batch+json"), "[]", "Content-Type"},
		"another format": {headerOf("Content-Type", "application/cloudevents+avro"), "x", "Content-Type"},
		"no version":     {headerOf("Content-Type", "application/json", "ce-id", "1"), "{}", "specversion"},
		"version 0.3":    {headerOf("ce-specversion", "0.3", "ce-id", "1"), "{}", "specversion"},
		"no id":          {headerOf("ce-specversion", "1.0", "ce-source", "/", "ce-type", "t"), "{}", "id"},
		"no object":      {headerOf("Content-Type", "application/cloudevents+json"), "[]", "body"},
		"no order":       {headerOf(binary...), `{}`, "run"},
	} {
		_, err := r.read(c.header, []byte(c.body))
		e, ok := err.(*effectonce.Error)
		if !ok || e.Field != c.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsKeptOfADelivery(t *testing.T) {
	t.Parallel()
	r := newReader(Source{Name: "s", Verify: VerifyHMAC, EventID: "{header.x-event}"}.WithDefaults())
	e, err := r.read(headerOf("X-Event", "1", "Authorization", "Bearer x", "Cookie", "c", "X-Signature", "s", "Webhook-Signature", "v1,x", "X-GitHub-Event", "push"), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"x-event": "1", "x-github-event": "push"}, e.Headers); diff != "" {
		t.Error(diff)
	}
}
