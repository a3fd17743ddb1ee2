package metamorphic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/effectonce/effectonce"
)

// intents is how many different ones there are. An intent's kind is its number modulo kinds.
const (
	intents = 48
	kinds   = 16
)

var tools = []string{"refund", "order", "deploy", "undo"}

// intent is what agents ask for by a number: of every kind that the stores may treat in a different way.
func intent(i int, began time.Time) effectonce.Intent {
	in := effectonce.Intent{
		Tenant: []string{"", "acme"}[i/kinds%2], Tool: tools[i%3], ID: fmt.Sprintf("intent-%d", i), Actor: "agent",
		Arguments: json.RawMessage(fmt.Sprintf(`{"amount":%d,"note":"in other words"}`, 100*i)),
		Business:  json.RawMessage(fmt.Sprintf(`{"amount":%d}`, 100*i)),
		Run:       fmt.Sprintf("run-%d", i%4), Step: fmt.Sprintf("step-%d", i%3),
		Terms: effectonce.Terms{
			CallTimeout: 10 * time.Second, Grace: 5 * time.Second, Pause: time.Second, Transit: time.Second, Processing: 2 * time.Second,
			Attempts: 3, Within: 30 * time.Minute, Backoff: time.Second, BackoffMax: 10 * time.Second, Expiry: 24 * time.Hour, Managed: true,
		},
	}
	t := &in.Terms
	keyed := func() { t.Keyed, t.Retention = true, 24*time.Hour }
	lookUp := func() { t.LookUp, t.Lag = true, 30*time.Second }
	switch i % kinds {
	case 0:
		keyed()
	case 1:
		keyed()
		t.Managed = false
	case 2:
		lookUp()
		t.ResendWhenAbsent = true
		in.Resource = "payment:1"
	case 3:
		t.Managed = false
		lookUp()
		t.ResendWhenAbsent = true
		in.Resource = "payment:1"
	case 4:
		keyed()
		lookUp()
		in.Resource = "payment:1"
		t.Heartbeat, t.CallTimeout = 9*time.Second, time.Minute
	case 5:
		t.Approval = true
	case 6, 7, 8:
		in.Tool, in.Business = "refund", json.RawMessage(`{"amount":7}`)
		t.Twins, t.TwinsWithin = []effectonce.TwinPolicy{effectonce.TwinAllow, effectonce.TwinHold, effectonce.TwinReject}[i%kinds-6], 2*time.Hour
	case 9:
		in.Limits = []effectonce.Limit{{Name: "count", Amount: 1, Max: 2}}
	case 10:
		keyed()
		in.Limits = []effectonce.Limit{{Name: "count", Amount: 1, Max: 2}, {Name: "hourly", Amount: 40, Max: 100, Per: time.Hour}}
	case 11:
		t.Results = time.Hour
		in.Limits = []effectonce.Limit{{Name: "hourly", Amount: 30, Max: 90 + int64(i), Per: time.Hour}}
	case 12:
		// Two versions of one tool's policy, each of which knows the other's identities.
		t.Managed = false
		in.Formerly = []effectonce.Identity{{Scope: effectonce.ScopeBusiness, IntentID: fmt.Sprintf("formerly-%d", i)}}
	case 13:
		in.Tool, in.ID, in.Business = tools[(i-1)%3], fmt.Sprintf("formerly-%d", i-1), json.RawMessage(fmt.Sprintf(`{"amount":%d}`, 100*(i-1)))
		t.Managed = false
		in.Formerly = []effectonce.Identity{{Scope: effectonce.ScopeBusiness, IntentID: fmt.Sprintf("intent-%d", i-1)}}
	case 14:
		t.Class = effectonce.ClassConvergent
		t.Results = 30 * time.Minute
		in.ForgetAt = began.Add(time.Duration(1+i/kinds)*20*time.Hour + time.Duration(i)*time.Microsecond)
	case 15:
		lookUp()
		t.LagUnknown, t.Managed = true, false
		in.Scope = effectonce.ScopeStep
		in.ForgetAt = began.Add(30*24*time.Hour + time.Duration(i)*time.Microsecond)
	}
	return in
}

// ends are how attempts end.
var ends = []effectonce.End{
	{Verdict: effectonce.VerdictSucceeded, Reference: "re_1", Result: []byte(`{"id":"re_1"}`)},
	{Verdict: effectonce.VerdictUnknown, Failure: effectonce.Failure{Code: "timeout", Message: "no answer"}},
	{Verdict: effectonce.VerdictSucceeded, Reference: "re_2", Result: []byte(`{"id":"re_2","text":"Zürich 東京 \u0000"}`)},
	{Verdict: effectonce.VerdictRejected, Failure: effectonce.Failure{Code: "declined", Message: "no money", Status: 402}},
	{Verdict: effectonce.VerdictUnknown, StoredError: true, Failure: effectonce.Failure{Code: "broken", Status: 500}},
	{Verdict: effectonce.VerdictNotSent, Failure: effectonce.Failure{Code: "refused"}},
	{Verdict: effectonce.VerdictRejected, Authoritative: true, Failure: effectonce.Failure{Code: "declined", Status: 402, Answer: `{"error":"no"}`}},
	{Verdict: effectonce.VerdictThrottled, RetryAfter: 1500 * time.Millisecond, Failure: effectonce.Failure{Code: "throttled", Status: 429}},
	{Verdict: effectonce.VerdictInFlight, RetryAfter: 2 * time.Second, Failure: effectonce.Failure{Code: "in_flight", Status: 409}},
	{Verdict: effectonce.VerdictUnknown, RetryAfter: time.Hour, Failure: effectonce.Failure{Code: "timeout"}},
}

// findings are what look-ups say.
var findings = []effectonce.Finding{
	{Found: effectonce.FoundAbsent, Detail: "2 pages"},
	{Found: effectonce.FoundOne, Reference: "re_1", Result: []byte(`{"id":"re_1"}`)},
	{Found: effectonce.FoundUnavailable, Detail: "503"},
	{Found: effectonce.FoundMany, Detail: "re_1, re_2"},
	{Found: effectonce.FoundAbsent},
}

// scripted is a provider that answers what the workload says.
type scripted struct {
	end     effectonce.End
	finding effectonce.Finding
	before  func()
}

func (p scripted) Call(context.Context, effectonce.Call) effectonce.End {
	if p.before != nil {
		p.before()
	}
	return p.end
}

func (p scripted) LookUp(context.Context, effectonce.Call) effectonce.Finding { return p.finding }

func (scripted) Scope() string { return "" }
