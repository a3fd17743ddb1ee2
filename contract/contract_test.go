package contract

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// S14.5: each built-in contract has examples, and they are what it says.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, c := range Builtin() {
		for name, o := range c.Operations {
			if len(o.Examples) < 5 && o.Effect != EffectRead {
				t.Errorf("%s %s has %d examples", c.Name, name, len(o.Examples))
			}
			for _, e := range o.Examples {
				t.Run(c.Name+"/"+e.Name, func(t *testing.T) {
					t.Parallel()
					end := o.Classify(e.Response, e.Resend)
					if end.Verdict != e.Want || end.Authoritative != e.Authoritative || end.StoredError != e.StoredError || end.Reference != e.Reference {
						t.Errorf("got %+v, want %+v", end, e)
					}
				})
			}
		}
	}
}

// S14.5: each claim that is used has its source and date.
func TestSources(t *testing.T) {
	t.Parallel()
	for _, c := range Builtin() {
		for name, s := range c.Sources {
			if !s.Good() || s.Says == "" {
				t.Errorf("%s: source %s is not good: %+v", c.Name, name, s)
			}
		}
		for _, o := range c.Operations {
			for _, r := range o.Verdicts {
				if r.Verdict != effectonce.VerdictUnknown && !r.Source.Good() {
					t.Errorf("%s: %s without a source", c.Name, r.Verdict)
				}
			}
		}
	}
}

// S6.1: whatever an answer is, it gets one of the verdicts, and no status that nobody described is anything but unknown.
func TestAnythingElseIsUnknown(t *testing.T) {
	t.Parallel()
	o := stripe(t)
	for status := 100; status < 1000; status++ {
		for _, body := range []string{"", "{}", "null", "[]", `{"error":"x"}`, "garbage", `{"error":{"type":["card_error"]}}`} {
			for _, resend := range []bool{false, true} {
				end := o.Classify(Response{Status: status, Header: http.Header{}, Body: []byte(body)}, resend)
				want := effectonce.VerdictUnknown
				if status == http.StatusTooManyRequests {
					want = effectonce.VerdictThrottled
				}
				if end.Verdict != want {
					t.Errorf("status %d, body %q: %s", status, body, end.Verdict)
				}
				if end.Authoritative {
					t.Errorf("status %d, body %q is authoritative", status, body)
				}
			}
		}
	}
}

func stripe(t *testing.T) *Operation {
	t.Helper()
	c, err := Load("stripe/v1")
	if err != nil {
		t.Fatal(err)
	}
	return c.Operations["refunds.create"]
}

// S6.7
func TestForeignStamp(t *testing.T) {
	t.Parallel()
	o := stripe(t)
	for body, want := range map[string]bool{
		`{"id":"re_1","metadata":{"effectonce":"ours"}}`:   false,
		`{"id":"re_1","metadata":{"effectonce":"theirs"}}`: true,
		`{"id":"re_1","metadata":{"effectonce":7}}`:        true,
		`{"id":"re_1","metadata":{}}`:                      false,
		`{"id":"re_1","metadata":null}`:                    false,
	} {
		if got := o.Foreign(Response{Body: []byte(body)}, "ours"); got != want {
			t.Errorf("%s: %t", body, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"7", "", 7 * time.Second},
		{"-7", "", 0},
		{"99999999999999", "", RetryAfterMax},
		{"999999999999999999999999", "", 0},
		{"soon", "", 0},
		{"Mon, 30 Nov 2026 10:00:30 GMT", "Mon, 30 Nov 2026 10:00:00 GMT", 30 * time.Second},
		{"Mon, 30 Nov 2026 09:00:00 GMT", "Mon, 30 Nov 2026 10:00:00 GMT", 0},
		{"Mon, 30 Nov 2026 10:00:30 GMT", "", 0},
	} {
		h := http.Header{"Retry-After": {tt.after}, "Date": {tt.date}}
		if got := retryAfter(h); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.after, got, tt.want)
		}
	}
}

