package effectonce_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// payment is a result that knows the provider's id of what was created.
type payment struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"`
}

// EffectReference makes the id the operation's reference.
func (p payment) EffectReference() string { return p.ID }

// refundTicket is the intent of the examples: what somebody authorised, in business terms.
func refundTicket(terms effectonce.Terms) effectonce.Intent {
	return effectonce.Intent{
		Tool:      "stripe.refund",
		ID:        "refund:order-8812:ticket-5521",
		Arguments: effectonce.Arguments(map[string]any{"order_id": "8812", "amount": 480, "currency": "EUR"}),
		Actor:     "support-agent",
		Terms:     terms,
	}
}

// The provider is a plain function. Whoever repeats the intent gets the recorded result. S14.1, S2.2
func Example() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	paid := 0
	provider := effectonce.Func(func(_ context.Context, call effectonce.Call) (payment, error) {
		// call.DownstreamKey goes to the provider as its idempotency key, call.Stamp onto what is created.
		paid++
		return payment{ID: "re_1", Amount: 480}, nil
	})

	for range 3 {
		outcome, err := guard.Do(context.Background(), refundTicket(effectonce.Terms{}), provider)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(outcome.Outcome, outcome.Operation.Reference, outcome.Next, "replayed:", outcome.Replayed)
	}
	fmt.Println("paid:", paid)
	// Output:
	// succeeded re_1 use_result replayed: false
	// succeeded re_1 use_result replayed: true
	// succeeded re_1 use_result replayed: true
	// paid: 1
}

// The answer is lost after the effect. A look-up finds what the attempt created, by its stamp; nothing is sent again. S7.1
func ExampleFunction_WithLookUp() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	ledger := make(map[string]payment) // what exists at the provider, by stamp
	sent := 0
	provider := effectonce.Func(func(_ context.Context, call effectonce.Call) (payment, error) {
		sent++
		ledger[call.Stamp] = payment{ID: "re_1", Amount: 480}
		return payment{}, errors.New("read: connection reset by peer")
	}).WithLookUp(func(_ context.Context, call effectonce.Call) (any, bool, error) {
		found, ok := ledger[call.Stamp]
		return found, ok, nil
	})

	intent := refundTicket(effectonce.Terms{LookUp: true, Backoff: time.Millisecond})
	_, err := guard.Do(context.Background(), intent, provider)
	fmt.Println("unknown:", errors.Is(err, effectonce.ErrUnknownOutcome))

	outcome, err := guard.Do(context.Background(), intent, provider, effectonce.WaitFor(10*time.Second))
	fmt.Println(outcome.Outcome, outcome.Operation.Reference, "by", outcome.Operation.Proof, err)
	fmt.Println("sent:", sent, "refunds:", len(ledger))
	// Output:
	// unknown: true
	// succeeded re_1 by look_up <nil>
	// sent: 1 refunds: 1
}

// The provider dedupes by key, for a day. After a lost answer the same bytes go out again under the same key. S7.2, S2.1
func ExampleTerms_keyed() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	byKey := make(map[string]payment) // the provider's memory of keys
	sent := 0
	provider := effectonce.Func(func(_ context.Context, call effectonce.Call) (payment, error) {
		sent++
		if p, ok := byKey[call.DownstreamKey]; ok {
			return p, nil
		}
		byKey[call.DownstreamKey] = payment{ID: "re_1", Amount: 480}
		return payment{}, context.DeadlineExceeded
	})

	intent := refundTicket(effectonce.Terms{Keyed: true, Retention: 24 * time.Hour, Backoff: time.Millisecond})
	outcome, err := guard.Do(context.Background(), intent, provider, effectonce.WaitFor(10*time.Second))
	fmt.Println(outcome.Outcome, outcome.Operation.Reference, err)
	fmt.Println("sent:", sent, "refunds:", len(byKey))
	// Output:
	// succeeded re_1 <nil>
	// sent: 2 refunds: 1
}

// The provider refuses for good: there is no effect, and only now may an agent make a new intent. S6.1, S7.10
func ExampleRejected() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		return payment{}, effectonce.Rejected(errors.New("card declined"), true)
	})

	outcome, err := guard.Do(context.Background(), refundTicket(effectonce.Terms{}), provider)
	fmt.Println(errors.Is(err, effectonce.ErrFailed), outcome.Outcome, outcome.Next)
	fmt.Println(outcome.Operation.Failure.Message)

	_, err = guard.Do(context.Background(), refundTicket(effectonce.Terms{}), provider)
	fmt.Println(err)
	// Output:
	// true failed new_intent
	// card declined
	// failed: rejected: card declined
}

