package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
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

// before serves the routes, and everything else with next.
func (o *outward) before(next http.Handler) http.Handler {
	if len(o.routes) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
