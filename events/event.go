package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/effectonce/effectonce"
)

// ToolPrefix begins the tools of incoming events: the tool is inbox.SOURCE. The names are reserved: whoever could record under them
// could forge events.
const ToolPrefix = "inbox."

// Event is an incoming event, as its first accepted delivery had it. Consumers get it as JSON.
type Event struct {
	// Tenant is [effectonce.DefaultTenant] if empty.
	Tenant string `json:"-"`
	// Source and ID are its identity (S9.1).
	Source string `json:"source"`
	ID     string `json:"id"`
	Type   string `json:"type,omitempty"`
	// Run is what it starts or continues; SOURCE:ID if empty.
	Run         string `json:"run"`
	ContentType string `json:"content_type,omitempty"`
	// Headers are those that say something about the event; none that authenticate.
	Headers map[string]string `json:"headers,omitempty"`
	// Attributes are those of a CloudEvent.
	Attributes map[string]any `json:"attributes,omitempty"`
	// Body is the delivery's body. It is a text in JSON, or base64 as body_base64 where it is not UTF-8.
	Body []byte `json:"-"`
	// Problem says why an event could not be read; it waits for a person then.
	Problem string `json:"problem,omitempty"`
}

// wireEvent is an Event with its body in the form that JSON can carry.
type wireEvent struct {
	eventFields
	Text   *string `json:"body,omitempty"`
	Base64 []byte  `json:"body_base64,omitempty"`
}

type eventFields Event

