package twin

import (
	"net"
	"net/http"
	"net/url"
	"strings"
)

// deliver sends an answer, or does to it what the plan's step says.
func (s *Server) deliver(w http.ResponseWriter, r *http.Request, seen *Received, step Step, p reply) {
	switch step.What {
	case Drop:
		panic(http.ErrAbortHandler)
	case Reset:
		reset(w)
		panic(http.ErrAbortHandler)
	case Hang:
		if !p.hung {
			s.wait(step.For, r.Context().Done())
		}
		panic(http.ErrAbortHandler)
	case Cut:
		s.noteStatus(seen, p.status)
		p.head(w, seen.RequestID)
		_, _ = w.Write(p.body[:len(p.body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case Slow:
		if !s.wait(step.For, nil) {
			panic(http.ErrAbortHandler)
		}
	case Status:
		// A 500 that the provider itself made is already p, with what belongs to it.
		if step.Code != 500 || p.status != 500 {
			p = s.reply(step.Code, statusBody(step.Code))
		}
	case Garble:
		p = reply{status: http.StatusOK, body: []byte(`{"id": "re_twin, "object": refund`)}
	case Foreign:
		p = s.foreign(r, seen)
	}
	s.noteStatus(seen, p.status)
	p.write(w, seen.RequestID)
}

// reset closes the connection with unsent data thrown away, which the other side sees as a TCP reset. Where there is no TCP
// connection to be had (a recorder, HTTP/2) it does nothing, and the caller's abort has to do.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// foreign is an answer of the right form about a refund that is not the asker's.
func (s *Server) foreign(r *http.Request, seen *Received) reply {
	like := Refund{Metadata: map[string]string{s.config.StampField: ""}}
	if form, err := url.ParseQuery(seen.Body); err == nil && seen.Target == TargetRefunds {
		if asked, refusal := parseRefund(form); refusal == nil {
			like = Refund{Effect: Effect{Amount: asked.amount, Currency: asked.currency}, Metadata: asked.metadata}
		}
	}
	object := foreignRefund(s.Now(), like).object(s.config.Rules.Kind)
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Method == http.MethodGet && (path == "/v1/refunds" || path == "/v1/refunds/search") {
		return s.reply(http.StatusOK, listBody("list", path, []map[string]any{object}, false))
	}
	return s.reply(http.StatusOK, object)
}
