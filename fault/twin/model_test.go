package twin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var monday = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func refundOf(key string) Request {
	return Request{Key: key, Route: "POST /v1/refunds", Resource: "pi_1", Stamp: "s-" + key, Body: "amount=480", Amount: 480, Currency: "eur"}
}

// do takes a request from its arrival to its end at one moment.
func do(m *Model, now time.Time, r Request, end End) Answer {
	a := m.Receive(now, r)
	if a.Outcome != Started {
		return a
	}
	return m.Finish(now, a.Ticket, end)
}

func rulesWith(change func(*Rules)) Rules {
	rules := StripeRules()
	change(&rules)
	return rules
}

func TestModelKeyedRepeat(t *testing.T) {
	t.Parallel()
	other := refundOf("k")
	other.Body = "amount=450"
	elsewhere := refundOf("k")
	elsewhere.Route = "POST /v1/charges"
	tests := []struct {
		name    string
		rules   Rules
		first   End
		after   time.Duration
		repeat  Request
		want    Outcome
		replay  bool
		effects int
	}{
		{"success is replayed", StripeRules(), Take, time.Hour, refundOf("k"), Succeeded, true, 1},
		{"decline is replayed", StripeRules(), Decline, time.Hour, refundOf("k"), Declined, true, 0},
		{"stored 500 without effect is replayed", StripeRules(), BreakBefore, time.Hour, refundOf("k"), Failed, true, 0},
		{"stored 500 after the effect is replayed", StripeRules(), BreakAfter, time.Hour, refundOf("k"), Failed, true, 1},
		{"500 that is not stored runs again", rulesWith(func(r *Rules) { r.StoresErrors = false }), BreakBefore, time.Hour, refundOf("k"), Succeeded, false, 1},
		{"500 that is not stored gives the success it hid", rulesWith(func(r *Rules) { r.StoresErrors = false }), BreakAfter, time.Hour, refundOf("k"), Succeeded, true, 1},
		{"other body is a mismatch", StripeRules(), Take, time.Hour, other, Mismatch, false, 1},
		{"other route is a mismatch", StripeRules(), Take, time.Hour, elsewhere, Mismatch, false, 1},
		{"other key is another effect", StripeRules(), Take, time.Hour, refundOf("k2"), Succeeded, false, 2},
		{"one tick before the retention", StripeRules(), Take, 24*time.Hour - 1, refundOf("k"), Succeeded, true, 1},
		{"at the retention the key is new", StripeRules(), Take, 24 * time.Hour, refundOf("k"), Succeeded, false, 2}, // S16.9
		{"after the retention another body is no mismatch", StripeRules(), Take, 25 * time.Hour, other, Succeeded, false, 2},
		{"look-up only ignores the key", rulesWith(func(r *Rules) { r.Kind = LookupOnly }), Take, time.Hour, refundOf("k"), Succeeded, false, 2},
		{"none ignores the key", rulesWith(func(r *Rules) { r.Kind = NoDedupe }), Take, time.Hour, refundOf("k"), Succeeded, false, 2},
		{"no key is always a new effect", StripeRules(), Take, time.Hour, refundOf(""), Succeeded, false, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := NewModel(tt.rules)
			do(m, monday, refundOf("k"), tt.first)
			got := do(m, monday.Add(tt.after), tt.repeat, Take)
			if got.Outcome != tt.want || got.Replayed != tt.replay {
				t.Errorf("repeat: %s, replayed %v; want %s, %v", got.Outcome, got.Replayed, tt.want, tt.replay)
			}
			if n := len(m.Effects()); n != tt.effects {
				t.Errorf("%d effects, want %d: %v", n, tt.effects, m.Effects())
			}
		})
	}
}

func TestModelInFlight(t *testing.T) {
	t.Parallel()
	m := NewModel(rulesWith(func(r *Rules) { r.Processing = 3 * time.Second }))
	first := m.Receive(monday, refundOf("k"))
	if want := monday.Add(3 * time.Second); first.Outcome != Started || !first.ReadyAt.Equal(want) {
		t.Fatalf("first: %+v, want started until %s", first, want)
	}
	if got := m.Receive(monday.Add(time.Second), refundOf("k")); got.Outcome != InFlight {
		t.Errorf("while it is processed: %s, want in_flight", got.Outcome) // S16.17
	}
	other := refundOf("k")
	other.Body = "amount=1"
	if got := m.Receive(monday.Add(time.Second), other); got.Outcome != Mismatch {
		t.Errorf("other body while it is processed: %s, want mismatch", got.Outcome)
	}
	if got := m.Receive(monday.Add(30*time.Hour), refundOf("k")); got.Outcome != InFlight {
		t.Errorf("processing that outlasts the retention: %s, want in_flight", got.Outcome)
	}
	m.Finish(monday.Add(31*time.Hour), first.Ticket, Take)
	if at := m.Effects()[0].At; !at.Equal(monday.Add(31 * time.Hour)) {
		t.Errorf("the effect is of %s, want of its end", at)
	}
	if got := m.Receive(monday.Add(31*time.Hour), refundOf("k")); got.Outcome != Started {
		t.Errorf("retention counts from the first receipt: %s, want started", got.Outcome)
	}
}

