package events

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

func known(secrets ...string) []Secret {
	var all []Secret
	for _, s := range secrets {
		all = append(all, func(context.Context) (string, error) { return s, nil })
	}
	return all
}

// The worked examples that the senders publish: the test vector of Standard Webhooks and the one in GitHub's documentation.
const (
	standardSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	standardID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	standardTime      = 1614265330
	standardBody      = `{"test": 2432232314}`
	standardSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	githubSecret      = "It's a Secret to Everybody"
	githubBody        = "Hello, World!"
	githubSignature   = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
)

func stripeSigned(secret, body string, at time.Time) string {
	return fmt.Sprintf("t=%d,v1=%s,v0=00", at.Unix(), hex.EncodeToString(sum([]byte(secret), fmt.Appendf(nil, "%d.%s", at.Unix(), body))))
}

// S9.1: only what its source signed is taken, with each of several secrets while one is rotated.
func TestSignatures(t *testing.T) {
	t.Parallel()
	then := time.Unix(standardTime, 0)
	standard := map[string]string{headerID: standardID, headerTimestamp: fmt.Sprint(standardTime), headerSignature: standardSignature}
	with := func(name, value string) map[string]string {
		h := map[string]string{}
		for k, v := range standard {
			h[k] = v
		}
		h[name] = value
		return h
	}
	stripe := stripeSigned("whsec_x", "{}", then)
	for name, c := range map[string]struct {
		source Source
		header map[string]string
		body   string
		at     time.Time
		ok     bool
	}{
		"standard: the published vector":         {Source{Verify: VerifyStandardWebhooks, Secrets: known(standardSecret)}, standard, standardBody, then, true},
		"standard: the second secret":            {Source{Verify: VerifyStandardWebhooks, Secrets: known("whsec_AAAA", standardSecret)}, standard, standardBody, then, true},
		"standard: one of several signatures":    {Source{Verify: VerifyStandardWebhooks, Secrets: known(standardSecret)}, with(headerSignature, "v1a,xx v1,AAAA "+standardSignature), standardBody, then, true},
		"standard: another body":                 {Source{Verify: VerifyStandardWebhooks, Secrets: known(standardSecret)}, standard, standardBody + " ", then, false},
		"standard: another id":                   {Source{Verify: VerifyStandardWebhooks, Secrets: known(standardSecret)}, with(headerID, "msg_2"), standardBody, then, false},
		"standard: too old":                      {Source{Verify: VerifyStandardWebhooks, Secrets: known(standardSecret)}, standard, standardBody, then.Add(6 * time.Minute), false},
		"standard: from the future":              {Source{Verify: VerifyStandardWebhooks, Secrets: known(standardSecret)}, standard, standardBody, then.Add(-6 * time.Minute), false},
		"standard: no signature":                 {Source{Verify: VerifyStandardWebhooks, Secrets: known(standardSecret)}, with(headerSignature, ""), standardBody, then, false},
		"github: the published vector":           {Source{Verify: VerifyGitHub, Secrets: known(githubSecret)}, map[string]string{"X-Hub-Signature-256": githubSignature}, githubBody, then, true},
		"github: another secret":                 {Source{Verify: VerifyGitHub, Secrets: known("other")}, map[string]string{"X-Hub-Signature-256": githubSignature}, githubBody, then, false},
		"github: without its prefix":             {Source{Verify: VerifyGitHub, Secrets: known(githubSecret)}, map[string]string{"X-Hub-Signature-256": githubSignature[7:]}, githubBody, then, false},
		"stripe":                                 {Source{Verify: VerifyStripe, Secrets: known("whsec_x")}, map[string]string{"Stripe-Signature": stripe}, "{}", then.Add(time.Minute), true},
		"stripe: rolled, two v1":                 {Source{Verify: VerifyStripe, Secrets: known("whsec_x")}, map[string]string{"Stripe-Signature": stripe + ",v1=aa"}, "{}", then, true},
		"stripe: too old":                        {Source{Verify: VerifyStripe, Secrets: known("whsec_x")}, map[string]string{"Stripe-Signature": stripe}, "{}", then.Add(time.Hour), false},
		"stripe: another time":                   {Source{Verify: VerifyStripe, Secrets: known("whsec_x")}, map[string]string{"Stripe-Signature": fmt.Sprintf("t=%d,%s", then.Unix()+1, stripe[len("t=1614265330,"):])}, "{}", then, false},
		"stripe: only another scheme":            {Source{Verify: VerifyStripe, Secrets: known("whsec_x")}, map[string]string{"Stripe-Signature": fmt.Sprintf("t=%d,v0=00", then.Unix())}, "{}", then, false},
		"stripe: no header":                      {Source{Verify: VerifyStripe, Secrets: known("whsec_x")}, nil, "{}", then, false},
		"hmac: hex":                              {Source{Verify: VerifyHMAC, Header: "X-Sig", Secrets: known(githubSecret)}, map[string]string{"X-Sig": githubSignature[7:]}, githubBody, then, true},
		"hmac: base64 with a prefix":             {Source{Verify: VerifyHMAC, Header: "X-Sig", Encoding: "base64", Prefix: "h=", Secrets: known(githubSecret)}, map[string]string{"X-Sig": "h=dXEH6g6yUJ/CESIczphLijdXC211hsIsRvQ3nIsEPhc="}, githubBody, then, true},
		"hmac: a truncated signature":            {Source{Verify: VerifyHMAC, Header: "X-Sig", Secrets: known(githubSecret)}, map[string]string{"X-Sig": githubSignature[7:20]}, githubBody, then, false},
		"none":                                   {Source{Verify: VerifyNone, Unsigned: true}, nil, "{}", then, true},
		"a kind that nobody knows proves nobody": {Source{Verify: "other", Secrets: known("x")}, nil, "{}", then, false},
	} {
		h := http.Header{}
		for k, v := range c.header {
			h.Set(k, v)
		}
		if err := c.source.WithDefaults().verify(t.Context(), h, []byte(c.body), c.at); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A secret that cannot be read is no reason to refuse a sender for good.
func TestASecretThatCannotBeReadIsNoBadSignature(t *testing.T) {
	t.Parallel()
	unread := func(context.Context) (string, error) { return "", errors.New("no such file") }
	s := Source{Verify: VerifyGitHub, Secrets: []Secret{unread}}.WithDefaults()
	if err := s.verify(t.Context(), http.Header{}, nil, time.Now()); err == nil || errors.Is(err, errUnsigned) {
		t.Errorf("%v", err)
	}
}

func TestSigningAsStandardWebhooks(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	if err := signStandard(h, standardSecret, standardID, []byte(standardBody), time.Unix(standardTime, 0)); err != nil {
		t.Fatal(err)
	}
	if got := h.Get(headerSignature); got != standardSignature {
		t.Errorf("signature %s, want %s", got, standardSignature)
	}
	if err := signStandard(h, "whsec_!", "x", nil, time.Now()); err == nil {
		t.Error("a secret that is not base64 is taken")
	}
}
