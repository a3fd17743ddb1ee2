package twin

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	pageSizeUsual = 10
	pageSizeMax   = 100
)

// listBody is Stripe's form of a list.
func listBody(object, path string, data []map[string]any, more bool) map[string]any {
	if data == nil {
		data = []map[string]any{}
	}
	return map[string]any{"object": object, "url": path, "has_more": more, "data": data}
}

func (s *Server) noSuchEndpoint(seen *Received) reply {
	return s.refuse(seen, http.StatusNotFound, errorBody("invalid_request_error", "", "",
		"This provider cannot be looked up."))
}

// visible are the refunds that a listing shows now, newest first.
func (s *Server) visible(search bool, f Filter) ([]Refund, time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.model.List
	if search {
		list = s.model.Search
	}
	now := s.now()
	effects, ok := list(now, f)
	if !ok {
		return nil, now, false
	}
	found := make([]Refund, len(effects))
	for i, e := range effects {
		found[i] = s.refunds[effectIndex(e.ID)]
	}
	return found, now, true
}

func (s *Server) listRefunds(in incoming, seen *Received) reply {
	query := in.request.URL.Query()
	q, refusal := parsePaging(query, "payment_intent", "charge")
	if refusal != nil {
		return s.refuse(seen, http.StatusBadRequest, refusal)
	}
	var which asked
	for _, name := range []string{"payment_intent", "charge"} {
		if !query.Has(name) {
			continue
		}
		if refusal := which.set(name, query.Get(name)); refusal != nil {
			return s.refuse(seen, http.StatusBadRequest, refusal)
		}
	}
	all, _, ok := s.visible(false, Filter{Resource: which.resource})
	if !ok {
		return s.noSuchEndpoint(seen)
	}
	var matching []Refund
	for _, r := range all {
		if q.includes(r) {
			matching = append(matching, r)
		}
	}
	page, more, refusal := q.page(matching, func(r Refund) string { return r.ID })
	if refusal != nil {
		return s.refuse(seen, http.StatusBadRequest, refusal)
	}
	s.note(seen, "listed", struck{})
	return s.reply(http.StatusOK, listBody("list", "/v1/refunds", s.objects(page), more))
}

func (s *Server) objects(refunds []Refund) []map[string]any {
	objects := make([]map[string]any, len(refunds))
	for i, r := range refunds {
		objects[i] = r.object(s.config.Rules.Kind)
	}
	return objects
}

func (s *Server) getRefund(seen *Received, id string) reply {
	all, _, ok := s.visible(false, Filter{})
	if !ok {
		return s.noSuchEndpoint(seen)
	}
	for _, r := range all {
		if r.ID == id {
			s.note(seen, "listed", struck{})
			return s.reply(http.StatusOK, r.object(s.config.Rules.Kind))
		}
	}
	return s.refuse(seen, http.StatusNotFound, errorBody("invalid_request_error", "resource_missing", "id",
		fmt.Sprintf("No such refund: '%s'", id)))
}

// searchClause is the one clause that the search understands.
var searchClause = regexp.MustCompile(`^\s*metadata\[(?:'([^']+)'|"([^"]+)")\]\s*:\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*$`)

var escaped = regexp.MustCompile(`\\(.)`)

func (s *Server) searchRefunds(in incoming, seen *Received) reply {
	all, _, ok := s.visible(true, Filter{})
	if !ok {
		return s.noSuchEndpoint(seen)
	}
	query := in.request.URL.Query()
	m := searchClause.FindStringSubmatch(query.Get("query"))
	if m == nil {
		return s.refuse(seen, http.StatusBadRequest, errorBody("invalid_request_error", "", "query",
			"The twin's search understands one clause: metadata['key']:'value'"))
	}
	field := m[1] + m[2]
	value := escaped.ReplaceAllString(m[3]+m[4], "$1")
	if query.Has("starting_after") {
		return s.refuse(seen, http.StatusBadRequest, errorBody("invalid_request_error", "parameter_unknown", "starting_after",
			"Received unknown parameter: starting_after. Search pages with page."))
	}
	pages := url.Values{}
	for name, values := range query {
		switch name {
		case "query":
		case "page":
			pages["starting_after"] = values
		default:
			pages[name] = values
		}
	}
	q, refusal := parsePaging(pages)
	if refusal != nil {
		return s.refuse(seen, http.StatusBadRequest, refusal)
	}
	var matching []Refund
	for _, r := range all {
		if v, ok := r.Metadata[field]; ok && v == value && q.includes(r) {
			matching = append(matching, r)
		}
	}
	page, more, refusal := q.page(matching, func(r Refund) string { return r.ID })
	if refusal != nil {
		return s.refuse(seen, http.StatusBadRequest, refusal)
	}
	body := listBody("search_result", "/v1/refunds/search", s.objects(page), more)
	body["next_page"] = nil
	if more {
		body["next_page"] = page[len(page)-1].ID
	}
	s.note(seen, "listed", struck{})
	return s.reply(http.StatusOK, body)
}

