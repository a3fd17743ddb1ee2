package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
)

type opsShowCommand struct {
	Key string `arg:"" help:"The operation's key, or its first 8 or more digits."`
}

// shown is an operation with its audit and with the operations that it names, as JSON.
type shown struct {
	Operation api.Detail  `json:"operation"`
	Events    []api.Event `json:"events"`
	// Predecessor and Twin are as they stand now; nil where there is none, or where it cannot be read.
	Predecessor *api.Detail `json:"predecessor,omitempty"`
	Twin        *api.Detail `json:"twin,omitempty"`
}

// Run shows.
func (s *opsShowCommand) Run(ctx context.Context, c *terminal, ops *opsCommand) error {
	key, err := ops.find(ctx, s.Key)
	if err != nil {
		return err
	}
	what, err := ops.readAll(ctx, key)
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

// readAll reads also the operations that one names: whoever approves a successor or a twin decides on them.
func (o *opsCommand) readAll(ctx context.Context, key effectonce.Key) (shown, error) {
	what, err := o.read(ctx, key)
	if err != nil {
		return shown{}, err
	}
	if what.Predecessor, err = o.named(ctx, what.Operation.Supersedes); err != nil {
		return shown{}, err
	}
	what.Twin, err = o.named(ctx, what.Operation.TwinOf)
	return what, err
}

// named reads an operation that another one names. One that is not there any more, or may not be seen, is nil.
func (o *opsCommand) named(ctx context.Context, text string) (*api.Detail, error) {
	if text == "" {
		return nil, nil
	}
	key, err := effectonce.ParseKey(text)
	if err != nil {
		return nil, err
	}
	op, err := o.remote().get(ctx, key)
	switch {
	case errors.Is(err, effectonce.ErrNotFound), errors.Is(err, effectonce.ErrForbidden):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &op, nil
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
	line("twin of", s.twin())
	line("supersedes", s.predecessor())
	line("because", op.SupersedesWhy)
	line("WARNING", s.warning())
	line("undoes", op.Compensates)
	for _, l := range op.Limits {
		line("limit", fmt.Sprintf("%s: takes %d of %d", l.Name, l.Amount, l.Max))
	}
	line("purged", moment(op.PurgedAt))
	line("forgotten", moment(op.ForgetAt))
	line("attempts", fmt.Sprint(op.Attempts))
	if op.SettledBy != nil {
		line("settle time", "nothing sent can still take effect after "+moment(op.SettledBy))
	}
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

// predecessor is the operation that this one replaces, as it stands now.
func (s shown) predecessor() string {
	if s.Predecessor == nil {
		return s.Operation.Supersedes
	}
	return fmt.Sprintf("%.12s, which %s", s.Predecessor.Key, standing(s.Predecessor.Operation))
}

// twin is the operation that this one resembles.
func (s shown) twin() string {
	if s.Twin == nil {
		return s.Operation.TwinOf
	}
	return fmt.Sprintf("%.12s, %s %s, which %s", s.Twin.Key, s.Twin.Tool, s.Twin.IntentID, standing(s.Twin.Operation))
}

// standing says how an operation stands, after "which".
func standing(op api.Operation) string {
	switch effectonce.State(op.State) {
	case effectonce.StateSucceeded:
		if op.Reference != "" {
			return "succeeded (effect " + op.Reference + ")"
		}
		return "succeeded"
	case effectonce.StateFailed:
		if op.Error != nil {
			return "failed (" + op.Error.Code + ")"
		}
		return "failed"
	case effectonce.StateAbandoned:
		return "was abandoned"
	case effectonce.StateReview:
		return "is in review"
	}
	return "is " + op.Outcome
}

// warning says what an approval of this successor would risk: it is not safe by itself unless the predecessor had no effect.
func (s shown) warning() string {
	if s.Predecessor == nil || effectonce.State(s.Operation.State).Final() {
		return ""
	}
	switch effectonce.State(s.Predecessor.State) {
	case effectonce.StateFailed:
		return ""
	case effectonce.StateSucceeded:
		return "the operation that it supersedes took effect; if this one runs as well, there are two effects"
	case effectonce.StatePending:
		return "the operation that it supersedes can still run; if both run, there are two effects"
	}
	return "whether the operation that it supersedes took effect is not known; if this one runs as well, there may be two effects"
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
