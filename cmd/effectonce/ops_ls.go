package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/effectonce/effectonce/api"
)

type opsLsCommand struct {
	State    []string `placeholder:"STATE" help:"Only in these states: pending, in_progress, unknown, review, succeeded, failed, abandoned."`
	Tool     string   `placeholder:"NAME" help:"Only of this tool."`
	IntentID string   `name:"intent-id" placeholder:"ID" help:"Only of this intent id."`
	RunID    string   `name:"run" placeholder:"ID" help:"Only of this run."`
	Search   string   `short:"q" placeholder:"TEXT" help:"Only with this text in key, intent id, run, step, reference or resource."`
	Alarmed  bool     `help:"Only with an alarm: somebody must look at them even if they are settled."`
	After    string   `placeholder:"CURSOR" help:"Continue after a page: what the page before named."`
	Limit    int      `default:"50" help:"Size of a page, 1 to 500."`
	All      bool     `help:"Follow the pages to the end."`
}

// Run lists.
func (l *opsLsCommand) Run(ctx context.Context, c *terminal, ops *opsCommand) error {
	query := listQuery{States: l.State, Tool: l.Tool, IntentID: l.IntentID, Run: l.RunID, Text: l.Search, Alarmed: l.Alarmed, After: l.After, Limit: l.Limit}
	page, err := ops.remote().list(ctx, query)
	if err != nil {
		return err
	}
	all := page
	for l.All && page.Next != "" {
		query.After = page.Next
		if page, err = ops.remote().list(ctx, query); err != nil {
			return err
		}
		all.Operations, all.Next = append(all.Operations, page.Operations...), page.Next
	}
	if c.json {
		return c.show(all)
	}
	if len(all.Operations) == 0 {
		c.say("No operations.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tOUTCOME\tATTEMPTS\tTOOL\tINTENT\tCREATED\tNOTE")
	for _, op := range all.Operations {
		fmt.Fprintf(w, "%.12s\t%s\t%d\t%s\t%s\t%s\t%s\n", op.Key, op.Outcome, op.Attempts, short(op.Tool, 30), short(op.IntentID, 50), created(op), short(note(op), 60))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if all.Next != "" {
		c.say("more: add --after %s", all.Next)
	}
	return nil
}

func created(op api.Operation) string {
	if op.CreatedAt == nil {
		return "-"
	}
	return clock(*op.CreatedAt)
}

// note is the one thing about an operation that somebody should know.
func note(op api.Operation) string {
	switch {
	case op.Alarm != "":
		return "ALARM " + op.Alarm
	case op.Error != nil:
		return op.Error.Code
	case op.Reference != "":
		return op.Reference
	case op.TwinOf != "":
		return fmt.Sprintf("possible repeat of %.12s", op.TwinOf)
	}
	return op.Reason
}
