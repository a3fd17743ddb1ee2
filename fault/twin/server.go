package twin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// requestBytesMax is how much of a request's body is read.
const requestBytesMax = 1 << 20

// Config is what a Server starts with. The zero value plays Stripe by the machine's clock, without faults.
type Config struct {
	// Rules are the provider's promises; the zero value stands for StripeRules.
	Rules Rules
	// Now is the clock under the twin's own, which adds what was advanced. Nil means time.Now.
	Now func() time.Time
	// Plan is the fault plan at the start and after each reset.
	Plan Plan
	// StampField is the metadata key whose value the ledger shows as the stamp; empty means "effectonce".
	StampField string
	// LedgerFile, where set, is a JSON-lines file that mirrors effects, remembered keys and the clock's advance.
	// It is read at the start, so that a twin that was killed continues. One twin at a time may use it.
	LedgerFile string
}

// Server is the twin over HTTP: an http.Handler that is safe for concurrent use. Processing goes on when its client
// is gone, as at a real provider.
type Server struct {
	config Config
	mux    *http.ServeMux

	done    chan struct{} // closed by Close: whatever waits, stops
	working sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	epoch    int // grows with each reset, so that work begun before it ends without effect
	model    *Model
	advanced time.Duration
	refunds  []Refund // beside model.Effects(), by index
	stored   map[Ticket]storedReply
	plan     Plan
	counts   map[Target]int
	requests []*Received
	received int
	ledger   *os.File
	broken   error // why the ledger file cannot be written; nothing is accepted then
}

// New makes a Server, and reads LedgerFile where one is named. It fails for invalid rules and for a ledger
// file that cannot be opened or read.
func New(config Config) (*Server, error) {
	if config.Rules == (Rules{}) {
		config.Rules = StripeRules()
	}
	if err := config.Rules.Validate(); err != nil {
		return nil, err
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.StampField == "" {
		config.StampField = "effectonce"
	}
	s := &Server{config: config, done: make(chan struct{})}
	s.begin()
	if config.LedgerFile != "" {
		if err := s.openLedger(); err != nil {
			return nil, fmt.Errorf("twin ledger file: %w", err)
		}
	}
	s.mux = s.routes()
	return s, nil
}

// begin sets the state in which a twin starts, and to which a reset brings it back.
func (s *Server) begin() {
	s.epoch++
	s.model = NewModel(s.config.Rules)
	s.advanced = 0
	s.refunds = nil
	s.stored = map[Ticket]storedReply{}
	s.plan = s.config.Plan
	s.counts = map[Target]int{}
	s.requests = nil
	s.received = 0
}

// Serve answers on l until ctx is done, then stops within two seconds: what is being processed ends without effect, and
// connections are closed. It closes the Server. It returns nil after such a stop, otherwise why listening failed.
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
		closeErr := s.Close()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := web.Shutdown(bounded); err != nil || closeErr != nil {
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

// Close ends everything that waits, without effect, waits for deliveries in the background and closes the ledger
// file. Further requests under /v1/ are answered 503. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.done)
	s.mu.Unlock()
	s.working.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger == nil {
		return nil
	}
	err := s.ledger.Close()
	s.ledger = nil
	return err
}

// Now is the twin's clock: the configured one plus what was advanced. It is wall time, which a suspended machine does not stop.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Server) now() time.Time { return s.config.Now().Round(0).Add(s.advanced).UTC() }

// ServeHTTP implements http.Handler. Faults that close a connection without an answer panic with
// http.ErrAbortHandler, which every net/http server understands.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	s.controlRoutes(mux)
	mux.HandleFunc("/", s.provider)
	return mux
}

// provider is the way of every request to the provider: noted and counted, disturbed by the plan, answered.
func (s *Server) provider(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, requestBytesMax+1))
	if err != nil {
		// The sender broke off in the middle: nothing whole arrived.
		panic(http.ErrAbortHandler)
	}
	in := incoming{request: r, body: body}
	seen, faults := s.arrive(in)
	if faults.ending.When == Instead {
		s.note(seen, "not_reached", faults)
		s.deliver(w, r, seen, faults.ending, s.reply(404, errorBody("invalid_request_error", "", "", "not reached")))
		return
	}
	if !s.wait(faults.arrival, nil) {
		s.deliver(w, r, seen, Step{}, s.unavailable("the twin is stopping"))
		return
	}
	s.deliver(w, r, seen, faults.ending, s.answer(in, seen, faults))
}

// incoming is a request as it was read from the wire.
type incoming struct {
	request *http.Request
	body    []byte
}

func (s *Server) answer(in incoming, seen *Received, faults struck) reply {
	if len(in.body) > requestBytesMax {
		return s.refuse(seen, 413, errorBody("invalid_request_error", "", "", "the request body is over 1 MiB"))
	}
	if !authorised(in.request) {
		return s.refuse(seen, 401, errorBody("invalid_request_error", "", "",
			"You did not provide an API key. Send it as: Authorization: Bearer sk_..."))
	}
	path := strings.TrimSuffix(in.request.URL.Path, "/")
	post := in.request.Method == http.MethodPost
	get := in.request.Method == http.MethodGet
	id, isRefund := strings.CutPrefix(path, "/v1/refunds/")
	switch {
	case post && path == "/v1/refunds":
		return s.create(in, seen, faults)
	case get && path == "/v1/refunds":
		return s.listRefunds(in, seen)
	case get && path == "/v1/refunds/search":
		return s.searchRefunds(in, seen)
	case get && isRefund && !strings.Contains(id, "/"):
		return s.getRefund(seen, id)
	case get && path == "/v1/events":
		return s.listEvents(in, seen)
	default:
		return s.refuse(seen, 404, errorBody("invalid_request_error", "", "",
			fmt.Sprintf("Unrecognized request URL (%s: %s). The twin knows POST and GET /v1/refunds, "+
				"GET /v1/refunds/{id}, GET /v1/refunds/search and GET /v1/events.", in.request.Method, in.request.URL.Path)))
	}
}

// authorised accepts a secret or restricted key as a bearer token or as the user of basic authentication.
func authorised(r *http.Request) bool {
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		key, _, ok = r.BasicAuth()
	}
	return ok && (strings.HasPrefix(key, "sk_") || strings.HasPrefix(key, "rk_"))
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
