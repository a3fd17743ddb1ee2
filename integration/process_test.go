package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v84"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault"
	"github.com/effectonce/effectonce/provider"
	"github.com/effectonce/effectonce/store/sqlite"
	"github.com/effectonce/effectonce/worker"
)

// childVariable is set in the environment of the test binary when it is to be a process of a test.
const childVariable = "EFFECTONCE_INTEGRATION_CHILD"

// job is what a process does.
type job struct {
	Role   string `json:"role"`
	Stripe string `json:"stripe"`
	Charge string `json:"charge"`
	DB     string `json:"db,omitempty"`
	Plan   string `json:"plan,omitempty"`
}

const (
	agent     = "agent"     // asks the guard once
	settler   = "settler"   // works what is due until nothing is open
	unguarded = "unguarded" // refunds with the official client
)

func TestMain(m *testing.M) {
	text := os.Getenv(childVariable)
	if text == "" {
		code := m.Run()
		removeBinary()
		os.Exit(code)
	}
	var j job
	err := json.Unmarshal([]byte(text), &j)
	if err == nil {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err = j.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (j job) run(ctx context.Context) error {
	plan, err := fault.ParsePlan(j.Plan)
	if err != nil {
		return err
	}
	if j.Role == unguarded {
		return j.refundUnguarded(ctx, plan)
	}
	c, err := contract.Load("stripe/v1")
	if err != nil {
		return err
	}
	stripeRefund, err := provider.NewHTTP(provider.HTTPOptions{
		Contract: c, BaseURL: j.Stripe, Credential: func(context.Context) (string, error) { return "sk_test_integration", nil },
		Body: map[string]any{"charge": "{charge}", "amount": "{amount}"},
	})
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, j.DB, sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	p := fault.Provider(stripeRefund, plan, fault.Actions{})
	faulty := fault.Store(store, plan, fault.Actions{})
	guard := effectonce.New(faulty, effectonce.Options{
		Logger: slog.New(slog.DiscardHandler), Providers: func(effectonce.Operation) effectonce.Provider { return p },
	})
	if j.Role == settler {
		return settle(ctx, guard, faulty)
	}
	arguments := effectonce.Arguments(map[string]any{"charge": j.Charge, "amount": refundedMinor})
	request, err := stripeRefund.Render(arguments)
	if err != nil {
		return err
	}
	_, err = guard.Do(ctx, effectonce.Intent{
		Tool: "stripe.refund", ID: "refund:" + j.Charge + ":ticket-5521", Arguments: arguments, Request: request, RequestScope: stripeRefund.Scope(),
		Terms: stripeRefund.Terms(effectonce.Terms{
			Managed: true, CallTimeout: 5 * time.Second, Grace: time.Second, Heartbeat: time.Second, Backoff: 50 * time.Millisecond, BackoffMax: 500 * time.Millisecond,
		}),
	}, p, effectonce.WaitFor(20*time.Second))
	var e *effectonce.Error
	if errors.As(err, &e) {
		// How it stands is read from the store.
		return nil
	}
	return err
}

func settle(ctx context.Context, guard *effectonce.Guard, store effectonce.Store) error {
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	w := worker.New(guard, store, worker.Options{Every: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	go func() { _ = w.Run(wctx) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		page, err := store.List(ctx, effectonce.Filter{States: []effectonce.State{effectonce.StatePending, effectonce.StateInProgress, effectonce.StateUnknown}})
		if err != nil || len(page.Operations) == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// refundUnguarded is a tool as it is often written: the official client, and whoever started it tries again if it failed.
func (j job) refundUnguarded(ctx context.Context, plan fault.Plan) error {
	api := officialThrough(j.Stripe, 0, fault.Transport(nil, plan, fault.Actions{}))
	_, err := api.V1Refunds.Create(ctx, &stripe.RefundCreateParams{Charge: stripe.String(j.Charge), Amount: stripe.Int64(refundedMinor)})
	return err
}

// bank is a test's double, wire, charge and store.
type bank struct {
	t      *testing.T
	double string
	wire   *wire
	charge string
	db     string
}

func newBank(t *testing.T, troubles ...trouble) *bank {
	t.Helper()
	address := double(t)
	return &bank{t: t, double: address, wire: newWire(t, address, troubles...), charge: charge(t, address), db: filepath.Join(t.TempDir(), "effectonce.db")}
}

// start runs a process; the function waits for its end and returns how that was.
func (b *bank) start(role, plan string) (wait func() error) {
	b.t.Helper()
	text, err := json.Marshal(job{Role: role, Stripe: b.wire.URL, Charge: b.charge, DB: b.db, Plan: plan})
	if err != nil {
		b.t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	// The race detector makes each process sleep a second at its end.
	command.Env = append(os.Environ(), childVariable+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = in.Close() })
	return command.Wait
}

// killed runs a process that its plan kills.
func (b *bank) killed(role, plan string) {
	b.t.Helper()
	err := b.start(role, plan)()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		b.t.Fatalf("%s was to be killed (%s) but ended with %v", role, plan, err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		b.t.Fatalf("%s was to be killed (%s) but ended with %v", role, plan, err)
	}
}

// runs runs a process to its end.
func (b *bank) runs(role string) {
	b.t.Helper()
	if err := b.start(role, "")(); err != nil {
		b.t.Fatalf("%s: %v", role, err)
	}
}

// operation reads what is stored.
func (b *bank) operation() effectonce.Operation {
	b.t.Helper()
	store, err := sqlite.Open(b.t.Context(), b.db, sqlite.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer store.Close()
	page, err := store.List(b.t.Context(), effectonce.Filter{})
	if err != nil || len(page.Operations) != 1 {
		b.t.Fatalf("%d operations stored (%v), want one", len(page.Operations), err)
	}
	return page.Operations[0]
}

// wantOnce checks that the charge has exactly one refund, that it is the recorded one, and that it bears the stamp.
func (b *bank) wantOnce() {
	b.t.Helper()
	all := refunds(b.t, b.double, b.charge)
	if len(all) != 1 {
		b.t.Fatalf("the official client sees %d refunds, want one", len(all))
	}
	op := b.operation()
	if op.State != effectonce.StateSucceeded || op.Reference != all[0].ID {
		b.t.Errorf("stored: %s with reference %q (%s), want success with %q", op.State, op.Reference, op.Reason, all[0].ID)
	}
	if all[0].Amount != refundedMinor || all[0].Metadata["effectonce"] != op.Stamp {
		b.t.Errorf("the refund is %d with metadata %v, want %d with stamp %s", all[0].Amount, all[0].Metadata, refundedMinor, op.Stamp)
	}
}