// listEvents is the look-up by key: each event names the Idempotency-Key of the request that caused it.
func (s *Server) listEvents(in incoming, seen *Received) reply {
	all, now, ok := s.visible(false, Filter{})
	if !ok {
		return s.noSuchEndpoint(seen)
	}
	query := in.request.URL.Query()
	q, refusal := parsePaging(query, "type")
	if refusal != nil {
		return s.refuse(seen, http.StatusBadRequest, refusal)
	}
	const kind, kept = "refund.created", 30 * 24 * time.Hour
	var matching []Refund
	for _, r := range all {
		if q.includes(r) && now.Sub(r.At) < kept && (query.Get("type") == "" || query.Get("type") == kind) {
			matching = append(matching, r)
		}
	}
	page, more, refusal := q.page(matching, eventID)
	if refusal != nil {
		return s.refuse(seen, http.StatusBadRequest, refusal)
	}
	events := make([]map[string]any, len(page))
	for i, r := range page {
		var key any
		if s.config.Rules.Kind == Keyed && r.Key != "" {
			key = r.Key
		}
		events[i] = map[string]any{
			"id": eventID(r), "object": "event", "type": kind, "created": r.At.Unix(), "livemode": false,
			"data":    map[string]any{"object": r.object(s.config.Rules.Kind)},
			"request": map[string]any{"id": r.RequestID, "idempotency_key": key},
		}
	}
	s.note(seen, "listed", struck{})
	return s.reply(http.StatusOK, listBody("list", "/v1/events", events, more))
}

func eventID(r Refund) string { return "evt_" + strings.TrimPrefix(r.ID, "re_") }

// paging is which part of a list is asked for.
type paging struct {
	limit  int
	after  string
	bounds map[string]time.Time // by gt, gte, lt, lte; "" is the exact second
}

var createdName = regexp.MustCompile(`^created(?:\[(gt|gte|lt|lte)\])?$`)

// parsePaging reads limit, starting_after and created; other parameters must be among also.
func parsePaging(query url.Values, also ...string) (paging, any) {
	q := paging{limit: pageSizeUsual, after: query.Get("starting_after"), bounds: map[string]time.Time{}}
	known := map[string]bool{"limit": true, "starting_after": true}
	for _, name := range also {
		known[name] = true
	}
	for name := range query {
		if m := createdName.FindStringSubmatch(name); m != nil {
			at, ok := createdAt(query.Get(name))
			if !ok {
				return paging{}, errorBody("invalid_request_error", "parameter_invalid_integer", name, "Invalid timestamp.")
			}
			q.bounds[m[1]] = at
			continue
		}
		if !known[name] && !ignoredName.MatchString(name) {
			return paging{}, errorBody("invalid_request_error", "parameter_unknown", name, "Received unknown parameter: "+name)
		}
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > pageSizeMax {
			return paging{}, errorBody("invalid_request_error", "parameter_invalid_integer", "limit",
				"The limit must be from 1 to 100.")
		}
		q.limit = n
	}
	return q, nil
}

// includes says whether a refund lies within created.
func (q paging) includes(r Refund) bool {
	at := r.At.Truncate(time.Second)
	for bound, t := range q.bounds {
		var in bool
		switch bound {
		case "gt":
			in = at.After(t)
		case "gte":
			in = !at.Before(t)
		case "lt":
			in = at.Before(t)
		case "lte":
			in = !at.After(t)
		default:
			in = at.Equal(t)
		}
		if !in {
			return false
		}
	}
	return true
}

// page is the part of a list after the cursor, and whether more follows.
func (q paging) page(all []Refund, id func(Refund) string) ([]Refund, bool, any) {
	if q.after != "" {
		at := -1
		for i, r := range all {
			if id(r) == q.after {
				at = i
			}
		}
		if at < 0 {
			return nil, false, errorBody("invalid_request_error", "resource_missing", "starting_after",
				fmt.Sprintf("No such object in this list: '%s'", q.after))
		}
		all = all[at+1:]
	}
	if len(all) > q.limit {
		return all[:q.limit], true, nil
	}
	return all, false, nil
}

// createdAt reads a whole second as Stripe writes times.
func createdAt(text string) (time.Time, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Unix(n, 0), err == nil
}
