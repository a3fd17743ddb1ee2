//go:build unix

package soak_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/client"
)

const (
	// customers have so many refunds each, and the limit allows fewer.
	refundsPerCustomer = 30
	limitPerCustomer   = 25
	// every third refund is decided by a model first, in a run.
	decidedEach = 3
	// wait is how long a client lets a daemon wait for an outcome.
	wait = 2 * time.Second
)

// told is what clients were told in the end about an intent.
type told struct {
	references map[string]bool
	states     map[effectonce.State]bool
	limited    bool
}

// crowd is the clients. Each asks for a new refund or for one that others ask for as well, from either daemon, until it has an answer
// that is final.
type crowd struct {
	daemons []*daemon
	seed    uint64
	next    atomic.Int64
	asked   atomic.Int64
	errors  atomic.Int64
	running sync.WaitGroup
	stop    chan struct{}

	mu    sync.Mutex
	tolds map[int64]*told
	// stuck are intents about which nobody could be told anything final in time.
	stuck []string
}

func newCrowd(daemons []*daemon, seed uint64) *crowd {
	return &crowd{daemons: daemons, seed: seed, stop: make(chan struct{}), tolds: map[int64]*told{}}
}

func (c *crowd) start(clients int) {
	for i := range clients {
		rng := rand.New(rand.NewPCG(c.seed, uint64(i)))
		c.running.Go(func() {
			for {
				select {
				case <-c.stop:
					return
				default:
				}
				n := c.next.Load()
				if n == 0 || rng.IntN(3) > 0 {
					n = c.next.Add(1)
				} else {
					n = max(1, n-rng.Int64N(8))
				}
				c.refund(rng, n)
			}
		})
	}
}

func (c *crowd) end() {
	close(c.stop)
	c.running.Wait()
}

// arguments are those of a refund. Which of the two tickets a refund is for a model decides anew each time it is asked.
func arguments(rng *rand.Rand, n int64, ticket int) json.RawMessage {
	reasons := []string{"the parcel never came", "Parcel lost in transit", "customer is angry", ""}
	return effectonce.Arguments(map[string]any{
		"order_id": fmt.Sprintf("o-%d", n), "ticket_id": fmt.Sprintf("t-%d", ticket), "payment_intent": fmt.Sprintf("pi_%d", n),
		"amount": amount(n), "customer": customer(n), "reason": reasons[rng.IntN(len(reasons))],
	})
}

// amount is for some refunds more than the payment, which the provider refuses for good.
func amount(n int64) int64 {
	if n%17 == 0 {
		return 1_000_000_000
	}
	return 480
}

func customer(n int64) string { return fmt.Sprintf("c%d", n/refundsPerCustomer) }

func runOf(n int64) string { return fmt.Sprintf("run-%d", n) }

// refund asks until the answer is final.
func (c *crowd) refund(rng *rand.Rand, n int64) {
	deadline := time.Now().Add(patience)
	for {
		c.asked.Add(1)
		out, err := c.once(rng, n)
		if c.final(n, out, err) {
			return
		}
		c.errors.Add(1)
		if time.Now().After(deadline) {
			c.mu.Lock()
			c.stuck = append(c.stuck, fmt.Sprintf("refund %d: %v, %v", n, out.Operation.State, err))
			c.mu.Unlock()
			return
		}
		<-time.After(time.Duration(10+rng.IntN(100)) * time.Millisecond)
	}
}

func (c *crowd) once(rng *rand.Rand, n int64) (effectonce.Outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if rng.IntN(20) == 0 {
		// Some callers hang up.
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(100))*time.Millisecond)
		defer cancel()
	}
	to := c.daemons[rng.IntN(len(c.daemons))].client
	in := client.Intent{Tool: "stripe.refund", Arguments: arguments(rng, n, 1)}
	if n%decidedEach == 0 {
		step, err := to.Decide(ctx, effectonce.Decision{
			Run: runOf(n), Step: "refund", Tool: in.Tool, Arguments: arguments(rng, n, 1+rng.IntN(2)), Note: "in other words",
		}, nil)
		if err != nil || step.Decision == nil {
			return effectonce.Outcome{}, undecided(err)
		}
		in.Run, in.Step, in.Arguments = step.Run, step.Step, step.Decision.Arguments
	}
	return to.Do(ctx, in, client.WaitFor(wait))
}

// undecided is why there is no decision to act on yet: the daemon may have seen another's operation, and not yet their decision.
func undecided(err error) error {
	if err == nil {
		return errors.New("the operation was shown without its decision")
	}
	return err
}

// final notes an answer that does not change any more.
func (c *crowd) final(n int64, out effectonce.Outcome, err error) bool {
	limited := errors.Is(err, effectonce.ErrLimitExceeded)
	if err != nil && !limited && !errors.Is(err, effectonce.ErrFailed) && !errors.Is(err, effectonce.ErrInReview) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.tolds[n]
	if t == nil {
		t = &told{references: map[string]bool{}, states: map[effectonce.State]bool{}}
		c.tolds[n] = t
	}
	if limited {
		t.limited = true
		return true
	}
	state := out.Operation.State
	if errors.Is(err, effectonce.ErrFailed) {
		state = effectonce.StateFailed
	}
	t.states[state] = true
	if err == nil {
		t.references[out.Operation.Reference] = true
	}
	return true
}
