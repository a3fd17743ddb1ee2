package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"
)

type demoCommand struct {
	Keep bool `help:"Keep the directory with the configuration, the store, the provider's ledger and the logs, and say where it is."`
}

// Help implements kong.HelpProvider.
func (demoCommand) Help() string {
	return `A provider of refunds is started as a process of its own, and one refund of 480.00 EUR is asked for in six ways that go
wrong in production. Each is played first by an agent and a tool as they are commonly written, then by the same agent
that asks a daemon of effectonce instead of the provider. What the agents say is given; every count and sum is read
from the provider's ledger. It takes less than 40 seconds.

The exit code is 0 only if each scenario paid more than once without the guard, and exactly once with it; otherwise 9.`
}

// demoReport is the answer with --json.
type demoReport struct {
	Scenarios []demoRow `json:"scenarios"`
}

// demoRow is one scenario's counts of refunds in the provider's ledger.
type demoRow struct {
	Name      string `json:"name"`
	Unguarded int    `json:"unguarded"`
	Guarded   int    `json:"guarded"`
	Want      int    `json:"want"`

	unguardedMinor, guardedMinor int64
}

func (r demoRow) right() bool { return r.Unguarded > 1 && r.Guarded == r.Want }

// Run plays the scenarios.
func (d *demoCommand) Run(ctx context.Context, c *terminal) (err error) {
	begin := time.Now()
	stage, err := newStage(ctx)
	if err != nil {
		return err
	}
	defer func() {
		kept := stage.close(d.Keep)
		if kept != "" {
			fmt.Fprintln(c.err, "kept: "+kept)
		}
	}()
	progress := func(format string, args ...any) {
		if !c.json {
			fmt.Fprintf(c.out, format, args...)
		}
	}
	progress("A customer is owed one refund of 480.00 EUR: %s, %s.\n", theOrder, theTicket)
	progress("The provider is a process of its own (%s). Every number is read from its ledger.\n\n", stage.twin.URL)

	report := demoReport{Scenarios: []demoRow{}}
	for i, s := range scenarios {
		row := demoRow{Name: s.name, Want: 1}
		progress("%d. %s: %s\n", i+1, s.name, s.story)
		progress("   without the guard ... ")
		start := time.Now()
		row.Unguarded, row.unguardedMinor, err = stage.play(ctx, s, false)
		if err != nil {
			return demoStopped(ctx, c, s, err)
		}
		progress("%s (%.1fs)\n   with the guard    ... ", paid(row.Unguarded, row.unguardedMinor), time.Since(start).Seconds())
		start = time.Now()
		row.Guarded, row.guardedMinor, err = stage.play(ctx, s, true)
		if err != nil {
			return demoStopped(ctx, c, s, err)
		}
		progress("%s (%.1fs)\n", paid(row.Guarded, row.guardedMinor), time.Since(start).Seconds())
		report.Scenarios = append(report.Scenarios, row)
	}
	return d.conclude(c, report, time.Since(begin))
}

func demoStopped(ctx context.Context, c *terminal, s scenario, err error) error {
	if !c.json {
		fmt.Fprintln(c.out)
	}
	if ctx.Err() != nil {
		return context.Canceled
	}
	return fmt.Errorf("scenario %s: %w", s.name, err)
}

// conclude shows the table, or the JSON, and decides on the exit code.
func (d *demoCommand) conclude(c *terminal, report demoReport, took time.Duration) error {
	wrong := 0
	for _, r := range report.Scenarios {
		if !r.right() {
			wrong++
		}
	}
	if c.json {
		if err := c.show(report); err != nil {
			return err
		}
	} else {
		if err := demoTable(c, report); err != nil {
			return err
		}
		c.say("\n%d scenarios in %.0f seconds.", len(report.Scenarios), took.Seconds())
	}
	if wrong > 0 {
		fmt.Fprintf(c.err, "effectonce: %d of %d scenarios did not come out as they must (without the guard more than one refund, with it exactly one)\n", wrong, len(report.Scenarios))
		return &reported{exit: exitCounts}
	}
	return nil
}

func demoTable(c *terminal, report demoReport) error {
	c.say("\nRefunds at the provider, for one of 480.00 EUR that was authorised:\n")
	w := tabwriter.NewWriter(c.out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "scenario\twithout the guard\twith the guard\twant\t")
	var without, with int64
	for _, r := range report.Scenarios {
		verdict := "ok"
		if !r.right() {
			verdict = "WRONG"
		}
		fmt.Fprintf(w, "%s\t%d  %s\t%d  %s\t%d\t%s\n", r.Name, r.Unguarded, euros(r.unguardedMinor), r.Guarded, euros(r.guardedMinor), r.Want, verdict)
		without, with = without+r.unguardedMinor, with+r.guardedMinor
	}
	authorised := int64(len(report.Scenarios)) * theAmountMinor
	fmt.Fprintf(w, "left the bank\t%s\t%s\t%s\t\n", euros(without), euros(with), euros(authorised))
	return w.Flush()
}

func paid(n int, minor int64) string {
	if n == 1 {
		return fmt.Sprintf("1 refund, %s left the bank", euros(minor))
	}
	return fmt.Sprintf("%d refunds, %s left the bank", n, euros(minor))
}

func euros(minor int64) string { return fmt.Sprintf("%d.%02d EUR", minor/100, minor%100) }
