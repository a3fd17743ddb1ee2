package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// demoJobEnv names the job file of the demo's unguarded worker, which is a process of its own so that it can be killed.
const demoJobEnv = "EFFECTONCE_DEMO_JOB"

// refundTool is a tool as they are commonly written: it makes an idempotency key for each call, its client sends once more
// under the same key when no answer came in time, as SDKs do, and then it gives up with an error.
type refundTool struct {
	provider string
	timeout  time.Duration
}

// call refunds and returns the refund's id.
func (t refundTool) call(ctx context.Context, d decision) (string, error) {
	key := newUUID()
	var err error
	for range 2 {
		var id string
		if id, err = t.send(ctx, key, d); err == nil {
			return id, nil
		}
		if ctx.Err() != nil {
			return "", err
		}
	}
	return "", err
}

func (t refundTool) send(ctx context.Context, key string, d decision) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	form := url.Values{"payment_intent": {thePayment}, "amount": {strconv.FormatInt(theAmountMinor, 10)}, "currency": {"eur"}, "metadata[reason]": {d.Reason}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.provider+"/v1/refunds", strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer sk_demo")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return "", err
	}
	var refund struct{ ID string }
	if err := json.Unmarshal(body, &refund); err != nil || answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the provider answered %d: %.200s", answer.StatusCode, body)
	}
	return refund.ID, nil
}

// persist calls a step until it succeeds, as an orchestrator does, each time with a time limit of its own. A step that is over
// its limit is given up by the orchestrator, and goes on where it runs; its end is awaited before persist returns, so that the
// ledger is complete then.
func persist(ctx context.Context, limit time.Duration, step func(context.Context) error) error {
	var running sync.WaitGroup
	defer running.Wait()
	var last error
	for range 5 {
		done := make(chan error, 1)
		running.Go(func() { done <- step(ctx) })
		select {
		case last = <-done:
			if last == nil {
				return nil
			}
		case <-time.After(limit):
			last = errors.New("the step timed out")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return last
}

// demoJob is a job of the unguarded worker.
type demoJob struct {
	Provider string        `json:"provider"`
	Timeout  time.Duration `json:"timeout"`
	Decision decision      `json:"decision"`
	// RefundID is the result; with it the job is done.
	RefundID string `json:"refund_id,omitempty"`
}

// demoWorker does the job in a file, unless it is done already, and records that it is.
func demoWorker(file string) int {
	err := func() error {
		job, err := readJob(file)
		if err != nil || job.RefundID != "" {
			return err
		}
		tool := refundTool{provider: job.Provider, timeout: job.Timeout}
		if job.RefundID, err = tool.call(context.Background(), job.Decision); err != nil {
			return err
		}
		return writeJob(file, job)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "effectonce: demo worker: "+err.Error())
		return exitInternal
	}
	return 0
}

func readJob(file string) (demoJob, error) {
	var job demoJob
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(b)).Decode(&job)
	}
	return job, err
}

func writeJob(file string, job demoJob) error {
	b, err := json.Marshal(job)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".next")
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

func newUUID() string {
	var u [16]byte
	// rand.Read never fails on supported systems.
	_, _ = rand.Read(u[:])
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
