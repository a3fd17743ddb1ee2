package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
	"github.com/effectonce/effectonce/config"
	"github.com/effectonce/effectonce/store/memory"
)

type explainCommand struct {
	Tool      string            `arg:"" help:"The tool's name."`
	Arguments string            `required:"" placeholder:"JSON" help:"The call's arguments: a JSON object, @file, or - for standard input."`
	RunID     string            `name:"run" help:"The run that the call belongs to."`
	Step      string            `help:"The step in the run."`
	Context   map[string]string `placeholder:"KEY=VALUE" mapsep:"none" help:"Call metadata for the policy's templates; can be repeated."`
	IntentID  string            `name:"intent-id" help:"The intent id, for a tool whose policy does not build it."`
	Config    string            `placeholder:"FILE" help:"The configuration; effectonce.yaml in the current directory if it exists."`
	Store     string            `placeholder:"STORE" help:"The daemon's store, for the downstream key: a SQLite file, a PostgreSQL URL or env:NAME; else what the configuration says, else effectonce.db."`
}

// Help implements kong.HelpProvider.
func (explainCommand) Help() string {
	return `No daemon is needed. The downstream key depends on a secret of the installation, which is in its store; without a store
everything else is shown.`
}

// explanation is the answer with --json: the API's, and what only matters here.
type explanation struct {
	api.Explanation
	// WithoutStore says why there is no downstream key.
	WithoutStore string         `json:"without_store,omitempty"`
	Run          string         `json:"run,omitempty"`
	Step         string         `json:"step,omitempty"`
	Resource     string         `json:"resource,omitempty"`
	RequestScope string         `json:"request_scope,omitempty"`
	Terms        map[string]any `json:"terms"`
	// Formerly says which identities its calls had before the policy was edited; Refused why the daemon would not start with the
	// file over this store.
	Formerly []string `json:"formerly,omitempty"`
	Refused  string   `json:"refused,omitempty"`
}

