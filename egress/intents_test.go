package egress_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/egress"
	"github.com/effectonce/effectonce/policy"
)

// tool is a policy as cmd hands it to a route.
type tool struct {
	*policy.Tool
	free []string
}

func (t tool) Intent(args json.RawMessage, meta map[string]string) (effectonce.Intent, error) {
	return t.Tool.Intent(args, meta)
}

func (t tool) Unsent(name string) bool {
	for _, f := range t.free {
		if f == name {
			return true
		}
	}
	return false
}

func (t tool) Builds() bool { return t.HasIntentID() }

func compiled(t testing.TB, spec policy.Spec) *policy.Tool {
	t.Helper()
	p, problems := policy.Compile(spec)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return p
}

func refunding(t testing.TB) func(*egress.Options) {
	p := compiled(t, policy.Spec{
		Name: "stripe.refund", IntentID: "refund:{payment_intent}:{metadata.ticket}",
		Arguments: map[string]policy.Argument{"payment_intent": {Kind: policy.KindIdentity}, "metadata.ticket": {Kind: policy.KindIdentity}, "metadata.note": {Kind: policy.KindFree}, "reason": {Kind: policy.KindFree}},
		Timeout:   policy.Duration(quickTerms().CallTimeout),
	})
	return func(o *egress.Options) {
		o.Intents, o.Tools = egress.Derive, map[string]egress.Tool{"refunds.create": tool{p, []string{"metadata.note", "reason"}}}
	}
}

func form(t testing.TB, w *world, body string, headers ...string) answer {
	t.Helper()
	return send(t, request(t, "POST", w.base+"/v1/refunds", body, append(headers, "Content-Type=application/x-www-form-urlencoded", "Idempotency-Key="+randomKey())...))
}

// The policy builds the intent from the body; free text makes no difference and is never sent. (S3.3, S4.3, S14.4)
func TestThePolicyDerivesTheIntent(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	w := newWorld(t, c.BaseURL, refunding(t))
	form(t, w, "payment_intent=pi_1&amount=480&currency=eur&metadata[ticket]=T-7&metadata[note]=the+customer+is+angry&reason=requested_by_customer").want(t, 200)
	form(t, w, "amount=480&payment_intent=pi_1&metadata%5Bticket%5D=T-7&currency=eur&metadata[note]=other+words").want(t, 200, "Effectonce-Replayed=true")
	form(t, w, "payment_intent=pi_1&amount=481&currency=eur&metadata[ticket]=T-7").want(t, 422)
	form(t, w, "payment_intent=pi_1&amount=480&currency=eur&metadata[ticket]=T-8").want(t, 200, "Effectonce-Replayed=")
	form(t, w, "payment_intent=pi_1&amount=480&currency=eur").want(t, 400)
	form(t, w, "payment_intent=pi_1&amount=480&currency=eur&metadata[ticket]=T-7", "Effectonce-Intent=something else").want(t, 400)
	if n := effects(t, c); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}
	log, err := c.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range log.Requests {
		if strings.Contains(r.Body, "angry") || strings.Contains(r.Body, "reason") {
			t.Errorf("free text was sent: %s", r.Body)
		}
	}
	op := w.stored()[1]
	if op.IntentID != "refund:pi_1:T-7" || op.Tool != "stripe.refund" || strings.Contains(string(op.Request), "angry") {
		t.Errorf("%s %s %s", op.Tool, op.IntentID, op.Request)
	}
}

