package main

import (
	"fmt"
	"strings"
	"testing"
)

// S3.7: whoever approves a successor decides on what became of its predecessor.
func TestASuccessorIsShownWithItsPredecessor(t *testing.T) {
	t.Parallel()
	before := strings.Repeat("b", 64)
	for name, tt := range map[string]struct {
		state, outcome, more string
		want, warning        string
	}{
		"failed":           {"failed", "failed", `, "error": {"code": "card_declined"}`, "which failed (card_declined)", ""},
		"succeeded":        {"succeeded", "succeeded", `, "reference": "re_1"`, "which succeeded (effect re_1)", "took effect; if this one runs as well, there are two effects"},
		"in review":        {"review", "in_review", "", "which is in review", "is not known"},
		"under way":        {"in_progress", "in_progress", "", "which is in_progress", "is not known"},
		"not known":        {"unknown", "unknown", "", "which is unknown", "is not known"},
		"abandoned":        {"abandoned", "abandoned", "", "which was abandoned", "is not known"},
		"still to be done": {"pending", "pending", "", "which is pending", "can still run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := daemonOf(t, map[string]string{
				"/events": `{"events": []}`,
				someKey: `{"key": "` + someKey + `", "state": "pending", "outcome": "awaiting_approval", "next": "stop_and_report", "hold": "approval", "version": 1,
					"supersedes": "` + before + `", "supersedes_reason": "half of it was broken"}`,
				before: fmt.Sprintf(`{"key": %q, "state": %q, "outcome": %q%s}`, before, tt.state, tt.outcome, tt.more),
			})
			code, out, errs := answer(t, nil, "", "ops", "show", someKey, "--server", url)
			if code != 0 || !strings.Contains(out, "bbbbbbbbbbbb, "+tt.want) || !strings.Contains(out, "half of it was broken") {
				t.Errorf("exit code %d, said %q and\n%s", code, errs, out)
			}
			if _, warned, _ := strings.Cut(out, "WARNING"); !strings.Contains(warned, tt.warning) || (warned != "") != (tt.warning != "") {
				t.Errorf("the warning is %q, want %q", warned, tt.warning)
			}
		})
	}
}

// S3.8
func TestATwinIsShownWithTheOther(t *testing.T) {
	t.Parallel()
	other := strings.Repeat("c", 64)
	url, _ := daemonOf(t, map[string]string{
		"/events": `{"events": []}`,
		someKey:   `{"key": "` + someKey + `", "state": "pending", "outcome": "held", "hold": "twin", "version": 1, "twin_of": "` + other + `"}`,
		other:     `{"key": "` + other + `", "tool": "bank.refund", "intent_id": "refund:o-1", "state": "succeeded", "outcome": "succeeded", "reference": "re_7"}`,
	})
	code, out, errs := answer(t, nil, "", "ops", "show", someKey, "--server", url)
	if want := "cccccccccccc, bank.refund refund:o-1, which succeeded (effect re_7)"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, said %q and\n%s\nwant %q", code, errs, out, want)
	}
	// Scripts get the same as a document.
	if _, out, _ := answer(t, nil, "", "ops", "show", someKey, "--server", url, "--json"); !strings.Contains(out, `"twin": {`) || strings.Contains(out, "predecessor") {
		t.Errorf("the document is %s", out)
	}
}
