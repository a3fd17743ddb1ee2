package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault"
	"github.com/effectonce/effectonce/fault/twin"
)

func TestMain(m *testing.M) {
	if was, code := fault.ProbeChild(context.Background()); was {
		os.Exit(code)
	}
	// The race detector makes each process sleep a second at its end, and a probe has many.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// twinTool is a twin of a kind, described as a user would describe it.
func twinTool(t *testing.T, kind twin.Kind, adjust func(*fault.ProbeTool)) fault.ProbeOptions {
	t.Helper()
	rules := twin.StripeRules()
	rules.Kind = kind
	server, err := twin.New(twin.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(server)
	t.Cleanup(func() {
		web.Close()
		_ = server.Close()
	})
	o := fault.ProbeOptions{
		Tool: fault.ProbeTool{
			URL: web.URL + "/v1/refunds", Encoding: contract.EncodingForm, Credential: "sk_test_probe",
			Body: map[string]any{"payment_intent": "pi_{effect}", "amount": "480"}, Reference: "id", Processing: 200 * time.Millisecond,
		},
		Count:   fault.ProbeCount{URL: web.URL + "/_twin/ledger", Path: "count"},
		Timeout: 2 * time.Second,
	}
	adjust(&o.Tool)
	return o
}

func probed(t *testing.T, o fault.ProbeOptions) map[string]fault.ProbeRow {
	t.Helper()
	report, err := fault.RunProbe(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !report.Right() || len(report.Rows) != len(fault.ProbeWindows()) {
		t.Errorf("the report is wrong: %+v", report)
	}
	rows := map[string]fault.ProbeRow{}
	for _, r := range report.Rows {
		rows[r.Window] = r
		t.Logf("%-28s %d %d %s %s", r.Window, r.Unguarded, r.Guarded, r.State, r.Note)
	}
	return rows
}

// S14.7: the key settles every window without a person.
func TestProbeKeyedTool(t *testing.T) {
	t.Parallel()
	o := twinTool(t, twin.Keyed, func(tool *fault.ProbeTool) { tool.KeyHeader, tool.Retention = "Idempotency-Key", 24*time.Hour })
	for name, row := range probed(t, o) {
		if row.Guarded != 1 || row.State != effectonce.StateSucceeded {
			t.Errorf("%s: %+v, want one effect and success", name, row)
		}
	}
}

// S14.7: so does the look-up, which must be waited for.
func TestProbeToolThatCanBeAsked(t *testing.T) {
	t.Parallel()
	o := twinTool(t, twin.LookupOnly, func(tool *fault.ProbeTool) {
		promptly := 100 * time.Millisecond
		tool.Stamp = "metadata.effectonce"
		tool.LookUp = &fault.ProbeLookUp{Path: "/v1/refunds?payment_intent=pi_{effect}", Items: "data", Lag: &promptly, ResendWhenAbsent: true}
	})
	for name, row := range probed(t, o) {
		if row.Guarded != 1 || row.State != effectonce.StateSucceeded {
			t.Errorf("%s: %+v, want one effect and success", name, row)
		}
	}
}

// S14.7: a tool with neither stops for a person, and never has two effects.
func TestProbeToolWithNeither(t *testing.T) {
	t.Parallel()
	rows := probed(t, twinTool(t, twin.NoDedupe, func(*fault.ProbeTool) {}))
	for name, want := range map[string]struct {
		unguarded, guarded int
		state              effectonce.State
	}{
		"killed before the claim":  {1, 1, effectonce.StateSucceeded},
		"killed before sending":    {1, 0, effectonce.StateReview},
		"killed before recording":  {2, 1, effectonce.StateReview},
		"answer lost":              {2, 1, effectonce.StateReview},
		"killed while reconciling": {3, 1, effectonce.StateReview},
		"two at once":              {2, 1, effectonce.StateSucceeded},
		"asked again":              {2, 1, effectonce.StateSucceeded},
	} {
		row := rows[name]
		if row.Unguarded != want.unguarded || row.Guarded != want.guarded || row.State != want.state {
			t.Errorf("%s: %+v, want %+v", name, row, want)
		}
		if row.State == effectonce.StateReview && !strings.Contains(row.Note, "person") {
			t.Errorf("%s does not say that it stops for a person: %q", name, row.Note)
		}
	}
	if row := rows["killed while the tool works"]; row.State != effectonce.StateReview || row.Guarded > 1 {
		t.Errorf("killed while the tool works: %+v", row)
	}
}

// A tool of somebody's own: it keeps orders in memory, answers JSON and lists what it has.
func TestProbeOwnTool(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	orders := map[string][]map[string]string{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /shops/{shop}/orders", func(w http.ResponseWriter, r *http.Request) {
		var order map[string]string
		if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		order["id"] = fmt.Sprintf("order-%d", len(orders[r.PathValue("shop")])+1)
		orders[r.PathValue("shop")] = append(orders[r.PathValue("shop")], order)
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(order)
	})
	mux.HandleFunc("GET /shops/{shop}/orders", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(append([]map[string]string{}, orders[r.PathValue("shop")]...))
	})
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)

	o := fault.ProbeOptions{
		Tool: fault.ProbeTool{
			URL: web.URL + "/shops/{effect}/orders", Body: map[string]any{"article": "desk", "note": "for {effect}"}, Stamp: "external_id", Reference: "id",
			LookUp: &fault.ProbeLookUp{Path: "/shops/{effect}/orders"}, Processing: 200 * time.Millisecond,
		},
		Count:   fault.ProbeCount{URL: web.URL + "/shops/{effect}/orders"},
		Timeout: 2 * time.Second,
		Windows: []string{"killed before recording", "two at once"},
	}
	var steps []string
	report, err := fault.RunProbe(t.Context(), o, func(step string) { steps = append(steps, step) })
	if err != nil || !report.Right() || len(report.Rows) != 2 || len(steps) != 4 {
		t.Fatalf("%+v, %q, %v", report, steps, err)
	}
	for _, row := range report.Rows {
		if row.Unguarded != 2 || row.Guarded != 1 || row.State != effectonce.StateSucceeded {
			t.Errorf("%+v, want 2 without and 1 with the guard", row)
		}
	}
	if !strings.Contains(report.Promises, "never exclude") {
		t.Errorf("promises: %q", report.Promises)
	}
}

