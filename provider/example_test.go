package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/provider"
	"github.com/effectonce/effectonce/store/memory"
)

// An API that has no contract yet, and takes an Idempotency-Key: the operator says for how long it remembers one.
func ExampleNewHTTP() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id": "pay_1", "key_given": %t}`, r.Header.Get("Idempotency-Key") != "")
	}))
	defer api.Close()

	keyed, err := contract.Load("http/keyed")
	if err != nil {
		panic(err)
	}
	payments, err := provider.NewHTTP(provider.HTTPOptions{
		Contract: keyed,
		BaseURL:  api.URL,
		Settings: contract.Settings{Path: "/orders/{order}/payments", Retention: 24 * time.Hour, Reference: "id"},
		Body:     map[string]any{"amount": "{amount}"},
	})
	if err != nil {
		panic(err)
	}

	arguments := json.RawMessage(`{"order": "o-8812", "amount": 480}`)
	request, err := payments.Render(arguments)
	if err != nil {
		panic(err)
	}
	guard := effectonce.New(memory.Open(memory.Options{}), effectonce.Options{})
	outcome, err := guard.Do(context.Background(), effectonce.Intent{
		Tool: "pay", ID: "pay:o-8812", Business: arguments,
		Request: request, RequestScope: payments.Scope(), Terms: payments.Terms(effectonce.DefaultTerms()),
	}, payments)
	if err != nil {
		panic(err)
	}
	fmt.Println(outcome.Operation.State, outcome.Operation.Reference, string(outcome.Operation.Result))
	// Output: succeeded pay_1 {"id": "pay_1", "key_given": true}
}