// S6.8: what is too large to keep is a success, with the reference where it can be read.
func TestBeginningOfAnAnswer(t *testing.T) {
	t.Parallel()
	o := stripe(t)
	for _, tt := range []struct {
		name, body string
		verdict    effectonce.Verdict
		reference  string
	}{
		{"reference in the beginning", `{"id":"re_1","metadata":{"effectonce":"s"},"note":"aaa`, effectonce.VerdictSucceeded, "re_1"},
		{"cut in the reference", `{"object":"refund","id":"re_`, effectonce.VerdictSucceeded, ""},
		{"cut before the reference", `{"note":"aaaa`, effectonce.VerdictSucceeded, ""},
		{"a number that may go on", `{"id":12`, effectonce.VerdictSucceeded, ""},
		{"cut in nested lists", `{"id":"re_1","list":[[1,2,{"a":[tr`, effectonce.VerdictSucceeded, "re_1"},
		{"not JSON", `<html>`, effectonce.VerdictUnknown, ""},
		{"nested without end", `{"id":"re_1","a":` + strings.Repeat("[", 5000), effectonce.VerdictUnknown, ""},
	} {
		end := o.Classify(Response{Status: 200, Body: []byte(tt.body), Beginning: true}, false)
		if end.Verdict != tt.verdict || end.Reference != tt.reference {
			t.Errorf("%s: %+v", tt.name, end)
		}
		if end.Verdict == effectonce.VerdictSucceeded && (end.Omitted != "too_large" || end.Result != nil) {
			t.Errorf("%s: omitted %q", tt.name, end.Omitted)
		}
	}
}

// S14.5: what is not known fails closed.
func TestTerms(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	base := effectonce.DefaultTerms()
	lying := base
	lying.Keyed, lying.Retention, lying.Forever, lying.LookUp, lying.Lag = true, 90*day, true, true, time.Second
	lying.LagUnknown = true

	got := stripe(t).Terms(lying)
	if !got.Keyed || got.Retention != day || got.Forever || !got.LookUp || got.Lag != time.Minute || got.LagUnknown || got.Contract == "" || got.KeyForm.Encoding != "uuid" {
		t.Errorf("stripe/v1: %+v", got)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}

	keyed := resolve(t, "http/keyed", Settings{Path: "/pay"}).Terms(lying)
	if _, _, ok := (effectonce.Operation{Terms: keyed}).WindowEnd(); !keyed.Keyed || keyed.LookUp || ok {
		t.Errorf("a key without a known retention has a window: %+v", keyed)
	}
	keyed = resolve(t, "http/keyed", Settings{Path: "/pay", Retention: 2 * day, Processing: 5 * time.Minute}).Terms(base)
	if keyed.Retention != 2*day || keyed.Processing != 5*time.Minute {
		t.Errorf("settings are not in the terms: %+v", keyed)
	}

	none := resolve(t, "http/none", Settings{Path: "/pay"}).Terms(lying)
	if none.Keyed || none.Retention != 0 || none.Forever || none.LookUp || none.LagUnknown {
		t.Errorf("http/none promises something: %+v", none)
	}

	look := &LookUpSetting{Path: "/payments", Items: "data", Paging: Paging{Kind: PagingNone}}
	settings := Settings{Path: "/pay", Reference: "id", Stamp: &StampSetting{Field: "ref"}, LookUp: look}
	if terms := resolve(t, "http/lookup", settings).Terms(lying); !terms.LagUnknown || terms.Lag != 0 {
		t.Errorf("an unknown lag: %+v", terms)
	}
	known := 5 * time.Second
	look.Lag = &known
	if terms := resolve(t, "http/lookup", settings).Terms(lying); terms.LagUnknown || terms.Lag != known {
		t.Errorf("a known lag: %+v", terms)
	}
}

