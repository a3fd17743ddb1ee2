package sim

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
)

// workerProvider is the adapter between one worker's guard and the provider: it keeps the declared bounds, and classifies by
// contract (S6.3). Contexts are not looked at; their deadlines are in real time.
type workerProvider struct{ worker *worker }

// Scope implements [effectonce.Provider].
func (workerProvider) Scope() string { return "account" }

// Call implements [effectonce.Provider].
func (p workerProvider) Call(_ context.Context, call effectonce.Call) effectonce.End {
	w := p.worker
	w.deadline = w.world.now.Add(call.SendWithin)
	w.yield(pointCheck)
	if !w.world.now.Before(w.deadline) {
		return effectonce.End{Verdict: effectonce.VerdictNotSent, Failure: effectonce.Failure{Code: "deadline_passed"}}
	}
	w.checked = w.world.now
	w.yield(pointSend)
	w.request = w.world.send(w, call)
	conn := w.request.conn
	o := w.yield(pointAnswer)
	w.request = nil
	if o == orderReset || conn.answer == nil {
		return effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: "no_answer"}}
	}
	w.saw.text(string(conn.answer.Outcome))
	w.saw.number(conn.answer.status)
	w.saw.text(conn.answer.Effect.ID)
	end := p.classify(call, *conn.answer)
	if end.Verdict == effectonce.VerdictSucceeded {
		w.success = end.Reference
	}
	return end
}

// result is what the provider says about an effect.
type result struct {
	ID string `json:"id"`
}

func success(e twin.Effect) (reference string, body []byte) {
	body, err := json.Marshal(result{ID: e.ID})
	if err != nil {
		panic(err)
	}
	return e.ID, body
}

// classify says what an answer means. Where the network may deliver a request twice, what was refused in front of the provider's
// record of the key says nothing about the other copy (S6.4).
func (p workerProvider) classify(call effectonce.Call, a answer) effectonce.End {
	s := p.worker.world.setting
	ambiguous := func(code string) effectonce.End {
		return effectonce.End{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: code}}
	}
	switch {
	case a.status != 0 && s.Twice && !p.worker.world.trusting:
		return ambiguous("refused_in_front")
	case a.status == statusDenied:
		return effectonce.End{Verdict: effectonce.VerdictRejected, Failure: effectonce.Failure{Code: "denied", Status: a.status}}
	case a.status == statusThrottled:
		return effectonce.End{Verdict: effectonce.VerdictThrottled, Failure: effectonce.Failure{Code: "throttled", Status: a.status}}
	}
	switch a.Outcome {
	case twin.Succeeded:
		if a.Effect.Stamp != call.Stamp {
			return ambiguous("foreign_stamp")
		}
		reference, body := success(a.Effect)
		return effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: reference, Result: body}
	case twin.Declined:
		if s.Twice && !s.Kind.keyed() {
			return ambiguous("declined_one_copy")
		}
		return effectonce.End{Verdict: effectonce.VerdictRejected, Authoritative: s.Kind.keyed(), Failure: effectonce.Failure{Code: "declined", Status: 402}}
	case twin.InFlight:
		return effectonce.End{Verdict: effectonce.VerdictInFlight, Failure: effectonce.Failure{Code: "in_flight", Status: 409}}
	case twin.Failed:
		end := ambiguous("broken")
		end.StoredError = s.rules().StoresErrors
		return end
	}
	return ambiguous(string(a.Outcome))
}

// LookUp implements [effectonce.Provider].
func (p workerProvider) LookUp(_ context.Context, call effectonce.Call) effectonce.Finding {
	w := p.worker
	var seen []twin.Effect
	switch w.yield(pointLookUp) {
	case orderBlind:
		return effectonce.Finding{Found: effectonce.FoundUnavailable}
	case orderFresh:
		for _, e := range w.world.provider.Effects() {
			if e.Stamp == call.Stamp {
				seen = append(seen, e)
			}
		}
	default:
		seen, _ = w.world.provider.List(w.world.now, twin.Filter{Stamp: call.Stamp})
	}
	w.saw.number(len(seen))
	// The answer may be long on its way back; what it says is of the moment at which it was given.
	w.yield(pointSeen)
	switch len(seen) {
	case 0:
		return effectonce.Finding{Found: effectonce.FoundAbsent}
	case 1:
		reference, body := success(seen[0])
		w.saw.text(reference)
		return effectonce.Finding{Found: effectonce.FoundOne, Reference: reference, Result: body}
	}
	return effectonce.Finding{Found: effectonce.FoundMany}
}

// claimed is external execution by an agent that holds the effect itself: claim, look up or execute, report (DESIGN 6).
func (w *worker) claimed(ctx context.Context, t *track) {
	before := w.world.now
	w.looked(before)
	c, err := w.guard.Claim(ctx, w.world.intent(t, w.wording(), false))
	p := workerProvider{worker: w}
	for err == nil {
		op := c.Operation
		call := effectonce.Call{
			Key: op.Key, Tool: op.Tool, Attempt: op.Attempt, Epoch: op.Epoch, DownstreamKey: c.DownstreamKey, Stamp: c.Stamp,
			Arguments: op.Business, Request: op.Request, Resend: op.Exposed, SendWithin: c.SendWithin - w.world.now.Sub(before),
		}
		switch c.Do {
		case effectonce.TaskLookUp:
			finding := effectonce.Finding{Found: effectonce.FoundUnavailable}
			if op.Terms.LookUp {
				finding = p.LookUp(ctx, call)
			}
			before = w.world.now
			w.looked(before)
			c, err = w.guard.LookedUp(ctx, op.Key, c.Token, finding)
		case effectonce.TaskExecute:
			end := effectonce.End{Verdict: effectonce.VerdictNotSent, Failure: effectonce.Failure{Code: "deadline_passed"}}
			if call.SendWithin > 0 {
				end = p.Call(ctx, call)
			}
			w.settle(ctx, op.Key, c.Token, end)
			return
		default:
			return
		}
	}
}

// settle reports an end, and again once if the store did not answer.
func (w *worker) settle(ctx context.Context, key effectonce.Key, token int64, end effectonce.End) {
	_, err := w.guard.Settle(ctx, key, token, end)
	if errors.Is(err, effectonce.ErrStoreUnavailable) {
		_, _ = w.guard.Settle(ctx, key, token, end)
	}
}
