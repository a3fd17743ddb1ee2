package sim

import (
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
)

// stage is where a request is.
type stage byte

const (
	onTheWay stage = iota + 1
	processing
	over
)

// request is one copy of a request that a worker sent.
type request struct {
	id    int
	track *track
	call  effectonce.Call
	body  string
	sent  time.Time
	stage stage
	// ticket and received are set while it is processed.
	ticket   twin.Ticket
	received time.Time
	// reached says that the provider looked at it.
	reached bool
	// conn is where the answer goes; both copies of a request share it.
	conn *connection
	// copied says that the network has made its second copy.
	copied bool
}

// connection carries the first answer back.
type connection struct {
	answer  *answer
	reached bool
}

// answer is what comes back: the provider's, or that of a machine in front of it.
type answer struct {
	status int // 0: the provider's own
	twin.Answer
}

const (
	statusDenied    = 401
	statusThrottled = 429
)

// bound is the moment by which the request must have gone on to its next stage.
func (r *request) bound(s Setting) (time.Time, bool) {
	switch r.stage {
	case onTheWay:
		return r.sent.Add(ticks(s.Transit)), true
	case processing:
		return r.received.Add(ticks(s.Processing)), true
	}
	return time.Time{}, false
}

// deliverable reports whether the provider may receive this copy. A provider that does not dedupe cannot be expected to take two
// copies for one, so there the second copy can only be lost or refused in front of it.
func (r *request) deliverable(s Setting) bool {
	return r.stage == onTheWay && (s.Kind.keyed() || !r.conn.reached)
}

// deliver hands the request to the provider.
func (w *world) deliver(r *request) {
	w.noteReceive(r)
	r.reached, r.conn.reached = true, true
	a := w.provider.Receive(w.now, twin.Request{
		Key: r.call.DownstreamKey, Route: "POST /refunds", Resource: "payment", Stamp: r.call.Stamp, Body: r.body, Amount: 100, Currency: "EUR",
	})
	switch a.Outcome {
	case twin.Started:
		r.stage, r.ticket, r.received = processing, a.Ticket, w.now
		w.noteStarted(r)
		return
	case twin.Mismatch:
		w.violate("S3.10", "operation %d: the provider got another body under the same key", r.track.id)
	}
	w.answered(r, &answer{Answer: a})
}

// finish ends the processing of a request.
func (w *world) finish(r *request, end twin.End) {
	before := len(w.provider.Effects())
	a := w.provider.Finish(w.now, r.ticket, end)
	for _, e := range w.provider.Effects()[before:] {
		w.noteEffect(r, e)
	}
	w.answered(r, &answer{Answer: a})
}

// refuse answers a request in front of the provider.
func (w *world) refuse(r *request, status int) { w.answered(r, &answer{status: status}) }

// answered sends an answer back, if it is the first.
func (w *world) answered(r *request, a *answer) {
	r.stage = over
	if r.conn.answer == nil {
		r.conn.answer = a
	}
}

// copyOf is the second copy that the network makes.
func (w *world) copyOf(r *request) {
	r.copied = true
	second := *r
	second.id = len(w.requests) + 1
	w.requests = append(w.requests, &second)
}
