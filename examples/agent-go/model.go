package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Model is where a real one goes: one method, which gets what has happened in the run so far and chooses what to do next. A real
// one would send the events as its messages, offer the tools, and turn the tool call in the answer into a Choice. Nothing else of
// the agent changes: what Choose returns is recorded before anything runs, and it is not called again for a step that has a decision.
type Model interface {
	Choose(ctx context.Context, events []Event) (Choice, error)
}

// Event is a step of the run as a model is told about it.
type Event struct {
	Step string
	// Tool and Arguments are what was chosen; without a tool, Arguments is what was read.
	Tool      string
	Arguments json.RawMessage
	// Result is what the tool answered; Failure why it had no effect.
	Result  json.RawMessage
	Failure string
}

// Choice is what a model wants to do next.
type Choice struct {
	Tool      string
	Arguments any
	// Finish ends the run.
	Finish bool
	// Note is why, for people.
	Note string
}

// scripted plays a model, offline. Asked twice, it says the same in other words and with another amount, as models do: watch that it
// is not asked twice.
type scripted struct{}

func (scripted) Choose(_ context.Context, events []Event) (Choice, error) {
	last := events[len(events)-1]
	switch {
	case last.Failure != "":
		return Choice{Finish: true, Arguments: map[string]string{"reply": "We are sorry, we could not refund you."}, Note: last.Failure}, nil
	case last.Tool != "":
		return Choice{Finish: true, Arguments: map[string]string{"reply": "Your money is on its way."}, Note: "the refund is done"}, nil
	}
	var ticket struct {
		TicketID      string `json:"ticket_id"`
		OrderID       string `json:"order_id"`
		PaymentIntent string `json:"payment_intent"`
		Paid          int    `json:"paid"`
	}
	if err := json.Unmarshal(last.Arguments, &ticket); err != nil {
		return Choice{}, fmt.Errorf("the ticket cannot be read: %w", err)
	}
	words := []string{"arrived broken", "the customer reports a defect", "damaged in transit", "not as described"}
	why := words[rand.IntN(len(words))]
	return Choice{Tool: "stripe.refund", Note: why, Arguments: map[string]any{
		"order_id": ticket.OrderID, "ticket_id": ticket.TicketID, "payment_intent": ticket.PaymentIntent,
		"amount": ticket.Paid - rand.IntN(100), "reason": why,
	}}, nil
}
