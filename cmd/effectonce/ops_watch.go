package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
)

type opsWatchCommand struct {
	Key      string        `arg:"" help:"The operation's key, or its first 8 or more digits."`
	For      time.Duration `placeholder:"DURATION" help:"Stop after this time, settled or not; without it, when it is settled."`
	OrReview bool          `name:"or-review" help:"Stop also when a person has to decide."`
}

// Help implements kong.HelpProvider.
func (opsWatchCommand) Help() string {
	return `With --json each line is an object: {"event": ...} for each change, and at the end {"operation": ...}. The exit code is 0 if the
operation succeeded, 6 if it failed or was abandoned, 7 if it is not settled.`
}

// watchPause is how long the watcher waits between two looks.
const watchPause = 300 * time.Millisecond

// Run watches.
func (w *opsWatchCommand) Run(ctx context.Context, c *terminal, ops *opsCommand) error {
	key, err := ops.find(ctx, w.Key)
	if err != nil {
		return err
	}
	watched := ctx
	if w.For > 0 {
		var cancel context.CancelFunc
		watched, cancel = context.WithTimeout(ctx, w.For)
		defer cancel()
	}
	var told watch
	for {
		what, err := ops.read(ctx, key)
		if err != nil {
			return err
		}
		if err := told.tell(c, what); err != nil {
			return err
		}
		if effectonce.State(what.Operation.State).Final() || w.OrReview && resolveHint(what.Operation) != "" {
			return w.conclude(c, what.Operation)
		}
		select {
		case <-time.After(watchPause):
		case <-watched.Done():
			if ctx.Err() != nil {
				return context.Canceled
			}
			return w.conclude(c, what.Operation)
		}
	}
}

// watch remembers what was told.
type watch struct {
	seq    int64
	hinted int64
}

func (w *watch) tell(c *terminal, what shown) error {
	for _, e := range what.Events {
		if e.Seq <= w.seq {
			continue
		}
		w.seq = e.Seq
		if !c.json {
			printEvent(c, e)
		} else if err := jsonLine(c, map[string]api.Event{"event": e}); err != nil {
			return err
		}
	}
	if how := resolveHint(what.Operation); how != "" && !c.json && w.hinted != what.Operation.Version {
		w.hinted = what.Operation.Version
		c.say("%s", how)
	}
	return nil
}

// conclude ends with the operation as it stands, and its exit code.
func (w *opsWatchCommand) conclude(c *terminal, op api.Detail) error {
	if c.json {
		if err := jsonLine(c, map[string]api.Detail{"operation": op}); err != nil {
			return err
		}
	} else {
		c.say("%s (%s)", op.Outcome, advice(op.Operation))
	}
	switch effectonce.State(op.State) {
	case effectonce.StateSucceeded:
		return nil
	case effectonce.StateFailed, effectonce.StateAbandoned:
		return &reported{exit: effectonce.KindOf(effectonce.CodeFailed).Exit}
	}
	return &reported{exit: effectonce.KindOf(effectonce.CodeUnknownOutcome).Exit}
}

func jsonLine(c *terminal, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, string(b))
	return err
}