// Neither key nor look-up: an ambiguous end stops for a person, who looks at the provider and says what happened. S7.6
func ExampleGuard_Resolve() {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	store := memory.Open(memory.Options{Now: func() time.Time { return now }})
	guard := effectonce.New(store, effectonce.Options{})
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		return payment{}, errors.New("504 gateway timeout")
	})
	intent := refundTicket(effectonce.Terms{})

	_, err := guard.Do(context.Background(), intent, provider)
	fmt.Println(effectonce.CodeOf(err))
	now = now.Add(time.Hour)
	outcome, err := guard.Do(context.Background(), intent, provider)
	fmt.Println(effectonce.CodeOf(err), outcome.Next, "after", outcome.Operation.Attempt, "attempt")

	outcome, err = guard.Resolve(context.Background(), outcome.Operation.Key, effectonce.Resolved{
		Version: outcome.Operation.Version, Resolution: effectonce.ResolveConfirmed,
		Person: "ann", Reason: "it is in the bank's ledger", Reference: "re_1",
	})
	fmt.Println(outcome.Outcome, "by", outcome.Operation.Proof, err)
	// Output:
	// unknown
	// in_review stop_and_report after 1 attempt
	// succeeded by person <nil>
}

// The same intent with other arguments is refused by name, and nothing runs. S4.5
func ExampleGuard_Do_payloadMismatch() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		return payment{ID: "re_1", Amount: 480}, nil
	})
	_, _ = guard.Do(context.Background(), refundTicket(effectonce.Terms{}), provider)

	changed := refundTicket(effectonce.Terms{})
	changed.Arguments = effectonce.Arguments(map[string]any{"order_id": "8812", "amount": 450, "currency": "EUR"})
	_, err := guard.Do(context.Background(), changed, provider)
	var e *effectonce.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code, e.Fields, effectonce.KindOf(e.Code).Next)
	}
	// Output: payload_mismatch [amount] stop_and_report
}

// External execution: the caller has the effect in its own code, between a claim and its record.
func ExampleGuard_Claim() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	ctx := context.Background()

	claim, err := guard.Claim(ctx, refundTicket(effectonce.Terms{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("do:", claim.Do, "within", claim.SendWithin)

	// Here the caller sends, with claim.DownstreamKey as the provider's key and claim.Stamp on what is created.
	outcome, err := guard.Settle(ctx, claim.Operation.Key, claim.Token, effectonce.End{
		Verdict: effectonce.VerdictSucceeded, Reference: "re_1", Result: []byte(`{"id":"re_1"}`),
	})
	fmt.Println(outcome.Outcome, err)

	again, err := guard.Claim(ctx, refundTicket(effectonce.Terms{}))
	fmt.Println("do:", again.Do, string(again.Operation.Result), "replayed:", again.Replayed, err)
	// Output:
	// do: execute within 30s
	// succeeded <nil>
	// do: done {"id":"re_1"} replayed: true <nil>
}

// The first holder of a claim died. Whoever claims next gets the operation to look up first, under a new token. S7.8
func ExampleGuard_LookedUp() {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	guard := effectonce.New(memory.Open(memory.Options{Now: func() time.Time { return now }}), effectonce.Options{})
	ctx := context.Background()
	intent := refundTicket(effectonce.Terms{LookUp: true})

	dead, _ := guard.Claim(ctx, intent)
	now = now.Add(5 * time.Minute)

	claim, err := guard.Claim(ctx, intent)
	fmt.Println("do:", claim.Do, "token", dead.Token, "->", claim.Token, err)
	claim, err = guard.LookedUp(ctx, claim.Operation.Key, claim.Token, effectonce.Finding{Found: effectonce.FoundOne, Reference: "re_1"})
	fmt.Println("do:", claim.Do, claim.Outcome.Outcome, claim.Operation.Reference, err)
	// Output:
	// do: look_up token 1 -> 2 <nil>
	// do: done succeeded re_1 <nil>
}

// A recent operation with the same business content under another intent: held until another person releases it. S3.8
func ExampleTerms_twins() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	ctx := context.Background()
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		return payment{ID: "re_1", Amount: 480}, nil
	})
	terms := effectonce.Terms{Twins: effectonce.TwinHold, TwinsWithin: 24 * time.Hour}
	first, _ := guard.Do(ctx, refundTicket(terms), provider)

	second := refundTicket(terms)
	second.ID = "refund:order-8812:ticket-5522"
	outcome, err := guard.Do(ctx, second, provider)
	fmt.Println(outcome.Outcome, outcome.Next, "twin of the first:", outcome.Operation.TwinOf == first.Operation.Key, errors.Is(err, effectonce.ErrHeld))

	_, err = guard.Resolve(ctx, outcome.Operation.Key, effectonce.Resolved{
		Version: outcome.Operation.Version, Resolution: effectonce.ResolveApproved, Person: "ann", Reason: "two tickets, two refunds",
	})
	fmt.Println("approved:", err == nil)
	outcome, err = guard.Do(ctx, second, provider)
	fmt.Println(outcome.Outcome, err)
	// Output:
	// held stop_and_report twin of the first: true true
	// approved: true
	// succeeded <nil>
}

