//go:build unix

package soak_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/client"
)

// source is the inbox's.
const source = "tickets"

// triggers deliver events, more than once, to either daemon, and consume them: each starts a run of its own, whose one step a model
// decides. Consumers die as well, in that they never report.
type triggers struct {
	crowd             *crowd
	stop, done        chan struct{}
	once              sync.Once
	sending, consumed sync.WaitGroup

	mu       sync.Mutex
	accepted map[int64]bool
	handed   int
	dropped  int
}

func newTriggers(c *crowd) *triggers {
	return &triggers{crowd: c, stop: make(chan struct{}), done: make(chan struct{}), accepted: map[int64]bool{}}
}

func (e *triggers) start() {
	rng := rand.New(rand.NewPCG(e.crowd.seed, 0xe7e))
	e.sending.Go(func() {
		for n := int64(1); ; n++ {
			select {
			case <-e.stop:
				return
			case <-time.After(time.Duration(50+rng.IntN(200)) * time.Millisecond):
			}
			e.send(rng, n)
			if rng.IntN(2) == 0 {
				// Redelivered, perhaps long after others have come.
				e.send(rng, max(1, n-rng.Int64N(20)))
			}
		}
	})
	for i := range 2 {
		rng := rand.New(rand.NewPCG(e.crowd.seed, 0xc0+uint64(i)))
		e.consumed.Go(func() {
			for {
				select {
				case <-e.done:
					return
				default:
				}
				if !e.consume(rng) {
					<-time.After(50 * time.Millisecond)
				}
			}
		})
	}
}

// end ends the consumers.
func (e *triggers) end() {
	e.once.Do(func() { close(e.done) })
	e.consumed.Wait()
}

func (e *triggers) daemon(rng *rand.Rand) *daemon {
	return e.crowd.daemons[rng.IntN(len(e.crowd.daemons))]
}

// send delivers an event until it is accepted.
func (e *triggers) send(rng *rand.Rand, n int64) {
	body := fmt.Appendf(nil, `{"id":"%d","tries":%d}`, n, rng.IntN(100))
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		status := 0
		response, err := http.Post("http://"+e.daemon(rng).addr+"/v1/inbox/"+source, "application/json", bytes.NewReader(body))
		if err == nil {
			status = response.StatusCode
			_ = response.Body.Close()
		}
		if status >= 200 && status < 300 {
			e.mu.Lock()
			e.accepted[n] = true
			e.mu.Unlock()
			return
		}
		<-time.After(30 * time.Millisecond)
	}
}

// consume takes one event, works on its run, and reports; false if there is none.
func (e *triggers) consume(rng *rand.Rand) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	next, ok, err := e.daemon(rng).client.ClaimEvent(ctx, source, client.WaitFor(time.Second))
	if err != nil || !ok {
		return false
	}
	e.mu.Lock()
	e.handed++
	e.mu.Unlock()
	var body struct{ ID string }
	if err := json.Unmarshal(next.Event.Body, &body); err != nil {
		return false
	}
	out, err := e.work(ctx, rng, next.Event.Run, body.ID)
	if rng.IntN(10) == 0 {
		e.mu.Lock()
		e.dropped++
		e.mu.Unlock()
		return true
	}
	to := e.daemon(rng).client
	if err == nil || errors.Is(err, effectonce.ErrFailed) || errors.Is(err, effectonce.ErrLimitExceeded) {
		_, _ = to.Complete(ctx, next.Key, next.Token, nil, out.Operation.IntentID)
		return true
	}
	_, _ = to.Unknown(ctx, next.Key, next.Token, effectonce.Failure{Code: "not_finished"})
	return true
}

