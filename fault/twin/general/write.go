package general

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin"
)

// record is what is remembered under a key.
type record struct {
	print  string
	from   time.Time // where its window begins
	open   bool      // being processed
	reply  reply
	effect *Effect // nil after an error
}

// write carries out a request that has an effect: what is checked before the key's record, then the record, then processing.
func (s *Server) write(in incoming, seen *Received, faults struck) reply {
	o, play := in.operation, s.play(in.operation)
	values := s.values(o, in.Request)
	if o.Key.Place != "" && (o.Key.Required && seen.Key == "" || o.Key.Form.LengthMax > 0 && utf8.RuneCountInString(seen.Key) > o.Key.Form.LengthMax) {
		s.note(seen, "refused")
		return s.refusal(o, CaseInvalid, values)
	}
	for _, path := range play.Requires {
		if v, ok := contract.Path(path).Find(values); !ok || v == nil || v == "" {
			s.note(seen, "refused")
			return s.refusal(o, CaseInvalid, values)
		}
	}
	if !faults.twice {
		return s.process(in, seen, faults)
	}
	// One copy takes effect, behind the one that is answered 401.
	second := s.again(seen)
	if faults.hold == 0 {
		s.noteStatus(second, s.process(in, second, faults).status)
	} else if s.startWork() {
		behind := in
		behind.gone = nil
		go func() {
			defer s.working.Done()
			s.noteStatus(second, s.process(behind, second, faults).status)
		}()
	}
	s.note(seen, "refused")
	return s.refusal(o, CaseUnauthorised, values)
}

// startWork counts background work, unless the twin is stopping.
func (s *Server) startWork() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.working.Add(1)
	return true
}

