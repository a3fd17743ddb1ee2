package twin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/effectonce/effectonce/fault/twin"
)

// An answer is lost after the effect; the caller sends again without a key; the ledger shows what that did.
func Example() {
	plan, err := twin.ParsePlan("refunds#1 after-effect drop")
	if err != nil {
		panic(err)
	}
	server, err := twin.New(twin.Config{Plan: plan})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	web := httptest.NewServer(server)
	defer web.Close()

	for range 2 {
		request, err := http.NewRequest("POST", web.URL+"/v1/refunds", strings.NewReader("payment_intent=pi_1&amount=480"))
		if err != nil {
			panic(err)
		}
		request.Header.Set("Authorization", "Bearer sk_test_1")
		response, err := web.Client().Do(request)
		if err != nil {
			fmt.Println("no answer")
			continue
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}
	ledger, err := twin.Control{BaseURL: web.URL}.Ledger(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println("refunds that happened:", ledger.Count)
	// Output:
	// no answer
	// 200 OK
	// refunds that happened: 2
}

// The model alone, with a clock of the caller's.
func ExampleModel() {
	provider := twin.NewModel(twin.StripeRules())
	now := twin.Effect{}.At
	request := twin.Request{Key: "k", Resource: "pi_1", Body: "amount=480", Amount: 480}

	first := provider.Receive(now, request)
	fmt.Println(first.Outcome, provider.Receive(now, request).Outcome)
	fmt.Println(provider.Finish(now, first.Ticket, twin.Take).Outcome)
	fmt.Println(provider.Receive(now, request).Replayed)
	// Output:
	// started in_flight
	// succeeded
	// true
}