// work is the agent's: what its model decides first is done, and nothing else.
func (e *triggers) work(ctx context.Context, rng *rand.Rand, run, id string) (effectonce.Outcome, error) {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return effectonce.Outcome{}, err
	}
	to := e.daemon(rng).client
	args := effectonce.Arguments(map[string]any{
		"order_id": "e-" + id, "ticket_id": fmt.Sprintf("t-%d", 1+rng.IntN(2)), "payment_intent": "pi_e" + id, "amount": 480,
		"customer": fmt.Sprintf("e%d", number/refundsPerCustomer), "reason": "in other words",
	})
	step, err := to.Decide(ctx, effectonce.Decision{Run: run, Step: "refund", Tool: "stripe.refund", Arguments: args}, nil)
	if err != nil || step.Decision == nil {
		return effectonce.Outcome{}, undecided(err)
	}
	in := client.Intent{Tool: "stripe.refund", Run: run, Step: "refund", Arguments: step.Decision.Arguments}
	return to.Do(ctx, in, client.WaitFor(wait))
}

// letters are messages on their way out, and who receives them.
type letters struct {
	t        *testing.T
	server   *httptest.Server
	stop     chan struct{}
	sending  sync.WaitGroup
	received sync.Mutex
	rng      *rand.Rand
	// acknowledged are the ids that a daemon said are stored; took the sequence numbers that the receiver took, by subject; known
	// the ids that it knows.
	acknowledged []string
	took         map[string]map[int64]string
	known        map[string]bool
	again        int
}

func newLetters(t *testing.T, seed uint64) *letters {
	t.Helper()
	l := &letters{t: t, stop: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, 0x1e7)), took: map[string]map[int64]string{}, known: map[string]bool{}}
	l.server = httptest.NewServer(l)
	t.Cleanup(l.server.Close)
	return l
}

// ServeHTTP receives a message, and is faulty in a fifth of the cases.
func (l *letters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	subject, id := r.Header.Get("Effectonce-Subject"), r.Header.Get("Webhook-Id")
	seq, err := strconv.ParseInt(r.Header.Get("Effectonce-Seq"), 10, 64)
	l.received.Lock()
	defer l.received.Unlock()
	if err != nil || subject == "" || id == "" {
		l.t.Errorf("a message without subject, number or id: %v", r.Header)
		return
	}
	all := l.took[subject]
	if all == nil {
		all = map[int64]string{}
		l.took[subject] = all
	}
	// S9.2: the one before it was taken first, and a number is always the same message.
	if seq > 1 && all[seq-1] == "" {
		l.t.Errorf("message %d of %s came before %d was taken", seq, subject, seq-1)
	}
	if before := all[seq]; before != "" && before != id {
		l.t.Errorf("message %d of %s was %q, and is %q", seq, subject, before, id)
	}
	switch l.rng.IntN(10) {
	case 0:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case 1:
		// It was taken, and the answer is lost.
		defer panic(http.ErrAbortHandler)
	}
	if all[seq] != "" {
		l.again++
	}
	all[seq], l.known[id] = id, true
}

// start appends messages until each is acknowledged.
func (l *letters) start(daemons []*daemon, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x5e4))
	l.sending.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-l.stop:
				return
			case <-time.After(time.Duration(20+rng.IntN(100)) * time.Millisecond):
			}
			m := effectonce.Message{Subject: fmt.Sprintf("orders.%d", n%5), ID: fmt.Sprintf("letter-%d", n), Data: fmt.Appendf(nil, `{"n":%d}`, n)}
			for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				err := daemons[rng.IntN(len(daemons))].client.Append(ctx, m)
				cancel()
				if err == nil {
					l.received.Lock()
					l.acknowledged = append(l.acknowledged, m.ID)
					l.received.Unlock()
					break
				}
				<-time.After(30 * time.Millisecond)
			}
		}
	})
}

// arrived waits until everything that was acknowledged has arrived.
func (l *letters) arrived() {
	l.t.Helper()
	until(l.t, "every message arrives", func() bool {
		l.received.Lock()
		defer l.received.Unlock()
		for _, id := range l.acknowledged {
			if !l.known[id] {
				return false
			}
		}
		return true
	})
}
