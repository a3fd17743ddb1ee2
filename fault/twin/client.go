package twin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Control is the client of a running twin's control plane. It is safe for concurrent use.
type Control struct {
	// BaseURL is where the twin listens, as http://127.0.0.1:7272.
	BaseURL string
	// HTTP makes the requests; nil means http.DefaultClient.
	HTTP *http.Client
}

// Ledger reads what happened.
func (c Control) Ledger(ctx context.Context) (Ledger, error) {
	var ledger Ledger
	return ledger, c.call(ctx, http.MethodGet, "ledger", nil, &ledger)
}

// Requests reads what arrived on the wire.
func (c Control) Requests(ctx context.Context) (RequestLog, error) {
	var log RequestLog
	return log, c.call(ctx, http.MethodGet, "requests", nil, &log)
}

// Health asks whether the twin is up; an error also says that it cannot be reached.
func (c Control) Health(ctx context.Context) (Health, error) {
	var health Health
	return health, c.call(ctx, http.MethodGet, "health", nil, &health)
}

// Advance sets the twin's clock forward by d, which must not be negative.
func (c Control) Advance(ctx context.Context, d time.Duration) error {
	return c.call(ctx, http.MethodPost, "clock", advanceBody{Advance: d.String()}, nil)
}

// SetFaults replaces the plan; its counts begin anew. A nil plan takes all faults away.
func (c Control) SetFaults(ctx context.Context, plan Plan) error {
	return c.call(ctx, http.MethodPost, "faults", faultsBody{Plan: plan.String()}, nil)
}

// Faults reads the plan.
func (c Control) Faults(ctx context.Context) (Plan, error) {
	var body faultsBody
	if err := c.call(ctx, http.MethodGet, "faults", nil, &body); err != nil {
		return nil, err
	}
	return ParsePlan(body.Plan)
}

// Reset empties the ledger, the keys and the request log, puts the clock back, and restores the plan of the start.
// What is being processed ends without effect.
func (c Control) Reset(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "reset", nil, nil)
}

func (c Control) call(ctx context.Context, method, what string, send, receive any) error {
	var body io.Reader
	if send != nil {
		data, err := json.Marshal(send)
		if err != nil {
			return fmt.Errorf("twin %s: %w", what, err)
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+"/_twin/"+what, body)
	if err != nil {
		return fmt.Errorf("twin %s: %w", what, err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("twin %s: %w", what, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var refused controlErrorBody
		if err := json.NewDecoder(response.Body).Decode(&refused); err != nil || refused.Error == "" {
			return fmt.Errorf("twin %s: status %d", what, response.StatusCode)
		}
		return fmt.Errorf("twin %s: %s", what, refused.Error)
	}
	if receive == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(receive); err != nil {
		return fmt.Errorf("twin %s: %w", what, err)
	}
	return nil
}