// A changed mind is a successor with a reason. After a failure an agent may record it by itself. S3.7
func ExampleSupersede() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	ctx := context.Background()
	limit := 450
	provider := effectonce.Func(func(_ context.Context, call effectonce.Call) (payment, error) {
		var args struct{ Amount int }
		if err := call.Decode(&args); err != nil {
			return payment{}, effectonce.NotSent(err)
		}
		if args.Amount > limit {
			return payment{}, effectonce.Rejected(errors.New("more than was paid"), true)
		}
		return payment{ID: "re_2", Amount: args.Amount}, nil
	})
	failed, err := guard.Do(ctx, refundTicket(effectonce.Terms{}), provider)
	fmt.Println(err)

	again := refundTicket(effectonce.Terms{})
	again.Arguments = effectonce.Arguments(map[string]any{"order_id": "8812", "amount": 450, "currency": "EUR"})
	again.Supersedes = &effectonce.Supersede{Key: failed.Operation.Key, Reason: "only 450 was paid"}
	outcome, err := guard.Do(ctx, again, provider)
	fmt.Println(outcome.Outcome, "revision", outcome.Operation.Revision, err)
	// Output:
	// failed: rejected: more than was paid
	// succeeded revision 1 <nil>
}

// Two agents on one ticket at the same moment: one executes, the other waits for its outcome. S5.5
func ExampleWaitFor() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	began, finish := make(chan struct{}), make(chan struct{})
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		close(began) // a second call would panic
		<-finish
		return payment{ID: "re_1", Amount: 480}, nil
	})

	var first sync.WaitGroup
	first.Go(func() { _, _ = guard.Do(context.Background(), refundTicket(effectonce.Terms{}), provider) })
	<-began
	_, err := guard.Do(context.Background(), refundTicket(effectonce.Terms{}), provider)
	fmt.Println("without waiting:", effectonce.CodeOf(err))

	close(finish)
	outcome, err := guard.Do(context.Background(), refundTicket(effectonce.Terms{}), provider, effectonce.WaitFor(10*time.Second))
	fmt.Println("waiting:", outcome.Outcome, outcome.Operation.Reference, "replayed:", outcome.Replayed, err)
	first.Wait()
	// Output:
	// without waiting: conflict
	// waiting: succeeded re_1 replayed: true <nil>
}

// ownClock is a clock that passes only when somebody sleeps, and looks around then.
type ownClock struct {
	effectonce.SystemClock
	now       time.Time
	whileIdle func()
}

func (c *ownClock) Now() time.Time { return c.now }

func (c *ownClock) Sleep(_ context.Context, d time.Duration) error {
	c.whileIdle()
	c.now = c.now.Add(d)
	return nil
}

// countingStore counts the calls to a store that are under way.
type countingStore struct {
	effectonce.Store
	underWay, calls int
}

func (s *countingStore) Load(ctx context.Context, key effectonce.Key) (effectonce.Operation, error) {
	s.underWay++
	s.calls++
	defer func() { s.underWay-- }()
	return s.Store.Load(ctx, key)
}

// Waiting reads now and then, and holds nothing of the store meanwhile: no call, so no connection and no transaction. S5.7
func ExampleGuard_Wait() {
	store := &countingStore{Store: memory.Open(memory.Options{})}
	held, sleeps := 0, 0
	clock := &ownClock{now: time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC), whileIdle: func() {
		sleeps++
		held += store.underWay
	}}
	guard := effectonce.New(store, effectonce.Options{Clock: clock})
	recorded, _ := guard.Record(context.Background(), refundTicket(effectonce.Terms{}))

	outcome, err := guard.Wait(context.Background(), recorded.Operation.Key, time.Minute)
	fmt.Println(outcome.Outcome, err)
	fmt.Println("looked again:", sleeps > 10, "held while waiting:", held)
	// Output:
	// pending <nil>
	// looked again: true held while waiting: 0
}

