package api

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
)

// Received is the answer to a delivery: it is given after the commit (S9.1).
type Received struct {
	EventID   string `json:"event_id,omitempty" doc:"The event's id, as the source's template reads it."`
	Run       string `json:"run,omitempty" doc:"The run that the event starts or continues: that of the first delivery."`
	Key       string `json:"key,omitempty" doc:"The operation that the event is."`
	State     string `json:"state,omitempty" enum:"pending,in_progress,unknown,review,succeeded,failed,abandoned" doc:"Where it is in its life."`
	Duplicate bool   `json:"duplicate" doc:"The event was received before: nothing new was recorded."`
	Ignored   bool   `json:"ignored,omitempty" doc:"The source does not take events of this type: nothing was stored."`
}

// IncomingEvent is an event as its first accepted delivery had it.
type IncomingEvent struct {
	Source      string            `json:"source" doc:"Where it comes from."`
	ID          string            `json:"id" doc:"Its id, unique in its source."`
	Type        string            `json:"type,omitempty" doc:"What happened."`
	Run         string            `json:"run" doc:"The run that it starts or continues."`
	ContentType string            `json:"content_type,omitempty" doc:"The content type of its body."`
	Headers     map[string]string `json:"headers,omitempty" doc:"Headers that say something about it, in lower case; none that authenticate."`
	Attributes  map[string]any    `json:"attributes,omitempty" doc:"The attributes of a CloudEvent."`
	Body        *string           `json:"body,omitempty" doc:"Its body, where it is UTF-8."`
	BodyBase64  []byte            `json:"body_base64,omitempty" doc:"Its body as base64, where it is not."`
	Problem     string            `json:"problem,omitempty" doc:"Why it could not be read; a person let it through."`
}

// NextEvent is an event that the caller now owns.
type NextEvent struct {
	Event         IncomingEvent `json:"event" doc:"The event."`
	Run           string        `json:"run" doc:"The run that it starts or continues. It is the same in every attempt."`
	Key           string        `json:"key" doc:"The operation that it is. Report with /v1/claims/{key}/complete, unknown (again later) or reject with authoritative (never again), keep it with heartbeat."`
	Token         int64         `json:"token" doc:"The fencing token that every follow-up carries."`
	LeaseFor      string        `json:"lease_for" doc:"How long it is the caller's, counted from before the request; a heartbeat extends it."`
	Attempt       int           `json:"attempt" doc:"How often it was handed out, this time included."`
	DownstreamKey string        `json:"downstream_key" doc:"A key for the consumer's own effects, the same in every attempt."`
}

// ClaimEvent is the body of POST /v1/inbox/{source}/claim.
type ClaimEvent struct {
	Owner string `json:"owner,omitempty" maxLength:"512" doc:"Who claims, for the audit: a name that the caller gives."`
}

func (s *server) routeInbox() {
	s.documentDelivery()
	s.mux.HandleFunc("POST /v1/inbox/{source}", func(w http.ResponseWriter, r *http.Request) {
		rep, err := s.delivery(w, r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", jsonType)
		s.encode(w, rep.status, rep.body)
	})
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/inbox/{source}/claim", id: "claim-event", tag: "events",
		summary:     "Take the next event of a source",
		description: "The oldest event that nobody owns, or whose owner was lost or reported unknown. It comes again, under the same run, until somebody completes or rejects it.",
		query:       []*huma.Param{waitParam("Wait so long for an event.")},
		example:     map[string]any{"owner": "worker-7"},
		answers: []answer{
			{http.StatusCreated, reflect.TypeFor[NextEvent](), "An event: it is the caller's.", nil},
			{http.StatusNoContent, reflect.TypeFor[none](), "There is none now.", nil},
		},
		problems: []effectonce.Code{effectonce.CodeNotFound},
	}, s.claimEvent)
}

var noInbox = &effectonce.Error{Code: effectonce.CodeNotFound, Field: "source", Detail: "there is no such source", Remedy: "add it to the section inbox of the configuration"}

// signedDelivery reports whether a request is a delivery that its signature has to prove: then it does not matter by which name and
// from where it comes, since webhooks arrive through proxies and tunnels.
func (s *server) signedDelivery(r *http.Request) bool {
	name, ok := strings.CutPrefix(r.URL.Path, "/v1/inbox/")
	if !ok || r.Method != http.MethodPost || s.inbox == nil {
		return false
	}
	return s.inbox.Signed(name)
}