// A route that only observes holds nothing back, changes nothing, and records what would have been. (S14.8)
func TestObserve(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	metrics := &egress.Metrics{}
	w := newWorld(t, c.BaseURL, refunding(t), func(o *egress.Options) { o.Intents, o.Metrics = egress.Observe, metrics })
	body := "payment_intent=pi_1&amount=480&currency=eur&reason=requested_by_customer&metadata[ticket]=T-7"
	for range 3 {
		form(t, w, body).want(t, 200, "Effectonce-Operation=")
	}
	form(t, w, strings.Replace(body, "480", "481", 1)).want(t, 200)
	form(t, w, "payment_intent=pi_1&amount=480&currency=eur").want(t, 200)
	send(t, request(t, "DELETE", w.base+"/v1/refunds/re_1", "")).want(t, 404)
	if n := effects(t, c); n != 5 {
		t.Errorf("%d effects, want 5", n)
	}
	log, err := c.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if first := log.Requests[0]; first.Body != body || first.Key == "" {
		t.Errorf("the provider got %q", first.Body)
	}
	why := map[string]int{}
	for _, op := range w.stored() {
		if op.State != effectonce.StateSucceeded {
			t.Errorf("%s is %s", op.Tool, op.State)
		}
		var seen struct{ Why string }
		if err := json.Unmarshal(op.Result, &seen); err != nil {
			t.Error(err)
		}
		why[op.Tool+" "+seen.Why]++
	}
	want := map[string]int{
		"observed.stripe.refund ": 1, "held_back.stripe.refund repeat": 2, "held_back.stripe.refund payload_mismatch": 1,
		"held_back.stripe.refunds.create not_valid": 1, "held_back.stripe.undescribed operation_undescribed": 1,
	}
	if fmt.Sprint(why) != fmt.Sprint(want) {
		t.Errorf("recorded %v, want %v", why, want)
	}
	if text := metrics.Text(); !strings.Contains(text, `effectonce_egress_held_back_total{route="stripe",why="repeat"} 2`) {
		t.Error(text)
	}
}

// Observing does not need a store that answers. (S14.8)
func TestObserveWithoutAStore(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	store := openSQLite(t)
	w := newWorldOn(t, store, c.BaseURL, func(o *egress.Options) { o.Intents = egress.Observe })
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	refund(t, w.base, "refund:1", "pi_1", "480").want(t, 200)
	if n := effects(t, c); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// A store that does not answer holds every guarded write back, and says that nothing was sent. (S16.14)
func TestNoStoreNoWrite(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "")
	store := openSQLite(t)
	w := newWorldOn(t, store, c.BaseURL)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	a := refund(t, w.base, "refund:1", "pi_1", "480").want(t, 503)
	var p egress.Problem
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || p.Sent != effectonce.SentNo || a.Header.Get("Retry-After") == "" {
		t.Errorf("%+v (%v)", p, err)
	}
	if n := effects(t, c); n != 0 {
		t.Errorf("%d effects", n)
	}
}

// The credential that the proxy holds is nowhere in the store. (S3.10, S15.4)
func TestCredentialsAreNotStored(t *testing.T) {
	t.Parallel()
	for name, callers := range map[string]bool{"held by the proxy": false, "the caller's own": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startTwin(t, "refunds#1 after-effect drop")
			w := newWorldOn(t, openSQLite(t), c.BaseURL, func(o *egress.Options) {
				if callers {
					o.API.Credential = nil
				}
			})
			refund(t, w.base, "refund:1", "pi_1", "480", "X-Custom=kept", "X-Auth-Token=tok_secret_of_mine").want(t, 200)
			refund(t, w.base, "refund:2", "pi_declined", "480").want(t, 402)
			for _, op := range w.stored() {
				events, err := w.store.Events(t.Context(), op.Key)
				if err != nil {
					t.Fatal(err)
				}
				everything := fmt.Sprintf("%+v %s %s %s %+v %+v", op, op.Request, op.Result, op.Arguments, op.Failure, events)
				for _, secret := range []string{heldSecret, "sk_agents_own", "tok_secret_of_mine"} {
					if strings.Contains(everything, secret) {
						t.Errorf("%s is stored", secret)
					}
				}
				if op.IntentID == "refund:1" && !strings.Contains(string(op.Request), `"X-Custom"`) {
					t.Errorf("a header of the request is not frozen: %s", op.Request)
				}
			}
			if n := effects(t, c); n != 1 {
				t.Errorf("%d effects", n)
			}
		})
	}
}

