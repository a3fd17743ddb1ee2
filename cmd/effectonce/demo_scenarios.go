package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// The business of the demo: one refund that somebody authorised.
const (
	theOrder       = "order-8812"
	theTicket      = "ticket-5521"
	thePayment     = "pi_8812"
	theAmountMinor = 48000
)

// decision is what a model decided, in its own words.
type decision struct {
	OrderID  string `json:"order_id"`
	TicketID string `json:"ticket_id"`
	Amount   any    `json:"amount"`
	Currency string `json:"currency,omitempty"`
	Reason   string `json:"reason"`
}

// The same decision made twice: the model read the same complaint and put it in other words.
var (
	firstDecision = decision{OrderID: "order-8812", TicketID: "ticket-5521", Amount: "480.00", Currency: "EUR",
		Reason: "The customer received a damaged espresso machine and asks for the money back."}
	secondDecision = decision{OrderID: " ORDER-8812", TicketID: "Ticket-5521", Amount: 480,
		Reason: "Item arrived broken; full refund is justified under the returns policy."}
)

// scenario is one way in which the incident happens.
type scenario struct {
	name, story string
	// faults is the provider's fault plan.
	faults string
	// unguarded and guarded play it; they return when everything that they started has ended.
	unguarded, guarded func(ctx context.Context, s *stage) error
}

var scenarios = []scenario{
	{
		name:   "timeout_after_effect",
		story:  "the refund happens, its answer never comes, the tool call is tried again",
		faults: "refunds#1-2 after-effect hang=20s",
		unguarded: func(ctx context.Context, s *stage) error {
			return persist(ctx, time.Minute, s.toolCall(firstDecision))
		},
		guarded: func(ctx context.Context, s *stage) error {
			return persist(ctx, time.Minute, s.guardedCall(firstDecision, "run-1"))
		},
	},
	{
		name:   "orchestrator_retry",
		story:  "the provider is slow, and the orchestrator starts the step again while the first still runs",
		faults: "refunds#1 hold=800ms",
		unguarded: func(ctx context.Context, s *stage) error {
			return persist(ctx, 400*time.Millisecond, s.toolCall(firstDecision))
		},
		guarded: func(ctx context.Context, s *stage) error {
			return persist(ctx, 400*time.Millisecond, s.guardedCall(firstDecision, "run-1"))
		},
	},
	{
		name:      "worker_killed",
		story:     "the worker is killed (SIGKILL) after the refund and before it is recorded, and started again",
		faults:    "refunds#1 after-effect hang=20s",
		unguarded: killedWorker,
		guarded:   killedDaemon,
	},
	{
		name:  "model_re_decides",
		story: "the agent is redeployed, reads the complaint again and decides the same in other words",
		unguarded: func(ctx context.Context, s *stage) error {
			return inTurn(ctx, s.toolCall(firstDecision), s.toolCall(secondDecision))
		},
		guarded: func(ctx context.Context, s *stage) error {
			return inTurn(ctx, s.guardedCall(firstDecision, "run-1"), s.guardedCall(secondDecision, "run-1"))
		},
	},
	{
		name:   "two_agents_one_ticket",
		story:  "two agents work on one ticket at the same moment",
		faults: "refunds#* hold=200ms",
		unguarded: func(ctx context.Context, s *stage) error {
			return atOnce(ctx, s.toolCall(firstDecision), s.toolCall(secondDecision))
		},
		guarded: func(ctx context.Context, s *stage) error {
			return atOnce(ctx, s.guardedCall(firstDecision, "run-of-agent-a"), s.guardedCall(secondDecision, "run-of-agent-b"))
		},
	},
	{
		name:  "trigger_redelivered",
		story: "the broker delivers the ticket's event again, and a second run of the agent begins",
		unguarded: func(ctx context.Context, s *stage) error {
			return inTurn(ctx, s.toolCall(firstDecision), s.toolCall(secondDecision))
		},
		guarded: func(ctx context.Context, s *stage) error {
			return inTurn(ctx, s.guardedCall(firstDecision, "run-1-of-evt-77"), s.guardedCall(secondDecision, "run-2-of-evt-77"))
		},
	},
}

type step = func(context.Context) error

func inTurn(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		if err := s(ctx); err != nil {
			return err
		}
	}
	return nil
}

// atOnce runs the steps at the same moment and returns the first error.
func atOnce(ctx context.Context, steps ...step) error {
	var all sync.WaitGroup
	gate := make(chan struct{})
	errs := make(chan error, len(steps))
	for _, s := range steps {
		all.Go(func() {
			<-gate
			errs <- s(ctx)
		})
	}
	close(gate)
	all.Wait()
	for range steps {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// killedWorker starts a worker on a job, kills it when the provider has refunded, and starts it again as a supervisor would.
func killedWorker(ctx context.Context, s *stage) error {
	job := filepath.Join(s.dir, "job.json")
	if err := writeJob(job, demoJob{Provider: s.twin.URL, Timeout: 5 * time.Second, Decision: firstDecision}); err != nil {
		return err
	}
	worker, err := s.startWorker(job)
	if err != nil {
		return err
	}
	if err := s.refunded(ctx); err != nil {
		return err
	}
	worker.kill()
	if worker, err = s.startWorker(job); err != nil {
		return err
	}
	if err := worker.wait(ctx); err != nil {
		return fmt.Errorf("the worker: %w", err)
	}
	done, err := readJob(job)
	if err == nil && done.RefundID == "" {
		err = fmt.Errorf("the worker did not do its job")
	}
	return err
}

// killedDaemon kills the daemon when the provider has refunded and it cannot know that yet, and starts it again on the same store.
// The agent asks again, as it would after a lost connection.
func killedDaemon(ctx context.Context, s *stage) error {
	agent := make(chan error, 1)
	go func() { agent <- persist(ctx, time.Minute, s.guardedCall(firstDecision, "run-1")) }()
	err := s.refunded(ctx)
	if err == nil {
		s.daemon.kill()
		err = s.startDaemon(ctx)
	}
	if err != nil {
		return err
	}
	return <-agent
}
