package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
)

type limitsCommand struct {
	Server string `env:"EFFECTONCE_SERVER" default:"http://127.0.0.1:7171" placeholder:"URL" help:"The daemon (${env})."`

	Name   string `arg:"" optional:"" help:"Only this limit, with more about what holds it."`
	Search string `short:"q" placeholder:"TEXT" help:"Only with this text in the limit's name."`
	Limit  int    `default:"50" help:"How many limits, 1 to 500."`
}

// Help implements kong.HelpProvider.
func (limitsCommand) Help() string {
	return `A limit is a total over operations. What is not settled holds its part, and gives it back if it fails; what succeeded or was
abandoned has spent it.`
}

// Run shows.
func (l *limitsCommand) Run(ctx context.Context, c *terminal) error {
	q := pageQuery(l.Limit, map[string]string{"name": l.Name, "q": l.Search})
	var all api.LimitList
	if err := (remote{url: strings.TrimSuffix(l.Server, "/")}).call(ctx, http.MethodGet, "/v1/limits?"+q.Encode(), nil, &all); err != nil {
		return err
	}
	if c.json {
		return c.show(all)
	}
	if len(all.Limits) == 0 {
		c.say("No limits in use.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "LIMIT\tUSED\tMAX\tPERIOD\tHELD BY")
	for _, one := range all.Limits {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", short(one.Name, 60), one.Used, one.Max, period(one), held(one))
	}
	if l.Name != "" {
		fmt.Fprintln(w, "\nOPERATION\tAMOUNT\tSTATE\tTOOL\tINTENT\tAGE")
		for _, one := range all.Limits {
			for _, h := range one.Holders {
				fmt.Fprintf(w, "%.12s\t%d\t%s\t%s\t%s\t%s\n", h.Key, h.Amount, h.State, short(h.Tool, 30), short(h.IntentID, 50), short(h.Age, 20))
			}
		}
	}
	return w.Flush()
}

func period(l api.Limit) string {
	if l.From == nil {
		return "no end"
	}
	return l.Per + " from " + clock(*l.From)
}

// held says in one column what holds a limit: what is not settled may still give its part back.
func held(l api.Limit) string {
	open, spent := 0, 0
	for _, h := range l.Holders {
		if effectonce.State(h.State).Final() {
			spent++
		} else {
			open++
		}
	}
	return fmt.Sprintf("%d settled, %d open", spent, open)
}
