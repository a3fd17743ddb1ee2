//go:build unix

package s16_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/effectonce/effectonce/fault"
)

// runNaive is what one has without a guard: a process that sends the request, and tells who started it how that went.
func (s spec) runNaive(ctx context.Context) error {
	plan, err := fault.ParsePlan(s.Plan)
	if err != nil {
		return err
	}
	form := url.Values{"payment_intent": {"pi_1"}, "amount": {"48000"}}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Twin+"/v1/refunds", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer sk_test_1")
	if s.Key == "" {
		s.Key = fmt.Sprintf("try-%d-%d", os.Getpid(), time.Now().UnixNano())
	}
	r.Header.Set("Idempotency-Key", s.Key)
	client := &http.Client{Transport: fault.Transport(nil, plan, announced), Timeout: patience}
	response, err := client.Do(r)
	if err != nil {
		say("no answer")
		return nil
	}
	defer response.Body.Close()
	say(response.Status)
	return nil
}
