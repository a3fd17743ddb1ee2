package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/effectonce/effectonce"
)

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status  string `json:"status" enum:"ok" doc:"ok."`
	Version string `json:"version" doc:"The program's version."`
	// Degraded is of /readyz only: whoever asks can still be served.
	Degraded []string `json:"degraded,omitempty" doc:"What does not work at present and is tried again, like a NATS server that cannot be reached. Requests are served all the same."`
}

func (s *server) routeHealth() {
	health := reflect.TypeFor[Health]()
	ok := reply{status: http.StatusOK, body: Health{Status: "ok", Version: s.version}}
	register(s, endpoint{
		method: http.MethodGet, path: "/healthz", id: "health", tag: "daemon", summary: "Whether the process answers",
		answers: []answer{{http.StatusOK, health, "It does.", nil}},
	}, func(call[none]) (reply, error) { return ok, nil })
	register(s, endpoint{
		method: http.MethodGet, path: "/readyz", id: "ready", tag: "daemon", summary: "Whether the store answers",
		answers: []answer{{http.StatusOK, health, "It does.", nil}},
	}, func(c call[none]) (reply, error) {
		_, err := s.store.Due(c.ctx, 1)
		ready := Health{Status: "ok", Version: s.version}
		if s.degraded != nil {
			ready.Degraded = s.degraded()
		}
		return reply{status: http.StatusOK, body: ready}, err
	})
	s.text("/metrics", "metrics", "Counters, and gauges of operations, in the Prometheus text format", "text/plain; version=0.0.4; charset=utf-8", func(r *http.Request) (string, error) {
		return s.metrics.text(s.version) + s.gaugesText(r.Context()) + s.outboxText(r.Context()), nil
	})
	s.text("/errors/{code}", "error-help", "What an error code means", "text/plain; charset=utf-8", errorHelp)
	s.serveSpec()
}

// text routes a page of plain text.
func (s *server) text(path, id, summary, contentType string, page func(*http.Request) (string, error)) {
	s.documentText(path, id, summary)
	s.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		body, err := page(r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body)) // a client that hung up needs no page
	})
}

// errorHelp is the page that a problem's type points to.
func errorHelp(r *http.Request) (string, error) {
	for _, k := range effectonce.Registry {
		if string(k.Code) != r.PathValue("code") {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s\n%s\n\n%s\n\nHTTP status: %d\nnext: %s\nexit code of the command line: %d\n", k.Code, k.Title, k.Help, k.Status, k.Next, k.Exit)
		return b.String(), nil
	}
	return "", &effectonce.Error{Code: effectonce.CodeNotFound, Field: "code", Detail: "there is no such error code", Remedy: "docs/errors.md lists them"}
}

// serveSpec serves the OpenAPI document, which is complete once all endpoints are registered.
func (s *server) serveSpec() {
	s.documentText("/openapi.json", "openapi", "This document")
	s.finishSpec()
	doc, err := json.Marshal(s.spec)
	if err != nil {
		panic("api: the OpenAPI document cannot be encoded: " + err.Error())
	}
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(doc) // a client that hung up needs no document
	})
}
