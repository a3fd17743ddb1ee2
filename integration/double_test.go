package integration

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stripe/stripe-go/v84"
)

// double starts the Stripe double as a process, one for each test, and returns its address. Where Node or npm is missing the
// test is skipped, or fails if everything is to be tested.
func double(t *testing.T) string {
	t.Helper()
	npmPackages(t, "stripe-mock")
	command := exec.Command("node", "serve.js")
	command.Dir = "stripe-mock"
	command.Env = append(os.Environ(), "LOG_LEVEL=silent")
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the Stripe double said nothing: %v", err)
	}
	return strings.TrimSpace(line)
}

// unavailable skips with one loud line, or fails where nothing may be skipped.
func unavailable(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") != "" || os.Getenv("EFFECTONCE_TEST_ALL") != "" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED, NOT TESTED: " + why)
}

// npmPackages installs what a directory here names, once for all tests.
func npmPackages(t *testing.T, dir string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			unavailable(t, program+" is missing: install Node 20 or newer with npm (Debian: apt-get install nodejs npm)")
		}
	}
	installing.Lock()
	defer installing.Unlock()
	if _, done := installed[dir]; !done {
		out, err := exec.Command("./install.sh", dir).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		installed[dir] = err
	}
	if err := installed[dir]; err != nil {
		unavailable(t, "the npm packages of "+dir+" cannot be installed: "+err.Error())
	}
}

var (
	installing sync.Mutex
	installed  = map[string]error{}
)

// official is Stripe's own client, pointed at an address, with as many retries of its own as asked for.
func official(address string, retries int64) *stripe.Client {
	return officialThrough(address, retries, nil)
}

func officialThrough(address string, retries int64, transport http.RoundTripper) *stripe.Client {
	backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(address), MaxNetworkRetries: stripe.Int64(retries), HTTPClient: &http.Client{Transport: transport},
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	return stripe.NewClient("sk_test_integration", stripe.WithBackends(backends))
}

const (
	chargedMinor  = 100_000
	refundedMinor = 48_000
)

// charge creates a charge that refunds can be made of, twice over.
func charge(t *testing.T, address string) string {
	t.Helper()
	params := &stripe.ChargeCreateParams{Amount: stripe.Int64(chargedMinor), Currency: stripe.String("eur")}
	if err := params.SetSource("tok_visa"); err != nil {
		t.Fatal(err)
	}
	c, err := official(address, 0).V1Charges.Create(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// refunds reads back with the official client which refunds of the charge exist, and checks that the charge says the same.
func refunds(t *testing.T, address, charge string) []*stripe.Refund {
	t.Helper()
	api := official(address, 0)
	params := &stripe.RefundListParams{Charge: stripe.String(charge)}
	var all []*stripe.Refund
	sum := int64(0)
	for refund, err := range api.V1Refunds.List(t.Context(), params) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, refund)
		sum += refund.Amount
	}
	c, err := api.V1Charges.Retrieve(t.Context(), charge, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.AmountRefunded != sum {
		t.Errorf("the charge says that %d was refunded, the refunds sum up to %d", c.AmountRefunded, sum)
	}
	return all
}
