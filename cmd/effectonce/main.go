// Command effectonce runs the guard: a daemon with an HTTP API on an embedded store, the tools to look at and resolve its
// operations, and a provider to test against. See docs/cli.md, or effectonce --help.
//
// The package wires what the other packages are; each command has a file of its own.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	if was, code := runHidden(); was {
		os.Exit(code)
	}
	ctx := untilSignal(context.Background())
	os.Exit(run(ctx, os.Args[1:], &terminal{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.LookupEnv}))
}

// untilSignal is done after the first SIGINT or SIGTERM; the second one ends the process at once, with its conventional code.
func untilSignal(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		if second := <-signals; second == os.Interrupt {
			os.Exit(128 + int(syscall.SIGINT))
		}
		os.Exit(128 + int(syscall.SIGTERM))
	}()
	return ctx
}

// terminal is where a command reads and writes.
type terminal struct {
	in  io.Reader
	out io.Writer
	err io.Writer
	env func(string) (string, bool)
	// json says that the command's answer is JSON on out.
	json bool
}

// commands is the command line.
type commands struct {
	JSON bool `name:"json" help:"Answer in JSON on standard output; errors too, as problem documents."`

	Serve     serveCommand     `cmd:"" help:"Run the daemon: the HTTP API and the workers, on an embedded store or PostgreSQL."`
	Migrate   migrateCommand   `cmd:"" help:"Bring a store's schema up to date."`
	Ops       opsCommand       `cmd:"" help:"Look at operations, and resolve those that wait for a person."`
	Runs      runsCommand      `cmd:"" help:"Look at runs: what was decided, step by step, and what became of it; and undo one."`
	Outbox    outboxCommand    `cmd:"" help:"Look at events that wait to leave, and decide about parked ones."`
	Limits    limitsCommand    `cmd:"" help:"Show limits in use, and what holds them."`
	Policy    policyCommand    `cmd:"" help:"Check the configuration."`
	Contracts contractsCommand `cmd:"" help:"Look at provider contracts, and check your own."`
	Sweep     sweepCommand     `cmd:"" help:"Compare what a provider lists of a period with the operations: what went around the guard, and what is there twice."`
	Explain   explainCommand   `cmd:"" help:"Show what a call would be: intent id, key, fingerprint, and why. Nothing is stored."`
	Demo      demoCommand      `cmd:"" help:"See one refund paid twice, and then once: six scenarios, counted at the provider."`
	Twin      twinCommand      `cmd:"" help:"Run a provider to test against."`
	Probe     probeCommand     `cmd:"" help:"Try every crash window on a tool of your own, without the guard and with it."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
}

// run carries out a command line and returns the exit code.
func run(ctx context.Context, args []string, c *terminal) int {
	var cli commands
	exited := -1
	parser, err := kong.New(&cli,
		kong.Name("effectonce"),
		kong.Description(description),
		kong.Writers(c.out, c.err),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(c),
	)
	if err != nil {
		return c.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		// --help has answered.
		return exited
	}
	c.json = cli.JSON || wantsJSON(args)
	if err != nil {
		return c.fail(usage(parsed, err))
	}
	if err := parsed.Run(); err != nil {
		return c.fail(err)
	}
	return 0
}

// wantsJSON finds --json in a line that could not be parsed.
func wantsJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--json":
			return true
		case "--":
			return false
		}
	}
	return false
}

const description = `One intent, one effect: makes every authorised intent of an AI agent take effect once.

Exit codes: 0 done; 1 a defect; 2 the input, configuration or command line is not valid; 3 the intent is refused;
4 not found or not allowed; 5 a conflict: it changed meanwhile; 6 the operation failed or was abandoned; 7 not settled;
8 the daemon or its store cannot be used; 9 demo or probe: the counts are not as they must be; 130 interrupted.`