func TestModelAbort(t *testing.T) {
	t.Parallel()
	m := NewModel(StripeRules())
	first := m.Receive(monday, refundOf("k"))
	m.Abort(first.Ticket)
	other := refundOf("k")
	other.Body = "amount=1"
	if got := m.Receive(monday, other); got.Outcome != Started {
		t.Errorf("after an abort the key is free: %s", got.Outcome)
	}
	unstored := NewModel(rulesWith(func(r *Rules) { r.StoresErrors = false }))
	do(unstored, monday, refundOf("k"), BreakBefore)
	again := unstored.Receive(monday, refundOf("k"))
	unstored.Abort(again.Ticket)
	if got := unstored.Receive(monday, other); got.Outcome != Mismatch {
		t.Errorf("an abort of the second execution forgets the first: %s", got.Outcome)
	}
}

func TestModelFinishTwicePanics(t *testing.T) {
	t.Parallel()
	m := NewModel(StripeRules())
	a := m.Receive(monday, refundOf("k"))
	m.Finish(monday, a.Ticket, Take)
	defer func() {
		if recover() == nil {
			t.Error("a second end of one processing was accepted")
		}
	}()
	m.Finish(monday, a.Ticket, Take)
}

func TestModelCaptured(t *testing.T) {
	t.Parallel()
	m := NewModel(rulesWith(func(r *Rules) { r.Captured = 1000 }))
	request := refundOf("a")
	request.Amount = 700
	do(m, monday, request, Take)
	request.Key = "b"
	if got := do(m, monday, request, Take); got.Outcome != Exceeded || got.Left != 300 {
		t.Errorf("too much: %+v, want exceeded with 300 left", got)
	}
	if got := do(m, monday, request, Take); got.Outcome != Exceeded || !got.Replayed || got.Left != 300 {
		t.Errorf("too much again: %+v, want it replayed", got)
	}
	request.Key, request.Amount = "c", 0
	if got := do(m, monday, request, Take); got.Effect.Amount != 300 {
		t.Errorf("no amount: %d, want the 300 that are left", got.Effect.Amount)
	}
	request.Key = "d"
	if got := do(m, monday, request, Take); got.Outcome != Exceeded || got.Left != 0 {
		t.Errorf("nothing left: %+v", got)
	}
	request.Key, request.Resource = "e", "pi_2"
	if got := do(m, monday, request, Take); got.Effect.Amount != 1000 {
		t.Errorf("another payment: %+v, want its own 1000", got)
	}
}

