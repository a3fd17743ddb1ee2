package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/config"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/provider"
)

type sweepCommand struct {
	Provider  string            `required:"" placeholder:"NAME" help:"The provider, as the configuration names it."`
	Since     string            `default:"24h" help:"How far back to look, such as 90m, 24h or 7d."`
	Operation string            `placeholder:"NAME" help:"Only this operation of the contract."`
	Set       map[string]string `placeholder:"NAME=VALUE" mapsep:"none" help:"What the contract leaves open in its list, such as a location; can be repeated."`
	Config    string            `placeholder:"FILE" help:"The configuration; effectonce.yaml in the current directory if it exists."`
	Store     string            `placeholder:"STORE" help:"The daemon's store: a SQLite file, a PostgreSQL URL or env:NAME; else what the configuration says, else effectonce.db."`
}

// Help implements kong.HelpProvider.
func (sweepCommand) Help() string {
	return `It reads what the provider lists of the period, to the end, and compares that with the operations in the store:

  unstamped      a resource that no operation made: something went around the guard
  no_operation   a resource with a stamp of which the store has no operation
  duplicate      resources that bear one stamp
  not_failed     a resource of an operation that is recorded as failed, without an effect

Exit codes: 0 clean; 6 it found something; 7 the list could not be read to its end, so nothing is certain. It only reads.`
}

// The exit codes of a sweep that is not clean.
const (
	exitFindings   = 6
	exitUnreadable = 7
)

// Bounds of a sweep: of one page, and of everything that is kept to be compared.
const (
	sweepPageTimeout  = 30 * time.Second
	sweepPageBytesMax = 16 << 20
	sweepResourcesMax = 500_000
)

// sweepReport is the answer with --json.
type sweepReport struct {
	Provider string    `json:"provider"`
	Contract string    `json:"contract"`
	Since    time.Time `json:"since"`
	// Until is up to when the lists certainly show everything; Lag is "unknown" where the contract does not say.
	Until time.Time    `json:"until"`
	Lag   string       `json:"lag"`
	Lists []sweepList  `json:"lists"`
	Found []sweepFound `json:"findings"`
	// Resources are those of the period, Operations how many of the store were compared.
	Resources  int    `json:"resources"`
	Operations int    `json:"operations"`
	Unreadable string `json:"unreadable,omitempty"`
	Clean      bool   `json:"clean"`
}

// sweepList is one list that was read.
type sweepList struct {
	Operation string `json:"operation"`
	Path      string `json:"path"`
	Pages     int    `json:"pages"`
	Resources int    `json:"resources"`
}

// Run sweeps.
func (s *sweepCommand) Run(ctx context.Context, c *terminal) error {
	period, err := contract.ParseDuration(s.Since)
	if err != nil || period <= 0 {
		return invalid("since", fmt.Sprintf("%.80q is no time to look back", s.Since), "write it like 24h or 7d")
	}
	cfg, err := loadConfig(c, s.Config)
	if err != nil {
		return err
	}
	api, ok := cfg.Providers[s.Provider]
	if !ok {
		return invalid("provider", fmt.Sprintf("%.80q is not in the configuration", s.Provider), "use "+firstOf(strings.Join(slices.Sorted(maps.Keys(cfg.Providers)), ", "), "--config FILE with providers"))
	}
	operations, err := s.operations(api.Contract)
	if err != nil {
		return err
	}
	store, err := s.store(ctx, c, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	now := time.Now()
	report := sweepReport{Provider: s.Provider, Contract: api.Contract.Name, Since: now.Add(-period).UTC(), Until: now.UTC(), Lag: "0s", Lists: []sweepList{}, Found: []sweepFound{}}
	// The provider is read first: whatever it shows was recorded before it was sent.
	seen := newSwept()
	if err := s.read(ctx, api, operations, &report, seen); err != nil {
		return err
	}
	if report.Operations, err = seen.compare(ctx, store, operationsAt(cfg, s.Provider, api.Contract.Name)); err != nil {
		return err
	}
	report.Resources, report.Found = seen.count(), seen.findings()
	report.Clean = report.Unreadable == "" && len(report.Found) == 0
	return report.show(c)
}

// operations are those of the contract that can be listed by time, one for each list.
func (s *sweepCommand) operations(c *contract.Contract) ([]*contract.Operation, error) {
	var found []*contract.Operation
	lists := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Operations)) {
		o := c.Operations[name]
		if o.Sweep == nil || s.Operation != "" && s.Operation != name {
			continue
		}
		if list := fmt.Sprint(o.Sweep.Path, o.Sweep.Query); !lists[list] {
			lists[list] = true
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		what := "contract " + c.Name
		if s.Operation != "" {
			what += " has no operation " + s.Operation + " that can be listed by time: it"
		}
		return nil, invalid("provider", "cannot be swept: "+what+" does not say how what was done is listed by time", "describe the list under sweep in a contract of your own; docs/contracts.md")
	}
	for _, o := range found {
		needed, optional := o.Sweep.SweepNeeds()
		for _, name := range needed {
			if s.Set[name] == "" {
				return nil, invalid("set", "lacks "+name+", which the list of "+o.Name+" needs", "give --set "+name+"=VALUE")
			}
		}
		for name := range s.Set {
			if len(found) == 1 && !slices.Contains(needed, name) && !slices.Contains(optional, name) {
				return nil, invalid("set", "names "+name+", which the list does not have", "leave it out")
			}
		}
	}
	return found, nil
}

