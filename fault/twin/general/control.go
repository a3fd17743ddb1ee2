package general

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin"
)

// Ledger is what happened, as GET /_twin/ledger tells it.
type Ledger struct {
	Count int `json:"count"`
	// Now is the twin's clock.
	Now time.Time `json:"now"`
	// ByStamp and ByKey count effects by the stamp and the key that their requests bore, ByBusiness by what was asked for.
	ByStamp    map[string]int `json:"by_stamp"`
	ByKey      map[string]int `json:"by_key"`
	ByBusiness map[string]int `json:"by_business"`
	// Effects are oldest first.
	Effects []Effect `json:"effects"`
}

// Requests is what arrived on the wire, as GET /_twin/requests tells it: Total counts all, also those that are no longer kept.
type Requests struct {
	Total    int        `json:"total"`
	Requests []Received `json:"requests"`
}

// Resource is something that is put there without a request to the provider's API, as POST /_twin/resources takes it: what went around the guard, somebody
// else's resource, or with Count many of the same stamp.
type Resource struct {
	Operation string `json:"operation"`
	// Path and Query are those of the request that would have made it; empty where the operation's path has no placeholders.
	Path  string `json:"path"`
	Query string `json:"query"`
	// Body is that request's body: an object for JSON, or the text of a form.
	Body  json.RawMessage `json:"body"`
	Stamp string          `json:"stamp"`
	Key   string          `json:"key"`
	Count int             `json:"count"`
}

func (s *Server) controlRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /_twin/health", func(w http.ResponseWriter, _ *http.Request) {
		control(w, http.StatusOK, map[string]any{"ok": true, "kind": s.contract.Name, "breaks": s.config.Breaks, "now": s.Now()})
	})
	mux.HandleFunc("GET /_twin/ledger", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, s.Ledger()) })
	mux.HandleFunc("GET /_twin/requests", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, s.Requests()) })
	mux.HandleFunc("GET /_twin/clock", func(w http.ResponseWriter, _ *http.Request) {
		control(w, http.StatusOK, map[string]any{"now": s.Now()})
	})
	mux.HandleFunc("GET /_twin/faults", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, s.faults()) })
	mux.HandleFunc("POST /_twin/reset", func(w http.ResponseWriter, _ *http.Request) {
		s.Reset()
		control(w, http.StatusOK, s.Ledger())
	})
	s.change(mux, "clock", "advance", `{"advance": "25h"}`, func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		return s.Advance(d)
	})
	s.change(mux, "lag", "lag", `{"lag": "10s"}`, func(text string) error {
		d, err := time.ParseDuration(text)
		if err == nil {
			s.SetLag(d)
		}
		return err
	})
	s.change(mux, "faults", "plan", `{"plan": "write#1 after-effect drop"}`, func(text string) error {
		plan, err := ParsePlan(s.contract, text)
		if err == nil {
			s.SetFaults(plan)
		}
		return err
	})
	mux.HandleFunc("POST /_twin/resources", s.postResources)
	mux.HandleFunc("/_twin/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Sprintf("no %s %s: the control plane has GET health, ledger, requests, clock, faults and POST reset, clock, lag, faults, resources", r.Method, r.URL.Path))
	})
}

// change serves a POST that takes one text: in an object, or bare, which is easier by hand.
func (s *Server) change(mux *http.ServeMux, path, field, want string, do func(string) error) {
	mux.HandleFunc("POST /_twin/"+path, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(io.LimitReader(r.Body, requestBytesMax))
		text := strings.TrimSpace(string(data))
		if err == nil && strings.HasPrefix(text, "{") {
			object := map[string]string{}
			err = json.Unmarshal(data, &object)
			given, ok := object[field]
			if text = given; err == nil && (!ok || len(object) != 1) {
				err = fmt.Errorf("it has to be an object with %s alone", field)
			}
		}
		if err == nil {
			err = do(text)
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, fmt.Sprintf("%v; want %s", err, want))
			return
		}
		control(w, http.StatusOK, map[string]any{"now": s.Now(), "plan": s.faults()["plan"]})
	})
}

