package fault

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptrace"
	"os"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/provider"
	"github.com/effectonce/effectonce/store/sqlite"
	"github.com/effectonce/effectonce/worker"
)

// ProbeChild does the work of a probe's child process. A program that calls [RunProbe] must call it first thing in main, and exit
// with code if was is true: the probe runs the program again as its children.
func ProbeChild(ctx context.Context) (was bool, code int) {
	if os.Getenv(probeVariable) == "" {
		return false, 0
	}
	if err := probeChild(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return true, 1
	}
	return true, 0
}

func probeChild(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		// The probe is gone.
		os.Exit(3)
	}()
	var job probeJob
	if err := json.Unmarshal(line, &job); err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	plan, err := ParsePlan(job.Plan)
	if err != nil {
		return err
	}
	tool, err := job.Tool.provider()
	if err != nil {
		return err
	}
	request, err := tool.Render(effectArguments(job.Effect))
	if err != nil {
		return err
	}
	p := Provider(tool, plan, Actions{})
	if job.Written {
		p = killedByWriting{p}
	}
	if job.Mode == modeNaive {
		return job.naive(ctx, p, request, out)
	}
	store, err := sqlite.Open(ctx, job.DB, sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	faulty := Store(store, plan, Actions{})
	guard := effectonce.New(faulty, effectonce.Options{
		Logger: slog.New(slog.DiscardHandler), Providers: func(effectonce.Operation) effectonce.Provider { return p },
	})
	if job.Mode == modeSettle {
		return job.settle(ctx, guard, faulty, out)
	}
	return job.agent(ctx, guard, tool, p, request, out)
}

// naive sends what the guard would send, once, with a new key as SDKs make them for each try.
func (j probeJob) naive(ctx context.Context, p effectonce.Provider, request []byte, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	key := rand.Text()
	end := p.Call(ctx, effectonce.Call{
		Attempt: 1, DownstreamKey: key, Stamp: key, Arguments: effectArguments(j.Effect), Request: request, SendWithin: j.Timeout,
	})
	if end.Verdict == effectonce.VerdictNotSent {
		return fmt.Errorf("the tool could not be called: %s", end.Failure.Message)
	}
	_, err := fmt.Fprintln(out, end.Verdict)
	return err
}

// agent asks the guard once and does not wait.
func (j probeJob) agent(ctx context.Context, guard *effectonce.Guard, tool *provider.HTTP, p effectonce.Provider, request []byte, out io.Writer) error {
	outcome, err := guard.Do(ctx, effectonce.Intent{
		Tool: "probe", ID: j.Effect, Arguments: effectArguments(j.Effect), Request: request, RequestScope: tool.Scope(), Terms: j.Tool.terms(tool, j.Timeout),
	}, p)
	var e *effectonce.Error
	if err != nil && !errors.As(err, &e) {
		return err
	}
	_, err = fmt.Fprintln(out, outcome.Outcome)
	return err
}

// settle works what is due until every operation is final or waits for a person, and says how the one there is ended.
func (j probeJob) settle(ctx context.Context, guard *effectonce.Guard, store effectonce.Store, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, j.Until)
	defer cancel()
	stopped := make(chan error, 1)
	wctx, stop := context.WithCancel(ctx)
	w := worker.New(guard, store, worker.Options{Every: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	go func() { stopped <- w.Run(wctx) }()
	defer func() {
		stop()
		<-stopped
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		page, err := store.List(ctx, effectonce.Filter{})
		if err != nil {
			return err
		}
		if len(page.Operations) != 1 {
			return fmt.Errorf("%d operations are stored, not one", len(page.Operations))
		}
		if op := page.Operations[0]; op.State.Final() || op.State == effectonce.StateReview {
			return json.NewEncoder(out).Encode(settledAs{State: op.State, Reason: op.Reason})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the operation does not settle: %w", context.Cause(ctx))
		}
	}
}

// killedByWriting dies as soon as the request has been written to the connection.
type killedByWriting struct{ effectonce.Provider }

// Call implements [effectonce.Provider].
func (k killedByWriting) Call(ctx context.Context, call effectonce.Call) effectonce.End {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				crash()
			}
		},
	})
	end := k.Provider.Call(ctx, call)
	if end.Verdict != effectonce.VerdictNotSent {
		// A fast tool can answer before the hook has run.
		crash()
	}
	return end
}
