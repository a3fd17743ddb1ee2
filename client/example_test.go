package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
	"github.com/effectonce/effectonce/client"
	"github.com/effectonce/effectonce/store/memory"
)

// The effect is in the caller's own code: claim it, have it, report it.
func ExampleClient_Claim() {
	store := memory.Open(memory.Options{})
	daemon := httptest.NewServer(api.New(api.Options{Guard: effectonce.New(store, effectonce.Options{}), Store: store}))
	defer daemon.Close()

	c, err := client.New(daemon.URL, client.Options{Actor: "support-agent"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	intent := client.Intent{Tool: "crm.refund", ID: "refund:order-8812:ticket-5521", Arguments: effectonce.Arguments(map[string]any{"amount": 480})}
	for range 2 {
		claim, err := c.Claim(ctx, intent)
		switch {
		case errors.Is(err, effectonce.ErrConflict):
			fmt.Println("somebody else is at it")
			continue
		case err != nil:
			log.Fatal(err)
		case claim.Do == effectonce.TaskDone:
			fmt.Println("recorded:", claim.Operation.Reference, claim.Replayed)
			continue
		}
		// Refund here, with claim.DownstreamKey as the provider's idempotency key.
		fmt.Println("refunding")
		if _, err := c.Complete(ctx, claim.Operation.Key, claim.Token, nil, "re_1"); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// refunding
	// recorded: re_1 true
}
