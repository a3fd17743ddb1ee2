package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce/api"
)

type runsShowCommand struct {
	RunID string `arg:"" name:"run" help:"The run."`
}

// Run shows.
func (s *runsShowCommand) Run(ctx context.Context, c *terminal, runs *runsCommand) error {
	var story api.RunStory
	if err := runs.remote().call(ctx, http.MethodGet, runPath(s.RunID), nil, &story); err != nil {
		return err
	}
	if c.json {
		return c.show(story)
	}
	state := "not finished"
	if story.Finished {
		state = "finished"
	}
	c.say("run %s, %s", printed(story.Run), state)
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nAT\tSTEP\tDECIDED\tOPERATION\tOUTCOME\tNOW")
	for _, step := range story.Steps {
		key, outcome, at := "-", "-", "-"
		if op := step.Operation; op != nil {
			key, outcome, at = fmt.Sprintf("%.12s", op.Key), op.Outcome, created(*op)
		}
		if d := step.Decision; d != nil {
			at = clock(d.At)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", at, short(step.Step, 30), chosen(step), key, outcome, doWords[step.Do])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, step := range story.Steps {
		if d := step.Decision; d != nil && d.Note != "" {
			c.say("note of %s: %s", short(step.Step, 30), short(d.Note, 200))
		}
	}
	return nil
}

// chosen says in one column what was decided.
func chosen(step api.Step) string {
	d := step.Decision
	switch {
	case d == nil && step.Operation != nil && step.Operation.Compensates != "":
		return fmt.Sprintf("undoes %.12s", step.Operation.Compensates)
	case d == nil && step.Operation != nil:
		return "nothing; " + short(step.Operation.Tool, 40) + " was called"
	case d == nil:
		return "-"
	}
	what := strings.TrimSpace(d.Tool + " " + string(d.Arguments))
	if d.Finish {
		what = strings.TrimSpace(what + " (the last step)")
	}
	return short(what, 70)
}

// doWords say what to do about a step.
var doWords = map[string]string{
	"decide":     "to be decided",
	"execute":    "to be executed: its agent makes the call",
	"wait":       "under way",
	"use_result": "done",
	"new_step":   "failed, without an effect: a new step may be decided",
	"stop":       "stopped: a person has to look",
	"finished":   "ended",
}
