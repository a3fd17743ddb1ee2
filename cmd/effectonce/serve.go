package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
	"github.com/effectonce/effectonce/config"
	"github.com/effectonce/effectonce/egress"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/journal"
	"github.com/effectonce/effectonce/worker"
)

type serveCommand struct {
	Config      string        `placeholder:"FILE" help:"The configuration; effectonce.yaml in the current directory if it exists. None is needed."`
	Listen      string        `placeholder:"ADDRESS" help:"Where to listen, a loopback address; else what the configuration says, else 127.0.0.1:7171. Port 0 takes a free one."`
	Store       string        `placeholder:"STORE" help:"The SQLite file, which is made if it does not exist, or a PostgreSQL URL (postgres://user@host/database), or env:NAME for a URL in an environment variable; else what the configuration says, else effectonce.db in the current directory."`
	Log         string        `enum:"text,json" default:"text" help:"How to log on standard error: text or json."`
	Drain       time.Duration `default:"35s" help:"How long running attempts may still take after the first signal to stop."`
	NewIdentity []string      `placeholder:"TOOL" sep:"none" help:"End the identities that this tool's calls had before its scope, intent_id or identity arguments were edited: its earlier operations are not recognised any more, and a call from before the edit that comes again has its effect again. inbox.SOURCE does so for the events of a source whose format or event_id was edited. Can be given more than once."`
	UntilEOF    bool          `name:"until-eof" help:"Stop when standard input ends: for programs that start it."`
}

// Help implements kong.HelpProvider.
func (serveCommand) Help() string {
	return `Nothing needs to be configured: without a configuration, agents claim operations for tools in their own code. With tools and
providers in effectonce.yaml, the daemon calls the providers itself.

The first SIGINT or SIGTERM stops new operations and lets running attempts end; a second one ends the process at once.
Whatever is cut off is found unresolved at the next start, and reconciled before anything is sent again.`
}

// Run serves until a signal comes.
func (s *serveCommand) Run(ctx context.Context, c *terminal) error {
	log := newLogger(c, s.Log)
	cfg, err := loadConfig(c, s.Config)
	if err != nil {
		return err
	}
	if s.UntilEOF {
		var cancel context.CancelFunc
		ctx, cancel = untilEOF(ctx, c.in)
		defer cancel()
	}
	accepted, err := newIdentities(cfg, s.NewIdentity)
	if err != nil {
		return err
	}
	// Listen first: a second daemon that finds the port in use must leave nothing behind.
	l, err := listenLoopback(ctx, firstOf(s.Listen, cfg.Listen))
	if err != nil {
		return err
	}
	defer l.Close()
	routes, err := listenRoutes(ctx, cfg)
	if err != nil {
		return err
	}
	defer routes.close()
	where, err := parseStore(c, firstOf(s.Store, cfg.Store))
	if err != nil {
		return err
	}
	// A signal in the middle of the start is answered right after it.
	starting := context.WithoutCancel(ctx)
	store, err := where.open(starting)
	if err != nil {
		return err
	}
	if err := cfg.KeepIdentities(starting, store, accepted); err != nil {
		return errors.Join(err, store.Close())
	}
	for name, t := range cfg.Tools {
		if earlier := t.Formerly(); len(earlier) > 0 {
			log.Info("calls are also recognised by the identities that they had before the policy was edited", "tool", name, "earlier", len(earlier))
		}
	}
	for name := range accepted {
		log.Warn("a new identity is accepted: operations from before the edit are not recognised, and their calls would execute again", "tool", name)
	}
	d, err := newDaemon(starting, cfg, store, routes, log)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	stored, err := store.List(starting, effectonce.Filter{Limit: 1})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	d.start(l, routes)
	if err := s.welcome(c, cfg, l.Addr(), routes, where.String(), len(stored.Operations) == 0); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-d.failed:
	}
	return errors.Join(err, d.stop(s.Drain))
}

// newIdentities is the set of tools, and of sources as inbox.SOURCE, for which a changed identity is accepted.
func newIdentities(cfg *config.Config, names []string) (map[string]bool, error) {
	accepted := map[string]bool{}
	for _, name := range names {
		source, isSource := strings.CutPrefix(name, events.ToolPrefix)
		if isSource {
			_, isSource = cfg.Inbox[source]
		}
		if cfg.Tools[name] == nil && !isSource {
			return nil, invalid("new-identity", fmt.Sprintf("%q is not a tool of the configuration", name), "name one of its tools as it is written there, or a source as inbox.SOURCE")
		}
		accepted[name] = true
	}
	return accepted, nil
}

// welcome says where it serves and what to do next; and that a store is empty, for whoever expected another one: what was done
// before would be executed again.
func (s *serveCommand) welcome(c *terminal, cfg *config.Config, address net.Addr, routes alone, store string, empty bool) error {
	url := "http://" + address.String()
	names := []string{}
	for name := range cfg.Tools {
		names = append(names, name)
	}
	slices.Sort(names)
	if c.json {
		ready := map[string]any{"url": url, "store": store, "empty": empty, "config": cfg.File, "tools": names, "pid": os.Getpid()}
		if len(cfg.Routes) > 0 {
			ready["routes"] = routes.baseURLs(cfg, url)
		}
		return c.ready(ready)
	}
	c.say("effectonce serves on %s", url)
	if empty {
		store += " (empty: it knows of nothing that was done before)"
	}
	c.say("  store:   %s", store)
	bases := routes.baseURLs(cfg, url)
	for _, r := range cfg.Routes {
		c.say("  route:   %s, base URL %s", r.Path, bases[r.Path])
	}
	if cfg.File == "" {
		c.say("  config:  none (an %s in the current directory would be used)", configFile)
	} else {
		c.say("  config:  %s, tools: %s", cfg.File, firstOf(strings.Join(names, ", "), "none"))
	}
	for _, r := range cfg.Routes {
		c.say("  route:   %s%s%s/ is the base URL for clients of %s (intents: %s)", url, egress.Prefix, r.Path, r.Provider, r.Intents)
	}
	c.say("  try:     curl -s %s/v1/claims -H 'Content-Type: application/json' \\\n             -d '{\"tool\": \"hello\", \"intent_id\": \"hello:1\", \"arguments\": {\"to\": \"world\"}}'", url)
	c.say("  look:    effectonce ops ls%s    incident, live: effectonce demo    stop: Ctrl-C", serverFlag(url))
	return nil
}