// gateway is a provider of one's own: it classifies its answers by what the other side promises.
type gateway struct{ sent int }

func (g *gateway) Call(context.Context, effectonce.Call) effectonce.End {
	g.sent++
	return effectonce.End{
		Verdict: effectonce.VerdictUnknown, StoredError: true, // the other side keeps a 500 under the key and replays it
		Failure: effectonce.Failure{Code: "api_error", Status: 500, Message: "internal error"},
	}
}

func (*gateway) LookUp(context.Context, effectonce.Call) effectonce.Finding {
	return effectonce.Finding{Found: effectonce.FoundUnavailable}
}

func (*gateway) Scope() string { return "https://pay.example/v1" }

// A provider of one's own implements three methods. This one says that its error is stored under the key: sending again could only
// replay it, so it is not done although the window is open, and a person decides. S6.5
func ExampleProvider() {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	guard := effectonce.New(memory.Open(memory.Options{Now: func() time.Time { return now }}), effectonce.Options{})
	provider := &gateway{}
	intent := refundTicket(effectonce.Terms{Keyed: true, Retention: 24 * time.Hour})

	_, err := guard.Do(context.Background(), intent, provider)
	fmt.Println(effectonce.CodeOf(err))
	now = now.Add(time.Hour)
	outcome, err := guard.Do(context.Background(), intent, provider)
	fmt.Println(effectonce.CodeOf(err), "sent:", provider.sent)
	fmt.Println(outcome.Operation.Reason)
	// Output:
	// unknown
	// in_review sent: 1
	// the provider stored an error under the key and would only replay it
}

// Recorded now and executed later, by a background worker or by whoever comes with the same intent. S3.5
func ExampleGuard_Record() {
	store := memory.Open(memory.Options{})
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		return payment{ID: "re_1", Amount: 480}, nil
	})
	guard := effectonce.New(store, effectonce.Options{Providers: func(effectonce.Operation) effectonce.Provider { return provider }})
	ctx := context.Background()

	recorded, _ := guard.Record(ctx, refundTicket(effectonce.Terms{Managed: true}))
	fmt.Println(recorded.Outcome, "attempts:", recorded.Operation.Attempt)

	due, _ := store.Due(ctx, 10) // what the worker package does, again and again
	for _, op := range due {
		if _, err := guard.Work(ctx, op); err != nil {
			fmt.Println(err)
		}
	}
	outcome, err := guard.Wait(ctx, recorded.Operation.Key, 10*time.Second)
	fmt.Println(outcome.Outcome, "attempts:", outcome.Operation.Attempt, err)
	// Output:
	// pending attempts: 0
	// succeeded attempts: 1 <nil>
}

// The key is computed from recorded fields, by one formula in every language (docs/identity.md). In business scope a second run,
// started by a trigger that came again or by another agent, has the same one. S3.1, S2.4, S2.5
func ExampleIdentity_Key() {
	for _, run := range []string{"run-1", "run-2"} {
		key, err := effectonce.Identity{
			Tenant: "default", Tool: "stripe.refund", Scope: effectonce.ScopeBusiness, Run: run, IntentID: "refund:order-8812:ticket-5521",
		}.Key()
		fmt.Println(key, err)
	}
	// Output:
	// ccb8cfdf02796e5990bcf54e21b61bd16411cffbf0df22fff1dc83039a177335 <nil>
	// ccb8cfdf02796e5990bcf54e21b61bd16411cffbf0df22fff1dc83039a177335 <nil>
}

// Access is asked before anything about an existing operation is compared or told: knowing an intent or a key opens nothing, and
// whoever may not see the operation does not learn that the arguments differ. S5.12, S3.6, S15.2, I10
func ExampleOptions_access() {
	type user struct{}
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{
		Access: func(ctx context.Context, op effectonce.Operation) error {
			if ctx.Value(user{}) != op.Actor {
				return effectonce.ErrForbidden
			}
			return nil
		},
	})
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		return payment{ID: "re_1", Amount: 480}, nil
	})
	owner := context.WithValue(context.Background(), user{}, "support-agent")
	stranger := context.WithValue(context.Background(), user{}, "somebody")
	outcome, err := guard.Do(owner, refundTicket(effectonce.Terms{}), provider)
	fmt.Println("owner:", outcome.Outcome, err)

	same, err := guard.Do(stranger, refundTicket(effectonce.Terms{}), provider)
	fmt.Printf("stranger, same arguments: %v %q\n", effectonce.CodeOf(err), same.Operation.Reference)
	other := refundTicket(effectonce.Terms{})
	other.Arguments = effectonce.Arguments(map[string]any{"amount": 1})
	_, err = guard.Do(stranger, other, provider)
	fmt.Println("stranger, other arguments:", effectonce.CodeOf(err))
	_, err = guard.Wait(stranger, outcome.Operation.Key, 0)
	fmt.Println("stranger, by key:", effectonce.CodeOf(err))
	// Output:
	// owner: succeeded <nil>
	// stranger, same arguments: forbidden ""
	// stranger, other arguments: forbidden
	// stranger, by key: forbidden
}

