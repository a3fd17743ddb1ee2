package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/journal"
	"github.com/effectonce/effectonce/loopback"
)

// Tools finds what the configuration says about a tool.
type Tools interface {
	// Tool returns the tool of that name, or false if it is not configured.
	Tool(name string) (Tool, bool)
}

// Tool is a configured tool: its policy, and its provider if it has one. Methods are safe for concurrent use; every error is an
// *[effectonce.Error] that names the field ("arguments.amount") and the remedy.
type Tool interface {
	// Intent reads a call into an intent with the terms of policy and contract. meta has run, step and the request's context. The
	// intent's ID is empty if the policy has no template for it: the caller then gives it.
	Intent(args json.RawMessage, meta map[string]string) (effectonce.Intent, error)
	// Provider returns the provider that Effectonce itself calls, or nil if the effect is in the caller's hands.
	Provider() effectonce.Provider
	// Explain says how the policy reads a call.
	Explain(args json.RawMessage, meta map[string]string) (Reading, error)
}

// Reading is how a policy reads one call.
type Reading struct {
	// Policy is the policy's version, Template its intent-id template, empty if it has none.
	Policy, Template string
	// Arguments explains each argument, in a stable order.
	Arguments []Argument
}

// Options configure the handler. Guard and Store are required.
type Options struct {
	Guard *effectonce.Guard
	// Store is the guard's store, for lists, audit events and the outbox.
	Store effectonce.Store
	// Inbox takes events; nil means that there is none.
	Inbox *events.Inbox
	// Degraded says what does not work at present without keeping requests from being served; nil: nothing is known.
	Degraded func() []string
	// Tools is the configuration; nil means that there is none, and that only claims are possible.
	Tools Tools
	// Logger gets defects and broken stores; nil means slog.Default. It is never given bodies.
	Logger *slog.Logger
	// Metrics is what /metrics shows; nil means a set of its own, which does not see the store.
	Metrics *Metrics
	// Version is the program's, for /healthz and the OpenAPI document.
	Version string
}

type server struct {
	guard    *effectonce.Guard
	store    effectonce.Store
	journal  *journal.Journal
	inbox    *events.Inbox
	degraded func() []string
	tools    Tools
	log      *slog.Logger
	metrics  *Metrics
	version  string
	mux      *http.ServeMux
	spec     *huma.OpenAPI
	registry huma.Registry
}

// New makes the handler. It is safe for concurrent use.
func New(o Options) http.Handler { return build(o) }

func build(o Options) *server {
	s := &server{guard: o.Guard, store: o.Store, tools: o.Tools, log: o.Logger, metrics: o.Metrics, version: o.Version, mux: http.NewServeMux()}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.metrics == nil {
		s.metrics = NewMetrics()
	}
	if s.version == "" {
		s.version = "unknown"
	}
	s.journal = journal.New(o.Store, o.Guard)
	s.inbox, s.degraded = o.Inbox, o.Degraded
	s.spec = newSpec(s.version)
	s.registry = s.spec.Components.Schemas
	s.routeOperations()
	s.routeClaims()
	s.routeReads()
	s.routeRuns()
	s.routeCompensations()
	s.routeLimits()
	s.routeInbox()
	s.routeOutbox()
	s.routeExplain()
	s.routeHealth()
	s.mux.HandleFunc("/", s.nowhere)
	return s
}

// ServeHTTP implements [http.Handler].
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler {
			panic(p)
		}
		s.log.Error("handler panicked", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
		s.refuse(w, r, &effectonce.Error{Code: effectonce.CodeInternal})
	}()
	if err := loopback.Check(r, "daemon"); err != nil && !s.signedDelivery(r) {
		s.refuse(w, r, err)
		return
	}
	// The mux would redirect a path that is not clean; a client that follows may lose its body.
	if p := r.URL.EscapedPath(); p != path.Clean(p) || !strings.HasPrefix(p, "/") {
		s.refuse(w, r, noPath)
		return
	}
	s.mux.ServeHTTP(w, r)
}

var noPath = &effectonce.Error{Code: effectonce.CodeNotFound, Field: "path", Detail: "there is no such path", Remedy: "the OpenAPI document at /openapi.json lists them"}

// nowhere answers for paths and methods that do not exist.
func (s *server) nowhere(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		probe := r.Clone(context.WithoutCancel(r.Context()))
		probe.Method = m
		if _, pattern := s.mux.Handler(probe); pattern != "" && pattern != "/" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) > 0 {
		list := strings.Join(allowed, ", ")
		s.refuse(w, r, &status{
			cause:  invalid("method", "this path does not have the method", "use "+list),
			status: http.StatusMethodNotAllowed, header: http.Header{"Allow": {list}},
		})
		return
	}
	s.refuse(w, r, noPath)
}
