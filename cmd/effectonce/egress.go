package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/config"
	"github.com/effectonce/effectonce/egress"
	"github.com/effectonce/effectonce/journal"
	"github.com/effectonce/effectonce/provider"
)

// outward is what a daemon does about requests of providers' own clients: the egress proxy with its routes.
type outward struct {
	routes  []*egress.Route
	proxy   *egress.Proxy
	metrics *egress.Metrics
}

// newOutward makes the routes of the configuration.
func newOutward(cfg *config.Config, guard *effectonce.Guard, runs *journal.Journal, log *slog.Logger) (*outward, error) {
	o := &outward{metrics: &egress.Metrics{}}
	for _, r := range cfg.Routes {
		tools := map[string]egress.Tool{}
		for operation, t := range r.Tools {
			tools[operation] = routedTool{t}
		}
		route, err := egress.New(egress.Options{
			Name: r.Path, Guard: guard, API: r.API, Intents: egress.Intents(r.Intents), Tools: tools, Terms: r.Terms, PassUndescribed: r.PassUndescribed,
			Wait: r.Wait, Logger: log, Metrics: o.metrics,
			InRun: func(run string, p effectonce.Provider) effectonce.Provider { return runs.Run("", run).Provider(p) },
		})
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", r.Path, err)
		}
		o.routes = append(o.routes, route)
	}
	o.proxy = egress.NewProxy(o.routes)
	return o, nil
}

// providerOf finds the provider of an operation that came by a route. ours is true for every such operation, also where its route is gone: no
// other provider could read its request.
func (o *outward) providerOf(op effectonce.Operation) (p effectonce.Provider, ours bool) {
	if _, ours = provider.IsRaw(op.Request); !ours {
		return nil, false
	}
	return egress.ProviderOf(o.routes, op), true
}

// alone names the routes that have a listener of their own.
type alone map[net.Listener]string

// listenRoutes opens the addresses of routes that have one of their own.
func listenRoutes(ctx context.Context, cfg *config.Config) (alone, error) {
	open := alone{}
	for _, r := range cfg.Routes {
		if r.Listen == "" {
			continue
		}
		l, err := listenLoopback(ctx, r.Listen)
		if err != nil {
			open.close()
			return nil, fmt.Errorf("route %s: %w", r.Path, err)
		}
		open[l] = r.Path
	}
	return open, nil
}

// close closes the listeners. Those that were served are closed already.
func (a alone) close() {
	for l := range a {
		_ = l.Close()
	}
}

// baseURLs are the base URLs of routes, by their paths: at an address of their own where they have one.
func (a alone) baseURLs(cfg *config.Config, daemon string) map[string]string {
	urls := map[string]string{}
	for _, r := range cfg.Routes {
		urls[r.Path] = daemon + egress.Prefix + r.Path
	}
	for l, path := range a {
		urls[path] = "http://" + l.Addr().String()
	}
	return urls
}

// routeOf is the name of a connection's route, in a context: that of its listener.
type routeOf struct{}

// during is the context of a listener's requests.
func (a alone) during(ctx context.Context, l net.Listener) context.Context {
	if name, ok := a[l]; ok {
		return context.WithValue(ctx, routeOf{}, name)
	}
	return ctx
}

// before serves the routes, and everything else with next.
func (o *outward) before(next http.Handler) http.Handler {
	if len(o.routes) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name, ok := r.Context().Value(routeOf{}).(string); ok {
			o.proxy.At(name).ServeHTTP(w, r)
			return
		}
		if o.proxy.Takes(r) {
			o.proxy.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// routedTool is a configured tool as the policy of a route's operation.
type routedTool struct{ tool *config.Tool }

// Intent implements egress.Tool.
func (t routedTool) Intent(args json.RawMessage, meta map[string]string) (effectonce.Intent, error) {
	return t.tool.Read(args, meta)
}

// Unsent implements egress.Tool.
func (t routedTool) Unsent(name string) bool { return t.tool.Unsent(name) }

// Builds implements egress.Tool.
func (t routedTool) Builds() bool { return t.tool.Policy.HasIntentID() }