// process takes a request through the key's record and, if it starts, to its end.
func (s *Server) process(in incoming, seen *Received, faults struck) reply {
	slot := s.slot(in, seen)
	epoch, early, begun := s.receive(in, seen, slot)
	if !begun {
		return early
	}
	hold := faults.hold
	if hold == 0 {
		hold = s.behaviour.ServerTime
	}
	whole := s.wait(hold, nil)
	if faults.ending.What == twin.Hang && faults.ending.When == twin.BeforeEffect {
		s.wait(faults.ending.For, in.gone)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch || !whole || s.closed {
		if s.epoch == epoch {
			delete(s.records, slot)
		}
		seen.Outcome = "aborted"
		return s.unavailable()
	}
	return s.finish(in, seen, slot, faults.ending)
}

// slot is where the key's record is: the key in its scope; "" for a request that is not deduped.
func (s *Server) slot(in incoming, seen *Received) string {
	o := in.operation
	if seen.Key == "" || o.Effect != contract.EffectKeyed || s.config.Breaks == BreaksDedupe {
		return ""
	}
	if o.Retention.BodyBytesMax > 0 && len(in.Body) > o.Retention.BodyBytesMax {
		return ""
	}
	scope, missing := o.ScopeOf(in.Request)
	for _, part := range missing {
		switch part {
		case contract.ScopeCredential, contract.ScopeAPIKey:
			digest := sha256.Sum256([]byte(in.Header.Get("Authorization")))
			scope += " " + string(part) + "=" + hex.EncodeToString(digest[:8])
		case contract.ScopeAPIVersion:
			scope += " api_version=" + in.Header.Get(s.contract.VersionHeader)
		}
	}
	return scope + "\n" + seen.Key
}

// fingerprint is what the provider compares under a key; "" if it compares nothing.
func (s *Server) fingerprint(in incoming) string {
	o := in.operation
	compares := o.Fingerprint.Provider
	if compares == "" {
		compares = s.play(o).Compares
	}
	var parts []string
	switch compares {
	case "none":
		return ""
	case "vars":
		v, _ := contract.Path("variables").Find(decoded(in.Request))
		parts = []string{o.Name, string(encodeJSON(v))}
	default:
		body := string(in.Body)
		if tree := decoded(in.Request); tree != nil {
			body = string(encodeJSON(tree))
		}
		fields := formFields(in.Query)
		slices.SortStableFunc(fields, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
		parts = []string{in.Method, in.Path, body}
		for _, f := range fields {
			parts = append(parts, f[0], f[1])
		}
	}
	digest := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(digest[:])
}

// window is for how long a key is remembered.
func (s *Server) window(o *contract.Operation) time.Duration {
	w := s.behaviour.Window
	switch r := o.Retention; {
	case r.Forever || r.Kind == contract.RetentionLifetime:
		return math.MaxInt64
	case r.AtLeast > 0:
		w = r.AtLeast
	}
	if w == 0 {
		w = usualWindow
	}
	if s.config.Breaks == BreaksRetention {
		w /= 2
	}
	return w
}

// receive asks the key's record. begun says that the request is now being processed; otherwise the reply is the whole answer.
func (s *Server) receive(in incoming, seen *Received, slot string) (epoch int, early reply, begun bool) {
	o, values := in.operation, s.values(in.operation, in.Request)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, s.unavailable(), false
	}
	if slot == "" {
		seen.Outcome = "started"
		return s.epoch, reply{}, true
	}
	rec := s.records[slot]
	if rec != nil && !rec.open && s.now().Sub(rec.from) >= s.window(o) {
		if o.Retention.After == "refused" {
			seen.Outcome = CaseExpired
			return 0, s.refusal(o, CaseExpired, values), false
		}
		delete(s.records, slot)
		rec = nil
	}
	print := s.fingerprint(in)
	switch {
	case rec == nil:
		s.records[slot] = &record{print: print, from: s.now(), open: true}
		seen.Outcome = "started"
		return s.epoch, reply{}, true
	case rec.print != print:
		seen.Outcome = CaseMismatch
		return 0, s.refusal(o, CaseMismatch, values), false
	case rec.open:
		seen.Outcome = CaseInFlight
		return 0, s.refusal(o, CaseInFlight, values), false
	}
	seen.Outcome, seen.Replayed = "replayed", true
	p := rec.reply
	if rec.effect != nil {
		seen.EffectID = rec.effect.ID
		if o.Replays.Success == "current_state" {
			p = s.success(rec.effect)
		}
		if status := s.play(o).ReplayStatus; status != 0 {
			p.status = status
		}
	}
	if o.Replay.Header != "" {
		p = p.with(o.Replay.Header, o.Replay.Value)
	}
	return 0, p, false
}

// finish ends processing: the effect, and what is kept under the key. The lock is held.
func (s *Server) finish(in incoming, seen *Received, slot string, ending twin.Step) reply {
	o, play := in.operation, s.play(in.operation)
	values := s.values(o, in.Request)
	internal := ending.What == twin.Status && ending.Code == http.StatusInternalServerError
	switch {
	case ending.When == twin.BeforeEffect && ending.What != twin.Slow && !internal:
		delete(s.records, slot)
		seen.Outcome = "aborted"
		return s.unavailable()
	case ending.When == twin.BeforeEffect && internal:
		return s.fail(o, seen, slot, CaseBroken, values)
	}
	for path, value := range play.Declines {
		if contract.Path(path).Text(values) == value {
			return s.fail(o, seen, slot, CaseDeclined, values)
		}
	}
	e, there, same := s.take(in, seen)
	seen.EffectID = e.ID
	if there && !same {
		values["id"] = e.ID
		return s.fail(o, seen, slot, CaseExists, values)
	}
	seen.Outcome = "succeeded"
	answer := s.success(e)
	kept := record{effect: e, reply: answer}
	if internal {
		answer, seen.Outcome = s.refusal(o, CaseBroken, values), CaseBroken
		if s.keepsErrors(o) {
			kept = record{reply: answer}
		}
	}
	s.keep(o, slot, kept)
	return answer
}

// fail answers an error that processing ended with, and keeps or forgets the key.
func (s *Server) fail(o *contract.Operation, seen *Received, slot, kind string, values map[string]any) reply {
	seen.Outcome = kind
	p := s.refusal(o, kind, values)
	if s.keepsErrors(o) {
		s.keep(o, slot, record{reply: p})
	} else {
		delete(s.records, slot)
	}
	return p
}

func (s *Server) keepsErrors(o *contract.Operation) bool {
	if o.Replays.Errors != "" {
		return o.Replays.Errors == "replayed"
	}
	return s.play(o).KeepsErrors
}

func (s *Server) keep(o *contract.Operation, slot string, kept record) {
	rec := s.records[slot]
	if slot == "" || rec == nil {
		return
	}
	rec.open, rec.reply, rec.effect = false, kept.reply, kept.effect
	if o.Retention.Starts == "first_completion" || o.Retention.Starts == "resource_end" {
		rec.from = s.now()
	}
}

// take has the effect, unless there can be only one of its kind and it is there: then there is true, and same if it asks for nothing else.
func (s *Server) take(in incoming, seen *Received) (e *Effect, there, same bool) {
	o, play := in.operation, s.play(in.operation)
	e = s.effectOf(in, seen.RequestID)
	if unique := filledText(play.Unique, s.values(o, in.Request)); unique != "" {
		for _, other := range slices.Backward(s.effects) {
			if s.uniqueOf(other) == unique && play.Again != "same" {
				return other, true, false
			}
			if s.uniqueOf(other) == unique {
				if string(other.request.Body) == string(in.Body) {
					return other, true, true
				}
				break
			}
		}
	}
	s.effects = append(s.effects, e)
	return e, false, false
}

// effectOf makes the effect of a request; the lock is held.
func (s *Server) effectOf(in incoming, requestID string) *Effect {
	o := in.operation
	e := &Effect{Number: len(s.effects) + 1, Operation: o.Name, Stamp: stampOf(o, in.Request), At: s.now(), RequestID: requestID, operation: o, request: in.Request}
	e.Key, _ = o.ClientKey(in.Request)
	if business, err := o.Business(in.Request); err == nil {
		digest := sha256.Sum256(business)
		e.Business = hex.EncodeToString(digest[:])
	}
	s.make(e)
	return e
}

func (s *Server) uniqueOf(e *Effect) string {
	return filledText(s.play(e.operation).Unique, s.values(e.operation, e.request))
}