// Where only callers have the credential, nobody else resends, and nobody with another one sees the answer. (S3.10, S15.2)
func TestTheCallersOwnCredential(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "refunds#1 after-effect drop; lookup#* status=500")
	w := newWorld(t, c.BaseURL, func(o *egress.Options) { o.API.Credential, o.Wait = nil, -1 })
	refund(t, w.base, "refund:1", "pi_1", "480").want(t, 409, "Effectonce-Outcome=unknown", "Effectonce-Next=wait")
	op := w.stored()[0]
	if op.Terms.Managed || w.route.Provider(op) != nil {
		t.Error("the operation would be resent without its caller")
	}
	if worked, err := w.guard.Work(context.Background(), op); err != nil || worked.State != effectonce.StateUnknown {
		t.Errorf("a worker made it %s (%v)", worked.State, err)
	}
	refund(t, w.base, "refund:1", "pi_1", "480", "Authorization=Bearer sk_somebody_else").want(t, 403)
	// The same Authorization, which may be a gateway's, with a token of somebody else.
	refund(t, w.base, "refund:1", "pi_1", "480", "X-Shop-Token=tok_somebody_else").want(t, 403)
	if op := w.stored()[0]; op.State != effectonce.StateUnknown {
		t.Errorf("somebody else made it %s", op.State)
	}
	setPlan(t, c, "")
	eventually(t, "the caller's repeat", func() bool { return refund(t, w.base, "refund:1", "pi_1", "480").StatusCode == 200 })
	refund(t, w.base, "refund:1", "pi_1", "480", "X-Shop-Token=tok_somebody_else").want(t, 403)
	a := refund(t, w.base, "refund:1", "pi_1", "480", "Authorization=Bearer sk_somebody_else").want(t, 403)
	mismatch := refund(t, w.base, "refund:1", "pi_1", "1", "Authorization=Bearer sk_somebody_else").want(t, 403)
	if strings.Contains(a.body, "re_twin") || strings.Contains(mismatch.body, "amount") {
		t.Errorf("somebody else was told: %s %s", a.body, mismatch.body)
	}
	if n := effects(t, c); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// How an operation stands is told with a status that no client takes for a success or repeats without end, and what to do. (S7.10)
func TestHowOperationsStand(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "refunds#* after-effect status=500; lookup#* status=500")
	w := newWorld(t, c.BaseURL, func(o *egress.Options) { o.Wait = -1; o.Terms.Approval = false })
	a := refund(t, w.base, "refund:1", "pi_1", "480").want(t, 409, "Effectonce-Outcome=unknown", "Effectonce-Next=wait", "Stripe-Should-Retry=")
	if a.Header.Get("Retry-After") == "" {
		t.Error("it does not say when to ask again")
	}
	held := newWorldOn(t, w.store, c.BaseURL, func(o *egress.Options) { o.Terms.Approval = true })
	refund(t, held.base, "refund:2", "pi_1", "480").want(t, 423, "Effectonce-Outcome=awaiting_approval", "Effectonce-Next=stop_and_report", "Stripe-Should-Retry=false", "X-Should-Retry=false")
	gone := newUpstream(t, nil)
	gone.Close()
	none := newWorld(t, gone.URL, func(o *egress.Options) { o.Terms.Attempts = 2 })
	refund(t, none.base, "refund:3", "pi_1", "480").want(t, 424, "Effectonce-Outcome=failed", "Effectonce-Next=new_intent", "Effectonce-Proof=not_sent")
}

// An answer that is too large to be kept goes to the first caller whole; a repeat is told that it took effect. (S6.8)
func TestAnAnswerThatIsTooLargeToKeep(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"re_1","pad":%q,"metadata":{"effectonce":%q}}`, strings.Repeat("x", 2<<20), stampIn(r))
	})
	w := newWorld(t, u.URL)
	first := refund(t, w.base, "refund:1", "pi_1", "480").want(t, 200)
	if len(first.body) < 2<<20 || !json.Valid([]byte(first.body)) {
		t.Errorf("the first caller got %d bytes", len(first.body))
	}
	again := refund(t, w.base, "refund:1", "pi_1", "480").want(t, 410, "Effectonce-Outcome=succeeded", "Effectonce-Reference=re_1", "Stripe-Should-Retry=false")
	if !strings.Contains(again.body, egress.CodeAnswerNotKept) {
		t.Error(again.body)
	}
	if n := len(u.all()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
