package idempotency

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/effectonce/effectonce"
)

// answerKind marks a stored answer among results: a person may confirm an operation with a result of another form.
const answerKind = "http_answer"

// Why an answer has no body on record (S6.8).
const (
	omittedTooLarge = "too_large" // larger than what is kept
	omittedNoRoom   = "no_room"   // too many large bodies at once
)

// stored is an answer as it is recorded: the result of the operation.
type stored struct {
	Kind    string      `json:"kind"`
	Status  int         `json:"status"`
	Headers http.Header `json:"headers,omitempty"`
	// Body holds the bytes in the form that Encoding says: "" is text, "base64", or "deflate" in base64.
	Body     string `json:"body,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	// Omitted says why there is no body on record although there was one.
	Omitted string `json:"omitted,omitempty"`
	// Bytes and SHA256 are the body's.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`

	body []byte
}

// EffectReference makes what was created the operation's reference, which outlives the result (S13.1).
func (s stored) EffectReference() string {
	at := s.Headers.Get("Location")
	if len(at) > effectonce.IdentifierBytesMax {
		return ""
	}
	return at
}

// encode returns the answer as a result that stores keep: with the body where it fits, else without.
func (s stored) encode() []byte {
	s.Kind = answerKind
	forms := []func(*stored) bool{
		func(s *stored) bool { s.Body = string(s.body); return utf8.Valid(s.body) },
		func(s *stored) bool {
			s.Body, s.Encoding = base64.StdEncoding.EncodeToString(s.body), "base64"
			return true
		},
		func(s *stored) bool {
			s.Body, s.Encoding = base64.StdEncoding.EncodeToString(deflated(s.body)), "deflate"
			return true
		},
		func(s *stored) bool { s.Omitted = omittedTooLarge; return true },
		func(s *stored) bool { s.Omitted, s.Headers = omittedTooLarge, nil; return true },
	}
	if s.Omitted != "" {
		forms = []func(*stored) bool{func(*stored) bool { return true }, forms[len(forms)-1]}
	}
	for _, form := range forms {
		t := s
		if !form(&t) {
			continue
		}
		// Strings, numbers and headers always have a form.
		if b, _ := json.Marshal(t); len(b) <= effectonce.ResultBytesMax {
			return b
		}
	}
	return nil
}

// errNotAnswer says that a result is not one that this package recorded.
var errNotAnswer = errors.New("the result is not a stored answer")

func decode(result []byte) (stored, error) {
	var s stored
	if err := json.Unmarshal(result, &s); err != nil || s.Kind != answerKind || s.Status < 200 || s.Status > 999 {
		return s, errNotAnswer
	}
	var err error
	switch {
	case s.Omitted != "":
		return s, nil
	case s.Encoding == "":
		s.body = []byte(s.Body)
	default:
		s.body, err = base64.StdEncoding.DecodeString(s.Body)
	}
	if err == nil && s.Encoding == "deflate" {
		s.body, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(s.body)), s.Bytes+1))
	}
	if err == nil && digest(s.body) != s.SHA256 {
		err = errors.New("the stored body does not have its digest")
	}
	return s, err
}

func deflated(b []byte) []byte {
	var out bytes.Buffer
	// The level is valid, and a buffer takes everything.
	w, _ := flate.NewWriter(&out, flate.BestSpeed)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// storedOf makes a stored answer of one that a look-up found.
func (m *Middleware) storedOf(a Answer) stored {
	s := stored{Status: a.Status, Headers: m.replayed(a.Header), Bytes: int64(len(a.Body)), SHA256: digest(a.Body), body: a.Body}
	if s.Status == 0 {
		s.Status = http.StatusOK
	}
	if len(a.Body) > m.options.ResponseBytesMax {
		s.body, s.Omitted = nil, omittedTooLarge
	}
	return s
}

// Result returns the answer in the form in which answers are stored: for a person who confirms with it what a request did (S7.6).
func (a Answer) Result() json.RawMessage {
	m := &Middleware{options: Options{ReplayHeaders: DefaultReplayHeaders(), ResponseBytesMax: effectonce.ResultBytesMax}}
	return m.storedOf(a).encode()
}

// replayed selects the headers that are stored.
func (m *Middleware) replayed(h http.Header) http.Header {
	out := make(http.Header)
	for _, name := range m.options.ReplayHeaders {
		if v := h.Values(name); len(v) > 0 {
			out[name] = v
		}
	}
	return out
}

// write replays the answer.
func (s stored) write(w http.ResponseWriter, member string) {
	h := w.Header()
	for name, values := range s.Headers {
		h[name] = values
	}
	if _, ok := h["Content-Type"]; !ok {
		// It had none: it is not guessed now.
		h["Content-Type"] = nil
	}
	body := s.body
	if member != "" && isJSON(h.Get("Content-Type")) && h.Get("Content-Encoding") == "" {
		if marked, ok := markedObject(body, member); ok {
			body = marked
			for _, name := range []string{"Etag", "Content-Digest", "Repr-Digest", "Digest"} {
				h.Del(name)
			}
		}
	}
	if bodyAllowed(s.Status) {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(s.Status)
	if bodyAllowed(s.Status) {
		// The caller may be gone; there is nobody else to tell.
		_, _ = w.Write(body)
	}
}

// markedObject adds a member with the value true to a JSON object, unless it has one of that name.
func markedObject(body []byte, member string) ([]byte, bool) {
	var object map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil || object == nil {
		return nil, false
	}
	if _, ok := object[member]; ok {
		return nil, false
	}
	end := bytes.LastIndexByte(body, '}')
	name, err := json.Marshal(member)
	if err != nil {
		return nil, false
	}
	marked := append([]byte{}, body[:end]...)
	if len(object) > 0 {
		marked = append(marked, ',')
	}
	marked = append(append(marked, name...), ":true"...)
	return append(marked, body[end:]...), true
}

// bodyAllowed reports whether HTTP gives an answer of this status a body.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