func resolve(t *testing.T, name string, s Settings) *Operation {
	t.Helper()
	c, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Resolve("", s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// S14.5: provider facts come from the contract, or from the operator where the contract leaves them open.
func TestSettingsRefused(t *testing.T) {
	t.Parallel()
	lag := time.Second
	for _, tt := range []struct {
		name, contract string
		settings       Settings
		field          string
	}{
		{"a window for Stripe", "stripe/v1", Settings{Retention: time.Hour * 100}, "retention"},
		{"a lag for Stripe", "stripe/v1", Settings{LookUp: &LookUpSetting{Lag: &lag}}, "look_up"},
		{"a retention without a key", "http/none", Settings{Path: "/x", Retention: time.Hour}, "retention"},
		{"no path", "http/none", Settings{}, "path"},
		{"a window shorter than the call", "http/keyed", Settings{Path: "/x", Retention: 30 * time.Second}, "retention.at_least"},
		{"a look-up without a stamp", "http/lookup", Settings{Path: "/x", Reference: "id", LookUp: &LookUpSetting{Path: "/l", Paging: Paging{Kind: PagingNone}}}, "look_up"},
		{"a time-out called rejected", "http/none", Settings{Path: "/x", Rejected: []int{504}}, "verdicts[0].verdict"},
		{"a server error called not executed", "http/none", Settings{Path: "/x", Throttled: []int{503}}, "verdicts[0].verdict"},
		{"every conflict called rejected", "http/none", Settings{Path: "/x", Rejected: []int{409}}, "verdicts[0].verdict"},
		{"a success called rejected", "http/none", Settings{Path: "/x", Rejected: []int{200}}, "verdicts[0].verdict"},
		{"a GET", "http/none", Settings{Path: "/x", Method: "GET"}, "method"},
		{"a page without a first number", "http/lookup", Settings{Path: "/x", Reference: "id", Stamp: &StampSetting{Field: "ref"}, LookUp: &LookUpSetting{Path: "/l", Paging: Paging{Kind: PagingPage, Parameter: "p"}}}, "look_up.paging.first"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(tt.contract)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Resolve("", tt.settings)
			var e *effectonce.Error
			if !errors.As(err, &e) || e.Field != tt.field || e.Remedy == "" {
				t.Errorf("got %v, want field %s", err, tt.field)
			}
		})
	}
	if _, err := Load("stripe/v9"); err == nil || !strings.Contains(err.Error(), "stripe/v1") {
		t.Errorf("unknown contract: %v", err)
	}
}

func TestVouchedStatuses(t *testing.T) {
	t.Parallel()
	o := resolve(t, "http/keyed", Settings{Path: "/x", Rejected: []int{400, 422}, Throttled: []int{429}})
	for status, want := range map[int]effectonce.Verdict{
		400: effectonce.VerdictRejected, 422: effectonce.VerdictRejected, 429: effectonce.VerdictThrottled, 404: effectonce.VerdictUnknown,
	} {
		end := o.Classify(Response{Status: status}, false)
		if end.Verdict != want || end.Authoritative {
			t.Errorf("%d: %+v", status, end)
		}
	}
	plain := resolve(t, "http/keyed", Settings{Path: "/x"})
	if o.Version == plain.Version || len(plain.Verdicts) != len(o.Verdicts)-2 {
		t.Error("settings changed the contract, or not the version")
	}
}

// The version follows what is said, not how.
func TestVersion(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("providers/stripe-v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	version := func(s string) string {
		c, err := Parse("x.yaml", []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return c.Version
	}
	was := version(text)
	if version("# a comment\n"+strings.Replace(text, "name: a new refund", "name: new", 1)) != was {
		t.Error("a comment or an example changed the version")
	}
	if version(strings.Replace(text, "at_least: 24h", "at_least: 23h", 1)) == was {
		t.Error("another retention did not change the version")
	}
}

// S6.3, S14.5: who refused access is a fact that nobody states, so a generic contract concludes nothing from it, unless the
// operator vouches for it.
func TestRefusedAccessIsUnknownUntilTheOperatorVouches(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"http/keyed", "http/lookup", "http/none"} {
		silent := resolve(t, name, Settings{Path: "/x"})
		rejecting := resolve(t, name, Settings{Path: "/x", Rejected: []int{401, 403, 407}})
		throttling := resolve(t, name, Settings{Path: "/x", Throttled: []int{401, 403, 407}})
		for _, status := range []int{401, 403, 407} {
			for _, body := range []string{"", "<html>sign in</html>", `{"error":{"type":"invalid_request_error"}}`} {
				for _, resend := range []bool{false, true} {
					r := Response{Status: status, Body: []byte(body)}
					for o, want := range map[*Operation]effectonce.Verdict{
						silent: effectonce.VerdictUnknown, rejecting: effectonce.VerdictRejected, throttling: effectonce.VerdictThrottled,
					} {
						if end := o.Classify(r, resend); end.Verdict != want || end.Authoritative {
							t.Errorf("%s: status %d, body %q, resend %v: %+v, want %s", name, status, body, resend, end, want)
						}
					}
				}
			}
		}
	}
}

// S6.2, S6.4: Stripe answers a refused credential in front of its record of keys: nothing was executed, and the intent can still succeed
// with the right one. The message says what to correct.
func TestStripeRefusesTheCredential(t *testing.T) {
	t.Parallel()
	o := stripe(t)
	for status, says := range map[int]string{401: "refused the credential", 403: "does not permit this credential"} {
		r := Response{Status: status, Body: []byte(`{"error":{"type":"invalid_request_error","message":"Invalid API Key provided"}}`)}
		for _, resend := range []bool{false, true} {
			end := o.Classify(r, resend)
			if end.Verdict != effectonce.VerdictThrottled || end.Authoritative || !strings.Contains(end.Failure.Message, says) || !strings.Contains(end.Failure.Message, "Invalid API Key") {
				t.Errorf("status %d, resend %v: %+v", status, resend, end)
			}
		}
		// A proxy's page is not Stripe's answer.
		if end := o.Classify(Response{Status: status, Body: []byte("<html>sign in</html>")}, false); end.Verdict != effectonce.VerdictUnknown {
			t.Errorf("a proxy's %d: %+v", status, end)
		}
	}
}
