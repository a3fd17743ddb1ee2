package twin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// receivedMax is how many requests are kept; older ones are forgotten, but stay counted.
	receivedMax = 10_000
	// receivedBodyBytesMax is how much of a body is kept; its hash is of the whole.
	receivedBodyBytesMax = 4096
)

// Received is one request that arrived on the wire. The credential is not kept, only whether there was one.
type Received struct {
	// Number counts everything that arrived since the start or the last reset, from 1.
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	// Path is with its query.
	Path   string `json:"path"`
	Target Target `json:"target"`
	// TargetNumber is what a fault plan counts.
	TargetNumber int               `json:"target_number"`
	Key          string            `json:"key,omitempty"`
	Headers      map[string]string `json:"headers"`
	Body         string            `json:"body,omitempty"`
	BodySHA256   string            `json:"body_sha256"`
	RequestID    string            `json:"request_id"`
	// Outcome is what the provider made of it: one of Outcome's words, "not_reached", "aborted", "refused", "listed", or empty
	// while nothing is known yet. "started" is being processed.
	Outcome  string `json:"outcome"`
	Replayed bool   `json:"replayed,omitempty"`
	EffectID string `json:"effect_id,omitempty"`
	// Status is what was answered; 0 where nothing was, or not yet.
	Status int `json:"status"`
	// Faults are the steps of the plan that struck.
	Faults []string `json:"faults,omitempty"`
	// Copy marks the second copy of a request that the plan delivered twice.
	Copy bool `json:"copy,omitempty"`
}

// keptHeaders are those that say something about retries; none of them is a secret.
var keptHeaders = []string{
	"Content-Type", "Idempotency-Key", "Stripe-Version", "Stripe-Account", "User-Agent",
	"X-Stripe-Client-User-Agent", "X-Stainless-Retry-Count",
}

// struck are the faults of a plan that one request meets.
type struck struct {
	arrival time.Duration // before it is looked at
	hold    time.Duration // its processing, instead of the rules'
	twice   bool
	ending  Step // the fault of its answer; the zero value means none
	names   []string
}

// arrive notes a request, counts it, and says what the plan does to it.
func (s *Server) arrive(in incoming) (*Received, struck) {
	r := in.request
	target := TargetAny
	switch {
	case !strings.HasPrefix(r.URL.Path, "/v1/"):
	case r.Method == http.MethodGet:
		target = TargetLookup
	case r.Method == http.MethodPost && strings.TrimSuffix(r.URL.Path, "/") == "/v1/refunds":
		target = TargetRefunds
	}
	headers := map[string]string{}
	for _, name := range keptHeaders {
		if v := r.Header.Get(name); v != "" {
			headers[strings.ToLower(name)] = v
		}
	}
	if r.Header.Get("Authorization") != "" {
		headers["authorization"] = "present"
	}
	digest := sha256.Sum256(in.body)
	seen := &Received{
		Method: r.Method, Path: r.URL.RequestURI(), Target: target, Key: r.Header.Get("Idempotency-Key"), Headers: headers,
		Body: string(in.body[:min(len(in.body), receivedBodyBytesMax)]), BodySHA256: hex.EncodeToString(digest[:]),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[TargetAny]++
	if target != TargetAny {
		s.counts[target]++
	}
	seen.TargetNumber = s.counts[target]
	s.keep(seen)
	faults := s.plan.strike(target, s.counts[target], s.counts[TargetAny])
	seen.Faults = faults.names
	return seen, faults
}

// keep appends to what was received; the lock is held.
func (s *Server) keep(seen *Received) {
	s.received++
	seen.Number = s.received
	seen.At = s.now()
	seen.RequestID = fmt.Sprintf("req_twin%d_%06d", s.epoch, s.received)
	s.requests = append(s.requests, seen)
	if len(s.requests) > receivedMax {
		s.requests = append([]*Received(nil), s.requests[len(s.requests)-receivedMax/2:]...)
	}
}

// again notes the second copy of a request that is delivered twice.
func (s *Server) again(first *Received) *Received {
	s.mu.Lock()
	defer s.mu.Unlock()
	second := *first
	second.Copy = true
	s.keep(&second)
	return &second
}

// strike collects what the plan does to the n-th request of a target, which is the all-th of any.
func (p Plan) strike(t Target, n, all int) struck {
	var hit struck
	for _, step := range p {
		if !step.matches(t, n) && !step.matches(TargetAny, all) {
			continue
		}
		switch {
		case step.What == Hold || step.What == Twice:
			if t != TargetRefunds {
				continue
			}
			hit.twice = hit.twice || step.What == Twice
			hit.hold += step.For
		case step.What == Slow && step.When == BeforeEffect:
			hit.arrival += step.For
		case hit.ending.What == "":
			hit.ending = step
		default:
			continue
		}
		hit.names = append(hit.names, step.String())
	}
	return hit
}

// note writes what became of a request into its line.
func (s *Server) note(seen *Received, outcome string, faults struck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen.Outcome = outcome
	if len(faults.names) > 0 {
		seen.Faults = faults.names
	}
}

func (s *Server) noteStatus(seen *Received, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen.Status = status
}
