package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
)

// Queue is what waits in one subject of the outbox (S9.2).
type Queue struct {
	Tenant   string     `json:"tenant" doc:"The isolation boundary."`
	Subject  string     `json:"subject" doc:"What is ordered. Different subjects do not wait for each other."`
	Waiting  int64      `json:"waiting" doc:"How many messages are not delivered yet."`
	Head     string     `json:"head,omitempty" doc:"Id of the first of them, for which the others wait."`
	Attempts int        `json:"attempts" doc:"How often the delivery of the head has failed."`
	Reason   string     `json:"reason,omitempty" doc:"How it failed last."`
	Parked   bool       `json:"parked" doc:"The head is tried no more until a person says so."`
	DueAt    *time.Time `json:"due_at,omitempty" doc:"When it is tried next, or, while a relay has it, when its lease ends; absent while it is parked."`
}

// QueueList is a page of queues.
type QueueList struct {
	Queues []Queue `json:"queues" nullable:"false" doc:"Subjects in which something waits, in their order."`
	Next   string  `json:"next,omitempty" doc:"Give it as after for the following page; absent at the end."`
}

// Append is the body of POST /v1/outbox.
type Append struct {
	Tenant      string          `json:"tenant,omitempty" maxLength:"512" doc:"The isolation boundary; default if left out."`
	Subject     string          `json:"subject" minLength:"1" maxLength:"512" doc:"What the event is about, like orders.8812: its messages keep their order."`
	ID          string          `json:"id" minLength:"1" maxLength:"512" doc:"The event's id, by which receivers recognise a repeat: the caller's own, so that a repeated request does not make a second event for them."`
	Type        string          `json:"type,omitempty" maxLength:"512" doc:"What happened, like refund.settled."`
	ContentType string          `json:"content_type,omitempty" maxLength:"512" doc:"The content type of data; application/json if left out. With another one, data is a JSON text with the content."`
	Data        json.RawMessage `json:"data" doc:"The event, any JSON."`
}

// Appended is the answer to an append.
type Appended struct {
	Subject string `json:"subject" doc:"The subject."`
	ID      string `json:"id" doc:"The event's id."`
}

// Retry is the body of POST /v1/outbox/retry.
type Retry struct {
	Tenant  string `json:"tenant,omitempty" maxLength:"512" doc:"The isolation boundary; default if left out."`
	Subject string `json:"subject" minLength:"1" maxLength:"512" doc:"The parked subject."`
	Head    string `json:"head" minLength:"1" maxLength:"512" doc:"The head that the person saw; another one is refused."`
	Discard bool   `json:"discard,omitempty" doc:"Removes the head for good instead of trying it again."`
	Person  string `json:"person" minLength:"1" maxLength:"512" doc:"Who decides."`
	Reason  string `json:"reason,omitempty" maxLength:"2048" doc:"Why; required for discard."`
}

// Retried is the answer to a retry.
type Retried struct {
	Subject   string `json:"subject" doc:"The subject."`
	Head      string `json:"head" doc:"The message that was decided about."`
	Discarded bool   `json:"discarded" doc:"It was removed; otherwise it is tried again at once."`
}

func (s *server) routeOutbox() {
	str := &huma.Schema{Type: huma.TypeString}
	tenant := &huma.Param{Name: "tenant", In: "query", Description: "Only this tenant.", Schema: str}
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/outbox", id: "outbox", tag: "events",
		summary: "List what waits in the outbox", description: "One line for each subject in which something waits.",
		query: []*huma.Param{
			tenant,
			{Name: "q", In: "query", Description: "Only subjects with this text.", Schema: str},
			{Name: "parked", In: "query", Description: "true: only subjects whose head is parked.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
			{Name: "after", In: "query", Description: "The next of the page before.", Schema: str},
			{Name: "limit", In: "query", Description: fmt.Sprintf("Size of the page, 1 to %d; 50 if left out.", effectonce.ListLimitMax), Schema: &huma.Schema{Type: huma.TypeInteger}},
		},
		answers: []answer{{http.StatusOK, reflect.TypeFor[QueueList](), "A page.", nil}},
	}, s.queues)
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/outbox/{subject}", id: "queue", tag: "events",
		summary:  "Show a subject of the outbox",
		query:    []*huma.Param{tenant},
		answers:  []answer{{http.StatusOK, reflect.TypeFor[Queue](), "What waits in it.", nil}},
		problems: []effectonce.Code{effectonce.CodeNotFound},
	}, s.queue)
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/outbox", id: "append", tag: "events",
		summary:     "Append an event to the outbox",
		description: "For programs that do not share the store's database. It is delivered at least once, after those that were appended to its subject before, always under its id. Data over 1 MiB is refused.",
		example:     map[string]any{"subject": "orders.8812", "id": "order-8812-paid", "type": "order.paid", "data": map[string]any{"order": "8812"}},
		bodyMax:     effectonce.MessageBytesMax + 16<<10,
		answers:     []answer{{http.StatusAccepted, reflect.TypeFor[Appended](), "It is stored.", nil}},
	}, s.appendMessage)
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/outbox/retry", id: "retry", tag: "events",
		summary: "Decide about a parked message", description: "It is tried again at once, with its attempts counted anew; or discarded, so that those behind it go on.",
		example:  map[string]any{"subject": "orders.8812", "head": "order-8812-paid", "person": "mara"},
		answers:  []answer{{http.StatusOK, reflect.TypeFor[Retried](), "It is done.", nil}},
		problems: []effectonce.Code{effectonce.CodeNotFound, effectonce.CodeStaleVersion, effectonce.CodeNotAllowed},
	}, s.retry)
}

