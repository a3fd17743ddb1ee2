package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault"
	"github.com/effectonce/effectonce/policy"
)

type probeCommand struct {
	URL   string `placeholder:"URL" help:"The tool's address; {effect} in it is replaced by the id of one effect."`
	Count string `name:"count-url" placeholder:"URL" help:"An address that tells as JSON how many effects there are; {effect} may stand in it."`
	Twin  string `enum:",stripe,lookup,none" default:"" placeholder:"KIND" help:"Probe a provider that is started for it, instead of a tool of yours: stripe, lookup or none."`

	CountPath  string            `name:"count-path" placeholder:"PATH" help:"Where in that JSON the number is, or the list whose length counts; like data.count."`
	Method     string            `default:"POST" help:"How the tool is called."`
	Encoding   string            `enum:"json,form" default:"json" help:"How the body is written: json or form."`
	Body       string            `placeholder:"JSON" help:"The body's template: a JSON object, @file, or - for standard input; {effect} may stand in it. Without it: {\"effect\": \"...\"}."`
	Header     map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"A header to send; can be repeated."`
	Credential string            `placeholder:"REFERENCE" help:"A secret to send as a bearer token: env:NAME or file:PATH."`

	KeyHeader        string        `name:"key-header" placeholder:"NAME" help:"The header of the tool's idempotency key, if it has one."`
	Retention        string        `placeholder:"DURATION" help:"How long the tool certainly remembers a key (24h, 30d, forever), if somebody promises it."`
	Stamp            string        `placeholder:"FIELD" help:"The body's field in which the tool keeps a mark of ours, like metadata.effectonce."`
	Reference        string        `placeholder:"PATH" help:"Where the answer has the id of what was created."`
	LookUp           string        `name:"look-up" placeholder:"PATH" help:"The path of a list on the tool's host that shows what it did; it needs --stamp."`
	Items            string        `placeholder:"PATH" help:"Where that answer has the list; without it the answer is the list."`
	ItemStamp        string        `name:"item-stamp" placeholder:"PATH" help:"Where an item shows the mark; without it as --stamp."`
	Lag              time.Duration `default:"-1s" placeholder:"DURATION" help:"How far the list may be behind (0s: not at all). Without it nothing is ever concluded to be absent."`
	ResendWhenAbsent bool          `name:"resend-when-absent" help:"Accept the risk of sending again once the list certainly shows nothing."`
	Processing       time.Duration `default:"1s" help:"How long the tool may work on a request."`
	Timeout          time.Duration `default:"5s" help:"How long one call may take."`
	Window           []string      `sep:"none" placeholder:"NAME" help:"Only this window; can be repeated. An unknown name lists them."`
}

// Help implements kong.HelpProvider.
func (probeCommand) Help() string {
	return `Each window in which a process can die or an answer can be lost is tried twice on your tool, with child processes that are
really killed: first with a caller that simply tries again, then through the guard. What is shown is your tool's own count.

A PROBE REALLY CAUSES EFFECTS. Point it at a test installation. Every half of every window uses an effect of its own, whose id
{effect} stands for.

What you do not promise about the tool is not built on: without a key that is remembered for a known time and without a look-up,
an ambiguous end stops for a person, and is shown as such.

The exit code is 0 if the guard let exactly one effect through in each window, or stopped for a person with at most one; otherwise 9.`
}

// Run probes.
func (p *probeCommand) Run(ctx context.Context, c *terminal) error {
	o, err := p.options(c)
	if err != nil {
		return err
	}
	if p.Twin != "" {
		twin, err := startServing(ctx, nil, io.Discard, "twin", p.Twin, "--listen", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer twin.stop()
		o = twinOptions(o, p.Twin, twin.URL)
	}
	report, err := fault.RunProbe(ctx, o, func(step string) {
		if !c.json {
			fmt.Fprintln(c.err, step)
		}
	})
	switch {
	case ctx.Err() != nil:
		return context.Canceled
	case errors.As(err, new(*effectonce.Error)):
		return err
	case err != nil:
		return &lineError{code: exitUnavailable, name: "probe_broken_off", detail: err.Error(), remedy: "see that the tool and its count answer"}
	}
	if c.json {
		err = c.show(report)
	} else {
		err = probeTable(c, report)
	}
	if err == nil && !report.Right() {
		fmt.Fprintln(c.err, "effectonce: not every window came out as it must (exactly one effect, or a stop for a person with at most one)")
		err = &reported{exit: exitCounts}
	}
	return err
}

func (p *probeCommand) options(c *terminal) (fault.ProbeOptions, error) {
	o := fault.ProbeOptions{
		Tool: fault.ProbeTool{
			URL: p.URL, Method: p.Method, Encoding: contract.Encoding(p.Encoding), Headers: p.Header, KeyHeader: p.KeyHeader,
			Stamp: p.Stamp, Reference: p.Reference, Processing: p.Processing,
		},
		Count: fault.ProbeCount{URL: p.Count, Path: p.CountPath}, Timeout: p.Timeout, Windows: p.Window,
	}
	if p.Twin == "" && p.URL == "" {
		return o, invalid("url", "is missing", "give --url and --count-url, or try --twin none")
	}
	if p.Twin != "" && (p.URL != "" || p.Count != "") {
		return o, invalid("twin", "is a tool of its own", "leave out --url and --count-url")
	}
	if p.LookUp != "" {
		o.Tool.LookUp = &fault.ProbeLookUp{Path: p.LookUp, Items: p.Items, Stamp: p.ItemStamp, ResendWhenAbsent: p.ResendWhenAbsent}
		if p.Lag >= 0 {
			o.Tool.LookUp.Lag = &p.Lag
		}
	}
	var err error
	if o.Tool.Retention, o.Tool.Forever, err = p.retention(); err != nil {
		return o, err
	}
	if o.Tool.Credential, err = p.credential(c); err != nil {
		return o, err
	}
	if p.Body == "" {
		return o, nil
	}
	body, err := readArgument(c, "body", p.Body)
	if err != nil {
		return o, err
	}
	if err := json.Unmarshal(body, &o.Tool.Body); err != nil {
		return o, invalid("body", "is not a JSON object: "+err.Error(), `write it like {"id": "{effect}"}`)
	}
	return o, nil
}

func (p *probeCommand) retention() (d time.Duration, forever bool, err error) {
	switch p.Retention {
	case "":
		return 0, false, nil
	case "forever":
		return 0, true, nil
	}
	parsed, err := policy.ParseDuration(p.Retention)
	if err != nil {
		return 0, false, invalid("retention", err.Error(), "write it like 24h, 30d or forever")
	}
	return parsed.Std(), false, nil
}

// credential reads the secret that a reference names; a secret on the command line would be seen by everybody on the machine.
func (p *probeCommand) credential(c *terminal) (string, error) {
	form, name, ok := strings.Cut(p.Credential, ":")
	switch {
	case p.Credential == "":
		return "", nil
	case ok && form == "env":
		if secret, set := c.env(name); set && secret != "" {
			return secret, nil
		}
		return "", invalid("credential", "the environment variable "+name+" is not set", "set it")
	case ok && form == "file":
		b, err := os.ReadFile(name)
		if err != nil {
			return "", invalid("credential", err.Error(), "name a readable file")
		}
		return strings.TrimSpace(string(b)), nil
	}
	return "", invalid("credential", "is not a reference", "write env:NAME or file:PATH; a secret in clear would be seen by everybody on this machine")
}

// twinOptions describes a twin as its user would, with what its kind promises.
func twinOptions(o fault.ProbeOptions, kind, url string) fault.ProbeOptions {
	o.Tool = fault.ProbeTool{
		URL: url + "/v1/refunds", Encoding: contract.EncodingForm, Credential: "sk_probe",
		Body: map[string]any{"payment_intent": "pi_{effect}", "amount": "48000", "currency": "eur"}, Reference: "id", Processing: 200 * time.Millisecond,
	}
	o.Count = fault.ProbeCount{URL: url + "/_twin/ledger", Path: "count"}
	switch kind {
	case "stripe":
		o.Tool.KeyHeader, o.Tool.Retention = "Idempotency-Key", 24*time.Hour
	case "lookup":
		atOnce := time.Duration(0)
		o.Tool.Stamp = "metadata.effectonce"
		o.Tool.LookUp = &fault.ProbeLookUp{Path: "/v1/refunds?payment_intent=pi_{effect}&limit=100", Items: "data", Lag: &atOnce}
	}
	return o
}

func probeTable(c *terminal, report fault.ProbeReport) error {
	c.say("Promised: %s.\n", report.Promises)
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "WINDOW\tWITHOUT\tWITH\tWANT\tENDED\t")
	for _, r := range report.Rows {
		verdict := "ok"
		if !r.Right() {
			verdict = "WRONG"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", r.Window, r.Unguarded, r.Guarded, r.Want, r.State, verdict)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	c.say("")
	for _, r := range report.Rows {
		c.say("%s: %s", r.Window, r.About)
		if r.Note != "" {
			c.say("    %s", printed(r.Note))
		}
	}
	return nil
}

// runProbeChild is a child process of a probe.
func runProbeChild() (was bool, code int) { return fault.ProbeChild(context.Background()) }