func TestModelLookup(t *testing.T) {
	t.Parallel()
	rules := Rules{Kind: Keyed, Retention: time.Hour, LookupLag: 2 * time.Second, SearchLag: time.Minute}
	m := NewModel(rules)
	do(m, monday, refundOf("a"), Take)
	do(m, monday.Add(time.Second), refundOf("b"), Take)
	ids := func(effects []Effect, ok bool) []string {
		if !ok {
			return []string{"unsupported"}
		}
		found := []string{}
		for _, e := range effects {
			found = append(found, e.Key)
		}
		return found
	}
	tests := []struct {
		name string
		got  []string
		want []string
	}{
		{"within the lag", ids(m.List(monday.Add(2*time.Second-1), Filter{})), []string{}}, // S16.15
		{"the older is over it", ids(m.List(monday.Add(2*time.Second), Filter{})), []string{"a"}},
		{"newest first", ids(m.List(monday.Add(time.Hour), Filter{})), []string{"b", "a"}},
		{"by stamp", ids(m.List(monday.Add(time.Hour), Filter{Stamp: "s-a"})), []string{"a"}},
		{"by key", ids(m.List(monday.Add(time.Hour), Filter{Key: "b"})), []string{"b"}},
		{"by resource", ids(m.List(monday.Add(time.Hour), Filter{Resource: "pi_9"})), []string{}},
		{"search lags more", ids(m.Search(monday.Add(time.Minute), Filter{})), []string{"a"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if _, ok := NewModel(Rules{Kind: NoDedupe}).List(monday, Filter{}); ok {
		t.Error("a provider of kind none was looked up")
	}
	if _, ok := NewModel(Rules{Kind: LookupOnly}).List(monday, Filter{Key: "a"}); ok {
		t.Error("a provider that ignores keys was looked up by key")
	}
}

func TestRulesValidate(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]Rules{
		"no kind":           {},
		"unknown kind":      {Kind: "clever"},
		"keyed for no time": {Kind: Keyed},
		"negative lag":      {Kind: LookupOnly, LookupLag: -1},
	} {
		if rules.Validate() == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, kind := range []Kind{LookupOnly, NoDedupe} {
		if err := (Rules{Kind: kind}).Validate(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// walk plays random requests on a model, and returns when it stopped and when each processing's request arrived.
func walk(t *rapid.T, m *Model, now time.Time, steps int) (time.Time, map[Ticket]time.Time) {
	arrived := map[Ticket]time.Time{}
	for range steps {
		now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "pass")) * time.Second)
		open := m.Open()
		switch rapid.IntRange(0, 3).Draw(t, "do") {
		case 0, 1:
			request := refundOf(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key"))
			request.Body = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "body")
			if a := m.Receive(now, request); a.Outcome == Started {
				arrived[a.Ticket] = now
			}
		case 2:
			if len(open) > 0 {
				m.Finish(now, open[0], rapid.SampledFrom([]End{Take, Decline, BreakBefore, BreakAfter}).Draw(t, "end"))
			}
		default:
			if len(open) > 0 {
				m.Abort(open[len(open)-1])
			}
		}
	}
	return now, arrived
}

func anyRules(t *rapid.T) Rules {
	return Rules{
		Kind:      rapid.SampledFrom([]Kind{Keyed, LookupOnly, NoDedupe}).Draw(t, "kind"),
		Retention: 8 * time.Second, LookupLag: 2 * time.Second, StoresErrors: rapid.Bool().Draw(t, "stores"), Captured: 2000,
	}
}

// S5.1, the provider's half of I1: a keyed provider has no two effects under one key within its retention.
func TestModelOneEffectWithinRetention(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := anyRules(t)
		rules.Kind, rules.StoresErrors = Keyed, true
		m := NewModel(rules)
		_, arrived := walk(t, m, monday, 40)
		last := map[string]time.Time{}
		var total int64
		for _, e := range m.Effects() {
			total += e.Amount
			at := arrived[e.Ticket]
			if before, ok := last[e.Key]; ok && e.Key != "" && at.Sub(before) < rules.Retention {
				t.Fatalf("two effects under %q, of requests only %s apart: %v", e.Key, at.Sub(before), m.Effects())
			}
			last[e.Key] = at
		}
		if total > rules.Captured {
			t.Fatalf("%d refunded of %d", total, rules.Captured)
		}
	})
}

func TestCloneIsIndependent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := NewModel(anyRules(t))
		now, _ := walk(t, m, monday, 20)
		before := m.AppendState(nil, now)
		c := m.Clone()
		if string(c.AppendState(nil, now)) != string(before) || c.Hash(now) != m.Hash(now) {
			t.Fatal("a clone's state differs")
		}
		walk(t, c, now, 20)
		if string(m.AppendState(nil, now)) != string(before) {
			t.Fatal("what was done to the clone changed the original")
		}
	})
}

func TestStateIsRelativeToNow(t *testing.T) {
	t.Parallel()
	rules := Rules{Kind: Keyed, Retention: time.Hour, LookupLag: time.Second}
	early, late := NewModel(rules), NewModel(rules)
	tomorrow := monday.Add(24 * time.Hour)
	do(early, monday, refundOf("k"), Take)
	abandoned := late.Receive(tomorrow, refundOf("other"))
	late.Abort(abandoned.Ticket)
	do(late, tomorrow, refundOf("k"), Take)
	if early.Hash(monday.Add(time.Minute)) != late.Hash(tomorrow.Add(time.Minute)) {
		t.Error("the same history a day later has another hash")
	}
	if early.Hash(monday.Add(time.Minute)) == early.Hash(monday.Add(2*time.Minute)) {
		t.Error("the age of a remembered key makes no difference")
	}
	if early.Hash(monday.Add(time.Hour)) != early.Hash(monday.Add(9*time.Hour)) {
		t.Error("the age of a forgotten key makes a difference")
	}
	if early.Hash(monday.Add(time.Hour-1)) == early.Hash(monday.Add(time.Hour)) {
		t.Error("forgetting a key makes no difference")
	}
}

func BenchmarkModelOneSchedule(b *testing.B) {
	rules := StripeRules()
	for b.Loop() {
		m := NewModel(rules)
		do(m, monday, refundOf("k"), Take)
		c := m.Clone()
		do(c, monday.Add(time.Hour), refundOf("k"), Take)
		c.Hash(monday.Add(time.Hour))
	}
}
