package general

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin"
)

// Breaks says which promise of its contract a twin does not keep.
type Breaks string

// The promises that can be broken.
const (
	BreaksNothing   Breaks = ""
	BreaksDedupe    Breaks = "dedupe"    // a used key is executed again
	BreaksRetention Breaks = "retention" // a key is forgotten after half of its window
	BreaksLookUp    Breaks = "look_up"   // look-ups never show anything
	BreaksStamp     Breaks = "stamp"     // resources do not show the stamp that they were given
)

// Promises lists what Breaks can name.
var Promises = []Breaks{BreaksDedupe, BreaksRetention, BreaksLookUp, BreaksStamp}

// Limits of a twin: how much of a request's body is read, and what stands for a window that nobody gave.
const (
	requestBytesMax = 4 << 20
	usualWindow     = 24 * time.Hour
	usualPage       = 100
)

// Config is what a Server starts with.
type Config struct {
	// Contract is what it plays; Behaviour the rest.
	Contract  *contract.Contract
	Behaviour Behaviour
	// Plan is the fault plan at the start and after a reset; see [ParsePlan].
	Plan twin.Plan
	// Breaks names a promise that is not kept.
	Breaks Breaks
	// Now is the clock under the twin's own, which adds what was advanced; nil means time.Now.
	Now func() time.Time
}

// Server is the twin over HTTP: an http.Handler that is safe for concurrent use. Processing goes on when its client is gone, as at a real
// provider. What it holds grows with each effect; it is for tests.
type Server struct {
	config    Config
	contract  *contract.Contract
	behaviour Behaviour
	mux       *http.ServeMux
	done      chan struct{} // closed by Close: whatever waits, stops
	working   sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	epoch    int // grows with each reset, so that work begun before it has no effect
	advanced time.Duration
	lag      time.Duration
	plan     twin.Plan
	counts   map[string]int
	effects  []*Effect
	records  map[string]*record
	requests []*Received
	received int
}

// New makes a Server. It fails for a behaviour that does not belong to the contract and for a fault plan with other targets.
func New(config Config) (*Server, error) {
	switch {
	case config.Contract == nil:
		return nil, errors.New("twin: there is no contract")
	case config.Breaks != "" && !slices.Contains(Promises, config.Breaks):
		return nil, fmt.Errorf("twin: %q is no promise that can be broken: they are %v", config.Breaks, Promises)
	}
	if err := config.Behaviour.fits(config.Contract); err != nil {
		return nil, fmt.Errorf("twin: %w", err)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	s := &Server{config: config, contract: config.Contract, behaviour: config.Behaviour, done: make(chan struct{})}
	if _, err := ParsePlan(s.contract, config.Plan.String()); err != nil {
		return nil, fmt.Errorf("twin: %w", err)
	}
	s.begin()
	s.mux = http.NewServeMux()
	s.controlRoutes(s.mux)
	s.mux.HandleFunc("/", s.provider)
	return s, nil
}

// begin sets the state in which a twin starts, and to which a reset brings it back.
func (s *Server) begin() {
	s.epoch++
	s.advanced, s.lag = 0, s.behaviour.LookUpLag
	s.plan, s.counts = s.config.Plan, map[string]int{}
	s.effects, s.records = nil, map[string]*record{}
	s.requests, s.received = nil, 0
}

// Serve answers on l until ctx is done, then stops within two seconds: what is being processed ends without effect, and connections are
// closed. It closes the Server. It returns nil after such a stop, otherwise why listening failed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	web := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan struct{})
	failed := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-failed:
		}
		s.Close()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if web.Shutdown(bounded) != nil {
			web.Close()
		}
	}()
	err := web.Serve(l)
	close(failed)
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("twin: %w", err)
}

// Close ends everything that waits, without effect, and waits for deliveries in the background. It may be called more than once.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.working.Wait()
}

// Now is the twin's clock.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Server) now() time.Time { return s.config.Now().Round(0).Add(s.advanced).UTC() }

// ServeHTTP implements http.Handler. Faults that close a connection without an answer panic with http.ErrAbortHandler, which every net/http
// server understands.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// incoming is a request as it came, with the operation that it is: nil if nobody described it.
type incoming struct {
	contract.Request
	operation *contract.Operation
	gone      <-chan struct{}
}

