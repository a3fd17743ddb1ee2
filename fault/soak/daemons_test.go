//go:build unix

package soak_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/effectonce/effectonce/client"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// binary builds the daemon once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "effectonce-soak-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "effectonce")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/effectonce").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return path, nil
})

// built is where binary has built it.
var built string

func TestMain(m *testing.M) {
	code := pgtest.Tests{M: m}.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// configuration is the daemons': one tool, with times that a test can wait for.
const configuration = `
store: %s
providers:
  stripe:
    contract: stripe/v1
    base_url: %s
    credential: env:STRIPE_KEY
    account: shop
tools:
  stripe.refund:
    intent_id: "refund:{order_id}:{ticket_id}"
    resource: "payment:{payment_intent}"
    arguments:
      order_id: {kind: identity, normalise: [trim, upper]}
      ticket_id: {kind: identity, normalise: [trim, upper]}
      payment_intent: {kind: material, required: true}
      amount: {kind: material, required: true}
      customer: {kind: material, required: true}
      reason: {kind: free}
    call:
      provider: stripe
      operation: refunds.create
      body: {payment_intent: "{payment_intent}", amount: "{amount}"}
      timeout: 1500ms
    lease: {grace: 500ms}
    settle: {pause: 100ms, transit: 100ms, processing: 500ms}
    retry: {attempts: 50, within: 30m, backoff: 50ms, backoff_max: 500ms}
    limits: [{name: "refunds:{customer}", max: %d}]
inbox:
  tickets: {verify: none, unsigned: true, event_id: "{id}", run: "event-{id}", lease: 3s, timeout: 6s, attempts: 1000}
outbox:
  - {subjects: [">"], webhook: {url: %s}, attempts: 1000, backoff: 50ms, backoff_max: 500ms, timeout: 2s}
`

// daemon is one of two on a store. It can be killed at any time, and keeps its address.
type daemon struct {
	t      *testing.T
	dir    string
	addr   string
	client *client.Client

	command *exec.Cmd
	stdin   io.Closer
	log     bytes.Buffer
	logs    sync.Mutex
}

func newDaemon(t *testing.T, dir string) *daemon {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{t: t, dir: dir, addr: l.Addr().String()}
	_ = l.Close()
	if d.client, err = client.New("http://"+d.addr, client.Options{Actor: "soak"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	return d
}

// Write keeps the last of what the daemon says, for a report.
func (d *daemon) Write(b []byte) (int, error) {
	d.logs.Lock()
	defer d.logs.Unlock()
	if d.log.Len() > 1<<20 {
		d.log.Reset()
	}
	return d.log.Write(b)
}

// start starts it, and does not wait until it serves.
func (d *daemon) start() {
	d.t.Helper()
	path, err := binary()
	if err != nil {
		d.t.Fatal(err)
	}
	d.command = exec.Command(path, "serve", "--config", "effectonce.yaml", "--listen", d.addr, "--until-eof")
	d.command.Dir, d.command.Stdout, d.command.Stderr = d.dir, io.Discard, d
	d.command.Env = append(os.Environ(), "STRIPE_KEY=sk_test_soak", "SOAK_STORE="+os.Getenv("SOAK_STORE"))
	if d.stdin, err = d.command.StdinPipe(); err == nil {
		err = d.command.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// serves waits until it answers.
func (d *daemon) serves() {
	d.t.Helper()
	until(d.t, "a daemon serves again", func() bool {
		response, err := http.Get("http://" + d.addr + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
}

// kill is SIGKILL. It also ends one that is stopped.
func (d *daemon) kill() {
	if d.command == nil {
		return
	}
	_ = d.command.Process.Kill()
	_ = d.stdin.Close()
	_ = d.command.Wait()
	d.command = nil
}

func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.command.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// until polls for what has to become true.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("it never happened: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