// A tool that ensures a state is applied again after an ambiguous end: repeats are harmless, and no key is needed. S11.1
func ExampleTerms_convergent() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	deployed, calls := "", 0
	provider := effectonce.Func(func(context.Context, effectonce.Call) (string, error) {
		calls++
		deployed = "2.3.1"
		if calls == 1 {
			return "", errors.New("connection reset")
		}
		return deployed, nil
	})

	outcome, err := guard.Do(context.Background(), effectonce.Intent{
		Tool: "deploy.ensure", ID: "deploy:production:2.3.1",
		Terms: effectonce.Terms{Class: effectonce.ClassConvergent, Backoff: time.Millisecond},
	}, provider, effectonce.WaitFor(10*time.Second))
	fmt.Println(outcome.Outcome, err, "applied:", calls, "deployed:", deployed)
	// Output: succeeded <nil> applied: 2 deployed: 2.3.1
}

// What was sent can still take effect until the settle time is over: until then a person's "absent" is refused, or goes on record
// as an accepted risk. S5.11, S7.6
func ExampleResolved_acceptRisk() {
	now := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	store := memory.Open(memory.Options{Now: func() time.Time { return now }})
	guard := effectonce.New(store, effectonce.Options{})
	ctx := context.Background()
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		return payment{}, errors.New("504 gateway timeout")
	}).WithLookUp(func(context.Context, effectonce.Call) (any, bool, error) {
		return nil, false, nil
	})
	intent := refundTicket(effectonce.Terms{})
	intent.RequestScope = "the test account" // in another scope than the provider's a look-up concludes nothing: review at once

	_, _ = guard.Do(ctx, intent, provider)
	now = now.Add(time.Minute)
	outcome, err := guard.Do(ctx, intent, provider)
	fmt.Println(effectonce.CodeOf(err))

	absent := effectonce.Resolved{
		Version: outcome.Operation.Version, Resolution: effectonce.ResolveAbsentFail, Person: "ann", Reason: "not in the ledger",
	}
	_, err = guard.Resolve(ctx, outcome.Operation.Key, absent)
	var e *effectonce.Error
	errors.As(err, &e)
	fmt.Println(e.Code, "for another", e.RetryAfter)
	absent.AcceptRisk = true
	outcome, err = guard.Resolve(ctx, outcome.Operation.Key, absent)
	fmt.Println(outcome.Outcome, err)

	events, _ := store.Events(ctx, outcome.Operation.Key)
	last := events[len(events)-1]
	fmt.Println(last.Kind, last.Resolution, "by", last.Actor, "risk:", last.Risk)
	// Output:
	// in_review
	// not_allowed for another 1m30s
	// failed <nil>
	// resolved absent_fail by ann risk: true
}

// The audit has one line for each transition: who, which attempt, what came of it, and why. S15.3
func ExampleStore_events() {
	store := memory.Open(memory.Options{})
	guard := effectonce.New(store, effectonce.Options{Owner: "worker-1"})
	ctx := context.Background()
	attempts := 0
	provider := effectonce.Func(func(context.Context, effectonce.Call) (payment, error) {
		if attempts++; attempts == 1 {
			return payment{}, effectonce.NotSent(errors.New("connection refused"))
		}
		return payment{ID: "re_1", Amount: 480}, nil
	})
	outcome, _ := guard.Do(ctx, refundTicket(effectonce.Terms{Backoff: time.Millisecond}), provider, effectonce.WaitFor(10*time.Second))

	events, _ := store.Events(ctx, outcome.Operation.Key)
	for _, e := range events {
		fmt.Println(e.Seq, e.Kind, "by", e.Actor, "attempt", e.Attempt, "->", e.To)
	}
	// Output:
	// 1 recorded by support-agent attempt 1 -> in_progress
	// 2 attempt_ended by worker-1 attempt 1 -> pending
	// 3 claimed by worker-1 attempt 2 -> in_progress
	// 4 attempt_ended by worker-1 attempt 2 -> succeeded
}
