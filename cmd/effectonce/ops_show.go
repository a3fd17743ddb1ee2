package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
)

type opsShowCommand struct {
	Key string `arg:"" help:"The operation's key, or its first 8 or more digits."`
}

// shown is an operation with its audit, as JSON.
type shown struct {
	Operation api.Detail  `json:"operation"`
	Events    []api.Event `json:"events"`
}

// Run shows.
func (s *opsShowCommand) Run(ctx context.Context, c *terminal, ops *opsCommand) error {
	key, err := ops.find(ctx, s.Key)
	if err != nil {
		return err
	}
	what, err := ops.read(ctx, key)
	if err != nil {
		return err
	}
	if c.json {
		return c.show(what)
	}
	return what.print(c)
}

func (o *opsCommand) read(ctx context.Context, key effectonce.Key) (shown, error) {
	op, err := o.remote().get(ctx, key)
	if err != nil {
		return shown{}, err
	}
	events, err := o.remote().events(ctx, key)
	return shown{Operation: op, Events: events.Events}, err
}

func (s shown) print(c *terminal) error {
	op := s.Operation
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, printed(value))
		}
	}
	line("intent", op.IntentID)
	line("tool", op.Tool)
	line("run, step", joined(op.Run, op.Step))
	line("outcome", fmt.Sprintf("%s (%s)", op.Outcome, advice(op.Operation)))
	line("why", op.Reason)
	if op.Error != nil {
		line("refusal", joined(op.Error.Code, op.Error.Message))
	}
	line("ALARM", op.Alarm)
	line("effect", op.Reference)
	line("rests on", proofWords(op.Proof))
	line("result", short(string(op.Result), 200))
	line("no result", op.ResultOmitted)
	line("arguments", short(string(op.Arguments), 300))
	line("business", short(string(op.Business), 300))
	line("twin of", op.TwinOf)
	line("supersedes", joined(op.Supersedes, op.SupersedesWhy))
	line("attempts", fmt.Sprint(op.Attempts))
	line("settled by", moment(op.SettledBy))
	line("window ends", moment(op.WindowEnds))
	line("recorded", joined(moment(op.CreatedAt), op.Actor))
	line("settled", moment(op.SettledAt))
	line("key", op.Key)
	line("version", fmt.Sprint(op.Version))
	if err := w.Flush(); err != nil {
		return err
	}
	c.say("")
	for _, e := range s.Events {
		printEvent(c, e)
	}
	if how := resolveHint(op); how != "" {
		c.say("\n%s", how)
	}
	return nil
}

func printEvent(c *terminal, e api.Event) {
	c.say("%s  %s", e.At.UTC().Format("2006-01-02 15:04:05.000Z"), sentence(eventOf(e)))
}

// eventOf is an event of the wire in the core's words.
func eventOf(e api.Event) effectonce.Event {
	return effectonce.Event{
		Seq: e.Seq, At: e.At, Kind: effectonce.EventKind(e.Kind), From: effectonce.State(e.From), To: effectonce.State(e.To), Token: e.Token,
		Attempt: e.Attempt, Epoch: e.Epoch, Actor: e.Actor, Sends: e.Sends, Verdict: effectonce.Verdict(e.Verdict), Found: effectonce.Found(e.Found),
		Line: e.Line, Resolution: effectonce.Resolution(e.Resolution), Reference: e.Reference, Reason: e.Reason, Risk: e.Risk,
	}
}

// advice says in plain words what an agent is told to do next.
func advice(op api.Operation) string {
	switch effectonce.Advice(op.Next) {
	case effectonce.AdviceUseResult:
		return "settled"
	case effectonce.AdviceNewIntent:
		return "settled, no effect"
	case effectonce.AdviceStop:
		if op.Outcome == string(effectonce.OutcomeAbandoned) {
			return "settled, whether it had an effect is not known"
		}
		return "a person has to decide"
	}
	if op.RetryAfter != "" {
		return "under way, next look within " + op.RetryAfter
	}
	return "under way"
}

func proofWords(proof string) string {
	switch effectonce.Proof(proof) {
	case effectonce.ProofAnswer:
		return "the provider's answer"
	case effectonce.ProofLookUp:
		return "a look-up at the provider"
	case effectonce.ProofLate:
		return "an answer that came late"
	case effectonce.ProofPerson:
		return "a person's word"
	case effectonce.ProofNotSent:
		return "nothing was ever sent"
	case effectonce.ProofRejected:
		return "the provider's refusal"
	case effectonce.ProofLocal:
		return "one transaction with the effect"
	}
	return proof
}

// resolveHint says how to decide, where a person has to.
func resolveHint(op api.Detail) string {
	as := ""
	switch {
	case op.State == string(effectonce.StateReview):
		as = "confirmed|absent_fail|absent_resend|abandoned"
	case op.Hold != "":
		as = "approved|rejected"
	default:
		return ""
	}
	return fmt.Sprintf("decide: effectonce ops resolve %.12s --as %s --person YOU --reason WHY", op.Key, as)
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return clock(*t)
}
