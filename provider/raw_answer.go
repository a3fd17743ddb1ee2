package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/effectonce/effectonce/canon"
)

// Answer is a provider's answer as it came.
type Answer struct {
	Status int
	// Header has what is kept of the headers.
	Header http.Header
	Body   []byte
}

// storedAnswer is the form in which an answer is a result. The name of its first field tells it from a result of another kind.
type storedAnswer struct {
	Status  int         `json:"http_status"`
	Headers []rawHeader `json:"http_headers,omitempty"`
	Body    string      `json:"http_body,omitempty"`
	Bytes   string      `json:"http_body_base64,omitempty"`
}

func (a Answer) encode() []byte {
	s := storedAnswer{Status: a.Status}
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		for _, value := range a.Header[name] {
			s.Headers = append(s.Headers, rawHeader{name, value})
		}
	}
	if utf8.Valid(a.Body) {
		s.Body = string(a.Body)
	} else {
		s.Bytes = base64.StdEncoding.EncodeToString(a.Body)
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		return nil
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// ParseAnswer reads what [RawCall.Call] left as a result, or as a failure's answer; false for anything else, such as a resource that a
// look-up found.
func ParseAnswer(stored []byte) (Answer, bool) {
	var s storedAnswer
	if len(stored) == 0 || json.Unmarshal(stored, &s) != nil || s.Status < 100 || s.Status > 999 {
		return Answer{}, false
	}
	a := Answer{Status: s.Status, Header: http.Header{}, Body: []byte(s.Body)}
	if s.Bytes != "" {
		b, err := base64.StdEncoding.DecodeString(s.Bytes)
		if err != nil {
			return Answer{}, false
		}
		a.Body = b
	}
	for _, h := range s.Headers {
		a.Header.Add(h.Name, h.Value)
	}
	return a, true
}

// notKept are headers of an answer that are about one connection or one sender, or open something.
var notKept = []string{
	"Alt-Svc", "Connection", "Content-Length", "Date", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Set-Cookie", "Set-Cookie2", "Strict-Transport-Security",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via", "Age",
}

// keptHeaders are those that are stored and given back.
func keptHeaders(h http.Header) http.Header {
	kept := http.Header{}
	for name, values := range h {
		if slices.Contains(notKept, name) || strings.HasPrefix(name, "Effectonce-") || strings.HasPrefix(name, "Access-Control-") || Secret(name) {
			continue
		}
		for _, v := range values {
			if utf8.ValidString(v) {
				kept.Add(name, v)
			}
		}
	}
	return kept
}

// Digest is that of the answer as it is stored: a result that is too large to be kept leaves it.
func (a Answer) Digest() canon.Digest { return sha256.Sum256(a.encode()) }
