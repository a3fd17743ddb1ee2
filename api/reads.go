package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
)

// Resolve is the body of POST /v1/operations/{key}/resolve: a person's decision (S7.6).
type Resolve struct {
	Version    int64           `json:"version" minimum:"1" doc:"The operation's version that the person saw; a stale one is refused."`
	Resolution string          `json:"resolution" enum:"confirmed,absent_fail,absent_resend,abandoned,approved,rejected" doc:"In review: confirmed (it took effect), absent_fail (it did not: failed), absent_resend (it did not: one more attempt with a new downstream key), abandoned (final, effect not known). For a held operation: approved or rejected."`
	Person     string          `json:"person" minLength:"1" maxLength:"512" doc:"Who decides, for the audit: a name that the caller gives."`
	Reason     string          `json:"reason" minLength:"1" maxLength:"2048" doc:"Why; it goes into the audit."`
	Reference  string          `json:"reference,omitempty" maxLength:"512" doc:"For confirmed: the provider's id of the effect."`
	Result     json.RawMessage `json:"result,omitempty" doc:"For confirmed: the provider's answer, any JSON."`
	AcceptRisk bool            `json:"accept_risk,omitempty" doc:"For absent_fail and absent_resend before the settle time is over: what was sent could still take effect, and the person accepts that on record."`
}

func waitParam(what string) *huma.Param {
	return &huma.Param{Name: "wait", In: "query", Description: what + " A duration of at most 1m0s; the header Prefer: wait=30 (seconds) means the same.",
		Schema: &huma.Schema{Type: huma.TypeString}, Example: "30s"}
}

func (s *server) routeReads() {
	str := &huma.Schema{Type: huma.TypeString}
	states := &huma.Schema{Type: huma.TypeString}
	for _, st := range effectonce.States {
		states.Enum = append(states.Enum, string(st))
	}
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/operations", id: "list", tag: "operations",
		summary: "List operations, newest first", description: "The list is paged by key: give the answer's next as after.",
		query: []*huma.Param{
			{Name: repeats, In: "query", Description: "Only operations in this state; several are separated by commas, or the parameter is repeated.", Schema: &huma.Schema{Type: huma.TypeArray, Items: states}, Example: []string{"unknown", "review"}},
			{Name: "tool", In: "query", Description: "Only this tool.", Schema: str},
			{Name: "intent_id", In: "query", Description: "Only this intent id.", Schema: str},
			{Name: "run", In: "query", Description: "Only this run.", Schema: str},
			{Name: "step", In: "query", Description: "Only this step; with run.", Schema: str},
			{Name: "q", In: "query", Description: "Only operations with this text in key, intent id, run, step, reference or resource.", Schema: str},
			{Name: "alarmed", In: "query", Description: "true: only operations with an alarm.", Schema: &huma.Schema{Type: huma.TypeBoolean}},
			{Name: "after", In: "query", Description: "The next of the page before.", Schema: str},
			{Name: "limit", In: "query", Description: fmt.Sprintf("Size of the page, 1 to %d; 50 if left out.", effectonce.ListLimitMax), Schema: &huma.Schema{Type: huma.TypeInteger}},
		},
		answers: []answer{{http.StatusOK, reflect.TypeFor[List](), "A page.", nil}},
	}, s.list)
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/operations/{key}", id: "get", tag: "operations",
		summary: "Show an operation", description: "With what a person needs to decide about it. With wait, the answer comes when it is settled, or after that time.",
		query:    []*huma.Param{waitParam("Wait so long for the outcome.")},
		answers:  []answer{{http.StatusOK, reflect.TypeFor[Detail](), "The operation as it stands, final or not.", nil}},
		problems: []effectonce.Code{effectonce.CodeNotFound},
	}, func(c call[none]) (reply, error) {
		o, err := s.guard.Wait(c.ctx, c.key, c.wait)
		if err != nil && c.ctx.Err() != nil {
			// The waiting was cut short, by the caller or by a shutdown: how it stands can still be told.
			o, err = s.guard.Wait(c.ctx, c.key, 0)
		}
		if o, err = s.stands(c.ctx, o, err); err != nil {
			return reply{}, err
		}
		return s.answer(http.StatusOK, o, detail(o)), nil
	})
	register(s, endpoint{
		method: http.MethodGet, path: "/v1/operations/{key}/events", id: "events", tag: "operations",
		summary: "Show an operation's audit", description: "Exactly one event for each transition, oldest first.",
		answers:  []answer{{http.StatusOK, reflect.TypeFor[EventList](), "The events.", nil}},
		problems: []effectonce.Code{effectonce.CodeNotFound},
	}, s.events)
	register(s, endpoint{
		method: http.MethodPost, path: "/v1/operations/{key}/resolve", id: "resolve", tag: "operations", bodyMax: 2 * BodyBytesMax,
		summary: "Record a person's decision", description: "For an operation in review, or held.",
		example:  map[string]any{"version": 4, "resolution": "confirmed", "person": "mara", "reason": "the refund is in the dashboard", "reference": "re_1"},
		answers:  []answer{{http.StatusOK, reflect.TypeFor[Operation](), "The operation after the decision.", nil}},
		problems: []effectonce.Code{effectonce.CodeNotFound, effectonce.CodeStaleVersion, effectonce.CodeNotAllowed},
	}, s.resolution)
}