func (s *sweepCommand) store(ctx context.Context, c *terminal, cfg *config.Config) (effectonce.Store, error) {
	where, err := parseStore(c, firstOf(s.Store, cfg.Store))
	if err != nil {
		return nil, err
	}
	if err := where.missing(); err != nil {
		return nil, invalid("store", "cannot be read: "+err.Error(), "name the daemon's store with --store")
	}
	return where.look(ctx)
}

// read reads the lists into seen. What ends one too early is in the report, and the next is not begun.
func (s *sweepCommand) read(ctx context.Context, api provider.RawOptions, operations []*contract.Operation, report *sweepReport, seen *swept) error {
	raw, err := provider.NewRaw(api)
	if err != nil {
		return err
	}
	reader := sweepReader{raw: raw, api: api, client: &http.Client{
		Timeout:       sweepPageTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, o := range operations {
		sweeper, err := o.Sweeping(report.Since, s.Set)
		if err != nil {
			return invalid("set", err.Error(), "give --set NAME=VALUE")
		}
		before := seen.count()
		err = reader.read(ctx, sweeper, func(one contract.Swept) error { return seen.add(o, one) })
		report.Lists = append(report.Lists, sweepList{Operation: o.Name, Path: o.Sweep.Path, Pages: sweeper.Pages(), Resources: seen.count() - before})
		switch {
		case errors.Is(err, context.Canceled):
			return err
		case err != nil:
			report.Unreadable = o.Name + ": " + err.Error()
			return nil
		case !o.Sweep.Lag.Known():
			report.Lag = "unknown"
		case report.Lag != "unknown":
			if until := report.Since.Add(time.Since(report.Since) - o.Sweep.Lag.AtMost); until.Before(report.Until) {
				report.Until, report.Lag = until, o.Sweep.Lag.AtMost.String()
			}
		}
	}
	return nil
}

// sweepReader asks a provider.
type sweepReader struct {
	raw    *provider.Raw
	api    provider.RawOptions
	client *http.Client
}

// read reads a list to its end. The error says why that was not possible, without a secret.
func (r sweepReader) read(ctx context.Context, sweeper *contract.Sweeper, take func(contract.Swept) error) error {
	for {
		request, more := sweeper.Next()
		if !more {
			return sweeper.Err()
		}
		answer, err := r.page(ctx, request)
		if err != nil {
			sweeper.Fail(err)
			return err
		}
		for _, one := range sweeper.Take(answer) {
			if err := take(one); err != nil {
				return err
			}
		}
	}
}

func (r sweepReader) page(ctx context.Context, asked contract.Request) (contract.Response, error) {
	target, err := r.raw.Target(asked.Path, asked.Query)
	if err != nil {
		return contract.Response{}, err
	}
	request, err := http.NewRequestWithContext(ctx, asked.Method, target.String(), nil)
	if err != nil {
		return contract.Response{}, errors.New("the request cannot be made")
	}
	request.Header = asked.Header.Clone()
	request.Header.Set("Accept", "application/json, */*;q=0.5")
	if err := r.raw.Authenticate(ctx, request, nil); err != nil {
		return contract.Response{}, fmt.Errorf("the credential: %w", err)
	}
	answer, err := r.client.Do(request)
	if err != nil {
		if errors.Is(context.Cause(ctx), context.Canceled) {
			return contract.Response{}, context.Canceled
		}
		return contract.Response{}, errors.New("no answer came: " + withoutAddress(err))
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, sweepPageBytesMax+1))
	if err != nil {
		return contract.Response{}, errors.New("the answer broke off")
	}
	return contract.Response{Status: answer.StatusCode, Header: answer.Header, Body: body, Beginning: len(body) > sweepPageBytesMax}, nil
}

// withoutAddress is what went wrong without the request's address.
func withoutAddress(err error) string {
	for wrapped := errors.Unwrap(err); wrapped != nil; wrapped = errors.Unwrap(err) {
		err = wrapped
	}
	return short(err.Error(), 200)
}

func (r sweepReport) show(c *terminal) error {
	exit := 0
	switch {
	case r.Unreadable != "":
		exit = exitUnreadable
	case len(r.Found) > 0:
		exit = exitFindings
	}
	if c.json {
		if err := c.show(r); err != nil {
			return err
		}
	} else if err := r.print(c); err != nil {
		return err
	}
	if exit != 0 {
		return &reported{exit: exit}
	}
	return nil
}

func (r sweepReport) print(c *terminal) error {
	for _, l := range r.Lists {
		c.say("%s: %d resources since %s on %d pages of %s", l.Operation, l.Resources, clock(r.Since), l.Pages, l.Path)
	}
	if len(r.Found) > 0 {
		w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
		fmt.Fprintln(w, "\nfinding\tresources\tmade\tstamp\toperation")
		for _, f := range r.Found {
			key := "-"
			if f.Key != "" {
				key = f.Key[:12] + " " + f.Tool + " " + string(f.State)
			}
			made := "-"
			if f.Created != nil {
				made = clock(*f.Created)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Kind, short(strings.Join(f.References, ", "), 80), made, short(f.Stamp, 14), printed(key))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	switch {
	case r.Unreadable != "":
		c.say("\nNot readable: %s. Nothing is certain, and nothing was changed.", printed(r.Unreadable))
	case len(r.Found) > 0:
		c.say("\n%d findings; %d operations were compared.", len(r.Found), r.Operations)
	default:
		c.say("\nClean up to %s (the list may be behind by %s); %d operations were compared.", clock(r.Until), r.Lag, r.Operations)
	}
	return nil
}