// MarshalJSON implements [json.Marshaler].
func (e Event) MarshalJSON() ([]byte, error) {
	w := wireEvent{eventFields: eventFields(e)}
	if utf8.Valid(e.Body) {
		text := string(e.Body)
		w.Text = &text
	} else {
		w.Base64 = e.Body
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Event) UnmarshalJSON(b []byte) error {
	var w wireEvent
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*e = Event(w.eventFields)
	e.Body = w.Base64
	if w.Text != nil {
		e.Body = []byte(*w.Text)
	}
	return nil
}

// IDBytesMax bounds the id of an event.
const IDBytesMax = 400

// expiry is how long an event waits for a consumer before it fails, visibly.
const expiry = 30 * 24 * time.Hour

// Intent is the intent that an event is: of business scope, convergent, identified by source and event id alone, so that a
// redelivery whose body differs is the same event (S9.1). It is executed by whoever claims it.
func (e Event) Intent() (effectonce.Intent, error) {
	if e.ID == "" {
		return effectonce.Intent{}, &effectonce.Error{Code: effectonce.CodeIntentIncomplete, Field: "event_id", Detail: "is empty", Remedy: "an event without an id cannot be recognised"}
	}
	if len(e.ID) > IDBytesMax {
		return effectonce.Intent{}, invalid("event_id", "is longer than 400 bytes", "use the event's id, not its content")
	}
	if e.Run == "" {
		e.Run = e.Source + ":" + e.ID
	}
	stored, err := json.Marshal(e)
	if err != nil {
		return effectonce.Intent{}, fmt.Errorf("encoding event %s of %s: %w", e.ID, e.Source, err)
	}
	terms := effectonce.DefaultTerms()
	terms.Class = effectonce.ClassConvergent
	terms.CallTimeout, terms.Heartbeat = DefaultEventTimeout, DefaultEventLease
	terms.Attempts, terms.Expiry, terms.Within = DefaultEventAttempts, expiry, expiry
	terms.Backoff, terms.BackoffMax = time.Second, 10*time.Minute
	in := effectonce.Intent{
		Tenant: e.Tenant, Tool: ToolPrefix + e.Source, ID: e.ID, Run: e.Run, Scope: effectonce.ScopeBusiness,
		Arguments: json.RawMessage(`{}`),
		Business:  effectonce.Arguments(map[string]string{"source": e.Source, "event_id": e.ID}),
		Request:   stored, Terms: terms, Actor: "inbox",
	}
	if e.Problem != "" {
		in.Terms.Approval = true
	}
	return in, nil
}

// EventOf reads the event of an operation that [Event.Intent] made.
func EventOf(op effectonce.Operation) (Event, error) {
	var e Event
	if len(op.Request) == 0 {
		return e, &effectonce.Error{Code: effectonce.CodeExpired, Key: op.Key, Detail: "the event is not kept any more"}
	}
	if err := json.Unmarshal(op.Request, &e); err != nil {
		return e, &effectonce.Error{Code: effectonce.CodeInternal, Key: op.Key, Detail: "the stored event cannot be read", Cause: err}
	}
	e.Tenant = op.Tenant
	return e, nil
}

// ReceiveTx receives an event inside the caller's transaction: the record that it was received and what consume changes through the
// same transaction become real together, or nothing does (S9.1). A repeat of the event is not consumed again, its outcome is the
// recorded one; see [effectonce.Guard.DoTx], whose errors these are.
func ReceiveTx(ctx context.Context, guard *effectonce.Guard, tx effectonce.Tx, e Event, consume func(ctx context.Context) (any, error)) (effectonce.Outcome, error) {
	if e.Source == "" {
		return effectonce.Outcome{}, invalid("source", "is missing", "name where the event comes from: its id is unique there only")
	}
	in, err := e.Intent()
	if err != nil {
		return effectonce.Outcome{}, err
	}
	return guard.DoTx(ctx, tx, in, consume)
}

// reader turns deliveries of a source into events.
type reader struct {
	source       Source
	id, typ, run template
	keep         []string
}

func newReader(s Source) reader {
	r := reader{source: s, id: parseTemplate(s.EventID), typ: parseTemplate(s.Type), run: parseTemplate(s.Run)}
	for _, t := range []template{r.id, r.typ, r.run} {
		for _, name := range t.headers() {
			r.keep = append(r.keep, http.CanonicalHeaderKey(name))
		}
	}
	return r
}

// errIgnored says that the source does not take events of this type.
var errIgnored = errors.New("events of this type are not taken")

// read makes the event of a delivery. The error is errIgnored, or an [effectonce.Error] that names the part that is missing.
func (r reader) read(header http.Header, body []byte) (Event, error) {
	e := Event{Tenant: effectonce.DefaultTenant, Source: r.source.Name, ContentType: header.Get("Content-Type"), Headers: r.kept(header), Body: body}
	var tree any
	var err error
	if r.source.Format == FormatCloudEvents {
		if e.Attributes, tree, err = cloudEvent(header, body); err != nil {
			return e, err
		}
	} else {
		tree = decode(body)
	}
	if r.source.Type != "" {
		if e.Type, err = r.typ.expand(header, tree); err != nil {
			return e, absent("type", err)
		}
		if len(r.source.Only) > 0 && !slices.Contains(r.source.Only, e.Type) {
			return e, errIgnored
		}
	}
	if r.source.EventID != "" {
		if e.ID, err = r.id.expand(header, tree); err != nil {
			return e, absent("event_id", err)
		}
	}
	if r.source.Run != "" {
		if e.Run, err = r.run.expand(header, tree); err != nil {
			return e, absent("run", err)
		}
	}
	return e, nil
}

func absent(field string, err error) error {
	return &effectonce.Error{Code: effectonce.CodeIntentIncomplete, Field: field, Detail: err.Error(), Remedy: "send an event that has it, or correct " + field + " of the source"}
}

// decode reads a JSON body; what is no JSON has no components.
func decode(body []byte) any {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	var tree any
	if d.Decode(&tree) != nil {
		return nil
	}
	return tree
}

// keptPrefixes begin the names of headers that say something about an event. Signatures are not kept: nobody can check them later.
var keptPrefixes = []string{"Ce-", "X-Github-", "Webhook-Id", "Webhook-Timestamp", "Nats-Msg-Id", "Traceparent"}

func (r reader) kept(header http.Header) map[string]string {
	kept := map[string]string{}
	for name, values := range header {
		about := func(prefix string) bool { return strings.HasPrefix(http.CanonicalHeaderKey(name), prefix) }
		if len(values) == 1 && len(values[0]) <= headerBytesMax && (slices.ContainsFunc(keptPrefixes, about) || slices.Contains(r.keep, http.CanonicalHeaderKey(name))) {
			kept[strings.ToLower(name)] = strings.ToValidUTF8(values[0], "\uFFFD")
		}
	}
	return kept
}

// headerBytesMax bounds a header that is kept.
const headerBytesMax = 2048

func invalid(field, detail, remedy string) *effectonce.Error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}
