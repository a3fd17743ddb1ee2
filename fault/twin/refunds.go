package twin

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// keyCharactersMax is the longest Idempotency-Key.
const keyCharactersMax = 255

// storedReply is what is replayed under a key.
type storedReply struct {
	Status    int    `json:"status"`
	Body      string `json:"body"`
	RequestID string `json:"request_id"`
}

// asked is a refund request that passed validation.
type asked struct {
	resource string
	amount   int64
	currency string
	reason   string
	metadata map[string]string
}

// create is POST /v1/refunds: what is checked before the key's record, then the record, then processing.
func (s *Server) create(in incoming, seen *Received, faults struck) reply {
	form, refusal := readForm(in)
	if refusal != nil {
		return s.refuse(seen, http.StatusBadRequest, refusal)
	}
	want, refusal := parseRefund(form)
	if refusal != nil {
		return s.refuse(seen, http.StatusBadRequest, refusal)
	}
	if n := len([]rune(seen.Key)); n > keyCharactersMax {
		return s.refuse(seen, http.StatusBadRequest, errorBody("idempotency_error", "", "",
			fmt.Sprintf("The Idempotency-Key has %d characters; at most %d are allowed.", n, keyCharactersMax)))
	}
	request := Request{
		Key: seen.Key, Route: "POST /v1/refunds", Resource: want.resource, Stamp: want.metadata[s.config.StampField],
		Body: form.Encode(), Amount: want.amount, Currency: want.currency,
	}
	if !faults.twice {
		return s.process(in.request.Context().Done(), seen, request, want, faults)
	}
	return s.processCopy(seen, request, want, faults)
}

