//go:build unix

package s16_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	continued  = syscall.SIGCONT
	terminated = syscall.SIGTERM
)

// process is a running child.
type process struct {
	w       *world
	owner   string
	command *exec.Cmd
	stdin   io.Closer
	lines   chan string
	seen    []string
	ended   bool
	err     error
}

func (w *world) start(s spec) *process {
	w.t.Helper()
	w.mu.Lock()
	w.seq++
	s.Owner = fmt.Sprintf("%s-%d", s.Role, w.seq)
	w.alive[s.Owner] = true
	w.mu.Unlock()
	s.Store, s.Clock, s.Twin, s.Kind = w.at, w.clock, w.url, w.kind
	text, err := json.Marshal(s)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{w: w, owner: s.Owner, command: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	// The race detector makes each process sleep a second at its end; there are hundreds.
	p.command.Env = append(os.Environ(), childVariable+"="+string(text), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.command.Stderr = os.Stderr
	out, err := p.command.StdoutPipe()
	if err == nil {
		p.stdin, err = p.command.StdinPipe()
	}
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		scanner := bufio.NewScanner(out)
		scanner.Buffer(nil, 4<<20)
		for scanner.Scan() {
			p.lines <- scanner.Text()
		}
	}()
	w.t.Cleanup(p.kill)
	return p
}

// kill ends the process by SIGKILL, whatever state it is in.
func (p *process) kill() {
	if p.ended {
		return
	}
	_ = p.command.Process.Kill()
	p.reap()
}

func (p *process) reap() {
	for range p.lines {
	}
	p.err = p.command.Wait()
	p.ended = true
	p.w.mu.Lock()
	delete(p.w.alive, p.owner)
	p.w.mu.Unlock()
}

// ready waits for the line that says so, and returns the rest of it.
func (p *process) ready() string {
	p.w.t.Helper()
	return p.expect(readyLine)
}

// struck waits until the plan's step is announced.
func (p *process) struck(step string) {
	p.w.t.Helper()
	p.expect(struckLine + step)
}

func (p *process) expect(prefix string) string {
	p.w.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.w.t.Fatalf("%s ended without saying %q; it said %q", p.owner, prefix, p.seen)
			}
			p.seen = append(p.seen, line)
			if rest, found := strings.CutPrefix(line, prefix); found {
				return rest
			}
		case <-limit.C:
			p.w.t.Fatalf("%s does not say %q; it said %q", p.owner, prefix, p.seen)
		}
	}
}

// dead waits until the process has been killed by its plan, and fails if it ended in any other way.
func (p *process) dead() {
	p.w.t.Helper()
	p.end()
	status, ok := p.command.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		p.w.t.Fatalf("%s was to be killed at its crash point, but ended with %v; it said %q", p.owner, p.command.ProcessState, p.seen)
	}
}

// end waits until the process is gone.
func (p *process) end() {
	p.w.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for open := true; open; {
		var line string
		select {
		case line, open = <-p.lines:
			if open {
				p.seen = append(p.seen, line)
			}
		case <-limit.C:
			p.w.t.Fatalf("%s does not end; it said %q", p.owner, p.seen)
		}
	}
	p.reap()
}

// answers waits for an agent's end and returns what it was told.
func (p *process) answers() []answer {
	p.w.t.Helper()
	p.end()
	if p.err != nil {
		p.w.t.Fatalf("%s: %v; it said %q", p.owner, p.err, p.seen)
	}
	var all []answer
	for _, line := range p.seen {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			p.w.t.Fatalf("%s: %q: %v", p.owner, line, err)
		}
		all = append(all, a)
	}
	return all
}

// asleep says that the process was stopped: nobody has to wait for it, and time passes without it.
func (p *process) asleep() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	delete(p.w.alive, p.owner)
}

// wake lets a stopped process go on, and returns what its agent was told in the end.
func (p *process) wake() []answer {
	p.w.t.Helper()
	p.signal(continued)
	return p.answers()
}

func (p *process) signal(s syscall.Signal) {
	p.w.t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.w.t.Fatal(err)
	}
}
