package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// binary builds the program once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "effectonce-integration-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "effectonce")
	build := exec.Command("go", "build", "-o", path, "./cmd/effectonce")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	built = dir
	return path, nil
})

var built string

func removeBinary() {
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

// daemon is a running effectonce serve, or another command of it that serves.
type daemon struct{ url, path string }

// serve starts the daemon with a configuration and a store in a directory of its own.
func serve(t *testing.T, configuration string, env ...string) daemon {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "effectonce.yaml"), []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	return serving(t, dir, env, "serve", "--listen", "127.0.0.1:0")
}

// serving starts a command of the program that serves until its test ends.
func serving(t *testing.T, dir string, env []string, args ...string) daemon {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(path, append(args, "--until-eof", "--json")...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	var log bytes.Buffer
	command.Stderr = &log
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, command)
	var ready map[string]any
	err = json.NewDecoder(out).Decode(&ready)
	if url, ok := ready["url"].(string); ok && err == nil {
		return daemon{url: url, path: path}
	}
	_ = command.Process.Kill()
	_ = command.Wait()
	t.Fatalf("effectonce %v did not start: %v, %v\n%s", args, err, ready, log.String())
	return daemon{}
}

// start starts a process that is ended with its test. One that does not end with its standard input is killed.
func start(t *testing.T, command *exec.Cmd) {
	t.Helper()
	in, err := command.StdinPipe()
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
}

// state asks the daemon how the operation of an intent stands, and why.
func (d daemon) state(t *testing.T, intent string) (state, reason string) {
	t.Helper()
	out, err := exec.Command(d.path, "ops", "ls", "--server", d.url, "--intent-id", intent, "--json").Output()
	var page struct {
		Operations []struct {
			State  string `json:"state"`
			Reason string `json:"reason"`
		} `json:"operations"`
	}
	if err == nil {
		err = json.Unmarshal(out, &page)
	}
	if err != nil || len(page.Operations) != 1 {
		t.Errorf("%s: want one operation on record (%v): %s", intent, err, out)
		return "none", ""
	}
	return page.Operations[0].State, page.Operations[0].Reason
}

// freePort is a port that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// answers waits until something answers there.
func answers(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_ = response.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not answer: %v", address, err)
		}
	}
}

// read gets JSON from a double, by POST if there is a form.
func read(t *testing.T, address, token string, form url.Values, into any) {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", address, err, strings.TrimSpace(string(body)))
	}
}
