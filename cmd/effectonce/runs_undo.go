package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
is not settled, nothing is undone. The run takes no further step, and a call that has not been sent yet is not sent any more.

An operation cannot be undone if its tool has no compensate section, if it was abandoned, or if its result is not kept any more
(retention.result of its tool says for how long it is).

The exit code is 0 if nothing that the run did is left, 6 if it is done and something that took effect, or may have, cannot be undone
and stays, and 7 if it stopped; with --dry-run it is 0.`
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
	switch {
	case u.DryRun:
		return nil
	case !done.Complete:
		return &reported{exit: exitUnsettled}
	case done.Counts.CannotBeUndone > 0:
		return &reported{exit: exitStays}
	}
	return nil
}

// The exit codes of what is not settled, and of what is and is not as it was wanted, as in effectonce.Registry.
const (
	exitStays     = 6
	exitUnsettled = 7
)

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
	if u.DryRun {
		c.say("nothing was done (--dry-run)")
		return nil
	}
	c.say("%s", undoCounts(done.Counts))
	unsettled := slices.ContainsFunc(done.Steps, func(s api.UndoStep) bool { return s.Do == "unresolved" })
	switch {
	case unsettled:
		c.say("it stopped: an operation is not settled yet (effectonce ops show); give the same command again when it is")
	case !done.Complete:
		c.say("it stopped: see to the compensation that did not succeed (effectonce ops show), then give the same command again")
	case done.Counts.CannotBeUndone > 0:
		c.say("what cannot be undone here stays as it is, for the reason beside it: a person undoes it at the provider, if need be")
	case done.Counts.Undone > 0:
		c.say("everything that the run did is undone")
	}
	return nil
}

// undoCounts says in one line how much of a run is undone.
func undoCounts(n api.UndoCounts) string {
	if n.Undone+n.CannotBeUndone+n.Left == 0 {
		return "nothing that the run recorded took effect: there is nothing to undo"
	}
	parts := []string{fmt.Sprintf("%d undone", n.Undone)}
	for _, p := range []struct {
		n    int
		word string
	}{{n.CannotBeUndone, "cannot be undone"}, {n.Left, "left to do"}, {n.NothingToUndo, "had no effect"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.word))
		}
	}
	return strings.Join(parts, ", ")
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
