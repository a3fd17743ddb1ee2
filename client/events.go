package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/effectonce/effectonce"
)

// Event is an incoming event, as its first accepted delivery had it (S9.1).
type Event struct {
	Source string
	ID     string
	Type   string
	// Run is what the event starts or continues.
	Run         string
	ContentType string
	// Headers are those that say something about it, in lower case.
	Headers map[string]string
	Body    []byte
	// Problem says why it could not be read; a person let it through.
	Problem string
}

// NextEvent is an event that the caller owns until it reports: with [Client.Complete]; with [Client.Unknown], to get it again; or with an
// authoritative [Client.Reject], never to get it again.
type NextEvent struct {
	Event Event
	Key   effectonce.Key
	// Token is the fencing token that every report carries, Attempt counts from 1.
	Token   int64
	Attempt int
	// LeaseFor is how long the event is the caller's, counted from before the call; [Client.Heartbeat] extends it.
	LeaseFor time.Duration
	// DownstreamKey is a key for the consumer's own effects, the same in every attempt.
	DownstreamKey string
}

type nextEvent struct {
	Event struct {
		Source      string            `json:"source"`
		ID          string            `json:"id"`
		Type        string            `json:"type"`
		Run         string            `json:"run"`
		ContentType string            `json:"content_type"`
		Headers     map[string]string `json:"headers"`
		Body        *string           `json:"body"`
		BodyBase64  []byte            `json:"body_base64"`
		Problem     string            `json:"problem"`
	} `json:"event"`
	Key           effectonce.Key `json:"key"`
	Token         int64          `json:"token"`
	Attempt       int            `json:"attempt"`
	LeaseFor      wireDuration   `json:"lease_for"`
	DownstreamKey string         `json:"downstream_key"`
}

// ClaimEvent takes the next event of a source; with [WaitFor] it waits for one. ok is false if there is none.
func (c *Client) ClaimEvent(ctx context.Context, source string, opts ...Option) (next NextEvent, ok bool, err error) {
	var v nextEvent
	body := map[string]string{"owner": c.actor}
	if err := c.post(ctx, "/v1/inbox/"+url.PathEscape(source)+"/claim", query(opts), body, &v); err != nil || v.Token == 0 {
		return NextEvent{}, false, err
	}
	e := v.Event
	next = NextEvent{Key: v.Key, Token: v.Token, Attempt: v.Attempt, LeaseFor: time.Duration(v.LeaseFor), DownstreamKey: v.DownstreamKey}
	next.Event = Event{Source: e.Source, ID: e.ID, Type: e.Type, Run: e.Run, ContentType: e.ContentType, Headers: e.Headers, Body: e.BodyBase64, Problem: e.Problem}
	if e.Body != nil {
		next.Event.Body = []byte(*e.Body)
	}
	return next, true, nil
}

// Append appends a message to the outbox (S9.2). Its ID is required: by it receivers recognise the message of a call that was repeated.
func (c *Client) Append(ctx context.Context, m effectonce.Message) error {
	body := map[string]any{"tenant": m.Tenant, "subject": m.Subject, "id": m.ID, "type": m.Type, "content_type": m.ContentType}
	for name, v := range body {
		if v == "" {
			delete(body, name)
		}
	}
	body["data"] = string(m.Data)
	if m.ContentType == "" || m.ContentType == "application/json" {
		body["data"] = json.RawMessage(m.Data)
	}
	return c.post(ctx, "/v1/outbox", nil, body, &struct{}{})
}