// outboxText is the gauges of the outbox; where it cannot be read they are left out.
func (s *server) outboxText(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, gaugeTimeout)
	defer cancel()
	waiting, err := s.store.Queues(ctx, effectonce.QueueFilter{Limit: effectonce.ListLimitMax})
	if err != nil {
		return ""
	}
	parked, err := s.store.Queues(ctx, effectonce.QueueFilter{Parked: true, Limit: effectonce.ListLimitMax})
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, g := range []struct {
		name, help string
		n          int
	}{
		{"effectonce_outbox_parked", "Subjects whose first message is parked for a person", len(parked.Queues)},
		{"effectonce_outbox_subjects", "Subjects in which messages wait", len(waiting.Queues)},
	} {
		fmt.Fprintf(&b, "# HELP %s %s; %d means so many or more.\n# TYPE %s gauge\n%s %d\n", g.name, g.help, effectonce.ListLimitMax, g.name, g.name, g.n)
	}
	return b.String()
}

func (s *server) queues(c call[none]) (reply, error) {
	f := effectonce.QueueFilter{Tenant: c.query.Get("tenant"), Text: c.query.Get("q"), After: c.query.Get("after")}
	switch c.query.Get("parked") {
	case "", "false":
	case "true":
		f.Parked = true
	default:
		return reply{}, invalid("query.parked", "is neither true nor false", "use true, or leave it out")
	}
	if v := c.query.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > effectonce.ListLimitMax {
			return reply{}, invalid("query.limit", fmt.Sprintf("must be a number from 1 to %d", effectonce.ListLimitMax), "leave it out for 50")
		}
		f.Limit = n
	}
	page, err := s.store.Queues(c.ctx, f)
	if err != nil {
		return reply{}, err
	}
	body := QueueList{Queues: make([]Queue, 0, len(page.Queues)), Next: page.Next}
	for _, q := range page.Queues {
		body.Queues = append(body.Queues, queueView(q))
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func (s *server) queue(c call[none]) (reply, error) {
	tenant := c.query.Get("tenant")
	if tenant == "" {
		tenant = effectonce.DefaultTenant
	}
	page, err := s.store.Queues(c.ctx, effectonce.QueueFilter{Tenant: tenant, Subject: c.path("subject"), Limit: 1})
	if err != nil {
		return reply{}, err
	}
	if len(page.Queues) == 0 {
		return reply{}, &effectonce.Error{Code: effectonce.CodeNotFound, Field: "subject", Detail: "nothing waits in this subject", Remedy: "GET /v1/outbox lists those in which something waits"}
	}
	return reply{status: http.StatusOK, body: queueView(page.Queues[0])}, nil
}

func queueView(q effectonce.Queue) Queue {
	return Queue{Tenant: q.Tenant, Subject: q.Subject, Waiting: q.Waiting, Head: q.Head, Attempts: q.Attempts, Reason: q.Reason, Parked: q.Parked, DueAt: moment(q.DueAt)}
}

func (s *server) appendMessage(c call[Append]) (reply, error) {
	b := c.body
	data := []byte(b.Data)
	if b.ContentType != "" && b.ContentType != jsonType {
		var content string
		if err := json.Unmarshal(data, &content); err != nil {
			return reply{}, invalid("data", "is no text, and the content type is not JSON", "give the content as a JSON text")
		}
		data = []byte(content)
	}
	if len(data) > effectonce.MessageBytesMax {
		return reply{}, &effectonce.Error{Code: effectonce.CodeTooLarge, Field: "data", Detail: "is larger than 1 MiB", Remedy: "send a reference to what is large"}
	}
	err := s.store.Append(c.ctx, effectonce.Message{Tenant: b.Tenant, Subject: b.Subject, ID: b.ID, Type: b.Type, ContentType: b.ContentType, Data: data})
	if err != nil {
		return reply{}, err
	}
	return reply{status: http.StatusAccepted, body: Appended{Subject: b.Subject, ID: b.ID}}, nil
}

func (s *server) retry(c call[Retry]) (reply, error) {
	b := c.body
	if b.Discard && b.Reason == "" {
		return reply{}, invalid("reason", "is missing", "say why the message is discarded")
	}
	if b.Tenant == "" {
		b.Tenant = effectonce.DefaultTenant
	}
	if err := s.store.Unpark(c.ctx, b.Tenant, b.Subject, b.Head, b.Discard); err != nil {
		return reply{}, err
	}
	// The queue has no audit of its own, so the log keeps who did it.
	s.log.Warn("a person decided about a parked message", "tenant", b.Tenant, "subject", b.Subject, "head", b.Head, "discarded", b.Discard, "person", b.Person, "reason", b.Reason)
	return reply{status: http.StatusOK, body: Retried{Subject: b.Subject, Head: b.Head, Discarded: b.Discard}}, nil
}
