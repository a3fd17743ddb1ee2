package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/effectonce/effectonce/policy"
)

// The README's calls mean what it says of them; two runs that ask for one refund have one intent id (S2.5, S3.2).
func TestTheExamplesCallsAreReadAsItsREADMESays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "examples", "refund", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	tool := example(t).Tools["stripe.refund"]
	type call struct {
		Tool, Run, Step string
		Arguments       json.RawMessage
	}
	var readings []policy.Reading
	for _, m := range regexp.MustCompile(`(?s)-d '(\{.*?\})'`).FindAllSubmatch(page, -1) {
		var c call
		if err := json.Unmarshal(m[1], &c); err != nil {
			t.Fatalf("%s: %v", m[1], err)
		}
		if c.Tool != "stripe.refund" {
			if _, err := example(t).Tools[c.Tool].Intent(c.Arguments, policy.Meta{"run": c.Run, "step": c.Step}); err != nil {
				t.Errorf("%s: %v", m[1], err)
			}
			continue
		}
		in, err := tool.Intent(c.Arguments, policy.Meta{"run": c.Run, "step": c.Step})
		if err != nil {
			t.Fatalf("%s: %v", m[1], err)
		}
		r, err := tool.Policy.Read(c.Arguments, nil)
		if err != nil || r.IntentID != in.ID {
			t.Fatalf("%s: %v", m[1], err)
		}
		readings = append(readings, r)
	}
	if len(readings) != 5 {
		t.Fatalf("found %d calls in the README", len(readings))
	}
	first, words, amount, ticket := readings[0], readings[1], readings[2], readings[3]
	if words.IntentID != first.IntentID || words.Fingerprint != first.Fingerprint {
		t.Errorf("other words: %s, %s", words.IntentID, words.Business)
	}
	if amount.IntentID != first.IntentID || amount.Fingerprint == first.Fingerprint {
		t.Errorf("another amount: %s, %s", amount.IntentID, amount.Business)
	}
	if limits := first.Limits; len(limits) != 2 || limits[0].Name != "refunds:payment:pi_1" || limits[0].Amount != 48000 || limits[0].Max != 100000 || limits[1].Per != 24*time.Hour {
		t.Errorf("limits: %+v", limits)
	}
	taken := first.Limits[0].Amount + ticket.Limits[0].Amount // the twin is held, and reserves
	if more := readings[4].Limits[0]; taken > more.Max || taken+more.Amount <= more.Max {
		t.Errorf("%d are taken, and the last takes %+v", taken, more)
	}
	if ticket.IntentID == first.IntentID || ticket.Twin != first.Twin {
		t.Errorf("another ticket: %s, %s", ticket.IntentID, ticket.Twin)
	}
}
