package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
)

type opsResolveCommand struct {
	Key        string `arg:"" help:"The operation's key, or its first 8 or more digits."`
	As         string `required:"" enum:"confirmed,absent_fail,absent_resend,abandoned,approved,rejected" help:"The decision. In review: confirmed (it took effect), absent_fail (it did not; it fails), absent_resend (it did not; one more attempt), abandoned (final, not known). Held: approved, rejected."`
	Person     string `required:"" help:"Who decides; it goes into the audit."`
	Reason     string `required:"" help:"Why; it goes into the audit."`
	Version    int64  `help:"The version that you saw. Without it the operation is shown and you are asked, on a terminal."`
	Reference  string `help:"For confirmed: the provider's id of the effect."`
	AcceptRisk bool   `name:"accept-risk" help:"For absent_fail and absent_resend before the settle time is over: what was sent may still take effect, and you accept that."`
}

// Run records the decision.
func (r *opsResolveCommand) Run(ctx context.Context, c *terminal, ops *opsCommand) error {
	if r.Version <= 0 && !c.interactive() {
		return invalid("version", "is missing", "without a terminal, say with --version which version you saw; effectonce ops show has it")
	}
	key, err := ops.find(ctx, r.Key)
	if err != nil {
		return err
	}
	version := r.Version
	if version <= 0 {
		if version, err = r.confirm(ctx, c, ops, key); err != nil {
			return err
		}
	}
	op, err := ops.remote().resolve(ctx, key, api.Resolve{Version: version, Resolution: r.As, Person: r.Person, Reason: r.Reason, Reference: r.Reference, AcceptRisk: r.AcceptRisk})
	if err != nil {
		return err
	}
	if c.json {
		return c.show(op)
	}
	c.say("%.12s is %s now (%s)", op.Key, op.Outcome, advice(op))
	return nil
}

// confirm shows the operation and asks; it returns the version that was shown.
func (r *opsResolveCommand) confirm(ctx context.Context, c *terminal, ops *opsCommand, key effectonce.Key) (int64, error) {
	what, err := ops.readAll(ctx, key)
	if err != nil {
		return 0, err
	}
	// The question belongs to the person, not to what reads the answer.
	asked := &terminal{in: c.in, out: c.err, err: c.err, env: c.env}
	if err := what.print(asked); err != nil {
		return 0, err
	}
	fmt.Fprintf(c.err, "\nRecord that %s decides %q because %q? [y/N] ", printed(r.Person), r.As, printed(r.Reason))
	answer := make(chan string, 1)
	go func() {
		// An end of input is an empty answer, which is no.
		line, _ := bufio.NewReader(c.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return 0, context.Canceled
	case yes := <-answer:
		if yes != "y" && yes != "yes" {
			return 0, &lineError{code: exitInterrupted, name: "not_confirmed", detail: "nothing was recorded", remedy: "answer y to record the decision"}
		}
	}
	return what.Operation.Version, nil
}

// interactive reports whether a person can be asked.
func (c *terminal) interactive() bool {
	f, ok := c.in.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