func TestProbeRefuses(t *testing.T) {
	t.Parallel()
	good := fault.ProbeOptions{Tool: fault.ProbeTool{URL: "http://127.0.0.1:1/x"}, Count: fault.ProbeCount{URL: "http://127.0.0.1:1/n"}}
	for field, spoil := range map[string]func(*fault.ProbeOptions){
		"url":       func(o *fault.ProbeOptions) { o.Tool.URL = "ftp://x" },
		"count.url": func(o *fault.ProbeOptions) { o.Count.URL = "" },
		"windows":   func(o *fault.ProbeOptions) { o.Windows = []string{"none such"} },
		"timeout":   func(o *fault.ProbeOptions) { o.Timeout = -1 },
		"retention": func(o *fault.ProbeOptions) { o.Tool.Retention = time.Hour },
	} {
		o := good
		spoil(&o)
		_, err := fault.RunProbe(t.Context(), o, nil)
		var e *effectonce.Error
		if !errors.As(err, &e) || e.Code != effectonce.CodeInvalid || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := fault.RunProbe(t.Context(), good, nil); err == nil {
		t.Error("a count that nobody answers was accepted")
	}
}

func TestProbeRowIsRight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row  fault.ProbeRow
		want bool
	}{
		{fault.ProbeRow{Guarded: 1, Want: 1, State: effectonce.StateSucceeded}, true},
		{fault.ProbeRow{Guarded: 0, Want: 1, State: effectonce.StateSucceeded}, false},
		{fault.ProbeRow{Guarded: 2, Want: 1, State: effectonce.StateSucceeded}, false},
		{fault.ProbeRow{Guarded: 0, Want: 1, State: effectonce.StateReview}, true},
		{fault.ProbeRow{Guarded: 2, Want: 1, State: effectonce.StateReview}, false},
		{fault.ProbeRow{Guarded: 1, Want: 1, State: effectonce.StateFailed}, false},
	} {
		if c.row.Right() != c.want {
			t.Errorf("%+v is right: %v", c.row, c.row.Right())
		}
	}
}
