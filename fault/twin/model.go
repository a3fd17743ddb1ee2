package twin

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind says how much help a provider is after an ambiguous end.
type Kind string

// The kinds of provider.
const (
	// Keyed dedupes by key for Rules.Retention and can be looked up.
	Keyed Kind = "keyed"
	// LookupOnly has no dedupe; its effects can be listed by their stamp.
	LookupOnly Kind = "lookup"
	// NoDedupe has neither: an ambiguous end there can be settled by nobody but a person.
	NoDedupe Kind = "none"
)

// Rules are a provider's promises. The zero value of a duration means none of it; [StripeRules] has usual ones.
type Rules struct {
	Kind Kind
	// Retention is how long a key is remembered, counted from its first receipt. At exactly this age it is
	// forgotten, and a request that bears it is a new one. Only Keyed uses it.
	Retention time.Duration
	// LookupLag is how long after it happened an effect appears in lists.
	LookupLag time.Duration
	// SearchLag is how long after it happened an effect appears in the search index.
	SearchLag time.Duration
	// Processing is how long the provider works on a request before its effect happens.
	Processing time.Duration
	// StoresErrors says what a 500 after processing began becomes under its key: stored and replayed (true, Stripe
	// v1), or executed again, unless the effect has happened, when its success is answered (false, Stripe v2).
	StoresErrors bool
	// Captured is the amount that each resource can lose in all, in minor units; 0 means no limit.
	Captured int64
}

// StripeRules are those of the Server when its configuration names none.
func StripeRules() Rules {
	return Rules{Kind: Keyed, Retention: 24 * time.Hour, SearchLag: time.Minute, StoresErrors: true, Captured: 1_000_000}
}

// Validate refuses an unknown kind, negative values, and a keyed provider without a retention.
func (r Rules) Validate() error {
	switch r.Kind {
	case Keyed, LookupOnly, NoDedupe:
	default:
		return fmt.Errorf("twin rules: kind %q is none of keyed, lookup, none", r.Kind)
	}
	if r.Kind == Keyed && r.Retention <= 0 {
		return fmt.Errorf("twin rules: a keyed provider needs a retention above zero")
	}
	if r.Retention < 0 || r.LookupLag < 0 || r.SearchLag < 0 || r.Processing < 0 || r.Captured < 0 {
		return fmt.Errorf("twin rules: durations and amounts must not be negative")
	}
	return nil
}

// Ticket names one processing of a request, from Receive to Finish or Abort. It is never 0.
type Ticket int

