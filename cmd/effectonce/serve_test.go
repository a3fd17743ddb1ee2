package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/effectonce/effectonce/fault/twin"
)

// eventually polls check until it is true.
func eventually(t testing.TB, what string, check func() bool) {
	t.Helper()
	err := until(t.Context(), 30*time.Second, what, func(context.Context) (bool, error) { return check(), nil })
	if err != nil {
		t.Fatal(err)
	}
}

// ask posts JSON and returns status and body; status 0 says that nothing was answered.
func ask(t testing.TB, url, body string) (int, map[string]any) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s answered %d and no JSON: %s", url, r.StatusCode, text)
	}
	return r.StatusCode, v
}

const refundBody = `{"tool": "stripe.refund", "arguments": {"order_id": "order-1", "ticket_id": "ticket-1", "payment_intent": "pi_1", "amount": "480.00"}}`

// withTwin is a directory with demo.yaml for a running twin.
func withTwin(t testing.TB, plan string) (dir string, ledger twin.Control) {
	t.Helper()
	dir = t.TempDir()
	p := start(t, dir, nil, "twin", "stripe", "--fault", plan, "--listen", "127.0.0.1:0")
	text := strings.ReplaceAll(demoConfig, demoConfigProvider, p.url)
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, twin.Control{BaseURL: p.url}
}

func serve(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	return start(t, dir, []string{"STRIPE_KEY=sk_test"}, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
}

func effects(t testing.TB, c twin.Control) int {
	t.Helper()
	l, err := c.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l.Count
}

func TestServeNeedsNoConfigurationAndSaysWhereItsStoreIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := serve(t, dir)
	if got, want := p.ready["store"], filepath.Join(dir, "effectonce.db"); got != want {
		t.Errorf("store %v, want %v", got, want)
	}
	if got := p.ready["config"]; got != "" {
		t.Errorf("config %v, want none", got)
	}
	status, claim := ask(t, p.url+"/v1/claims", `{"tool": "hello", "intent_id": "hello:1", "arguments": {"to": "world"}}`)
	if status != http.StatusCreated || claim["do"] != "execute" {
		t.Fatalf("claim: %d %v", status, claim)
	}
}

func TestServeUsesTheConfigurationInItsDirectory(t *testing.T) {
	t.Parallel()
	dir, ledger := withTwin(t, "")
	p := serve(t, dir)
	if got := p.ready["config"]; got != configFile {
		t.Errorf("config %v, want %s", got, configFile)
	}
	for i := range 2 {
		status, op := ask(t, p.url+"/v1/operations", refundBody)
		if status != http.StatusOK || op["outcome"] != "succeeded" || op["replayed"] != (i == 1) {
			t.Errorf("answer %d: %d %v", i+1, status, op)
		}
	}
	if got := effects(t, ledger); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
}

// A stop lets a running attempt end and records it; whoever waits is answered.
func TestServeEndsRunningAttemptsWhenItIsStopped(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			dir, ledger := withTwin(t, "refunds#1 hold=700ms")
			p := serve(t, dir)
			var agent sync.WaitGroup
			agent.Go(func() {
				// The attempt was sent before the signal, so it ends and its caller is told.
				status, op := ask(t, p.url+"/v1/operations", refundBody)
				if status != http.StatusOK || op["outcome"] != "succeeded" {
					t.Errorf("the running attempt: %d %v", status, op)
				}
			})
			eventually(t, "the provider works on it", func() bool {
				log, err := ledger.Requests(t.Context())
				return err == nil && log.Total > 0
			})
			if code := p.signal(t, s); code != 0 {
				t.Errorf("exit code %d, want 0; it logged:\n%s", code, p.stderr)
			}
			agent.Wait()
			if got := effects(t, ledger); got != 1 {
				t.Errorf("%d effects, want 1", got)
			}
			again := serve(t, dir)
			if status, op := ask(t, again.url+"/v1/operations", refundBody); status != http.StatusOK || op["replayed"] != true {
				t.Errorf("after the restart: %d %v", status, op)
			}
		})
	}
}

