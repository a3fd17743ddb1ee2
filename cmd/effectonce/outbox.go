package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce/api"
)

type outboxCommand struct {
	Server string `env:"EFFECTONCE_SERVER" default:"http://127.0.0.1:7171" placeholder:"URL" help:"The daemon (${env})."`
	Tenant string `placeholder:"NAME" help:"The isolation boundary; ls shows all of them without it, the others take default."`

	Ls    outboxLsCommand    `cmd:"" help:"List subjects in which messages wait to be delivered."`
	Show  outboxShowCommand  `cmd:"" help:"Show what waits in a subject."`
	Retry outboxRetryCommand `cmd:"" help:"Let a parked message be tried again, or discard it."`
}

// Help implements kong.HelpProvider.
func (outboxCommand) Help() string {
	return `Messages leave in the order of their subject. One that cannot be delivered is parked after its attempts, and its subject waits for a
person; other subjects go on.`
}

func (o *outboxCommand) remote() remote { return remote{url: strings.TrimSuffix(o.Server, "/")} }

type outboxLsCommand struct {
	Parked bool   `help:"Only subjects whose first message is parked."`
	Search string `short:"q" placeholder:"TEXT" help:"Only subjects with this text."`
	After  string `placeholder:"CURSOR" help:"Continue after a page: what the page before named."`
	Limit  int    `default:"50" help:"Size of a page, 1 to 500."`
}

// Run lists.
func (l *outboxLsCommand) Run(ctx context.Context, c *terminal, o *outboxCommand) error {
	q := pageQuery(l.Limit, map[string]string{"tenant": o.Tenant, "q": l.Search, "after": l.After})
	if l.Parked {
		q.Set("parked", "true")
	}
	var page api.QueueList
	if err := o.remote().call(ctx, http.MethodGet, "/v1/outbox?"+q.Encode(), nil, &page); err != nil {
		return err
	}
	if c.json {
		return c.show(page)
	}
	if len(page.Queues) == 0 {
		c.say("Nothing waits.")
		return nil
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SUBJECT\tWAITING\tHEAD\tATTEMPTS\tNEXT\tREASON")
	for _, one := range page.Queues {
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\n", short(one.Subject, 50), one.Waiting, short(one.Head, 50), one.Attempts, nextTry(one), short(one.Reason, 60))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if page.Next != "" {
		c.say("more: add --after %s", strconv.Quote(page.Next))
	}
	return nil
}

func nextTry(q api.Queue) string {
	switch {
	case q.Parked:
		return "PARKED"
	case q.DueAt == nil:
		return "-"
	}
	return clock(*q.DueAt)
}

type outboxShowCommand struct {
	Subject string `arg:"" help:"The subject."`
}

// Run shows.
func (s *outboxShowCommand) Run(ctx context.Context, c *terminal, o *outboxCommand) error {
	q, err := o.queue(ctx, s.Subject)
	if err != nil {
		return err
	}
	if c.json {
		return c.show(q)
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "subject\t%s\ntenant\t%s\nwaiting\t%d\nhead\t%s\nattempts\t%d\nnext\t%s\n", printed(q.Subject), printed(q.Tenant), q.Waiting, printed(q.Head), q.Attempts, nextTry(q))
	if q.Reason != "" {
		fmt.Fprintf(w, "reason\t%s\n", printed(q.Reason))
	}
	return w.Flush()
}

func (o *outboxCommand) queue(ctx context.Context, subject string) (api.Queue, error) {
	path := "/v1/outbox/" + url.PathEscape(subject)
	if o.Tenant != "" {
		path += "?tenant=" + url.QueryEscape(o.Tenant)
	}
	var q api.Queue
	return q, o.remote().call(ctx, http.MethodGet, path, nil, &q)
}

type outboxRetryCommand struct {
	Subject string `arg:"" help:"The subject."`
	Head    string `placeholder:"ID" help:"The message that you saw in front; if another one is there now, nothing is done. Without it the present one is meant."`
	Discard bool   `help:"Remove the message for good, so that those behind it go on. Its receivers never get it."`
	Person  string `required:"" help:"Who decides; it goes into the daemon's log."`
	Reason  string `help:"Why; required for --discard."`
}

// Run decides.
func (r *outboxRetryCommand) Run(ctx context.Context, c *terminal, o *outboxCommand) error {
	head := r.Head
	if head == "" {
		if r.Discard {
			return invalid("head", "is missing", "name the message that is to be removed; effectonce outbox show has it")
		}
		q, err := o.queue(ctx, r.Subject)
		if err != nil {
			return err
		}
		head = q.Head
	}
	var done api.Retried
	body := api.Retry{Tenant: o.Tenant, Subject: r.Subject, Head: head, Discard: r.Discard, Person: r.Person, Reason: r.Reason}
	if err := o.remote().call(ctx, http.MethodPost, "/v1/outbox/retry", body, &done); err != nil {
		return err
	}
	if c.json {
		return c.show(done)
	}
	if done.Discarded {
		c.say("%s is discarded; %s goes on", printed(done.Head), printed(done.Subject))
	} else {
		c.say("%s is tried again", printed(done.Head))
	}
	return nil
}
