package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/egress"
	"github.com/effectonce/effectonce/fault/twin"
	"github.com/effectonce/effectonce/provider"
	"github.com/effectonce/effectonce/store/memory"
	"github.com/effectonce/effectonce/store/sqlite"
	"github.com/effectonce/effectonce/worker"
)

// The tests start the test binary again: as a provider's twin, and as a proxy that is really killed.
const (
	roleVar     = "EFFECTONCE_EGRESS_TEST_ROLE"
	pathVar     = "EFFECTONCE_EGRESS_TEST_PATH"
	upstreamVar = "EFFECTONCE_EGRESS_TEST_UPSTREAM"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVar); role {
	case "":
		os.Exit(m.Run())
	case "twin":
		play(func(ctx context.Context, l net.Listener) error {
			s, err := twin.New(twin.Config{})
			if err != nil {
				return err
			}
			return s.Serve(ctx, l)
		})
	case "proxy":
		play(playProxy)
	}
}

// play serves until its standard input ends.
func play(serve func(context.Context, net.Listener) error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("http://" + l.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := serve(ctx, l); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playProxy is a daemon as far as these tests need one: a proxy and workers over a SQLite file.
func playProxy(ctx context.Context, l net.Listener) error {
	store, err := sqlite.Open(ctx, os.Getenv(pathVar), sqlite.Options{})
	if err != nil {
		return err
	}
	var route *egress.Route
	guard := effectonce.New(store, effectonce.Options{Logger: quiet(), Providers: func(op effectonce.Operation) effectonce.Provider {
		return egress.ProviderOf([]*egress.Route{route}, op)
	}})
	if route, err = egress.New(stripeOptions(guard, os.Getenv(upstreamVar))); err != nil {
		return err
	}
	go func() { _ = worker.New(guard, store, worker.Options{Logger: quiet()}).Run(ctx) }()
	server := &http.Server{Handler: egress.NewProxy([]*egress.Route{route})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return store.Close()
}

// process is a program of its own.
type process struct {
	url string
	cmd *exec.Cmd
}

func (p process) kill(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
}

func start(t testing.TB, role string, env ...string) process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), roleVar+"="+role), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "http://") {
		t.Fatalf("the %s said %q (%v)", role, line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return process{url: strings.TrimSpace(line), cmd: cmd}
}

// startTwin starts a provider in a process of its own.
func startTwin(t testing.TB, plan string) twin.Control {
	t.Helper()
	c := twin.Control{BaseURL: start(t, "twin").url}
	setPlan(t, c, plan)
	return c
}

func setPlan(t testing.TB, c twin.Control, plan string) {
	t.Helper()
	faults, err := twin.ParsePlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetFaults(t.Context(), faults); err != nil {
		t.Fatal(err)
	}
}

// effects is what really happened.
func effects(t testing.TB, c twin.Control) int {
	t.Helper()
	l, err := c.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l.Count
}

const heldSecret = "sk_test_heldbytheproxy"

func held(context.Context) (string, error) { return heldSecret, nil }

func stripe(t testing.TB) *contract.Contract {
	t.Helper()
	c, err := contract.Load("stripe/v1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// quickTerms make ambiguous ends reconcile in the time of a test.
func quickTerms() effectonce.Terms {
	return effectonce.Terms{
		CallTimeout: 5 * time.Second, Grace: 2 * time.Second, Pause: time.Millisecond, Transit: time.Millisecond, Processing: time.Millisecond,
		Backoff: 30 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
	}
}

func stripeOptions(guard *effectonce.Guard, upstream string) egress.Options {
	c, err := contract.Load("stripe/v1")
	if err != nil {
		panic(err)
	}
	return egress.Options{
		Name: "stripe", Guard: guard, Terms: quickTerms(), Logger: quiet(), Wait: time.Minute,
		API: provider.RawOptions{Contract: c, BaseURL: upstream, Credential: held},
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// world is a proxy in this process with its store.
type world struct {
	t     testing.TB
	store effectonce.Store
	guard *effectonce.Guard
	route *egress.Route
	base  string
}

// newWorld makes a proxy to an upstream over a store in memory.
func newWorld(t testing.TB, upstream string, change ...func(*egress.Options)) *world {
	t.Helper()
	return newWorldOn(t, memory.Open(memory.Options{}), upstream, change...)
}

func newWorldOn(t testing.TB, store effectonce.Store, upstream string, change ...func(*egress.Options)) *world {
	t.Helper()
	w := &world{t: t, store: store}
	w.guard = effectonce.New(store, effectonce.Options{Logger: quiet(), StoreTimeout: time.Minute, Access: egress.Access, Providers: func(op effectonce.Operation) effectonce.Provider {
		return egress.ProviderOf([]*egress.Route{w.route}, op)
	}})
	o := stripeOptions(w.guard, upstream)
	for _, f := range change {
		f(&o)
	}
	var err error
	if w.route, err = egress.New(o); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(egress.NewProxy([]*egress.Route{w.route}))
	t.Cleanup(server.Close)
	w.base = server.URL + "/egress/" + o.Name
	return w
}

func openSQLite(t testing.TB) effectonce.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "e.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	body string
}

func (a answer) want(t testing.TB, status int, headers ...string) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", a.StatusCode, status, a.body)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		if got := a.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	return a
}

func send(t testing.TB, r *http.Request) answer {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(body)}
}

func request(t testing.TB, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		r.Header.Set(name, value)
	}
	return r
}

// refund sends a refund as an SDK does: a form, a random key, a credential of its own.
func refund(t testing.TB, base, intent, payment, amount string, headers ...string) answer {
	t.Helper()
	form := url.Values{"payment_intent": {payment}, "amount": {amount}, "currency": {"eur"}}
	r := request(t, "POST", base+"/v1/refunds", form.Encode(), "Content-Type=application/x-www-form-urlencoded", "Authorization=Bearer sk_agents_own", "Idempotency-Key="+randomKey())
	if intent != "" {
		r.Header.Set(egress.HeaderIntent, intent)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, "=")
		r.Header.Set(name, value)
	}
	return send(t, r)
}

// stored lists all operations.
func (w *world) stored() []effectonce.Operation {
	w.t.Helper()
	page, err := w.store.List(w.t.Context(), effectonce.Filter{Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	var all []effectonce.Operation
	for _, summary := range page.Operations {
		op, err := w.store.Load(w.t.Context(), summary.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, op)
	}
	return all
}

// eventually waits for what is to become true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		<-tick.C
	}
}

// undescribing is a contract that describes no write.
func undescribing(t testing.TB) *contract.Contract {
	t.Helper()
	c := *stripe(t)
	c.Operations = map[string]*contract.Operation{"refunds.create": c.Operations["refunds.create"]}
	return &c
}
