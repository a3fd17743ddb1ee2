package twin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAnswerFaults(t *testing.T) {
	t.Parallel()
	broken := func(g got) bool { return g.err != nil }
	status := func(code int) func(got) bool {
		return func(g got) bool { return g.err == nil && g.status == code }
	}
	tests := []struct {
		plan    string
		first   func(got) bool
		effects int
		// repeat is what the same request gets afterwards.
		repeat  int
		replay  bool
		settled int
	}{
		{"refunds#1 instead drop", broken, 0, 200, false, 1},
		{"refunds#1 before-effect drop", broken, 0, 200, false, 1},
		{"refunds#1 after-effect drop", broken, 1, 200, true, 1}, // S16.4
		{"refunds#1 after-effect reset", broken, 1, 200, true, 1},
		{"refunds#1 before-effect reset", broken, 0, 200, false, 1},
		{"refunds#1 after-effect cut", broken, 1, 200, true, 1},
		{"refunds#1 after-effect hang=10ms", broken, 1, 200, true, 1},
		{"refunds#1 before-effect hang=10ms", broken, 0, 200, false, 1},
		{"refunds#1 hang=10ms", broken, 0, 200, false, 1},
		{"refunds#1 instead status=503", status(503), 0, 200, false, 1},
		{"refunds#1 before-effect status=503", status(503), 0, 200, false, 1},
		{"refunds#1 after-effect status=503", status(503), 1, 200, true, 1},
		{"refunds#1 instead status=500", status(500), 0, 200, false, 1},
		{"refunds#1 before-effect status=500", status(500), 0, 500, true, 0}, // S6.5
		{"refunds#1 after-effect status=500", status(500), 1, 500, true, 1},  // S6.5
		{"refunds#1 instead status=429", status(429), 0, 200, false, 1},
		{"refunds#1 instead status=401", status(401), 0, 200, false, 1},
		{"refunds#1 after-effect status=401", status(401), 1, 200, true, 1},
		{"refunds#1 twice", status(401), 1, 200, true, 1},
		{"refunds#1 hold=10ms", status(200), 1, 200, true, 1},
		{"refunds#1 before-effect slow=10ms", status(200), 1, 200, true, 1},
		{"refunds#1 slow=10ms", status(200), 1, 200, true, 1},
		{"any#1 after-effect drop", broken, 1, 200, true, 1},
		{"refunds#1 hold=5ms; refunds#1 after-effect drop; refunds#1 after-effect status=503", broken, 1, 200, true, 1},
	}
	for _, tt := range tests {
		t.Run(tt.plan, func(t *testing.T) {
			t.Parallel()
			tw := startTwin(t, Config{})
			tw.plan(tt.plan)
			if first := tw.refund("k1"); !tt.first(first) {
				t.Errorf("first answer: status %d, error %v, body %s", first.status, first.err, first.body)
			}
			tw.wantEffects(tt.effects)
			repeat := tw.refund("k1")
			repeat.want(t, tt.repeat, "")
			if replay := repeat.header.Get("Idempotent-Replayed") == "true"; replay != tt.replay {
				t.Errorf("replayed %v, want %v", replay, tt.replay)
			}
			tw.wantEffects(tt.settled)
			log, err := tw.Control.Requests(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(log.Requests[0].Faults) == 0 || len(log.Requests[len(log.Requests)-1].Faults) != 0 {
				t.Errorf("faults noted: %v and %v", log.Requests[0].Faults, log.Requests[len(log.Requests)-1].Faults)
			}
		})
	}
}

func TestErrorThatIsNotStored(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before-effect", "after-effect"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			tw := startTwin(t, Config{Rules: rulesWith(func(r *Rules) { r.StoresErrors = false })})
			tw.plan("refunds#1 " + when + " status=500")
			tw.refund("k1").want(t, 500, "api_error")
			tw.refund("k1").want(t, 200, "")
			third := tw.refund("k1")
			third.want(t, 200, "")
			if third.id() == "" || third.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("the success is not on record: %s", third.body)
			}
			tw.wantEffects(1)
		})
	}
}

func TestResetIsATCPReset(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 after-effect reset; refunds#2 after-effect drop")
	if g := tw.refund("k1"); !errors.Is(g.err, syscall.ECONNRESET) {
		t.Errorf("reset: %v, want connection reset by peer", g.err)
	}
	if g := tw.refund("k1"); !errors.Is(g.err, io.EOF) {
		t.Errorf("drop: %v, want the end of the connection", g.err)
	}
}

func TestCutSendsHalf(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 after-effect cut")
	g := tw.refund("k1")
	if !errors.Is(g.err, io.ErrUnexpectedEOF) || g.status != 200 || !strings.Contains(g.body, "re_twin") {
		t.Errorf("status %d, error %v, body %q", g.status, g.err, g.body)
	}
}

