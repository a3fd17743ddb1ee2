package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/effectonce/effectonce"
)

// guardedCall is one call of the same tool by an agent that asks the daemon instead of the provider. It is no more careful than
// the unguarded one: whatever goes wrong, it asks again; only what the daemon tells it to do next counts.
func (s *stage) guardedCall(d decision, run string) step {
	return func(ctx context.Context) error {
		for {
			answer, err := askDaemon(ctx, "http://"+s.address, d, run)
			switch {
			case err == nil && answer.Next == effectonce.AdviceUseResult:
				return nil
			case err == nil && (answer.Next == effectonce.AdviceStop || answer.Next == effectonce.AdviceNewIntent):
				return fmt.Errorf("the daemon says %s: %s %s", answer.Next, answer.Outcome, answer.Reason)
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("the refund did not settle: %w (last: %s %v)", context.Cause(ctx), answer.Outcome, err)
			}
		}
	}
}

// demoAnswer is what the agent reads of the daemon's answer.
type demoAnswer struct {
	Outcome effectonce.Status `json:"outcome"`
	Next    effectonce.Advice `json:"next"`
	Reason  string            `json:"reason"`
}

// askDaemon asks for the refund as any HTTP client would, and waits for the outcome.
func askDaemon(ctx context.Context, url string, d decision, run string) (demoAnswer, error) {
	body, err := json.Marshal(map[string]any{
		"tool": "stripe.refund", "run": run, "step": "refund",
		"arguments": struct {
			decision
			PaymentIntent string `json:"payment_intent"`
		}{d, thePayment},
	})
	if err != nil {
		return demoAnswer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/operations?wait=5s", bytes.NewReader(body))
	if err != nil {
		return demoAnswer{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return demoAnswer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return demoAnswer{}, err
	}
	var answer demoAnswer
	if err := json.Unmarshal(text, &answer); err != nil {
		return demoAnswer{}, fmt.Errorf("the daemon answered %d: %.200s", response.StatusCode, text)
	}
	if response.StatusCode >= 300 {
		answer.Reason = string(text)
	}
	return answer, nil
}
