package main

import (
	"context"
	"fmt"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/effectonce/effectonce/api"
)

type runsUndoCommand struct {
	RunID  string `arg:"" name:"run" help:"The run."`
	Reason string `required:"" help:"Why; it goes into the audit."`
	Person string `required:"" help:"Who undoes it; it goes into the audit."`
	DryRun bool   `name:"dry-run" help:"Only show what would be undone."`
}

// Help implements kong.HelpProvider.
func (runsUndoCommand) Help() string {
	return `Each operation that the run recorded and that took effect is undone as its tool's compensate section says, the last one first. Undoing
stops at the first compensation that does not succeed; once that is settled, the same command goes on. While an operation of the run
is not settled, nothing is undone. The run takes no further step. The exit code is 0 if everything that can be undone is undone,
and 7 if it stopped.`
}

// undoTimeout bounds the whole: each compensation may take as long as its provider.
const undoTimeout = 30 * time.Minute

// Run undoes.
func (u *runsUndoCommand) Run(ctx context.Context, c *terminal, runs *runsCommand) error {
	r := runs.remote()
	r.timeout = undoTimeout
	var done api.Undone
	if err := r.call(ctx, http.MethodPost, runPath(u.RunID)+"/undo?wait=20s", api.Undo{Reason: u.Reason, Person: u.Person, DryRun: u.DryRun}, &done); err != nil {
		return err
	}
	if err := u.tell(c, done); err != nil {
		return err
	}
	if done.Complete || u.DryRun {
		return nil
	}
	return &reported{exit: exitUnsettled}
}

// exitUnsettled is the exit code for what is not settled, as in effectonce.Registry.
const exitUnsettled = 7

func (u *runsUndoCommand) tell(c *terminal, done api.Undone) error {
	if c.json {
		return c.show(done)
	}
	if len(done.Steps) == 0 {
		c.say("The run recorded no operation: there is nothing to undo.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "STEP\tOPERATION\tTOOL\tSTATE\tUNDOING\tBY\tWHY")
	for _, s := range done.Steps {
		by := "-"
		if s.Compensation != nil {
			by = fmt.Sprintf("%.12s %s", s.Compensation.Key, s.Compensation.Outcome)
		} else if s.Executes == "caller" {
			by = "its caller"
		}
		fmt.Fprintf(w, "%s\t%.12s\t%s\t%s\t%s\t%s\t%s\n", short(s.Step, 30), s.Key, short(s.Tool, 30), s.State, undoWords[s.Do], by, short(s.Why, 120))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case u.DryRun:
		c.say("nothing was done (--dry-run)")
	case done.Complete:
		c.say("everything that can be undone is undone")
	default:
		c.say("it stopped: see to the compensation that did not succeed (effectonce ops show), then give the same command again")
	}
	return nil
}

var undoWords = map[string]string{
	"undone":           "undone",
	"undo":             "would be undone",
	"stopped":          "stopped here",
	"not_reached":      "not reached",
	"nothing_to_undo":  "nothing to undo",
	"cannot_be_undone": "cannot be undone",
	"unresolved":       "not settled",
}