func (s *Server) postResources(w http.ResponseWriter, r *http.Request) {
	var wanted Resource
	decoder := json.NewDecoder(io.LimitReader(r.Body, requestBytesMax))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&wanted)
	var made []Effect
	if err == nil {
		made, err = s.Add(wanted)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	control(w, http.StatusOK, map[string]any{"effects": made})
}

// Add puts resources there as [Resource] says. They are effects: the ledger counts them.
func (s *Server) Add(wanted Resource) ([]Effect, error) {
	o := s.contract.Operations[wanted.Operation]
	if o == nil || o.Effect == contract.EffectRead {
		return nil, fmt.Errorf("contract %s has no operation %q with an effect", s.contract.Name, wanted.Operation)
	}
	request := contract.Request{Method: o.Method, Path: wanted.Path, Query: wanted.Query, Header: http.Header{}}
	if request.Path == "" {
		request.Path = o.Path
	}
	var text string
	switch {
	case json.Unmarshal(wanted.Body, &text) == nil:
		if _, err := url.ParseQuery(text); err != nil {
			return nil, fmt.Errorf("the body is no form: %w", err)
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Body = []byte(text)
	case len(wanted.Body) > 0:
		request.Header.Set("Content-Type", "application/json")
		request.Body = wanted.Body
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var made []Effect
	for range max(wanted.Count, 1) {
		marked := request
		if wanted.Stamp != "" || wanted.Key != "" {
			var err error
			if marked, err = mark(o, request, wanted.Key, wanted.Stamp, s.now()); err != nil {
				return nil, err
			}
		}
		e := s.effectOf(incoming{Request: marked, operation: o}, "")
		e.Around = true
		s.effects = append(s.effects, e)
		made = append(made, *e)
	}
	return made, nil
}

// mark puts a key and a stamp into a request. An operation that has a key wants one.
func mark(o *contract.Operation, r contract.Request, key, stamp string, now time.Time) (contract.Request, error) {
	if key == "" && o.Key.Place != "" {
		without := *o
		without.Key = contract.Key{}
		o = &without
	}
	return o.Inject(r, key, stamp, now)
}

// Ledger is what happened so far.
func (s *Server) Ledger() Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := Ledger{Count: len(s.effects), Now: s.now(), ByStamp: map[string]int{}, ByKey: map[string]int{}, ByBusiness: map[string]int{}, Effects: []Effect{}}
	for _, e := range s.effects {
		count(l.ByStamp, e.Stamp)
		count(l.ByKey, e.Key)
		count(l.ByBusiness, e.Business)
		l.Effects = append(l.Effects, *e)
	}
	return l
}

func count(in map[string]int, name string) {
	if name != "" {
		in[name]++
	}
}

// Requests is what arrived so far.
func (s *Server) Requests() Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := Requests{Total: s.received, Requests: make([]Received, len(s.requests))}
	for i, r := range s.requests {
		log.Requests[i] = *r
	}
	return log
}

// SetFaults replaces the plan and begins to count anew.
func (s *Server) SetFaults(plan twin.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan, s.counts = plan, map[string]int{}
}

// SetLag sets for how long a new resource is not shown by look-ups.
func (s *Server) SetLag(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = d
}

// Advance sets the twin's clock forward; it cannot be set back, except by a reset.
func (s *Server) Advance(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("the clock cannot be set back by %s", -d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanced += d
	return nil
}

// Reset empties ledger, keys and request log, puts the clock back, and restores plan and lag of the start. What is being processed ends without
// effect.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
}

func (s *Server) faults() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]string{"plan": s.plan.String()}
}

func refuse(w http.ResponseWriter, status int, why string) {
	control(w, status, map[string]string{"error": why})
}

func control(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	// A client that is gone does not get the answer.
	_ = encoder.Encode(body)
}
