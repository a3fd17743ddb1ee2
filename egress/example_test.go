package egress_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/egress"
	"github.com/effectonce/effectonce/provider"
	"github.com/effectonce/effectonce/store/memory"
)

// A client library of a provider gets an http.Client whose round tripper is a route. It refunds once, however often it is asked to.
func ExampleTransport() {
	var refunds atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refunds.Add(1)
		_ = r.ParseForm()
		fmt.Fprintf(w, `{"id":"re_1","metadata":{"effectonce":%q}}`, r.Form.Get("metadata[effectonce]"))
	}))
	defer api.Close()

	stripe, err := contract.Load("stripe/v1")
	if err != nil {
		fmt.Println(err)
		return
	}
	route, err := egress.New(egress.Options{
		Name:  "stripe",
		Guard: effectonce.New(memory.Open(memory.Options{}), effectonce.Options{}),
		API: provider.RawOptions{
			Contract: stripe, BaseURL: api.URL,
			Credential: func(context.Context) (string, error) { return "sk_test_from_a_secret_store", nil },
		},
		Logger: quiet(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: egress.NewTransport(route)}

	for range 3 {
		ctx := egress.WithIntent(context.Background(), egress.Intent{ID: "refund:order-8812"})
		request, _ := http.NewRequestWithContext(ctx, "POST", api.URL+"/v1/refunds", strings.NewReader("payment_intent=pi_1&amount=48000"))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := client.Do(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		fmt.Println(response.Status, "replayed:", response.Header.Get(egress.HeaderReplayed) == "true")
	}
	fmt.Println("refunds:", refunds.Load())
	// Output:
	// 200 OK replayed: false
	// 200 OK replayed: true
	// 200 OK replayed: true
	// refunds: 1
}
