package idempotency

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// HeaderRetention says with an answer that is on record for how many seconds after it was given it is kept. It is absent where answers
// are kept for ever.
const HeaderRetention = "Idempotency-Retention"

// Policy is what clients have to know about keys; the draft asks servers to publish it.
type Policy struct {
	Header      string   `json:"header"`
	Required    bool     `json:"required"`
	Methods     []string `json:"methods"`
	KeyBytesMax int      `json:"key_bytes_max"`
	// Retention is how many seconds an answer is kept, 0 for ever. A repeat after that is answered with 410, and never runs: keys are
	// remembered for ever.
	RetentionSeconds int64    `json:"retention_seconds"`
	RequestBytesMax  int      `json:"request_bytes_max"`
	ResponseBytesMax int      `json:"response_bytes_max"`
	Fingerprint      []string `json:"fingerprint"`
	Documentation    string   `json:"documentation,omitempty"`
}

// Policy returns the policy that follows from the options.
func (m *Middleware) Policy() Policy {
	o := m.options
	return Policy{
		Header: HeaderKey, Required: !o.Optional, Methods: o.Methods, KeyBytesMax: o.KeyBytesMax,
		RetentionSeconds: int64(o.Terms.Results / time.Second), RequestBytesMax: o.RequestBytesMax, ResponseBytesMax: o.ResponseBytesMax,
		Fingerprint:   append([]string{"method", "path", "query", "content_type", "body"}, o.Headers...),
		Documentation: o.Docs,
	}
}

// ServeHTTP publishes the policy as JSON.
func (p Policy) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	// The caller may be gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(p)
}

func (m *Middleware) setRetention(h http.Header) {
	if kept := m.options.Terms.Results; kept > 0 {
		h.Set(HeaderRetention, strconv.FormatInt(int64(kept/time.Second), 10))
	}
}
