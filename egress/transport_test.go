package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/effectonce/effectonce/egress"
)

// through sends a request through the round tripper.
func through(t testing.TB, w *world, r *http.Request) (answer, error) {
	t.Helper()
	response, err := egress.NewTransport(w.route).RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(body)}, nil
}

// A Go program gets what the proxy's clients get, and the proxy's record too. (S14.4)
func TestTheRoundTripperDoesWhatTheProxyDoes(t *testing.T) {
	t.Parallel()
	c := startTwin(t, "refunds#1 after-effect drop")
	w := newWorld(t, c.BaseURL)
	body := "payment_intent=pi_1&amount=480&currency=eur"
	headers := []string{"Content-Type=application/x-www-form-urlencoded", "effectonce-intent=refund:1", "Idempotency-Key=k"}
	first, err := through(t, w, request(t, "POST", c.BaseURL+"/v1/refunds", body, headers...))
	if err != nil {
		t.Fatal(err)
	}
	first.want(t, 200, "Effectonce-Outcome=succeeded")
	if again := form(t, w, body, "Effectonce-Intent=refund:1").want(t, 200, "Effectonce-Replayed=true"); again.body != first.body {
		t.Errorf("%s\n%s", first.body, again.body)
	}
	list, err := through(t, w, request(t, "GET", c.BaseURL+"/v1/refunds?limit=3", ""))
	if err != nil || list.StatusCode != 200 || !strings.Contains(list.body, "has_more") {
		t.Errorf("%v %s", err, list.body)
	}
	refused, err := through(t, w, request(t, "POST", c.BaseURL+"/v1/refunds", body, headers[0]))
	if err != nil || refused.StatusCode != 400 || refused.Status != "400 Bad Request" || !strings.Contains(refused.body, egress.CodeIntentMissing) {
		t.Errorf("%v %s", err, refused.body)
	}
	if n := effects(t, c); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// A program's request to another address is an error, and is not sent. (S14.4)
func TestTheRoundTripperHasOneAddress(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	other := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	w := newWorldOn(t, noStore{}, u.URL+"/api")
	for _, address := range []string{other.URL + "/api/v1/x", u.URL + "/v1/x", u.URL + "/api/../v1/x", u.URL + "/apiary", strings.Replace(u.URL, "http://", "http://user@", 1) + "/api/v1/x"} {
		if a, err := through(t, w, request(t, "GET", address, "")); err == nil {
			t.Errorf("%s was answered %d", address, a.StatusCode)
		}
	}
	if len(u.all())+len(other.all()) != 0 {
		t.Error("something was sent")
	}
	if _, err := through(t, w, request(t, "GET", u.URL+"/api/v1/x", "", "Upgrade=websocket")); err == nil {
		t.Error("an upgrade was sent")
	}
}
