package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/effectonce/effectonce/api"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	testscript.Main(pgtest.Tests{M: m}, map[string]func(){"effectonce": main, consumerCommand: consumeEvents})
}

// S14.6, the command line: testdata/script has what somebody sees at a terminal, refusals included.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("NO_SUCH_SERVER", "http://"+unusedAddress(t))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start":  scriptStart,
			"fill":   scriptFill,
			"post":   scriptPost,
			"occupy": scriptOccupy,
			"field":  scriptField,
			"version": func(ts *testscript.TestScript, neg bool, args []string) {
				var what shown
				ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &what))
				ts.Setenv(args[0], fmt.Sprint(what.Operation.Version))
			},
			// operation sets a variable to the key of the first operation of a list: operation KEY listed
			"operation": func(ts *testscript.TestScript, neg bool, args []string) {
				var page api.List
				ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &page))
				if len(page.Operations) == 0 {
					ts.Fatalf("the list is empty")
				}
				ts.Setenv(args[0], page.Operations[0].Key)
			},
			"prefix": func(ts *testscript.TestScript, neg bool, args []string) {
				n, err := strconv.Atoi(args[2])
				ts.Check(err)
				ts.Setenv(args[0], args[1][:n])
			},
		},
	})
}

// scriptStart runs a command that serves in the background and sets an environment variable to its URL: start SERVER serve --store x.db
func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start VARIABLE command [args]")
	}
	p, err := startProcess(ts.MkAbs("."), []string{"BANK_KEY=sk_test", "STRIPE_KEY=sk_test"}, append(args[1:], "--listen", "127.0.0.1:0")...)
	if err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Defer(func() { p.kill() })
	ts.Setenv(args[0], p.url)
	if args[1] == "serve" {
		ts.Setenv("EFFECTONCE_SERVER", p.url)
	}
}

// scriptFill replaces $NAME in files by the environment.
func scriptFill(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), func(v string) string { return ts.Getenv(v) })
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// scriptPost posts a JSON file: post STATUS URL FILE. The answer is kept in the file answer.
func scriptPost(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: post STATUS URL FILE")
	}
	r, err := http.Post(args[1], "application/json", strings.NewReader(ts.ReadFile(args[2])))
	ts.Check(err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), body, 0o600))
	if got := fmt.Sprint(r.StatusCode); got != args[0] {
		ts.Fatalf("status %s, want %s: %s", got, args[0], body)
	}
}

// scriptField sets a variable to a field of a JSON file: field KEY answer key
func scriptField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: field VARIABLE FILE NAME")
	}
	var object map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &object))
	ts.Setenv(args[0], fmt.Sprint(object[args[2]]))
}

// scriptOccupy takes a port and sets a variable to its address.
func scriptOccupy(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// unusedAddress is an address at which nobody listens.
func unusedAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// process is a serving effectonce under test.
type process struct {
	url    string
	ready  map[string]any
	cmd    *exec.Cmd
	stderr *written
	exited chan struct{}
	code   int
}

// written is what a process has written so far. It can be read while the process runs.
type written struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// binary is what startProcess runs: the test binary under the name effectonce, in the search path.
const binary = "effectonce"

// startProcess runs effectonce with --json in dir and waits until it says where it serves.
func startProcess(dir string, env []string, args ...string) (*process, error) {
	return startBinary(binary, dir, env, args...)
}

func startBinary(path, dir string, env []string, args ...string) (*process, error) {
	cmd := exec.Command(path, append(args, "--json")...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	p := &process{cmd: cmd, stderr: &written{}, exited: make(chan struct{})}
	cmd.Stderr = p.stderr
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	go func() {
		defer close(p.exited)
		// The code says how it ended.
		_ = cmd.Wait()
		p.code = cmd.ProcessState.ExitCode()
	}()
	first := make(chan error, 1)
	go func() {
		defer r.Close()
		d := json.NewDecoder(r)
		first <- d.Decode(&p.ready)
		_, _ = io.Copy(io.Discard, io.MultiReader(d.Buffered(), r))
	}()
	select {
	case err = <-first:
	case <-time.After(30 * time.Second):
		err = fmt.Errorf("not ready in 30 seconds")
	}
	if url, ok := p.ready["url"].(string); ok && err == nil {
		p.url = url
		return p, nil
	}
	p.kill()
	return nil, fmt.Errorf("%s %v did not start: %v, %v, %s", filepath.Base(path), args, err, p.ready, p.stderr)
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// signal sends a signal and waits for the end; it returns the exit code.
func (p *process) signal(t testing.TB, s syscall.Signal) int {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		p.kill()
		t.Fatalf("still running 30 seconds after %v; it logged:\n%s", s, p.stderr)
	}
	return p.code
}

// start is startProcess in a test.
func start(t testing.TB, dir string, env []string, args ...string) *process {
	t.Helper()
	p, err := startProcess(dir, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// answer is what the command line says to args.
func answer(t testing.TB, env map[string]string, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	code = run(ctx, args, &terminal{in: strings.NewReader(stdin), out: &out, err: &errs, env: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}})
	return code, out.String(), errs.String()
}