func TestGarbleAndForeign(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 after-effect garble; refunds#2 after-effect foreign; lookup#1 after-effect foreign; lookup#2 after-effect foreign")
	garbled := tw.refund("k1")
	if garbled.status != 200 || garbled.object != nil || garbled.err != nil {
		t.Errorf("garbled: %d %v %q", garbled.status, garbled.err, garbled.body)
	}
	foreign := tw.refund("k2") // S6.7
	foreign.want(t, 200, "")
	metadata, _ := foreign.object["metadata"].(map[string]any)
	if !strings.HasPrefix(foreign.id(), "re_foreign") || metadata["effectonce"] != "foreign" || foreign.object["amount"] != 480.0 {
		t.Errorf("foreign: %s", foreign.body)
	}
	list := tw.get("/v1/refunds?payment_intent=pi_1")
	if data, _ := list.object["data"].([]any); len(data) != 1 || data[0].(map[string]any)["payment_intent"] != "pi_foreign" {
		t.Errorf("foreign list: %s", list.body)
	}
	if one := tw.get("/v1/refunds/re_twin000000000001"); !strings.HasPrefix(one.id(), "re_foreign") {
		t.Errorf("foreign refund: %s", one.body)
	}
	tw.wantEffects(2)
}

func TestHangEndsWithTheClient(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 after-effect hang=1h; lookup#1 hang=1h; refunds#2 before-effect hang=1h")
	for _, method := range []string{"POST", "GET", "POST"} {
		key := "k" + method
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		g := tw.send(ctx, method, "/v1/refunds", key, refund480)
		cancel()
		if !errors.Is(g.err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want it to hang", method, g.err)
		}
	}
	until(t, "the effect happens", func() bool { return tw.Server.Ledger().Count == 1 })
	// The second POST was a replay, which a fault before the effect does not take off the record.
	tw.refund("kPOST").want(t, 200, "")
	tw.wantEffects(1)
}

func TestHangBeforeEffectHoldsTheKey(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 before-effect hang=1h")
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan got, 1)
	go func() { first <- tw.send(ctx, "POST", "/v1/refunds", "k1", refund480) }()
	tw.untilOutcome(0, "started")
	tw.refund("k1").want(t, 409, "idempotency_key_in_use")
	cancel()
	<-first
	tw.untilOutcome(0, "aborted")
	tw.refund("k1").want(t, 200, "")
	tw.wantEffects(1)
}

// The sender is gone, its request still arrives (schedule 4).
func TestSlowArrivalOutlivesTheClient(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 before-effect slow=1s")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if g := tw.send(ctx, "POST", "/v1/refunds", "k1", refund480); g.err == nil {
		t.Fatalf("answered in time: %s", g.body)
	}
	tw.wantEffects(0)
	until(t, "the effect happens", func() bool { return tw.Server.Ledger().Count == 1 })
}

func TestEffectOutlivesTheClient(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 hold=150ms")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if g := tw.send(ctx, "POST", "/v1/refunds", "k1", refund480); g.err == nil {
		t.Fatalf("answered in time: %s", g.body)
	}
	until(t, "the effect happens", func() bool { return tw.Server.Ledger().Count == 1 })
}

// One copy is answered 401, the other takes effect later (schedule 10).
func TestTwiceWithHold(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("refunds#1 twice; refunds#1 hold=1s")
	tw.refund("k1").want(t, 401, "invalid_request_error")
	tw.wantEffects(0)
	until(t, "the copy takes effect", func() bool { return tw.Server.Ledger().Count == 1 })
	log := tw.Server.Requests()
	if log.Total != 2 || log.Requests[0].Copy || !log.Requests[1].Copy {
		t.Errorf("received: %+v", log.Requests)
	}
}

func TestTwiceOnTheWire(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{Rules: rulesWith(func(r *Rules) { r.Kind = LookupOnly })})
	tw.plan("refunds#1 twice")
	tw.refund("k1").want(t, 401, "")
	tw.wantEffects(1)
	if got := tw.outcomes(); !slices.Equal(got, []string{"refused", "succeeded"}) {
		t.Errorf("outcomes %v", got)
	}
}

func TestFaultsCountPerTarget(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.plan("lookup#2-3 status=500; refunds#2 status=429; any#6 status=418")
	tw.refund("k1").want(t, 200, "")
	tw.get("/v1/refunds").want(t, 200, "")
	tw.refund("k2").want(t, 429, "rate_limit")
	tw.get("/v1/events").want(t, 500, "api_error")
	tw.get("/v1/refunds/re_twin000000000001").want(t, 500, "api_error")
	tw.refund("k3").want(t, 418, "")
	tw.refund("k3").want(t, 200, "")
	tw.plan("refunds#1 status=429")
	tw.refund("k4").want(t, 429, "rate_limit")
	tw.refund("k4").want(t, 200, "")
	tw.wantEffects(3)
}

func TestFaultsWithoutASocket(t *testing.T) {
	t.Parallel()
	plan, err := ParsePlan("refunds#1 after-effect reset")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	request := httptest.NewRequest("POST", "/v1/refunds", strings.NewReader(refund480))
	request.Header.Set("Authorization", "Bearer sk_test_1")
	defer func() {
		if got := recover(); got != http.ErrAbortHandler {
			t.Errorf("a reset without a connection: %v, want the handler aborted", got)
		}
		if n := s.Ledger().Count; n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
	}()
	s.ServeHTTP(httptest.NewRecorder(), request)
}
