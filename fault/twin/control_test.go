package twin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestControlRoundTrip(t *testing.T) {
	t.Parallel()
	start, err := ParsePlan("refunds#9 after-effect drop")
	if err != nil {
		t.Fatal(err)
	}
	tw := startTwin(t, Config{Plan: start})
	health, err := tw.Control.Health(t.Context())
	if err != nil || !health.OK || health.Kind != Keyed {
		t.Errorf("health: %+v, %v", health, err)
	}
	plan, err := ParsePlan("lookup#1 status=500; refunds#* slow=1ms")
	if err != nil {
		t.Fatal(err)
	}
	if err := tw.Control.SetFaults(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	got, err := tw.Control.Faults(t.Context())
	if diff := cmp.Diff(plan, got); diff != "" || err != nil {
		t.Errorf("faults, %v (-want +got):\n%s", err, diff)
	}
	tw.refund("k1").want(t, 200, "")
	if err := tw.Control.Advance(t.Context(), 25*time.Hour); err != nil {
		t.Fatal(err)
	}
	if ledger := tw.wantEffects(1); ledger.Now.Sub(ledger.Effects[0].At) < 25*time.Hour {
		t.Errorf("now %s, effect %s", ledger.Now, ledger.Effects[0].At)
	}
	if err := tw.Control.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ledger := tw.wantEffects(0); time.Since(ledger.Now).Abs() > time.Hour {
		t.Errorf("the reset left the clock at %s", ledger.Now)
	}
	if got, err := tw.Control.Faults(t.Context()); cmp.Diff(start, got) != "" || err != nil {
		t.Errorf("after the reset the plan is %q, %v; want that of the start", got, err)
	}
	fresh := tw.refund("k1")
	fresh.want(t, 200, "")
	if fresh.header.Get("Idempotent-Replayed") != "" {
		t.Error("the reset left a key")
	}
}

func TestControlRefuses(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	for _, tt := range []struct{ path, body, word string }{
		{"/_twin/clock", `{"advance":"-1h"}`, "set back"},
		{"/_twin/clock", `{"advance":"soon"}`, "25h"},
		{"/_twin/clock", `{"add":"1h"}`, "add"},
		{"/_twin/faults", `refunds#1 explode`, "explode"},
		{"/_twin/faults", `{"plan":`, "EOF"},
	} {
		g := tw.send(t.Context(), "POST", tt.path, "", tt.body)
		if g.status != 400 || !strings.Contains(g.body, tt.word) {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, g.status, g.body)
		}
	}
	if err := tw.Control.Advance(t.Context(), -time.Hour); err == nil || !strings.Contains(err.Error(), "set back") {
		t.Errorf("advance by less than nothing: %v", err)
	}
	tw.get("/_twin/nothing").want(t, 404, "")
	if _, err := (Control{BaseURL: "http://127.0.0.1:1"}).Health(t.Context()); err == nil {
		t.Error("a twin that is not there is healthy")
	}
}

func TestControlByHand(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.send(t.Context(), "POST", "/_twin/faults", "", "refunds#1 after-effect status=503").want(t, 200, "")
	tw.send(t.Context(), "POST", "/_twin/clock", "", "1h").want(t, 200, "")
	tw.refund("k1").want(t, 503, "")
	if clock := tw.get("/_twin/clock"); clock.object["advanced"] != "1h0m0s" {
		t.Errorf("clock: %s", clock.body)
	}
}

func TestRequestsKeepNoCredential(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.send(t.Context(), "POST", "/v1/refunds", "k1", refund480, "Stripe-Version", "2026-09-30.dahlia").want(t, 200, "")
	tw.refund("k1")
	tw.get("/v1/refunds?limit=1")
	log, err := tw.Control.Requests(t.Context())
	if err != nil || log.Total != 3 {
		t.Fatalf("%d requests, %v; want 3: the control plane's own do not count", log.Total, err)
	}
	first, second, third := log.Requests[0], log.Requests[1], log.Requests[2]
	if first.Key != "k1" || first.Body != refund480 || first.Headers["stripe-version"] == "" || first.Status != 200 ||
		first.Outcome != "succeeded" || first.EffectID == "" || first.Replayed {
		t.Errorf("first: %+v", first)
	}
	if !second.Replayed || second.BodySHA256 != first.BodySHA256 || second.EffectID != first.EffectID || second.TargetNumber != 2 {
		t.Errorf("second: %+v", second)
	}
	if third.Target != TargetLookup || third.Path != "/v1/refunds?limit=1" || third.Outcome != "listed" {
		t.Errorf("third: %+v", third)
	}
	if first.Headers["authorization"] != "present" {
		t.Errorf("headers: %v", first.Headers)
	}
	if raw := tw.get("/_twin/requests"); strings.Contains(raw.body, "sk_test_1") {
		t.Error("the credential is kept") // S15.4
	}
}

func TestRequestLogIsBounded(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range receivedMax + 1 {
		s.keep(&Received{})
	}
	log := s.Requests()
	if log.Total != receivedMax+1 || len(log.Requests) > receivedMax || log.Requests[len(log.Requests)-1].Number != receivedMax+1 {
		t.Errorf("total %d, kept %d", log.Total, len(log.Requests))
	}
}

func TestResetBreaksOffProcessing(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 hold=1s")
	first := make(chan got, 1)
	go func() { first <- tw.refund("k1") }()
	tw.untilOutcome(0, "started")
	if err := tw.Control.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	(<-first).want(t, 503, "")
	tw.wantEffects(0)
}
