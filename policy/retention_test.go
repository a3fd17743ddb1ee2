package policy

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// payroll pays each employee once a month.
func payroll() Spec {
	return Spec{
		Name: "pay", IntentID: "pay:{employee}:{month}",
		Arguments: map[string]Argument{"employee": {Kind: KindIdentity}, "month": {Kind: KindIdentity, Normalise: steps("trim", "upper")}},
		Retention: Retention{Identity: &Identity{For: Duration(400 * 24 * time.Hour), Period: "{month}"}},
	}
}

// S13.2
func TestAnIdentityEndsAfterItsPeriod(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, payroll())
	for given, end := range map[string]string{
		"2026-11":     "2026-12-01",
		" 2026-12 ":   "2027-01-01",
		"2026-q4":     "2027-01-01",
		"2026-Q1":     "2026-04-01",
		"2026":        "2027-01-01",
		"2024-02-29":  "2024-03-01",
		"2026-12-31":  "2027-01-01",
		"2026-13":     "",
		"2026-00":     "",
		"2026-02-29":  "",
		"2026-11-31":  "",
		"2026-Q5":     "",
		"2026-1":      "",
		"November":    "",
		"2026-11-3":   "",
		"2026-11-30T": "",
	} {
		args, err := json.Marshal(map[string]string{"employee": "e7", "month": given})
		if err != nil {
			t.Fatal(err)
		}
		in, err := tool.Intent(args, nil)
		if end == "" {
			var e *effectonce.Error
			if !errors.As(err, &e) || e.Field != "arguments.month" || !strings.Contains(e.Error(), "no day, month, quarter or year") {
				t.Errorf("%q: %v, %v", given, in.ForgetAt, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", given, err)
			continue
		}
		want, err := time.Parse(time.DateOnly, end)
		if err != nil {
			t.Fatal(err)
		}
		if want = want.AddDate(0, 0, 400); !in.ForgetAt.Equal(want) {
			t.Errorf("%q: %s, want %s", given, in.ForgetAt, want)
		}
	}
	parts := payroll()
	parts.IntentID = "pay:{employee}:{year}:{meta.month}"
	delete(parts.Arguments, "month")
	parts.Arguments["year"] = Argument{Kind: KindIdentity, Normalise: steps("integer")}
	parts.Retention.Identity.Period = "{year}-{meta.month}"
	in, err := mustCompile(t, parts).Intent(json.RawMessage(`{"employee":"e7","year":2026}`), Meta{"month": "11"})
	if err != nil || in.ForgetAt.Format(time.DateOnly) != "2028-01-05" {
		t.Errorf("of parts: %v %v", in.ForgetAt, err)
	}
	forever := payroll()
	forever.Retention = Retention{}
	if in, err := mustCompile(t, forever).Intent(json.RawMessage(`{"employee":"e7","month":"May"}`), nil); err != nil || !in.ForgetAt.IsZero() {
		t.Errorf("for ever: %v %v", in.ForgetAt, err)
	}
}

// S13.2
func TestEveryProblemOfARetentionIsNamed(t *testing.T) {
	t.Parallel()
	with := func(change func(s *Spec)) Spec {
		s := payroll()
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"no time":               {with(func(s *Spec) { s.Retention.Identity.For = 0 }), "retention.identity.for: is missing"},
		"no period":             {with(func(s *Spec) { s.Retention.Identity.Period = "" }), "retention.identity.period: is missing"},
		"one period":            {with(func(s *Spec) { s.Retention.Identity.Period = "2026" }), "has no placeholder"},
		"outside the intent id": {with(func(s *Spec) { s.Arguments["day"] = Argument{}; s.Retention.Identity.Period = "{day}" }), "{day} is not in intent_id"},
		"no intent id": {with(func(s *Spec) {
			s.IntentID, s.Arguments = "", nil
		}), "retention.identity.period: needs an intent_id"},
		"a result longer than its identity": {with(func(s *Spec) { s.Retention.Result = Duration(401 * 24 * time.Hour) }), "retention.result: is longer than identities are kept (400d)"},
		"a run without an end":              {with(func(s *Spec) { s.Retention = Retention{Run: Duration(time.Hour)} }), "retention.run: says how long"},
	} {
		_, problems := Compile(c.spec)
		if len(problems) == 0 || !strings.Contains(problems[0].String(), c.want) {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// S13.2
func TestTheHorizonIsShownAsASum(t *testing.T) {
	t.Parallel()
	tool := mustCompile(t, payroll())
	terms := tool.Terms().WithDefaults()
	least, sum := tool.Horizon(terms)
	if want := "retention.run 7d + expiry 1d + retry.within 30m + call.timeout 30s + settle 2m = 8d32m30s"; sum != want || least != 8*24*time.Hour+32*time.Minute+30*time.Second {
		t.Errorf("%s: %s", least, sum)
	}
	terms.Keyed, terms.Retention, terms.LookUp, terms.Lag = true, 24*time.Hour, true, time.Hour
	if _, sum := tool.Horizon(terms); !strings.Contains(sum, "the provider's memory of a key 1d + the look-up's lag 1h = 9d1h32m30s") {
		t.Error(sum)
	}
}
