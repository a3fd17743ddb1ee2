package effectonce_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// Two refunds of one payment are two intents; a limit keeps their sum within what was captured.
func ExampleLimit() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	refund := func(ticket string, amount int64) error {
		_, err := guard.Do(context.Background(), effectonce.Intent{
			Tool: "bank.refund", ID: "refund:8812:" + ticket,
			Limits: []effectonce.Limit{{Name: "refunds:payment:pi_1", Amount: amount, Max: 48000}},
		}, effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return "refunded", nil }))
		return err
	}
	fmt.Println(refund("5521", 30000))
	fmt.Println(refund("5522", 30000))
	// Output:
	// <nil>
	// limit_exceeded: refunds:payment:pi_1: 30000 is taken of 48000, and this would take 30000; nothing was stored and nothing ran (see what holds it: effectonce limits)
}

// "Is to be on" needs no key: it is observed, applied if it is different, and observed again.
func ExampleEnsure() {
	lamp, applied := "off", 0
	provider := effectonce.Ensure(
		func(context.Context, effectonce.Call) (string, bool, error) { return lamp, lamp == "on", nil },
		func(context.Context, effectonce.Call, string) error { lamp = "on"; applied++; return nil },
	)
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	for _, id := range []string{"lamp:1:monday", "lamp:1:tuesday"} {
		_, err := guard.Do(context.Background(), effectonce.Intent{
			Tool: "lamp.on", ID: id, Terms: effectonce.Terms{Class: effectonce.ClassConvergent},
		}, provider)
		fmt.Println(lamp, applied, err)
	}
	// Output:
	// on 1 <nil>
	// on 1 <nil>
}

// What took effect is undone by an operation of its own, which is once as well.
func ExampleCompensationID() {
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	ctx := context.Background()
	booked, err := guard.Do(ctx, effectonce.Intent{Tool: "flight.book", ID: "book:trip-7"},
		effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return "B-1", nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	first := booked.Operation.Key
	for range 2 {
		undone, err := guard.Do(ctx, effectonce.Intent{
			Tool: "flight.cancel", ID: effectonce.CompensationID(first), Compensates: first, Reason: "the hotel is full",
		}, effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return "cancelled", nil }))
		fmt.Println(undone.Outcome, undone.Replayed, err)
	}
	_, err = guard.Do(ctx, effectonce.Intent{Tool: "flight.cancel", ID: effectonce.CompensationID(effectonce.Key{9}), Compensates: effectonce.Key{9}},
		effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return "", nil }))
	fmt.Println(errors.Is(err, effectonce.ErrNotFound))
	// Output:
	// succeeded false <nil>
	// succeeded true <nil>
	// true
}