// serverFlag is how to name the daemon to the other commands, where that is needed.
func serverFlag(url string) string {
	if url == defaultServer {
		return ""
	}
	return " --server " + url
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func newLogger(c *terminal, form string) *slog.Logger {
	if form == "json" {
		return slog.New(slog.NewJSONHandler(c.err, nil))
	}
	return slog.New(slog.NewTextHandler(c.err, nil))
}

// daemon is the API and the workers on one guard.
type daemon struct {
	log     *slog.Logger
	store   effectonce.Store
	guard   *effectonce.Guard
	server  *http.Server
	workers *worker.Worker
	traffic *traffic
	// release ends what requests are waiting for; retire ends the workers' loop.
	release, retire context.CancelFunc
	resting         chan struct{}
	// failed gets why serving ended, if it did by itself.
	failed chan error
}

func newDaemon(ctx context.Context, cfg *config.Config, store effectonce.Store, routes alone, log *slog.Logger) (*daemon, error) {
	if err := cfg.Keep(ctx, store.PutDocument); err != nil {
		return nil, err
	}
	cfg.Documents = documents(store)
	known := tools{cfg}
	metrics := api.NewMetrics()
	store = metrics.Store(store)
	var traffic *traffic
	breaker := newBreaker(cfg, log)
	var outward *outward
	var runs *journal.Journal
	guard := effectonce.New(store, effectonce.Options{Logger: log, Breaker: breaker, Access: egress.Access, Providers: func(op effectonce.Operation) effectonce.Provider {
		p, ours := outward.providerOf(op)
		if !ours {
			p = traffic.providerOf(known, op)
		}
		if p == nil || op.Run == "" || strings.HasPrefix(op.Tool, events.ToolPrefix) {
			return p
		}
		// Nothing is sent for a run that is undone meanwhile.
		return runs.Run(op.Tenant, op.Run).Provider(p)
	}})
	runs = journal.New(store, guard)
	outward, err := newOutward(cfg, guard, runs, log)
	if err != nil {
		return nil, err
	}
	if len(outward.routes) > 0 {
		metrics.Also(outward.metrics.Text)
	}
	traffic = newTraffic(cfg, guard, store, log)
	handler := api.New(api.Options{Guard: guard, Store: store, Inbox: traffic.inbox, Degraded: func() []string { return append(traffic.degraded(), paused(breaker)...) }, Tools: known, Logger: log, Version: versionName(), Metrics: metrics})
	waiting, release := context.WithCancel(ctx)
	return &daemon{
		log: log, store: store, guard: guard, release: release,
		workers: worker.New(guard, store, worker.Options{Logger: log}), traffic: traffic,
		server: &http.Server{
			Handler:           outward.before(handler),
			ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout:       30 * time.Second,
			// No limit for the answer: how long it takes is bounded by the call's time-out and by ?wait=.
			IdleTimeout:    2 * time.Minute,
			MaxHeaderBytes: 64 << 10,
			ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			BaseContext:    func(l net.Listener) context.Context { return routes.during(waiting, l) },
		},
		resting: make(chan struct{}), failed: make(chan error, 1),
	}, nil
}

// start begins to serve and to work.
func (d *daemon) start(l net.Listener, routes alone) {
	until, retire := context.WithCancel(context.Background())
	d.retire = retire
	go func() {
		defer close(d.resting)
		var working sync.WaitGroup
		// Run returns nil.
		working.Go(func() { _ = d.workers.Run(until) })
		working.Go(func() { d.traffic.run(until) })
		working.Wait()
	}()
	serve := func(l net.Listener) {
		if err := d.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			select {
			case d.failed <- fmt.Errorf("serving: %w", err):
			default: // another listener failed before
			}
		}
	}
	go serve(l)
	for l := range routes {
		go serve(l)
	}
}

// stop takes no new operations, lets running attempts end for at most drain, and closes the store. What is cut off is left
// recoverable: its lease runs out and it is reconciled.
func (d *daemon) stop(drain time.Duration) error {
	d.log.Info("stopping: no new operations are taken, running attempts may end; a second signal ends the process at once", "at_most", drain.String())
	ctx, cancel := context.WithTimeoutCause(context.Background(), drain, errTooLong)
	defer cancel()
	d.retire()
	var ending sync.WaitGroup
	var drained, shut error
	ending.Go(func() { drained = d.guard.Drain(ctx) })
	// Whoever only waits for an outcome is answered now; a sent attempt does not depend on its caller.
	d.release()
	ending.Go(func() { shut = d.server.Shutdown(ctx) })
	ending.Go(func() {
		select {
		case <-d.resting:
		case <-ctx.Done():
		}
	})
	ending.Wait()
	if drained != nil {
		d.log.Warn("attempts were still running and are left; they are reconciled after the next start", "after", drain.String())
	}
	if shut != nil {
		d.server.Close()
	}
	err := d.store.Close()
	if err == nil {
		d.log.Info("stopped")
	}
	return err
}
