package provider

import "testing"

// What opens something is told by its name, and what only sounds like it is not. (S15.4)
func TestSecret(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Authorization": true, "Proxy-Authorization": true, "Cookie": true, "X-Api-Key": true, "api_key": true, "X-Shopify-Access-Token": true, "Ocp-Apim-Subscription-Key": true,
		"DD-APPLICATION-KEY": true, "X-Auth-Email": true, "X-Amz-Security-Token": true, "X-Amz-Signature": true, "sig": true, "access_token": true, "key": true, "X-Session-Id": true,
		"X-Author": false, "Stripe-Account": false, "Idempotency-Key": false, "Content-Type": false, "Stripe-Version": false, "X-Request-Id": false, "assign": false, "keyword": false,
	} {
		if got := Secret(name); got != want {
			t.Errorf("%s is a secret: %t", name, got)
		}
	}
}