func (in incoming) writes() bool {
	return in.operation != nil && in.operation.Effect != contract.EffectRead
}

// provider is the way of every request to the provider: noted and counted, disturbed by the plan, answered.
func (s *Server) provider(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, requestBytesMax+1))
	if err != nil {
		// The sender broke off in the middle: nothing whole arrived.
		panic(http.ErrAbortHandler)
	}
	in := incoming{Request: contract.Request{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Host: s.host(r), Header: r.Header, Body: body}, gone: r.Context().Done()}
	in.operation = s.operationOf(in.Request)
	seen, faults := s.arrive(in)
	if faults.ending.When == twin.Instead {
		s.note(seen, "not_reached")
		s.deliver(w, in, seen, faults.ending, s.statusReply(in.operation, http.StatusServiceUnavailable))
		return
	}
	if !s.wait(faults.arrival, nil) {
		s.deliver(w, in, seen, twin.Step{}, s.unavailable())
		return
	}
	if len(body) > requestBytesMax {
		s.note(seen, "refused")
		s.deliver(w, in, seen, faults.ending, s.encode(in.operation, http.StatusRequestEntityTooLarge, map[string]any{"error": "too_large"}))
		return
	}
	s.deliver(w, in, seen, faults.ending, s.react(in, seen, faults))
}

var looksLikeStamp = regexp.MustCompile(`^[0-9a-f]{22,64}$`)

// operationOf is the operation that a request was before it was stamped: where a contract tells operations apart by whether the field of the stamp is
// there, the stamped request looks like another one.
func (s *Server) operationOf(r contract.Request) *contract.Operation {
	found, _ := s.contract.Match(r)
	if found == nil || found.Effect == contract.EffectRead {
		return found
	}
	for _, name := range slices.Sorted(maps.Keys(s.contract.Operations)) {
		o := s.contract.Operations[name]
		if o == found || o.Method != found.Method || o.Path != found.Path || o.Stamp.Place != contract.PlaceBody || !looksLikeStamp.MatchString(stampOf(o, r)) {
			continue
		}
		tree := decoded(r)
		drop(tree, o.Stamp.Field.Segments())
		without := r
		without.Header, without.Body = r.Header.Clone(), encodeJSON(tree)
		without.Header.Set("Content-Type", "application/json")
		if was, ok := s.contract.Match(without); ok && was == o {
			return o
		}
	}
	return found
}

// host is where the request would go at the provider, since contracts may find a region in it: the contract's own if the client came by the twin's
// address.
func (s *Server) host(r *http.Request) string {
	host, _, _ := strings.Cut(r.Host, ":")
	if net.ParseIP(host) == nil && host != "localhost" {
		return r.Host
	}
	return strings.ReplaceAll(cmp.Or(append(slices.Clone(s.contract.Hosts), r.Host)...), "*", "local")
}

func (s *Server) react(in incoming, seen *Received, faults struck) reply {
	switch {
	case !s.authorised(in.Header.Get("Authorization")):
		s.note(seen, "refused")
		return s.refusal(in.operation, CaseUnauthorised, nil)
	case in.writes():
		return s.write(in, seen, faults)
	case in.operation != nil:
		return s.read(in, seen)
	}
	s.note(seen, "undescribed")
	return s.encode(nil, http.StatusNotFound, map[string]any{"error": "undescribed", "message": "the twin plays what the contract describes, which is not " + in.Method + " " + in.Path})
}

func (s *Server) authorised(credential string) bool {
	want, open := strings.CutSuffix(s.behaviour.Credential, "*")
	return s.behaviour.Credential == "" || credential == want || open && strings.HasPrefix(credential, want)
}

// unavailable is the answer of a twin that is stopping or was reset.
func (s *Server) unavailable() reply {
	return reply{status: http.StatusServiceUnavailable, body: []byte("the twin is stopping or was reset\n"), header: map[string]string{"Content-Type": "text/plain"}}
}

// wait lets d pass. False means that the twin is stopping, or that gone was closed first.
func (s *Server) wait(d time.Duration, gone <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
		return false
	case <-s.done:
		return false
	}
}
