package twin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Ledger is what happened, as GET /_twin/ledger tells it.
type Ledger struct {
	Count int `json:"count"`
	// Now is the twin's clock.
	Now time.Time `json:"now"`
	// Effects are oldest first.
	Effects []Refund `json:"effects"`
}

// RequestLog is what arrived on the wire, as GET /_twin/requests tells it.
type RequestLog struct {
	// Total counts all since the start or the last reset, also those that are no longer kept.
	Total int `json:"total"`
	// Requests are the kept ones, oldest first.
	Requests []Received `json:"requests"`
}

// Health is the answer of GET /_twin/health.
type Health struct {
	OK   bool      `json:"ok"`
	Kind Kind      `json:"kind"`
	Now  time.Time `json:"now"`
	// Error says why nothing is accepted.
	Error string `json:"error,omitempty"`
}

// Clock is the answer of GET and POST /_twin/clock.
type Clock struct {
	Now      time.Time `json:"now"`
	Advanced string    `json:"advanced"`
}

type faultsBody struct {
	Plan string `json:"plan"`
}

type advanceBody struct {
	Advance string `json:"advance"`
}

// controlErrorBody is how the control plane refuses.
type controlErrorBody struct {
	Error string `json:"error"`
}

func (s *Server) controlRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /_twin/health", s.getHealth)
	mux.HandleFunc("GET /_twin/ledger", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, s.Ledger()) })
	mux.HandleFunc("GET /_twin/requests", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, s.Requests()) })
	mux.HandleFunc("POST /_twin/reset", s.postReset)
	mux.HandleFunc("GET /_twin/clock", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, s.clock()) })
	mux.HandleFunc("POST /_twin/clock", s.postClock)
	mux.HandleFunc("GET /_twin/faults", func(w http.ResponseWriter, _ *http.Request) { control(w, http.StatusOK, s.faults()) })
	mux.HandleFunc("POST /_twin/faults", s.postFaults)
	mux.HandleFunc("/_twin/", func(w http.ResponseWriter, r *http.Request) {
		control(w, http.StatusNotFound, controlErrorBody{fmt.Sprintf("no %s %s: the control plane has GET health, ledger, "+
			"requests, clock, faults and POST reset, clock, faults", r.Method, r.URL.Path)})
	})
}

// Ledger is what happened so far.
func (s *Server) Ledger() Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Ledger{Count: len(s.refunds), Now: s.now(), Effects: append([]Refund{}, s.refunds...)}
}

// Requests is what arrived so far.
func (s *Server) Requests() RequestLog {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := RequestLog{Total: s.received, Requests: make([]Received, len(s.requests))}
	for i, r := range s.requests {
		log.Requests[i] = *r
	}
	return log
}

// SetFaults replaces the plan and begins to count anew.
func (s *Server) SetFaults(plan Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan = plan
	s.counts = map[Target]int{}
}

// Advance sets the twin's clock forward; it cannot be set back, except by a reset.
func (s *Server) Advance(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("the clock cannot be set back by %s", -d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advanced += d
	return s.mirror(ledgerLine{Advance: d.String()})
}

func (s *Server) getHealth(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	health := Health{OK: s.broken == nil && !s.closed, Kind: s.config.Rules.Kind, Now: s.now()}
	if s.broken != nil {
		health.Error = s.broken.Error()
	}
	s.mu.Unlock()
	status := http.StatusOK
	if !health.OK {
		status = http.StatusServiceUnavailable
	}
	control(w, status, health)
}

func (s *Server) clock() Clock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Clock{Now: s.now(), Advanced: s.advanced.String()}
}

func (s *Server) faults() faultsBody {
	s.mu.Lock()
	defer s.mu.Unlock()
	return faultsBody{Plan: s.plan.String()}
}

func (s *Server) postReset(w http.ResponseWriter, _ *http.Request) {
	if err := s.reset(); err != nil {
		control(w, http.StatusInternalServerError, controlErrorBody{err.Error()})
		return
	}
	control(w, http.StatusOK, s.Ledger())
}

func (s *Server) postClock(w http.ResponseWriter, r *http.Request) {
	var body advanceBody
	if err := readControl(r, &body, &body.Advance); err != nil {
		control(w, http.StatusBadRequest, controlErrorBody{err.Error()})
		return
	}
	d, err := time.ParseDuration(body.Advance)
	if err == nil {
		err = s.Advance(d)
	}
	if err != nil {
		control(w, http.StatusBadRequest, controlErrorBody{fmt.Sprintf(`%v; want {"advance": "25h"}`, err)})
		return
	}
	control(w, http.StatusOK, s.clock())
}

func (s *Server) postFaults(w http.ResponseWriter, r *http.Request) {
	var body faultsBody
	err := readControl(r, &body, &body.Plan)
	var plan Plan
	if err == nil {
		plan, err = ParsePlan(body.Plan)
	}
	if err != nil {
		control(w, http.StatusBadRequest, controlErrorBody{err.Error()})
		return
	}
	s.SetFaults(plan)
	control(w, http.StatusOK, s.faults())
}

// readControl reads a JSON object, or else the bare text of its one field, which is easier by hand.
func readControl(r *http.Request, object any, field *string) error {
	data, err := io.ReadAll(io.LimitReader(r.Body, requestBytesMax))
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(data))
	if !strings.HasPrefix(text, "{") {
		*field = text
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(object)
}

func control(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(body))
}
