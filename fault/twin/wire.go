package twin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Refund is an effect with what its request said beyond the ledger's fields.
type Refund struct {
	Effect
	Metadata map[string]string `json:"metadata"`
	Reason   string            `json:"reason,omitempty"`
	// RequestID is the Request-Id of the request that had the effect.
	RequestID string `json:"request_id"`
}

// reply is an answer before the plan touches it.
type reply struct {
	status  int
	headers map[string]string
	body    []byte
	// hung says that the plan's hang has already been waited for, during processing.
	hung bool
}

func (p *reply) set(header, value string) {
	if p.headers == nil {
		p.headers = map[string]string{}
	}
	p.headers[header] = value
}

func (s *Server) reply(status int, body any) reply {
	return reply{status: status, body: encode(body)}
}

// refuse answers a request that does not get as far as processing; nothing is stored.
func (s *Server) refuse(seen *Received, status int, body any) reply {
	s.note(seen, "refused", struck{})
	return s.reply(status, body)
}

func (s *Server) unavailable(message string) reply {
	return s.reply(http.StatusServiceUnavailable, errorBody("api_error", "", "", message))
}

func encode(v any) []byte {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		// Only values of this package are encoded, and all of them have a form.
		panic(err)
	}
	return append(data, '\n')
}

// errorBody is Stripe's form of an error; empty fields are left out.
func errorBody(kind, code, param, message string) map[string]any {
	e := map[string]string{"type": kind, "message": message}
	for name, v := range map[string]string{"code": code, "param": param} {
		if v != "" {
			e[name] = v
		}
	}
	return map[string]any{"error": e}
}

// statusBody is the error of a given status when no request has earned one.
func statusBody(status int) map[string]any {
	switch {
	case status == http.StatusUnauthorized:
		return errorBody("invalid_request_error", "", "", "Invalid API Key provided: sk_****")
	case status == http.StatusTooManyRequests:
		return errorBody("invalid_request_error", "rate_limit", "", "Too many requests. Slow down and try again.")
	case status == http.StatusPaymentRequired:
		return errorBody("card_error", "card_declined", "", "The card was declined.")
	case status >= 500:
		return errorBody("api_error", "", "", "An error occurred on the provider's side.")
	default:
		return errorBody("invalid_request_error", "", "", http.StatusText(status))
	}
}

// object is a refund as Stripe shows it. A provider that drops metadata shows none.
func (r Refund) object(kind Kind) map[string]any {
	metadata := r.Metadata
	if metadata == nil || kind == NoDedupe {
		metadata = map[string]string{}
	}
	var reason any
	if r.Reason != "" {
		reason = r.Reason
	}
	return map[string]any{
		"id":                  r.ID,
		"object":              "refund",
		"amount":              r.Amount,
		"balance_transaction": "txn_" + strings.TrimPrefix(r.ID, "re_"),
		"charge":              "ch_" + strings.TrimPrefix(r.Resource, "pi_"),
		"created":             r.At.Unix(),
		"currency":            r.Currency,
		"metadata":            metadata,
		"payment_intent":      r.Resource,
		"reason":              reason,
		"receipt_number":      nil,
		"status":              "succeeded",
	}
}

// foreignRefund is somebody else's.
func foreignRefund(now time.Time, like Refund) Refund {
	foreign := Refund{
		Effect: Effect{
			ID: "re_foreign000000000001", Resource: "pi_foreign", Amount: like.Amount, Currency: like.Currency, At: now,
		},
		Metadata: map[string]string{},
	}
	if foreign.Amount == 0 {
		foreign.Amount, foreign.Currency = 48000, "eur"
	}
	for name := range like.Metadata {
		foreign.Metadata[name] = "foreign"
	}
	return foreign
}

// write sends an answer whole.
func (p reply) write(w http.ResponseWriter, requestID string) {
	p.head(w, requestID)
	// A client that is gone does not get the answer; nothing here depends on it.
	_, _ = w.Write(p.body)
}

func (p reply) head(w http.ResponseWriter, requestID string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(p.body)))
	h.Set("Request-Id", requestID)
	for name, v := range p.headers {
		h.Set(name, v)
	}
	w.WriteHeader(p.status)
}
