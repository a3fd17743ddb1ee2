package integration

import (
	"testing"

	"github.com/stripe/stripe-go/v84"
)

// S16.4
func TestAnswerLostOnTheWire(t *testing.T) {
	t.Parallel()
	for name, troubles := range map[string][]trouble{
		"nothing goes wrong":  nil,
		"dropped":             {drop},
		"reset":               {reset},
		"cut in the middle":   {cut},
		"a gateway says 502":  {badGate},
		"a gateway says 200":  {html},
		"dropped three times": {drop, reset, badGate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t, troubles...)
			b.runs(agent)
			b.runs(settler)
			b.wantOnce()
			// S7.10: whoever asks again learns it, and nothing is sent.
			sent := b.wire.sends()
			b.runs(agent)
			b.wantOnce()
			if n := b.wire.sends(); n != sent {
				t.Errorf("%d requests after the replay, %d before", n, sent)
			}
		})
	}
}

// S16.1, S16.2, S16.3, S16.5
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	for name, plans := range map[string][]string{
		"before the claim":                          {"crash before create"},
		"before sending":                            {"crash before call"},
		"after the refund":                          {"crash after call"},
		"before recording":                          {"crash before apply:attempt_ended"},
		"after the refund, then while reconciling":  {"crash after call", "crash after apply:taken_over"},
		"before sending, then after the refund":     {"crash before call", "crash after call"},
		"after the refund, then after the look-up":  {"crash after call", "crash after lookup"},
		"before sending, and before the record too": {"crash before call", "crash before apply:attempt_ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t)
			for _, plan := range plans {
				b.killed(agent, plan)
			}
			b.runs(agent)
			b.runs(settler)
			b.wantOnce()
		})
	}
}

// S16.3, S16.4: killed, and the answers of those that come after it are lost as well.
func TestWorkerKilledOnABadWire(t *testing.T) {
	t.Parallel()
	b := newBank(t, drop, reset)
	b.killed(agent, "crash before apply:attempt_ended")
	b.runs(agent)
	b.runs(settler)
	b.wantOnce()
}

// S16.6
func TestTwoAgentsOneTicket(t *testing.T) {
	t.Parallel()
	b := newBank(t)
	first, second := b.start(agent, ""), b.start(agent, "")
	if err := first(); err != nil {
		t.Error(err)
	}
	if err := second(); err != nil {
		t.Error(err)
	}
	b.wantOnce()
	if n := b.wire.sends(); n != 1 {
		t.Errorf("%d requests, want one", n)
	}
}

// What the same double does without the guard.
func TestUnguarded(t *testing.T) {
	t.Parallel()
	t.Run("killed after the refund", func(t *testing.T) {
		t.Parallel()
		b := newBank(t)
		b.killed(unguarded, "crash after send:POST")
		b.runs(unguarded)
		b.wantUnguarded(2)
	})
	t.Run("the answer is lost and the caller tries again", func(t *testing.T) {
		t.Parallel()
		b := newBank(t, drop)
		if err := b.start(unguarded, "")(); err == nil {
			t.Fatal("the dropped answer arrived")
		}
		b.runs(unguarded)
		b.wantUnguarded(2)
	})
	t.Run("the client's own retries use one key", func(t *testing.T) {
		t.Parallel()
		b := newBank(t, drop)
		_, err := official(b.wire.URL, 2).V1Refunds.Create(t.Context(), &stripe.RefundCreateParams{Charge: stripe.String(b.charge), Amount: stripe.Int64(refundedMinor)})
		if err != nil {
			t.Error(err)
		}
		b.wantUnguarded(1)
	})
}

func (b *bank) wantUnguarded(n int) {
	b.t.Helper()
	if all := refunds(b.t, b.double, b.charge); len(all) != n {
		b.t.Errorf("the official client sees %d refunds, want %d", len(all), n)
	}
}
