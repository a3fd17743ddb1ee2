package journal_test

import (
	"context"
	"fmt"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/journal"
	"github.com/effectonce/effectonce/store/memory"
)

// A run that is restarted asks its model once, although the model would say something else the second time.
func Example() {
	ctx := context.Background()
	store := memory.Open(memory.Options{})
	guard := effectonce.New(store, effectonce.Options{})
	bank := effectonce.Func(func(context.Context, effectonce.Call) (string, error) { return "re_1", nil })

	amounts := []int{480, 450}
	model := func(context.Context) (effectonce.Decision, error) {
		amount := amounts[0]
		amounts = amounts[1:]
		return effectonce.Decision{Tool: "bank.refund", IntentID: "refund:o-8812", Arguments: effectonce.Arguments(map[string]int{"amount": amount})}, nil
	}

	for range 3 {
		entry, err := journal.New(store, guard).Run("", "ticket-5521").Decide(ctx, "refund", model)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(entry.Do, string(entry.Decision.Arguments))
		if entry.Do == journal.DoExecute {
			d := entry.Decision
			// How it ends is read at the next look, whatever becomes of this process.
			_, _ = guard.Do(ctx, effectonce.Intent{Tool: d.Tool, Run: d.Run, Step: d.Step, ID: d.IntentID, Arguments: d.Arguments}, bank)
		}
	}
	// Output:
	// execute {"amount":480}
	// use_result {"amount":480}
	// use_result {"amount":480}
}
