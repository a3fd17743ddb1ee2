package effectonce

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"
)

// This file is S9.2: events that leave are written with the state change that they tell of, and delivered afterwards.

// MessageBytesMax bounds the data of a message.
const MessageBytesMax = 1 << 20

// Message is an event on its way out. Messages of one subject are delivered in the order in which their transactions committed,
// each at least once, always under the same ID.
type Message struct {
	Tenant string `json:"tenant"`
	// Subject is what is ordered: "orders.8812". Different subjects do not wait for each other.
	Subject string `json:"subject"`
	// ID is the stable event id that receivers dedupe by; empty: it is made of the subject and Seq.
	ID string `json:"id"`
	// Type says what happened, for receivers ("refund.settled").
	Type string `json:"type,omitempty"`
	// ContentType is that of Data; empty means application/json.
	ContentType string `json:"content_type,omitempty"`
	Data        []byte `json:"data"`
	// Seq counts the messages of a subject from 1 without gaps. The store sets Seq and At.
	Seq int64     `json:"seq"`
	At  time.Time `json:"at"`
}

// Check fills defaults, and returns an [ErrInvalid] that names a field that cannot be.
func (m Message) Check() (Message, error) {
	if m.Tenant == "" {
		m.Tenant = DefaultTenant
	}
	if m.ContentType == "" {
		m.ContentType = "application/json"
	}
	for _, f := range [][2]string{{"tenant", m.Tenant}, {"subject", m.Subject}, {"id", m.ID}, {"type", m.Type}, {"content_type", m.ContentType}} {
		if len(f[1]) > IdentifierBytesMax {
			return m, invalid(f[0], "is longer than 512 bytes", "shorten it")
		}
		if err := plain(f[0], f[1]); err != nil {
			return m, err
		}
	}
	if m.Subject == "" {
		return m, invalid("subject", "is missing", "name what the event is about, like orders.8812")
	}
	if len(m.Data) > MessageBytesMax {
		return m, invalid("data", "is larger than 1 MiB", "send a reference to it")
	}
	return m, nil
}

// Repeats compares a message with one that waits under the same ID in its tenant: nil if it is that message again, which is then left
// out. Anything else under the ID would be lost without a word: the error is an [ErrPayloadMismatch].
func (m Message) Repeats(waiting Message) error {
	if m.Subject == waiting.Subject && m.Type == waiting.Type && m.ContentType == waiting.ContentType && bytes.Equal(m.Data, waiting.Data) {
		return nil
	}
	return &Error{
		Code: CodePayloadMismatch, Field: "id", Detail: fmt.Sprintf("%q waits already, with another subject or content; nothing was stored", m.ID),
		Remedy: "give each event an id of its own",
	}
}

// Numbered gives a message its place in its subject.
func (m Message) Numbered(seq int64, at time.Time) Message {
	m.Seq, m.At = seq, at
	if m.ID == "" {
		m.ID = m.Subject + "/" + strconv.FormatInt(seq, 10)
	}
	return m
}

// Queue is what waits in one subject. Its head is tried until it is delivered, or parked for a person; the rest waits behind it.
type Queue struct {
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"`
	// Waiting is how many messages are not delivered yet, Head the id of the first.
	Waiting int64  `json:"waiting"`
	Head    string `json:"head,omitempty"`
	// Attempts counts the head's failed deliveries, Reason says how the last one failed.
	Attempts int    `json:"attempts"`
	Reason   string `json:"reason,omitempty"`
	// Parked says that the head is tried no more until a person says so.
	Parked bool `json:"parked"`
	// DueAt is when the head is tried next; zero while parked or empty.
	DueAt time.Time `json:"due_at,omitzero"`
	// Token fences: it grows each time a relay takes the queue.
	Token int64 `json:"-"`
	// AsOf is the store's clock when the queue was read. It is not stored.
	AsOf time.Time `json:"-"`
}

// Relayed is what a relay did with the messages that it took.
type Relayed struct {
	// Delivered is how many of them, from the head on, were delivered. They are removed.
	Delivered int
	// Reason says how the next one failed, empty if none did; then it is tried again after Again, or parked.
	Reason string
	Again  time.Duration
	Park   bool
}

// Outbox is the port to messages on their way out (S9.2).
type Outbox interface {
	// Append stores messages in one transaction, each at the end of its subject. One that waits already under its ID in its
	// tenant is left out. The errors are also those of [Message.Check] and [Message.Repeats]; then none is stored.
	Append(ctx context.Context, messages ...Message) error
	// TakeQueue leases the queue that is longest due to a relay, and returns its first messages, at most limit. The error is
	// [ErrNotFound] if none is due.
	TakeQueue(ctx context.Context, lease time.Duration, limit int) (Queue, []Message, error)
	// ReturnQueue records what became of taken messages. It is fenced by the queue's token: [ErrStaleToken].
	ReturnQueue(ctx context.Context, q Queue, r Relayed) error
	// Queues returns queues in which something waits, in the order of tenant and subject.
	Queues(ctx context.Context, f QueueFilter) (QueuePage, error)
	// Unpark lets a parked head be tried again at once, with its attempts counted anew; discard removes it instead. head is the
	// one that the person saw; another one is [ErrStaleVersion], a queue that is not parked [ErrNotAllowed], none [ErrNotFound].
	Unpark(ctx context.Context, tenant, subject, head string, discard bool) error
}

// QueueFilter selects queues. Zero fields select all.
type QueueFilter struct {
	Tenant string
	// Subject selects one, Text any whose subject contains it.
	Subject, Text string
	Parked        bool
	// After continues a list; Limit is 1 to ListLimitMax, 0 for 50.
	After string
	Limit int
}

// QueuePage is a page of queues. Next is the After of the following page, empty at the end.
type QueuePage struct {
	Queues []Queue
	Next   string
}
