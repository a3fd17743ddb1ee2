package canon_test

import (
	"fmt"

	"github.com/effectonce/effectonce/canon"
)

// Two spellings of one refund have one canonical form and so one digest.
func ExampleEncode() {
	for _, text := range []string{`{"order_id": "4711", "amount": 480.00}`, `{"amount":4.8e2,"order_id":"4711"}`} {
		arguments, err := canon.Decode([]byte(text), canon.Limits{})
		if err != nil {
			fmt.Println(err)
			return
		}
		form, err := canon.Encode(arguments)
		fmt.Println(string(form), err)
	}
	// Output:
	// {"amount":480,"order_id":"4711"} <nil>
	// {"amount":480,"order_id":"4711"} <nil>
}

// An integer that a double would merge with its neighbour is refused, with its place and what to do.
func ExampleEncode_refused() {
	arguments, err := canon.Decode([]byte(`{"order": {"id": 9007199254740993}}`), canon.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = canon.Encode(arguments)
	fmt.Println(err)
	// Output:
	// /order/id: the number's magnitude is above 9007199254740991 (2^53-1), where a double merges integers; send it as a string, or have the tool's policy normalise it as decimal
}

func ExampleParseAmount() {
	amount, err := canon.ParseAmount("480.0", "EUR", canon.UnitMajor)
	fmt.Println(amount.Minor, amount.Currency, amount.Decimal(), err)
	_, err = canon.ParseAmount("480.005", "EUR", canon.UnitMajor)
	fmt.Println(err)
	// Output:
	// 48000 EUR 480.00 <nil>
	// the amount has more decimal digits than 2, which is what EUR has here; send an amount that can be paid exactly; nothing is rounded
}

func ExampleEscapeComponent() {
	fmt.Println("refund:" + canon.EscapeComponent("ORD-4711") + ":" + canon.EscapeComponent("T:9"))
	// Output: refund:ORD-4711:T%3A9
}
