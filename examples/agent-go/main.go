// Command agent-go is a small agent that can be killed at any point and started again: it reads a ticket, lets a model decide, has a
// refund made, and ends the run. All of its state is in the journal of the daemon; started again with the same run it goes on where
// it was, and the model is never asked again about what it has decided. See README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/client"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:7171", "the daemon")
	run := flag.String("run", "", "the run to begin, or to go on with")
	ticket := flag.String("ticket", "ticket.json", "the ticket")
	flag.Parse()
	if *run == "" {
		fmt.Fprintln(os.Stderr, "agent-go: -run is missing: name the run, like -run ticket-5521")
		os.Exit(2)
	}
	daemon, err := client.New(*server, client.Options{Actor: "agent-go"})
	if err == nil {
		err = (&agent{daemon: daemon, run: *run, model: scripted{}}).work(context.Background(), *ticket)
	}
	var stopped *stoppedError
	switch {
	case errors.As(err, &stopped):
		fmt.Println(stopped)
		os.Exit(3)
	case err != nil:
		fmt.Fprintln(os.Stderr, "agent-go:", err)
		os.Exit(1)
	}
}

type agent struct {
	daemon *client.Client
	run    string
	model  Model
}

// work goes through the run from its first step. What is recorded already is only read.
func (a *agent) work(ctx context.Context, ticket string) error {
	reached("started")
	read, err := a.step(ctx, "ticket", func(context.Context) (Choice, error) {
		// The ticket is recorded too, so that the run goes on with what the model saw, whatever becomes of the file.
		text, err := os.ReadFile(ticket)
		return Choice{Arguments: json.RawMessage(text), Note: "read from " + ticket}, err
	})
	if err != nil {
		return err
	}
	events := []Event{read}
	for n := 1; ; n++ {
		e, err := a.step(ctx, fmt.Sprintf("step-%d", n), func(ctx context.Context) (Choice, error) { return a.model.Choose(ctx, events) })
		if errors.Is(err, errFinished) {
			fmt.Printf("run %s has ended: %s\n", a.run, e.Arguments)
			return nil
		}
		if err != nil {
			return err
		}
		events = append(events, e)
	}
}

// errFinished says that the run ends with this step.
var errFinished = errors.New("the run has ended")

// stoppedError says that a person has to look.
type stoppedError struct{ why string }

func (s *stoppedError) Error() string { return "stopped, a person has to look: " + s.why }

// step brings one step to its end, wherever it is now: ask, record, execute, wait.
func (a *agent) step(ctx context.Context, name string, decide func(context.Context) (Choice, error)) (Event, error) {
	for {
		s, err := a.daemon.Step(ctx, a.run, name)
		if err == nil && s.Do == client.DoDecide {
			s, err = a.decide(ctx, name, decide)
		}
		if err == nil && s.Do == client.DoExecute {
			s, err = a.execute(ctx, s)
		}
		if err != nil {
			if !again(err) {
				return Event{}, err
			}
			reached("try again: " + err.Error())
			pause(ctx, 200*time.Millisecond)
			continue
		}
		e := event(s)
		switch s.Do {
		case client.DoUseResult, client.DoNewStep:
			reached("done:" + name)
			return e, nil
		case client.DoFinished:
			reached("finished:" + name)
			return e, errFinished
		case client.DoStop:
			return e, &stoppedError{s.Operation.Err().Error()}
		}
		pause(ctx, s.RetryAfter)
	}
}

// decide asks, and records what was said before anything runs. If somebody was faster, theirs counts.
func (a *agent) decide(ctx context.Context, name string, ask func(context.Context) (Choice, error)) (client.Step, error) {
	reached("asked:" + name)
	c, err := ask(ctx)
	if err != nil {
		return client.Step{}, err
	}
	args, err := json.Marshal(c.Arguments)
	if err != nil {
		return client.Step{}, err
	}
	reached("decided:" + name)
	s, err := a.daemon.Decide(ctx, effectonce.Decision{Run: a.run, Step: name, Tool: c.Tool, Arguments: args, Finish: c.Finish, Note: c.Note}, nil)
	if err == nil {
		reached("recorded:" + name)
	}
	return s, err
}

// execute has the recorded call made. It is harmless to repeat: the same call has its effect once.
func (a *agent) execute(ctx context.Context, s client.Step) (client.Step, error) {
	reached("execute:" + s.Step)
	d := s.Decision
	o, err := a.daemon.Do(ctx, client.Intent{Tool: d.Tool, Run: a.run, Step: s.Step, ID: d.IntentID, Arguments: d.Arguments}, client.WaitFor(20*time.Second))
	if o.Outcome == "" {
		return s, err
	}
	// How it stands, as the answer says it; the error only repeats that.
	reached("executed:" + s.Step)
	s.Operation, s.RetryAfter = &o, o.RetryAfter
	switch o.Next {
	case effectonce.AdviceUseResult:
		s.Do = client.DoUseResult
	case effectonce.AdviceNewIntent:
		s.Do = client.DoNewStep
	case effectonce.AdviceStop:
		s.Do = client.DoStop
	default:
		s.Do = client.DoWait
	}
	return s, nil
}

// again reports whether asking again can help: the daemon is away for a moment, or somebody else is at it.
func again(err error) bool {
	return effectonce.KindOf(effectonce.CodeOf(err)).Next == effectonce.AdviceRetry
}

// event is a step as the model is told about it.
func event(s client.Step) Event {
	e := Event{Step: s.Step}
	if d := s.Decision; d != nil {
		e.Tool, e.Arguments = d.Tool, d.Arguments
	}
	if o := s.Operation; o != nil {
		e.Result = o.Operation.Result
		if s.Do == client.DoNewStep {
			e.Failure = o.Err().Error()
		}
	}
	return e
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(max(d, 50*time.Millisecond)):
	case <-ctx.Done():
	}
}

// reached tells on standard error where the agent is. With AGENT_DIE_AT it is killed there, so that you can try what a restart does:
//
//	AGENT_DIE_AT=recorded:step-1 go run . -run ticket-5521
func reached(point string) {
	fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.RFC3339Nano), point)
	if point != os.Getenv("AGENT_DIE_AT") {
		return
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Kill() == nil {
		select {}
	}
	os.Exit(137)
}
