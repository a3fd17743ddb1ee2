package general

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// Limits on what is kept of requests: how many, and how much of a body.
const (
	receivedMax          = 10_000
	receivedBodyBytesMax = 4096
)

// Received is one request that arrived on the wire. The credential is not kept, only whether there was one.
type Received struct {
	// Number counts everything that arrived since the start or the last reset, from 1.
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	Method string    `json:"method"`
	// Path is with its query.
	Path string `json:"path"`
	// Operation is its name in the contract; "read", or "" if nobody described it.
	Operation  string `json:"operation,omitempty"`
	Key        string `json:"key,omitempty"`
	Credential bool   `json:"credential"`
	Body       string `json:"body,omitempty"`
	BodySHA256 string `json:"body_sha256"`
	RequestID  string `json:"request_id"`
	// Outcome is what the provider made of it: succeeded, replayed, a case, listed, refused, undescribed, aborted, not_reached; "started" is being
	// processed.
	Outcome  string `json:"outcome"`
	Replayed bool   `json:"replayed,omitempty"`
	EffectID string `json:"effect_id,omitempty"`
	// Status is what was answered; 0 where nothing was, or not yet.
	Status int `json:"status"`
	// Faults are the steps of the plan that struck; Copy marks the second copy of a request that was delivered twice.
	Faults []string `json:"faults,omitempty"`
	Copy   bool     `json:"copy,omitempty"`
}

// arrive notes a request, counts it, and says what the plan does to it.
func (s *Server) arrive(in incoming) (*Received, struck) {
	digest := sha256.Sum256(in.Body)
	seen := &Received{
		Method: in.Method, Path: in.Path, Credential: in.Header.Get("Authorization") != "",
		Body: string(in.Body[:min(len(in.Body), receivedBodyBytesMax)]), BodySHA256: hex.EncodeToString(digest[:]),
	}
	if in.Query != "" {
		seen.Path += "?" + in.Query
	}
	if in.operation != nil {
		seen.Operation = "read"
		if in.writes() {
			seen.Operation = in.operation.Name
			seen.Key, _ = in.operation.ClientKey(in.Request)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list(seen)
	faults := s.strike(in)
	seen.Faults = faults.names
	return seen, faults
}

// list appends to what was received; the lock is held.
func (s *Server) list(seen *Received) {
	s.received++
	seen.Number, seen.At = s.received, s.now()
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
	s.list(&second)
	return &second
}

func (s *Server) note(seen *Received, outcome string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen.Outcome = outcome
}

func (s *Server) noteStatus(seen *Received, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen.Status = status
}