// processCopy lets a second copy take effect and answers 401 to the first.
func (s *Server) processCopy(first *Received, request Request, want asked, faults struck) reply {
	second := s.again(first)
	work := func() {
		p := s.process(nil, second, request, want, faults)
		s.noteStatus(second, p.status)
	}
	if faults.hold == 0 {
		work()
	} else if s.startWork() {
		go func() {
			defer s.working.Done()
			work()
		}()
	}
	return s.refuse(first, http.StatusUnauthorized, statusBody(http.StatusUnauthorized))
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
func (s *Server) process(gone <-chan struct{}, seen *Received, request Request, want asked, faults struck) reply {
	answer, epoch, early := s.receive(seen, request)
	if answer.Outcome != Started {
		return early
	}
	hold := faults.hold
	if hold == 0 {
		hold = s.config.Rules.Processing
	}
	whole := s.wait(hold, nil)
	hung := faults.ending.What == Hang && faults.ending.When == BeforeEffect
	if hung {
		s.wait(faults.ending.For, gone)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch {
		seen.Outcome = "aborted"
		return s.unavailable("the twin was reset")
	}
	end, ends := endOf(want, faults.ending)
	if !whole || !ends || s.closed {
		s.model.Abort(answer.Ticket)
		seen.Outcome = "aborted"
		p := s.unavailable("processing was broken off")
		p.hung = hung
		return p
	}
	return s.finish(seen, request, want, answer.Ticket, end)
}

// endOf says how processing ends. False: it leaves no trace.
func endOf(want asked, ending Step) (End, bool) {
	declined := strings.HasPrefix(want.resource, "pi_declined")
	internal := ending.What == Status && ending.Code == http.StatusInternalServerError
	switch {
	case ending.When == BeforeEffect && internal:
		return BreakBefore, true
	case ending.When == BeforeEffect:
		return "", false
	case declined:
		return Decline, true
	case internal:
		return BreakAfter, true
	default:
		return Take, true
	}
}

// receive asks the key's record. The reply is whole unless the outcome is Started.
func (s *Server) receive(seen *Received, request Request) (Answer, int, reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Answer{}, 0, s.unavailable("the twin is stopping")
	}
	if s.broken != nil {
		return Answer{}, 0, s.unavailable("the twin's ledger file cannot be written: " + s.broken.Error())
	}
	answer := s.model.Receive(s.now(), request)
	seen.Outcome, seen.Replayed, seen.EffectID = string(answer.Outcome), answer.Replayed, answer.Effect.ID
	switch {
	case answer.Outcome == InFlight:
		return answer, 0, s.reply(http.StatusConflict, errorBody("idempotency_error", "idempotency_key_in_use", "",
			"There is currently another in-progress request using this Idempotency-Key. Try again with the same key later."))
	case answer.Outcome == Mismatch:
		return answer, 0, s.reply(http.StatusBadRequest, errorBody("idempotency_error", "", "",
			"Keys for idempotent requests can only be used with the same parameters they were first used with."))
	case answer.Replayed:
		was := s.stored[answer.Ticket]
		p := reply{status: was.Status, body: []byte(was.Body)}
		p.set("Idempotent-Replayed", "true")
		p.set("Original-Request", was.RequestID)
		p.set("Idempotency-Key", request.Key)
		if was.Status == http.StatusInternalServerError {
			p.set("Stripe-Should-Retry", "false")
		}
		return answer, 0, p
	}
	return answer, s.epoch, reply{}
}

// finish ends processing: the effect, its line in the ledger file, what is stored under the key. The lock is held.
func (s *Server) finish(seen *Received, request Request, want asked, t Ticket, end End) reply {
	answer := s.model.Finish(s.now(), t, end)
	seen.Outcome, seen.EffectID = string(answer.Outcome), answer.Effect.ID
	line := ledgerLine{}
	truth := answer
	if effects := s.model.Effects(); len(effects) > len(s.refunds) {
		made := Refund{
			Effect: effects[len(effects)-1], Metadata: want.metadata, Reason: want.reason, RequestID: seen.RequestID,
		}
		s.refunds = append(s.refunds, made)
		line.Refund = &made
		seen.EffectID = made.ID
		truth = Answer{Outcome: Succeeded, Ticket: t, Effect: made.Effect}
	}
	p := s.render(answer)
	if s.config.Rules.Kind == Keyed && request.Key != "" {
		kept, stored := answer, p
		if answer.Outcome == Failed && !s.config.Rules.StoresErrors {
			kept, stored = truth, s.render(truth)
		}
		p.set("Idempotency-Key", request.Key)
		p.set("Original-Request", seen.RequestID)
		s.stored[t] = storedReply{Status: stored.status, Body: string(stored.body), RequestID: seen.RequestID}
		if rec := s.model.known[request.Key]; rec.state == recordStored {
			line.Record = &ledgerRecord{
				Request: rec.request, First: rec.first, Ticket: t, Outcome: kept.Outcome, Left: kept.Left,
				EffectID: kept.Effect.ID, Reply: s.stored[t],
			}
		}
	}
	if err := s.mirror(line); err != nil {
		return s.unavailable("the twin's ledger file cannot be written: " + err.Error())
	}
	return p
}

// render is the HTTP form of a processing's answer.
func (s *Server) render(a Answer) reply {
	switch a.Outcome {
	case Succeeded:
		return s.reply(http.StatusOK, s.refunds[len(s.refunds)-1].object(s.config.Rules.Kind))
	case Declined:
		body := errorBody("card_error", "card_declined", "", "The refund was declined.")
		return s.reply(http.StatusPaymentRequired, body)
	case Exceeded:
		if a.Left == 0 {
			return s.reply(http.StatusBadRequest, errorBody("invalid_request_error", "charge_already_refunded", "",
				"The charge has already been refunded."))
		}
		return s.reply(http.StatusBadRequest, errorBody("invalid_request_error", "amount_too_large", "amount",
			fmt.Sprintf("The refund is greater than the unrefunded amount on the charge (%d).", a.Left)))
	default:
		p := s.reply(http.StatusInternalServerError, statusBody(http.StatusInternalServerError))
		p.set("Stripe-Should-Retry", "false")
		return p
	}
}

// readForm decodes the body; a parameter may come once.
func readForm(in incoming) (url.Values, any) {
	kind := in.request.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(kind); kind != "" && (err != nil || media != "application/x-www-form-urlencoded") {
		return nil, errorBody("invalid_request_error", "", "",
			"Send the parameters as application/x-www-form-urlencoded, not as "+kind+".")
	}
	form, err := url.ParseQuery(string(in.body))
	if err != nil {
		return nil, errorBody("invalid_request_error", "", "", "The body is not form-encoded: "+err.Error())
	}
	for name, values := range form {
		if len(values) > 1 && !strings.HasSuffix(name, "[]") {
			return nil, errorBody("invalid_request_error", "parameter_invalid_string", name, "Received "+name+" more than once.")
		}
	}
	return form, nil
}

var (
	metadataName = regexp.MustCompile(`^metadata\[([^\[\]]+)\]$`)
	currencyCode = regexp.MustCompile(`^[A-Za-z]{3}$`)
	ignoredName  = regexp.MustCompile(`^(expand\[\d*\]|refund_application_fee|reverse_transfer|instructions_email)$`)
	reasons      = []string{"duplicate", "fraudulent", "requested_by_customer"}
)

// parseRefund validates the parameters; the second result is the error body.
func parseRefund(form url.Values) (asked, any) {
	want := asked{currency: "eur", metadata: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if ignoredName.MatchString(name) {
			continue
		}
		if m := metadataName.FindStringSubmatch(name); m != nil {
			want.metadata[m[1]] = form.Get(name)
			continue
		}
		if refusal := want.set(name, form.Get(name)); refusal != nil {
			return asked{}, refusal
		}
	}
	if want.resource == "" {
		return asked{}, errorBody("invalid_request_error", "parameter_missing", "payment_intent",
			"One of payment_intent and charge is required.")
	}
	return want, checkMetadata(want.metadata)
}

func (a *asked) set(name, value string) any {
	switch name {
	case "payment_intent", "charge":
		resource, ok := paymentOf(name, value)
		if !ok || (a.resource != "" && a.resource != resource) {
			return errorBody("invalid_request_error", "resource_missing", name, fmt.Sprintf("No such %s: '%s'", name, value))
		}
		a.resource = resource
	case "amount":
		amount, err := strconv.ParseInt(value, 10, 64)
		if err != nil || amount < 1 {
			return errorBody("invalid_request_error", "parameter_invalid_integer", name,
				"The amount must be an integer of minor units above zero.")
		}
		a.amount = amount
	case "currency":
		if !currencyCode.MatchString(value) {
			return errorBody("invalid_request_error", "", name, "Invalid currency: "+value)
		}
		a.currency = strings.ToLower(value)
	case "reason":
		if !slices.Contains(reasons, value) {
			return errorBody("invalid_request_error", "", name,
				"Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer.")
		}
		a.reason = value
	default:
		return errorBody("invalid_request_error", "parameter_unknown", name, "Received unknown parameter: "+name)
	}
	return nil
}

// paymentOf is the payment that a parameter names: a charge ch_X belongs to the payment intent pi_X.
func paymentOf(name, value string) (string, bool) {
	prefix := "pi_"
	if name == "charge" {
		prefix = "ch_"
	}
	rest, ok := strings.CutPrefix(value, prefix)
	return "pi_" + rest, ok && rest != ""
}

func checkMetadata(metadata map[string]string) any {
	if len(metadata) > 50 {
		return errorBody("invalid_request_error", "", "metadata", "Metadata can have up to 50 keys.")
	}
	for name, value := range metadata {
		if len([]rune(name)) > 40 || len([]rune(value)) > 500 {
			return errorBody("invalid_request_error", "", "metadata["+name+"]",
				"Metadata keys can have up to 40 characters and values up to 500.")
		}
	}
	return nil
}
