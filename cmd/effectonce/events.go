package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/config"
	"github.com/effectonce/effectonce/events"
)

// traffic is what a daemon does about events: the inbox, its subscriptions, and the relay of the outbox.
type traffic struct {
	inbox   *events.Inbox
	brokers *events.Brokers
	loops   []func(context.Context) error
}

// newTraffic makes what the configuration asks for. Nothing is connected yet.
func newTraffic(cfg *config.Config, guard *effectonce.Guard, store effectonce.Store, log *slog.Logger) *traffic {
	t := &traffic{brokers: events.NewBrokers(log)}
	var sources []events.Source
	for _, name := range slices.Sorted(maps.Keys(cfg.Inbox)) {
		sources = append(sources, cfg.Inbox[name])
	}
	t.inbox = events.NewInbox(guard, store, sources, events.Options{Logger: log})
	for _, s := range t.inbox.Subscribers(t.brokers) {
		t.loops = append(t.loops, s.Run)
	}
	if len(cfg.Outbox) > 0 {
		t.loops = append(t.loops, events.NewRelay(store, cfg.Outbox, events.RelayOptions{Logger: log, Brokers: t.brokers}).Run)
	}
	return t
}

// run works until ctx is done, and closes its connections when what was begun has ended.
func (t *traffic) run(ctx context.Context) {
	var running sync.WaitGroup
	for _, loop := range t.loops {
		// The loops return nil: what they cannot reach is tried again.
		running.Go(func() { _ = loop(ctx) })
	}
	running.Wait()
	t.brokers.Close()
}

// degraded says what cannot be reached at present.
func (t *traffic) degraded() []string {
	var what []string
	for _, url := range t.brokers.Down() {
		what = append(what, "NATS at "+url+" is not connected; it is tried again")
	}
	return what
}

// providerOf finds the provider of a managed operation: that of its tool, or its event's consumer.
func (t *traffic) providerOf(known tools, op effectonce.Operation) effectonce.Provider {
	if p := known.providerOf(op); p != nil {
		return p
	}
	return t.inbox.Provider(op)
}