// Request is what reached the provider.
type Request struct {
	// Key is the downstream key; empty means that none was sent.
	Key string `json:"key,omitempty"`
	// Route is method and path. A key is compared together with Route and Body.
	Route string `json:"route,omitempty"`
	// Resource is what the effect is done to (a payment).
	Resource string `json:"resource,omitempty"`
	// Stamp is what the created effect carries so that it can be found again.
	Stamp string `json:"stamp,omitempty"`
	// Body is the request's parameters in a form in which equal means same.
	Body string `json:"body,omitempty"`
	// Amount is in minor units; 0 means all that is left of Rules.Captured.
	Amount   int64  `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
}

// Effect is one line of the ledger: something that happened. Key and Stamp are what the request bore, also where the
// provider ignores them, because the ledger is the truth and not the provider's view.
type Effect struct {
	ID       string    `json:"id"`
	Key      string    `json:"key,omitempty"`
	Stamp    string    `json:"stamp,omitempty"`
	Resource string    `json:"resource"`
	Amount   int64     `json:"amount"`
	Currency string    `json:"currency,omitempty"`
	At       time.Time `json:"at"`
	Ticket   Ticket    `json:"ticket"`
}

// Outcome is what the provider says to a request.
type Outcome string

// The outcomes.
const (
	// Started: processing began; Answer.Ticket must be finished or aborted.
	Started Outcome = "started"
	// Succeeded: the effect happened.
	Succeeded Outcome = "succeeded"
	// Declined: processed and refused for a reason of the request's own (a card).
	Declined Outcome = "declined"
	// Exceeded: processed and refused because of the resource's state; Answer.Left says what is left.
	Exceeded Outcome = "exceeded"
	// Failed: a 500 after processing began; whether there is an effect is not told.
	Failed Outcome = "failed"
	// InFlight: the key's first request is still being processed.
	InFlight Outcome = "in_flight"
	// Mismatch: the key was used with another route or body.
	Mismatch Outcome = "mismatch"
)

// Answer is an outcome with what belongs to it.
type Answer struct {
	Outcome Outcome
	// Replayed says that it was answered from the key's record.
	Replayed bool
	// Ticket is the processing that the answer comes from: a new one for Started, else the one that made the record.
	Ticket Ticket
	// ReadyAt is, for Started, when processing will be over by the rules. Finish does not insist on it.
	ReadyAt time.Time
	// Effect is, for Succeeded, what happened.
	Effect Effect
	// Left is, for Exceeded, the amount that was left.
	Left int64
}

// End is how a processing ends.
type End string

// The ends.
const (
	// Take has the effect, unless the resource's amount is exceeded.
	Take End = "take"
	// Decline refuses it.
	Decline End = "decline"
	// BreakBefore is a 500 without effect.
	BreakBefore End = "break_before"
	// BreakAfter is a 500 after the effect.
	BreakAfter End = "break_after"
)

// Model is a provider's state. Every method takes the time, which must not step back. It is not safe for concurrent
// use: the caller holds a lock, or owns it alone. It forgets an expired key only when that key is asked for, and effects never.
type Model struct {
	rules   Rules
	last    Ticket
	open    map[Ticket]opened
	known   map[string]record
	effects []Effect
	spent   map[string]int64
}

// opened is a processing that has neither ended nor been aborted.
type opened struct {
	request Request
	began   time.Time
	// again says that it executes a broken key again, whose record Abort must restore.
	again bool
}

// record is what is remembered under a key.
type record struct {
	request Request
	first   time.Time
	state   recordState
	answer  Answer
}

type recordState byte

const (
	recordOpen   recordState = iota + 1 // being processed
	recordStored                        // replayed to whoever repeats it
	recordBroken                        // executed again for whoever repeats it
)

// NewModel makes a provider with an empty ledger. It panics where rules do not validate: they are the program's.
func NewModel(rules Rules) *Model {
	if err := rules.Validate(); err != nil {
		panic(err)
	}
	return &Model{
		rules: rules,
		open:  map[Ticket]opened{},
		known: map[string]record{},
		spent: map[string]int64{},
	}
}

// Rules are those the model was made with.
func (m *Model) Rules() Rules { return m.rules }

// Receive takes in a request. Started means that it is now being processed, and the caller owes Finish or Abort for
// its ticket, when it pleases; every other outcome is the whole answer. A request without a key, or to a provider that
// ignores keys, is always Started.
func (m *Model) Receive(now time.Time, r Request) Answer {
	if m.rules.Kind != Keyed || r.Key == "" {
		return m.start(now, r, false)
	}
	rec, ok := m.known[r.Key]
	if ok && rec.state != recordOpen && now.Sub(rec.first) >= m.rules.Retention {
		delete(m.known, r.Key)
		ok = false
	}
	if !ok {
		m.known[r.Key] = record{request: r, first: now, state: recordOpen}
		return m.start(now, r, false)
	}
	// A wrong payload never becomes right by waiting, so it is told before the conflict is.
	if rec.request.Route != r.Route || rec.request.Body != r.Body {
		return Answer{Outcome: Mismatch}
	}
	switch rec.state {
	case recordOpen:
		return Answer{Outcome: InFlight}
	case recordBroken:
		rec.state = recordOpen
		m.known[r.Key] = rec
		return m.start(now, r, true)
	default:
		a := rec.answer
		a.Replayed = true
		return a
	}
}

func (m *Model) start(now time.Time, r Request, again bool) Answer {
	m.last++
	m.open[m.last] = opened{request: r, began: now, again: again}
	return Answer{Outcome: Started, Ticket: m.last, ReadyAt: now.Add(m.rules.Processing)}
}

// Finish ends a processing, and if it has an effect, that happens now. It panics for a ticket that is not open,
// since finishing one twice would put an effect into the ledger that no request asked for.
func (m *Model) Finish(now time.Time, t Ticket, end End) Answer {
	o := m.take(t)
	answer := Answer{Outcome: Declined, Ticket: t}
	switch end {
	case Take, BreakAfter:
		answer = m.effect(now, t, o.request)
	case BreakBefore:
		answer.Outcome = Failed
	case Decline:
	default:
		panic(fmt.Sprintf("twin model: no end is called %q", end))
	}
	stored, state := answer, recordStored
	if end == BreakAfter && answer.Outcome == Succeeded {
		answer = Answer{Outcome: Failed, Ticket: t}
		if m.rules.StoresErrors {
			stored = answer
		}
	}
	if end == BreakBefore && !m.rules.StoresErrors {
		state = recordBroken
	}
	m.remember(o.request.Key, state, stored)
	return answer
}

// Abort ends a processing that leaves no trace: no effect, and its key as it was before. It panics like Finish.
func (m *Model) Abort(t Ticket) {
	o := m.take(t)
	if m.rules.Kind != Keyed || o.request.Key == "" {
		return
	}
	if o.again {
		m.remember(o.request.Key, recordBroken, Answer{Outcome: Failed, Ticket: t})
		return
	}
	delete(m.known, o.request.Key)
}

func (m *Model) take(t Ticket) opened {
	o, ok := m.open[t]
	if !ok {
		panic(fmt.Sprintf("twin model: ticket %d is not open", t))
	}
	delete(m.open, t)
	return o
}

func (m *Model) remember(key string, state recordState, a Answer) {
	if m.rules.Kind != Keyed || key == "" {
		return
	}
	rec := m.known[key]
	rec.state, rec.answer = state, a
	m.known[key] = rec
}

func (m *Model) effect(now time.Time, t Ticket, r Request) Answer {
	amount := r.Amount
	if m.rules.Captured > 0 {
		left := m.rules.Captured - m.spent[r.Resource]
		if amount == 0 {
			amount = left
		}
		if amount > left || left == 0 {
			return Answer{Outcome: Exceeded, Ticket: t, Left: left}
		}
		m.spent[r.Resource] += amount
	}
	e := Effect{
		ID: effectID(len(m.effects) + 1), Key: r.Key, Stamp: r.Stamp, Resource: r.Resource,
		Amount: amount, Currency: r.Currency, At: now, Ticket: t,
	}
	m.effects = append(m.effects, e)
	return Answer{Outcome: Succeeded, Ticket: t, Effect: e}
}

// effectID is the id of the n-th effect of a ledger.
func effectID(n int) string {
	digits := strconv.Itoa(n)
	const width = "000000000000"
	if len(digits) < len(width) {
		digits = width[len(digits):] + digits
	}
	return "re_twin" + digits
}

// effectIndex is the place in the ledger that an id names; -1 for none that could be in one.
func effectIndex(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "re_twin"))
	if err != nil || effectID(n) != id {
		return -1
	}
	return n - 1
}

// Filter selects effects; an empty field selects all.
type Filter struct {
	Resource string
	Stamp    string
	Key      string
}

func (f Filter) matches(e Effect) bool {
	return (f.Resource == "" || f.Resource == e.Resource) &&
		(f.Stamp == "" || f.Stamp == e.Stamp) &&
		(f.Key == "" || f.Key == e.Key)
}

// List answers a listing, newest first, without what happened within Rules.LookupLag. False means that this provider
// cannot be looked up. Filtering by key is the provider's event list (Stripe: request.idempotency_key), which
// only a keyed provider has.
func (m *Model) List(now time.Time, f Filter) ([]Effect, bool) {
	return m.visible(now, f, m.rules.LookupLag)
}

// Search is List from the search index, with Rules.SearchLag.
func (m *Model) Search(now time.Time, f Filter) ([]Effect, bool) {
	return m.visible(now, f, m.rules.SearchLag)
}

func (m *Model) visible(now time.Time, f Filter, lag time.Duration) ([]Effect, bool) {
	if m.rules.Kind == NoDedupe || (f.Key != "" && m.rules.Kind != Keyed) {
		return nil, false
	}
	var found []Effect
	for _, e := range slices.Backward(m.effects) {
		if f.matches(e) && now.Sub(e.At) >= lag {
			found = append(found, e)
		}
	}
	return found, true
}

// Effects is the ledger, oldest first: what really happened, whatever was answered. The caller must not change it.
func (m *Model) Effects() []Effect { return slices.Clip(m.effects) }

// Open are the tickets of the requests being processed, oldest first.
func (m *Model) Open() []Ticket { return slices.Sorted(maps.Keys(m.open)) }
