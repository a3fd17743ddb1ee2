package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce/api"
)

type runsCommand struct {
	Server string `env:"EFFECTONCE_SERVER" default:"http://127.0.0.1:7171" placeholder:"URL" help:"The daemon (${env})."`

	Ls   runsLsCommand   `cmd:"" help:"List runs with recorded decisions, those that began last first."`
	Show runsShowCommand `cmd:"" help:"Show a run: each step, what was decided, and what became of it."`
	Undo runsUndoCommand `cmd:"" help:"Undo what a run did, newest first, each step once."`
}

func (r *runsCommand) remote() remote { return remote{url: strings.TrimSuffix(r.Server, "/")} }

// runPath is a run's path in the API.
func runPath(run string) string {
	escaped := url.PathEscape(run)
	if run == "." || run == ".." {
		// Dots alone would be a way up.
		escaped = "%2E" + escaped[1:]
	}
	return "/v1/runs/" + escaped
}

type runsLsCommand struct {
	Unfinished bool   `help:"Only runs that have not ended."`
	Search     string `short:"q" placeholder:"TEXT" help:"Only with this text in the run's name."`
	After      string `placeholder:"CURSOR" help:"Continue after a page: what the page before named."`
	Limit      int    `default:"50" help:"Size of a page, 1 to 500."`
}

// Run lists.
func (l *runsLsCommand) Run(ctx context.Context, c *terminal, runs *runsCommand) error {
	q := pageQuery(l.Limit, map[string]string{"q": l.Search, "after": l.After})
	if l.Unfinished {
		q.Set("unfinished", "true")
	}
	var page api.RunList
	if err := runs.remote().call(ctx, http.MethodGet, "/v1/runs?"+q.Encode(), nil, &page); err != nil {
		return err
	}
	if c.json {
		return c.show(page)
	}
	if len(page.Runs) == 0 {
		c.say("No runs.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tSTEPS\tSTATE\tBEGAN\tLAST DECISION")
	for _, r := range page.Runs {
		state := "running"
		if r.Finished {
			state = "finished"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", short(r.Run, 60), r.Steps, state, clock(r.BeganAt), clock(r.LastAt))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if page.Next != "" {
		c.say("more: add --after %s", page.Next)
	}
	return nil
}
