package main

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin/general"
)

// behaviourOf finds a built-in behaviour by its name or by its contract's.
func behaviourOf(name string) (b general.Behaviour, contractName string, found bool) {
	all := general.Builtin()
	if b, found = all[name]; found {
		return b, b.Contract, true
	}
	for _, one := range slices.Sorted(maps.Keys(all)) {
		if all[one].Contract == name {
			return all[one], name, true
		}
	}
	return general.Behaviour{}, name, false
}

// runGeneral plays a provider by its contract.
func (t *twinCommand) runGeneral(ctx context.Context, c *terminal) error {
	config, err := t.general(c)
	if err != nil {
		return err
	}
	server, err := general.New(config)
	if err != nil {
		return invalid("behaviour", strings.TrimPrefix(err.Error(), "twin: "), "see docs/twins.md")
	}
	l, err := listenLoopback(ctx, t.Listen)
	if err != nil {
		server.Close()
		return err
	}
	return t.serve(ctx, c, server.Serve, l, func(url string) {
		for _, r := range config.Contract.Requests {
			if o := config.Contract.Operations[r.Want]; o != nil && o.Effect != contract.EffectRead {
				c.say("  for example:  %s %s%s is %s", r.Method, url, printed(r.Path), printed(r.Want))
				return
			}
		}
	})
}

// general reads what the command line says of a provider that is played by its contract.
func (t *twinCommand) general(c *terminal) (config general.Config, err error) {
	if t.Ledger != "" {
		return config, invalid("ledger", "can be kept in a file for stripe, lookup and none only", "read it from GET /_twin/ledger")
	}
	if t.Contract != "" {
		if t.Provider != "" {
			return config, invalid("provider", "is named besides a contract file", "leave one of the two out")
		}
		config.Contract, err = readContract(c, t.Contract)
	} else {
		var name string
		config.Behaviour, name, _ = behaviourOf(t.Provider)
		if config.Contract, err = contract.Load(name); err != nil {
			return config, invalid("provider", "is none that can be played", "use stripe, lookup, none, "+strings.Join(slices.Sorted(maps.Keys(general.Builtin())), ", ")+", a contract that effectonce contracts ls lists, or --contract FILE")
		}
	}
	if err != nil {
		return config, err
	}
	if t.Behaviour != "" {
		data, err := os.ReadFile(t.Behaviour)
		if err != nil {
			return config, invalid("behaviour", "cannot be read: "+err.Error(), "name a readable file")
		}
		if config.Behaviour, err = general.ParseBehaviour(t.Behaviour, data); err != nil {
			return config, invalid("behaviour", err.Error(), "see docs/twins.md")
		}
	}
	if t.Lag < 0 || t.Window < 0 || t.Page < 0 {
		return config, invalid("lag", "or window or page is negative", "give it as 10s, or leave it out")
	}
	if t.Lag > 0 {
		config.Behaviour.LookUpLag = t.Lag
	}
	if t.Window > 0 {
		config.Behaviour.Window = t.Window
	}
	if t.Page > 0 {
		config.Behaviour.Page = t.Page
	}
	if config.Plan, err = general.ParsePlan(config.Contract, t.Fault); err != nil {
		return config, invalid("fault", err.Error(), "see effectonce twin --help")
	}
	config.Breaks = general.Breaks(t.Breaks)
	return config, nil
}