// delivery records what a source delivers.
func (s *server) delivery(w http.ResponseWriter, r *http.Request) (reply, error) {
	if s.inbox == nil {
		return reply{}, noInbox
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return reply{}, &status{cause: invalid("Content-Encoding", "the body must not be encoded", "send it as it is"), status: http.StatusUnsupportedMediaType}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, events.BodyBytesMax))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return reply{}, &effectonce.Error{Code: effectonce.CodeTooLarge, Field: wholeBody, Detail: "the body is larger than 1 MiB", Remedy: "send a reference to what is large"}
	case err != nil:
		return reply{}, &effectonce.Error{Code: effectonce.CodeInvalid, Field: wholeBody, Detail: "the body could not be read whole", Remedy: "send it again", Cause: err}
	}
	got, err := s.inbox.Receive(r.Context(), r.PathValue("source"), r.Header, body)
	switch {
	case errors.Is(err, events.ErrUnsigned):
		cause := &effectonce.Error{Code: effectonce.CodeForbidden, Detail: err.Error(), Remedy: "sign the body as it is sent, with the secret that the source is configured with"}
		return reply{}, &status{cause: cause, status: http.StatusUnauthorized}
	case err != nil:
		return reply{}, err
	case got.Ignored:
		return reply{status: http.StatusOK, body: Received{Ignored: true}}, nil
	}
	op := got.Outcome.Operation
	rep := reply{status: http.StatusAccepted, body: Received{EventID: got.Event.ID, Run: got.Event.Run, Key: text(op.Key), State: string(op.State), Duplicate: got.Outcome.Replayed}}
	if got.Outcome.Replayed {
		rep.status = http.StatusOK
	}
	return rep, nil
}

func (s *server) documentDelivery() {
	op := &huma.Operation{
		Method: http.MethodPost, Path: "/v1/inbox/{source}", OperationID: "receive-event", Summary: "Deliver an event", Tags: []string{"events"},
		Description: "The body is the event, at most 1 MiB, as the source sends and signs it. The answer comes after the commit, so whoever got no 2xx delivers again: " +
			"the same event is one operation with one run, however often, in whatever order and at the same time it is delivered.",
		Parameters:  pathParams("/v1/inbox/{source}"),
		Responses:   map[string]*huma.Response{},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{jsonType: {Schema: &huma.Schema{}, Example: map[string]any{"id": "evt_1", "type": "order.paid"}}}},
	}
	received := reflect.TypeFor[Received]()
	for code, what := range map[string]string{"200": "Recorded before, or ignored.", "202": "Recorded."} {
		op.Responses[code] = &huma.Response{Description: what, Content: map[string]*huma.MediaType{jsonType: {Schema: s.registry.Schema(received, true, "")}}}
	}
	s.evolves(received)
	s.evolves(reflect.TypeFor[NextEvent]())
	s.evolves(reflect.TypeFor[IncomingEvent]())
	codes := []effectonce.Code{effectonce.CodeNotFound, effectonce.CodeIntentIncomplete, effectonce.CodeTooLarge, effectonce.CodeExpired}
	s.problems(op, append(codes, always...))
	op.Responses["401"] = &huma.Response{Description: "`forbidden`: the signature does not hold", Content: op.Responses["404"].Content}
	s.spec.AddOperation(op)
}

func (s *server) claimEvent(c call[ClaimEvent]) (reply, error) {
	if s.inbox == nil {
		return reply{}, noInbox
	}
	h, ok, err := s.inbox.Claim(c.ctx, c.path("source"), c.body.Owner, c.wait)
	if err != nil {
		return reply{}, err
	}
	if !ok {
		return reply{status: http.StatusNoContent}, nil
	}
	claim := h.Claim
	return reply{status: http.StatusCreated, body: NextEvent{
		Event: incoming(h.Event), Run: claim.Operation.Run, Key: text(claim.Operation.Key), Token: claim.Token, LeaseFor: duration(claim.LeaseFor),
		Attempt: claim.Operation.Attempt, DownstreamKey: claim.DownstreamKey,
	}}, nil
}

func incoming(e events.Event) IncomingEvent {
	v := IncomingEvent{Source: e.Source, ID: e.ID, Type: e.Type, Run: e.Run, ContentType: e.ContentType, Headers: e.Headers, Attributes: e.Attributes, Problem: e.Problem}
	if utf8.Valid(e.Body) {
		body := string(e.Body)
		v.Body = &body
	} else {
		v.BodyBase64 = e.Body
	}
	return v
}
