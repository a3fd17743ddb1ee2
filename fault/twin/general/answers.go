package general

import (
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/effectonce/effectonce/contract"
)

// reply is an answer before a fault touches it.
type reply struct {
	status int
	header map[string]string
	body   []byte
}

func (p reply) with(name, value string) reply {
	p.header = maps.Clone(p.header)
	if p.header == nil {
		p.header = map[string]string{}
	}
	p.header[name] = value
	return p
}

func (p reply) write(w http.ResponseWriter) {
	p.head(w)
	// A client that is gone does not get the answer; nothing here depends on it.
	_, _ = w.Write(p.body)
}

func (p reply) head(w http.ResponseWriter) {
	for name, v := range p.header {
		w.Header().Set(name, v)
	}
	if w.Header().Get("Content-Type") == "" && len(p.body) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	if p.status != http.StatusNoContent && p.status != http.StatusNotModified {
		w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
	}
	w.WriteHeader(p.status)
}

// play is how an operation is played; the zero value for one that the behaviour does not name.
func (s *Server) play(o *contract.Operation) Play { return s.behaviour.Operations[o.Name] }

// refusal is the answer of a case: the behaviour's, or else the contract's example with this meaning, or else a plain one.
func (s *Server) refusal(o *contract.Operation, kind string, values map[string]any) reply {
	if o != nil {
		if a, ok := s.play(o).Errors[kind]; ok {
			return s.answer(o, a, values)
		}
	}
	if a, ok := s.behaviour.Errors[kind]; ok {
		return s.answer(o, a, values)
	}
	if o != nil {
		for _, e := range o.Examples {
			if !e.Resend && means(e, kind) {
				return exampleReply(o, e)
			}
		}
		for _, e := range o.Examples {
			if e.Resend && means(e, kind) {
				return exampleReply(o, e)
			}
		}
	}
	return s.encode(o, plainStatus[kind], map[string]any{"error": kind, "message": "the twin: " + kind})
}

var plainStatus = map[string]int{
	CaseMismatch: http.StatusUnprocessableEntity, CaseInFlight: http.StatusConflict, CaseExpired: http.StatusBadRequest,
	CaseThrottled: http.StatusTooManyRequests, CaseInvalid: http.StatusBadRequest, CaseDeclined: http.StatusPaymentRequired,
	CaseExists: http.StatusConflict, CaseUnauthorised: http.StatusUnauthorized, CaseMissing: http.StatusNotFound,
	CaseBroken: http.StatusInternalServerError,
}

// The verdicts of examples, as contract files write them.
const (
	succeeded = "succeeded"
	rejected  = "rejected"
	throttled = "throttled"
	inFlight  = "in_flight"
	unknown   = "unknown"
)

// means says whether a contract's example is one of a case.
func means(e contract.Example, kind string) bool {
	switch kind {
	case CaseMismatch:
		return e.Means == contract.MeansMismatch
	case CaseExpired:
		return e.Means == contract.MeansExpired
	case CaseExists:
		return e.Means == contract.MeansElsewhere && e.Want != succeeded
	case CaseInFlight:
		return e.Want == inFlight
	case CaseThrottled:
		return e.Want == throttled && e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden
	case CaseDeclined:
		return e.Want == rejected && e.Authoritative
	case CaseInvalid:
		return e.Want == rejected && !e.Authoritative && e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden
	case CaseBroken:
		return e.Status == http.StatusInternalServerError
	case CaseUnauthorised:
		return e.Status == http.StatusUnauthorized && e.Want != unknown
	case CaseMissing:
		return e.Status == http.StatusNotFound && e.Want == rejected
	}
	return false
}

func exampleReply(o *contract.Operation, e contract.Example) reply {
	p := reply{status: e.Status, header: map[string]string{}, body: e.Body}
	for name := range e.Header {
		p.header[name] = e.Header.Get(name)
	}
	if p.header["Content-Type"] == "" && o.Answer == contract.FormatXML {
		p.header["Content-Type"] = "text/xml;charset=UTF-8"
	}
	return p
}

// statusReply is the answer with a status when no request has earned one: the contract's example, if it has one of that status.
func (s *Server) statusReply(o *contract.Operation, status int) reply {
	for _, kind := range slices.Sorted(maps.Keys(plainStatus)) {
		if p := s.refusal(o, kind, nil); p.status == status && (status >= 500 || kind != CaseInFlight && kind != CaseMismatch) {
			return p
		}
	}
	if o != nil {
		for _, e := range o.Examples {
			if e.Status == status && !e.Resend {
				return exampleReply(o, e)
			}
		}
	}
	return s.encode(o, status, map[string]any{"error": http.StatusText(status)})
}

func (s *Server) answer(o *contract.Operation, a Answer, values map[string]any) reply {
	header := map[string]string{}
	for name, v := range a.Header {
		header[name] = filledText(v, values)
	}
	if a.Body == nil {
		return reply{status: a.Status, header: header, body: []byte(filledText(a.Text, values))}
	}
	body, _ := fill(a.Body, values)
	p := s.encode(o, a.Status, body)
	for name, v := range header {
		p.header[name] = v
	}
	return p
}

// encode writes a tree in the format of an operation's answers.
func (s *Server) encode(o *contract.Operation, status int, body any) reply {
	format := contract.FormatJSON
	if o != nil && o.Answer != "" {
		format = o.Answer
	}
	return s.encodeAs(format, status, body)
}

func (s *Server) encodeAs(format contract.Format, status int, body any) reply {
	if status == http.StatusNoContent {
		return reply{status: status, header: map[string]string{}}
	}
	if format == contract.FormatXML {
		root := s.behaviour.Root
		if root == "" {
			root = "Response"
		}
		return reply{status: status, header: map[string]string{"Content-Type": "text/xml;charset=UTF-8"}, body: encodeXML(root, body)}
	}
	if format == contract.FormatText {
		if text, ok := body.(string); ok {
			return reply{status: status, header: map[string]string{"Content-Type": "text/plain"}, body: []byte(text)}
		}
	}
	return reply{status: status, header: map[string]string{"Content-Type": "application/json"}, body: encodeJSON(body)}
}

// successOf is the contract's example of a success.
func successOf(o *contract.Operation) (contract.Example, bool) {
	for _, e := range o.Examples {
		if e.Want == succeeded && !e.Resend && e.Means == "" {
			return e, true
		}
	}
	return contract.Example{}, false
}

// success is the answer about an effect.
func (s *Server) success(e *Effect) reply {
	o, play := e.operation, s.play(e.operation)
	status := play.Status
	example, shown := successOf(o)
	switch {
	case status != 0:
	case shown:
		status = example.Status
	default:
		status = http.StatusOK
	}
	body := copied(e.Resource)
	if play.Answer != nil {
		body, _ = fill(play.Answer, s.valuesOf(e))
	}
	if o.Reference != "" && play.Answer == nil && play.Resource == nil {
		body = set(body, o.Reference.Segments(), e.ID)
	}
	p := s.encode(o, status, body)
	for name := range example.Header {
		p.header[name] = example.Header.Get(name)
	}
	for name, v := range play.Header {
		p.header[name] = filledText(v, s.valuesOf(e))
	}
	return p
}
