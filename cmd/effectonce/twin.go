package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/effectonce/effectonce/fault/twin"
	"github.com/effectonce/effectonce/fault/twin/general"
)

// refundTwins are those of package twin.
var refundTwins = []string{"stripe", "lookup", "none"}

type twinCommand struct {
	Provider  string        `arg:"" optional:"" help:"Which provider: stripe, lookup or none, which refund in the manner of Stripe; or one of those named above, or a built-in contract."`
	Contract  string        `placeholder:"FILE" help:"Play the provider that this contract file describes."`
	Behaviour string        `placeholder:"FILE" help:"How it looks and what it answers beyond its contract; see docs/twins.md."`
	Breaks    string        `placeholder:"PROMISE" help:"Do not keep a promise of the contract: dedupe, retention, look_up or stamp."`
	Lag       time.Duration `placeholder:"DURATION" help:"How long look-ups do not show what is new."`
	Window    time.Duration `placeholder:"DURATION" help:"How long a key is remembered, where the contract does not say."`
	Page      int           `placeholder:"N" help:"How many items a page of a list holds."`
	Listen    string        `default:"127.0.0.1:7190" help:"Where to listen; a loopback address. Port 0 takes a free one."`
	Fault     string        `placeholder:"PLAN" help:"Faults, as in: refunds#1 after-effect drop; refunds#2 hold=2s. The words are above."`
	Ledger    string        `type:"path" placeholder:"FILE" help:"Keep the ledger in this file, so that it survives a stop; of stripe, lookup and none."`
	Stamp     string        `default:"effectonce" help:"The metadata field that the ledger shows as the stamp; of stripe, lookup and none."`
	UntilEOF  bool          `name:"until-eof" help:"Stop when standard input ends: for programs that start it."`
}

// Help implements kong.HelpProvider.
func (twinCommand) Help() string {
	return `stripe, lookup and none play a provider that refunds, in the manner of Stripe's API: POST /v1/refunds with a form and any
key that begins with sk_. stripe remembers idempotency keys and can be looked up, lookup can only be looked up, none neither. Every other
provider is played by its contract: ` + strings.Join(slices.Sorted(maps.Keys(general.Builtin())), ", ") + `, each contract that
effectonce contracts ls lists, by its name, and your own with --contract.

GET /_twin/ledger shows what really happened, POST /_twin/faults {"plan": "..."} sets faults, POST /_twin/clock {"advance": "25h"} moves
the clock; what else there is, docs/twins.md says.

A fault plan is steps, separated by semicolons. A step is TARGET#COUNT [WHEN] WHAT:

  TARGET  refunds (POST /v1/refunds), lookup (each GET under /v1/) or any (everything under /v1/); of a provider that is played by its
          contract an operation (refunds.create, or refunds for all of that beginning), write, lookup or any
  COUNT   1 the first such request, 2-3 the second and third, * each
  WHEN    instead        it reaches nothing
          before-effect  processing begins and ends without effect
          after-effect   the effect happens, only the answer suffers
  WHAT    drop           the connection is closed without an answer
          reset          it is closed with a TCP reset
          hang=10s       no answer for so long, then it is closed
          status=503     this code is the answer
          cut            half of the answer
          garble         200 and no JSON
          foreign        200 and somebody else's refund
          slow=2s        delayed: before-effect the arrival, after-effect the answer
          twice          delivered twice, as by a proxy: one copy is answered 401, the other takes effect
          hold=2s        processing takes so long, with the key in flight

Without WHEN, hold and twice are before-effect, slow is after-effect, the rest is instead. Examples:

  refunds#1 after-effect drop                     the refund happens, its answer is lost
  refunds#1 hold=5s; lookup#1-2 status=500        a slow refund; look-ups that fail twice
  refunds#* before-effect status=503              nothing is refunded until the plan is changed`
}

// Run serves until it is told to stop.
func (t *twinCommand) Run(ctx context.Context, c *terminal) error {
	if t.Contract != "" || !slices.Contains(refundTwins, t.Provider) {
		return t.runGeneral(ctx, c)
	}
	if t.Behaviour != "" || t.Breaks != "" || t.Lag != 0 || t.Window != 0 || t.Page != 0 {
		return invalid("provider", "is played by a program of its own, without behaviour, breaks, lag, window and page", "name stripe-v1 for the one that is played by its contract")
	}
	plan, err := twin.ParsePlan(t.Fault)
	if err != nil {
		return invalid("fault", err.Error(), "see effectonce twin --help")
	}
	rules := twin.StripeRules()
	switch t.Provider {
	case "lookup":
		rules.Kind = twin.LookupOnly
	case "none":
		rules.Kind = twin.NoDedupe
	}
	l, err := listenLoopback(ctx, t.Listen)
	if err != nil {
		return err
	}
	server, err := twin.New(twin.Config{Rules: rules, Plan: plan, StampField: t.Stamp, LedgerFile: t.Ledger})
	if err != nil {
		l.Close()
		return invalid("ledger", err.Error(), "name a file that can be written")
	}
	return t.serve(ctx, c, server.Serve, l, func(url string) {
		c.say("  refund:  curl -s %s/v1/refunds -u sk_test: -d payment_intent=pi_8812 -d amount=48000 -d currency=eur", url)
	})
}

// serve answers until it is told to stop; try shows how to send a request.
func (t *twinCommand) serve(ctx context.Context, c *terminal, answer func(context.Context, net.Listener) error, l net.Listener, try func(url string)) error {
	if t.UntilEOF {
		var cancel context.CancelFunc
		ctx, cancel = untilEOF(ctx, c.in)
		defer cancel()
	}
	url := "http://" + l.Addr().String()
	name := firstOf(t.Contract, t.Provider)
	if c.json {
		if err := c.ready(map[string]any{"url": url, "kind": name, "pid": os.Getpid()}); err != nil {
			return err
		}
	} else {
		c.say("A provider of kind %s listens on %s", name, url)
		try(url)
		c.say("  ledger:  curl -s %s/_twin/ledger", url)
		c.say("  stop:    Ctrl-C")
	}
	start := time.Now()
	if err := answer(ctx, l); err != nil {
		return fmt.Errorf("after %s: %w", time.Since(start).Round(time.Second), err)
	}
	return nil
}
