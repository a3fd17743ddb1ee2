package twin

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// childLedger is set in the environment of the test binary when it is to be a twin instead of running tests.
const childLedger = "TWIN_TEST_CHILD_LEDGER"

func TestMain(m *testing.M) {
	if file := os.Getenv(childLedger); file != "" {
		if err := child(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child serves until it is killed, and prints where.
func child(file string) error {
	s, err := New(Config{LedgerFile: file})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + l.Addr().String())
	return s.Serve(context.Background(), l)
}

// startChild runs a twin as a process and returns it with what kills it.
func startChild(t *testing.T, file string) (twinUnderTest, func()) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childLedger+"="+file)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill := func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the twin said nothing: %v", err)
	}
	return twinUnderTest{Control: Control{BaseURL: strings.TrimSpace(line), HTTP: client()}, t: t}, kill
}

func TestKilledTwinContinues(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.jsonl")
	before, kill := startChild(t, file)
	first := before.refund("k1")
	first.want(t, 200, "")
	before.plan("refunds#1 hold=1h")
	unfinished := make(chan got, 1)
	go func() { unfinished <- before.refund("k2") }()
	until(t, "k2 is being processed", func() bool {
		log, err := before.Control.Requests(t.Context())
		return err == nil && len(log.Requests) == 2 && log.Requests[1].Outcome == "started"
	})
	kill()
	if g := <-unfinished; g.err == nil {
		t.Errorf("a killed twin answered: %d %s", g.status, g.body)
	}

	after, _ := startChild(t, file)
	after.wantEffects(1)
	again := after.refund("k1")
	if again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("k1 after the kill: %d %s", again.status, again.body)
	}
	after.refund("k2").want(t, 200, "")
	after.wantEffects(2)
}

func TestServeSaysWhyItCannotListen(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Serve(t.Context(), l); err == nil {
		t.Error("a closed listener was served")
	}
}