// Run explains a call.
func (e *explainCommand) Run(ctx context.Context, c *terminal) error {
	args, err := readArgument(c, "arguments", e.Arguments)
	if err != nil {
		return err
	}
	cfg, err := loadConfig(c, e.Config)
	if err != nil {
		return err
	}
	store, without, err := e.store(ctx, c, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	refused, err := formerly(ctx, cfg, store)
	if err != nil {
		return err
	}
	in, reading, err := e.intent(cfg, args)
	if err != nil {
		return err
	}
	op, err := effectonce.New(store, effectonce.Options{}).Preview(ctx, in)
	if err != nil {
		return err
	}
	x := explanation{
		Explanation: api.Explanation{
			Tool: op.Tool, Policy: reading.Policy, Class: string(op.Terms.Class), Scope: string(op.Scope), Template: reading.Template,
			IntentID: op.IntentID, Key: op.Key.String(), Fingerprint: op.Fingerprint.String(), Business: op.Business,
			Arguments: reading.Arguments, Managed: op.Terms.Managed,
		},
		WithoutStore: without, Run: op.Run, Step: op.Step, Resource: op.Resource, RequestScope: op.RequestScope, Terms: termsInWords(op.Terms),
	}
	if x.Arguments == nil {
		x.Arguments = []api.Argument{}
	}
	if without == "" {
		x.DownstreamKey, x.Stamp = op.DownstreamKey, op.Stamp
	}
	x.Kept(op)
	x.Refused = refused
	if t := cfg.Tools[op.Tool]; t != nil {
		x.Formerly = t.Formerly()
	}
	if c.json {
		return c.show(x)
	}
	return x.print(c)
}

// intent reads the call as the daemon would.
func (e *explainCommand) intent(cfg *config.Config, args json.RawMessage) (effectonce.Intent, api.Reading, error) {
	meta := map[string]string{}
	for name, v := range e.Context {
		meta[name] = v
	}
	if e.RunID != "" {
		meta["run"] = e.RunID
	}
	if e.Step != "" {
		meta["step"] = e.Step
	}
	var reading api.Reading
	in := effectonce.Intent{Tool: e.Tool, Arguments: args}
	known, configured := tools{cfg}.Tool(e.Tool)
	if configured {
		var err error
		if in, err = known.Intent(args, meta); err == nil {
			reading, err = known.Explain(args, meta)
		}
		if err != nil {
			return in, reading, err
		}
	}
	in.Run, in.Step = e.RunID, e.Step
	switch {
	case e.IntentID == "" && in.ID == "" && !configured:
		return in, reading, &effectonce.Error{Code: effectonce.CodeUnknownTool, Field: "tool", Detail: fmt.Sprintf("%q is not configured", e.Tool),
			Remedy: "name the configuration with --config, or give the intent id with --intent-id"}
	case e.IntentID == "":
	case in.ID != "":
		return in, reading, invalid("intent-id", "is built by the tool's policy from the arguments", "leave it out")
	default:
		in.ID = e.IntentID
	}
	return in, reading, nil
}

// store opens the installation's store, or an empty one and says why it is another.
func (e *explainCommand) store(ctx context.Context, c *terminal, cfg *config.Config) (store effectonce.Store, without string, err error) {
	where, err := parseStore(c, firstOf(e.Store, cfg.Store))
	if err != nil {
		return nil, "", err
	}
	if statErr := where.missing(); statErr != nil {
		if e.Store != "" {
			return nil, "", invalid("store", "cannot be read: "+statErr.Error(), "name the daemon's store, or leave it out")
		}
		without = "there is no store at " + where.String() + "; name the daemon's with --store"
	} else if store, err = where.look(ctx); err != nil {
		if e.Store != "" {
			return nil, "", err
		}
		without = "the store cannot be used: " + problemOf(err).line()
	}
	if without != "" {
		store = memory.Open(memory.Options{Secret: make([]byte, 32)})
	}
	return store, without, nil
}

// formerly finds the earlier identities of tools in the store. refused says why the daemon would not start with the file.
func formerly(ctx context.Context, cfg *config.Config, store effectonce.Store) (refused string, err error) {
	err = cfg.FindIdentities(ctx, store)
	var problems config.Problems
	if errors.As(err, &problems) {
		return problems.Error(), nil
	}
	return "", err
}

func (x explanation) print(c *terminal) error {
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "tool\t%s\t%s\n", x.Tool, x.Class)
	why := "given by the caller"
	if x.Template != "" {
		why = "from the template " + x.Template
	}
	fmt.Fprintf(w, "intent id\t%s\t%s\n", printed(x.IntentID), why)
	fmt.Fprintf(w, "key\t%s\t%s\n", x.Key, x.keyWhy())
	fmt.Fprintf(w, "fingerprint\t%s\tSHA-256 of the business arguments below; a repeat with another one is refused\n", x.Fingerprint)
	if x.WithoutStore != "" {
		fmt.Fprintf(w, "downstream key\tnot known\t%s\n", x.WithoutStore)
	} else {
		fmt.Fprintf(w, "downstream key\t%s\twhat the provider gets as its idempotency key, the same in every attempt\n", x.DownstreamKey)
		fmt.Fprintf(w, "stamp\t%s\twhat is put on the created resource\n", x.Stamp)
	}
	if x.Policy != "" {
		fmt.Fprintf(w, "policy\t%s\tits version, which keeps applying to the operation\n", x.Policy)
	}
	if x.Resource != "" {
		fmt.Fprintf(w, "resource\t%s\twhat it acts on\n", printed(x.Resource))
	}
	for _, l := range x.Limits {
		of := fmt.Sprintf("%d of %d", l.Amount, l.Max)
		if l.Per != "" {
			of += " per " + l.Per
		}
		fmt.Fprintf(w, "limit\t%s\t%s, together with what others took\n", printed(l.Name), of)
	}
	if x.ForgetAt != nil {
		fmt.Fprintf(w, "identity ends\t%s\tits period is over then; such a call is refused afterwards\n", x.ForgetAt.Format(time.RFC3339))
	}
	for _, key := range x.Aliases {
		fmt.Fprintf(w, "key before\t%s\tthe same call under an earlier policy; whatever has it is this operation\n", key)
	}
	for _, words := range x.Formerly {
		fmt.Fprintf(w, "identity before\t%s\n", printed(words))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if x.Refused != "" {
		c.say("\nThe daemon would not start with this file over this store:\n%s", x.Refused)
	}
	c.say("\nbusiness arguments: %s", printed(string(x.Business)))
	if len(x.Arguments) == 0 {
		c.say("\nThe tool has no policy: every argument is material, so a repeat in other words is refused.")
		return nil
	}
	c.say("")
	w = tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "argument\tkind\tgiven\tbecomes\twhy")
	for _, a := range x.Arguments {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", printed(a.Name), a.Kind, short(string(a.Given), 40), short(string(a.Normalised), 60), a.Why)
	}
	return w.Flush()
}

func (x explanation) keyWhy() string {
	what := "tenant, tool"
	switch effectonce.Scope(x.Scope) {
	case effectonce.ScopeRun:
		what += ", run"
	case effectonce.ScopeStep:
		what += ", run, step"
	}
	return "SHA-256 over " + what + " and intent id (scope " + x.Scope + ")"
}

// termsInWords are terms as they are stored, with durations as everywhere on the wire: "30s".
func termsInWords(t effectonce.Terms) map[string]any {
	words := map[string]any{}
	v := reflect.ValueOf(t)
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if options != "" && v.Field(i).IsZero() {
			continue
		}
		value := v.Field(i).Interface()
		if d, ok := value.(time.Duration); ok {
			value = d.String()
		}
		words[name] = value
	}
	return words
}