// What does not end in the time given is left, and reconciled after the next start without anybody asking (S7.5).
func TestServeLeavesWhatDoesNotEndRecoverable(t *testing.T) {
	t.Parallel()
	dir, ledger := withTwin(t, "refunds#1 after-effect hang=30s")
	p := serve(t, dir, "--drain", "50ms")
	var agent sync.WaitGroup
	agent.Go(func() { ask(t, p.url+"/v1/operations", refundBody) })
	eventually(t, "the provider has refunded", func() bool { return effects(t, ledger) == 1 })
	if code := p.signal(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	agent.Wait()
	if !strings.Contains(p.stderr.String(), "reconciled after the next start") {
		t.Errorf("it does not say what it left:\n%s", p.stderr)
	}
	settles(t, serve(t, dir), ledger)
}

// S16.3: killed after the effect and before recording; found without anybody asking.
func TestServeKilledAfterTheEffectReconcilesAfterTheRestart(t *testing.T) {
	t.Parallel()
	dir, ledger := withTwin(t, "refunds#1 after-effect hang=30s")
	p := serve(t, dir)
	var agent sync.WaitGroup
	agent.Go(func() { ask(t, p.url+"/v1/operations", refundBody) })
	eventually(t, "the provider has refunded", func() bool { return effects(t, ledger) == 1 })
	p.kill()
	agent.Wait()
	settles(t, serve(t, dir), ledger)
}

// settles waits until the one operation succeeded, and counts.
func settles(t *testing.T, p *process, ledger twin.Control) {
	t.Helper()
	eventually(t, "the operation is settled", func() bool {
		r, err := http.Get(p.url + "/v1/operations?state=succeeded")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		var list struct{ Operations []map[string]any }
		return json.NewDecoder(r.Body).Decode(&list) == nil && len(list.Operations) == 1
	})
	if got := effects(t, ledger); got != 1 {
		t.Errorf("%d effects, want 1", got)
	}
}

func TestASecondSignalEndsTheDaemonAtOnce(t *testing.T) {
	t.Parallel()
	dir, ledger := withTwin(t, "refunds#1 after-effect hang=30s")
	// The call's time-out is far away, so that only the second signal can end it.
	file := filepath.Join(dir, configFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte("timeout: 1500ms"), []byte("timeout: 25s")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serve(t, dir)
	var agent sync.WaitGroup
	agent.Go(func() { ask(t, p.url+"/v1/operations", refundBody) })
	eventually(t, "the provider has refunded", func() bool { return effects(t, ledger) == 1 })
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	// New operations are refused as soon as the first signal has been noticed.
	eventually(t, "the first signal is noticed", func() bool {
		status, _ := ask(t, p.url+"/v1/claims", `{"tool": "x", "intent_id": "x:1", "arguments": {}}`)
		return status == 0 || status == http.StatusServiceUnavailable
	})
	if code := p.signal(t, syscall.SIGINT); code == 0 {
		t.Error("exit code 0 after a second signal")
	}
	agent.Wait()
}

func TestAProcessThatServesEndsWithItsInput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"serve"}, {"twin", "stripe"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			args := append(args, "--listen", "127.0.0.1:0", "--until-eof")
			if args[0] == "serve" {
				args = append(args, "--store", filepath.Join(t.TempDir(), "x.db"))
			}
			// No standard input is an input that has ended.
			p := start(t, t.TempDir(), nil, args...)
			eventually(t, "it ends", func() bool {
				select {
				case <-p.exited:
					return true
				default:
					return false
				}
			})
			if p.code != 0 {
				t.Errorf("exit code %d:\n%s", p.code, p.stderr)
			}
		})
	}
}

// idleMemoryMax is what an idle daemon may hold (issue: less than 60 MiB).
const idleMemoryMax = 60 << 10 // KiB

// The binary builds without cgo, is ready at once, and needs little when it is idle.
func TestTheBinaryBuildsWithoutCgoAndIsSmallWhenIdle(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effectonce")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	begin := time.Now()
	p, err := startBinary(path, t.TempDir(), nil, "serve", "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	if runtime.GOOS != "linux" {
		t.Log("memory is measured on Linux only")
		return
	}
	for i := range 50 {
		ask(t, p.url+"/v1/claims", fmt.Sprintf(`{"tool": "x", "intent_id": "x:%d", "arguments": {}}`, i))
	}
	kib := residentKiB(t, p.cmd.Process.Pid)
	t.Logf("resident: %d KiB", kib)
	if kib > idleMemoryMax {
		t.Errorf("the idle daemon holds %d KiB, more than %d", kib, idleMemoryMax)
	}
}

func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
