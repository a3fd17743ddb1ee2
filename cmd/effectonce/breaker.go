package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/config"
)

// newBreaker is the daemon's breaker, which says in the log what it does; nil where the configuration switches it off.
func newBreaker(cfg *config.Config, log *slog.Logger) *effectonce.Breaker {
	if cfg.Breaker == nil {
		return nil
	}
	o := *cfg.Breaker
	o.Changed = func(c effectonce.Circuit) {
		if c.Open {
			log.Warn("unknown outcomes of a provider jumped: new calls to it pause", "provider", c.Name, "unknown", c.Unknown, "of", c.Of, "for", c.Left.String())
			return
		}
		log.Info("a provider answers again: calls to it go on", "provider", c.Name)
	}
	return effectonce.NewBreaker(o)
}

// paused lists the providers to which new calls pause.
func paused(b *effectonce.Breaker) []string {
	if b == nil {
		return nil
	}
	var all []string
	for _, c := range b.Circuits() {
		if c.Open {
			all = append(all, fmt.Sprintf("new calls to %s pause for %s: %d of its last %d outcomes are unknown", c.Name, c.Left.Round(time.Second), c.Unknown, c.Of))
		}
	}
	return all
}