func (s *server) list(c call[none]) (reply, error) {
	q := c.query
	f := effectonce.Filter{Tool: q.Get("tool"), IntentID: q.Get("intent_id"), Run: q.Get("run"), Step: q.Get("step"), Text: q.Get("q"), After: q.Get("after")}
	for _, v := range q[repeats] {
		for _, name := range strings.Split(v, ",") {
			st := effectonce.State(name)
			if !slices.Contains(effectonce.States, st) {
				return reply{}, invalid("query.state", fmt.Sprintf("%.40q is not a state", name), "use pending, in_progress, unknown, review, succeeded, failed or abandoned")
			}
			f.States = append(f.States, st)
		}
	}
	switch q.Get("alarmed") {
	case "", "false":
	case "true":
		f.Alarmed = true
	default:
		return reply{}, invalid("query.alarmed", "is neither true nor false", "use true, or leave it out")
	}
	n, err := pageSize(q.Get("limit"))
	if err != nil {
		return reply{}, err
	}
	f.Limit = n
	page, err := s.store.List(c.ctx, f)
	if err != nil {
		return reply{}, err
	}
	body := List{Operations: make([]Operation, 0, len(page.Operations)), Next: page.Next}
	for _, op := range page.Operations {
		body.Operations = append(body.Operations, view(effectonce.OutcomeOf(op, true)))
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func (s *server) events(c call[none]) (reply, error) {
	// The guard knows whether there is such an operation, and whether the caller may see it (S5.12).
	if _, err := s.guard.Wait(c.ctx, c.key, 0); err != nil {
		return reply{}, err
	}
	events, err := s.store.Events(c.ctx, c.key)
	if err != nil {
		return reply{}, err
	}
	body := EventList{Events: make([]Event, 0, len(events))}
	for _, e := range events {
		body.Events = append(body.Events, eventView(e))
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func (s *server) resolution(c call[Resolve]) (reply, error) {
	b := c.body
	confirmed := b.Resolution == string(effectonce.ResolveConfirmed)
	if !confirmed && (b.Reference != "" || len(b.Result) > 0) {
		field := "reference"
		if b.Reference == "" {
			field = "result"
		}
		return reply{}, invalid(field, "belongs to confirmed", "leave it out; the reason has room for what was seen")
	}
	o, err := s.guard.Resolve(c.ctx, c.key, effectonce.Resolved{
		Version: b.Version, Resolution: effectonce.Resolution(b.Resolution), Person: b.Person, Reason: b.Reason,
		Reference: b.Reference, Result: b.Result, AcceptRisk: b.AcceptRisk,
	})
	if err != nil {
		return reply{}, &refused{err: err, outcome: o}
	}
	return s.answer(http.StatusOK, o, view(o)), nil
}
