package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// childStartMax bounds the start of a child process.
const childStartMax = 15 * time.Second

// child is this program run again as a process of its own.
type child struct {
	// URL is where it serves, if it does.
	URL string

	cmd    *exec.Cmd
	stdin  io.Closer
	exited chan struct{}
	err    error
}

// startServing starts effectonce with args and waits until it says where it serves. The child ends when its standard input does, so
// it never outlives this process. What it logs goes to log.
func startServing(ctx context.Context, env []string, log io.Writer, args ...string) (*child, error) {
	args = append(args, "--json", "--until-eof")
	c, stdout, err := startChild(env, log, args...)
	if err != nil {
		return nil, err
	}
	line := make(chan string, 1)
	go func() {
		defer close(line)
		lines := bufio.NewScanner(stdout)
		if lines.Scan() {
			line <- lines.Text()
		}
		// Nothing more is expected; a full pipe must not stop the child.
		_, _ = io.Copy(io.Discard, stdout)
	}()
	started, cancel := context.WithTimeout(ctx, childStartMax)
	defer cancel()
	select {
	case text := <-line:
		var ready struct{ URL, Detail string }
		if err := json.Unmarshal([]byte(text), &ready); err == nil && ready.URL != "" {
			c.URL = ready.URL
			return c, nil
		}
		err = fmt.Errorf("effectonce %s did not start: %s", args[0], strings.TrimSpace(text+" "+ready.Detail))
	case <-started.Done():
		err = fmt.Errorf("effectonce %s did not start: %w", args[0], context.Cause(started))
	}
	c.kill()
	return nil, err
}

// startChild starts effectonce with args.
func startChild(env []string, log io.Writer, args ...string) (*child, io.Reader, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.Command(self, args...)
	// The program may be named by its first argument, as in tests.
	cmd.Args[0] = "effectonce"
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	// A pipe of its own, so that Wait does not depend on its reader.
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stdout = writer
	err = cmd.Start()
	writer.Close()
	if err != nil {
		reader.Close()
		return nil, nil, fmt.Errorf("starting effectonce %s: %w", args[0], err)
	}
	c := &child{cmd: cmd, stdin: stdin, exited: make(chan struct{})}
	go func() {
		defer close(c.exited)
		c.err = cmd.Wait()
	}()
	return c, reader, nil
}

// kill is SIGKILL: the process gets no chance to do anything. It returns when the process is gone.
func (c *child) kill() {
	// The error says that it is gone already.
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// stop ends the child's standard input, waits a moment, and kills it if that was not enough.
func (c *child) stop() {
	c.stdin.Close()
	select {
	case <-c.exited:
	case <-time.After(3 * time.Second):
		c.kill()
	}
}

// wait returns how the child ended.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.exited:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// children are processes to clean up, whatever happens.
type children struct {
	mu  sync.Mutex
	all []*child
}

func (cs *children) add(c *child) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.all = append(cs.all, c)
}

// stop ends them all, the last one first.
func (cs *children) stop() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for i := len(cs.all) - 1; i >= 0; i-- {
		cs.all[i].stop()
	}
	cs.all = nil
}

// until polls check until it is true, for at most d.
func until(ctx context.Context, d time.Duration, what string, check func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, d, errTooLong)
	defer cancel()
	for {
		ok, err := check(ctx)
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("waiting until %s: %w", what, err)
		case <-time.After(15 * time.Millisecond):
		}
	}
}

var errTooLong = errors.New("it took too long")

// runHidden carries out what this program runs itself again for, other than its commands; was says whether that was asked.
func runHidden() (was bool, code int) {
	if job := os.Getenv(demoJobEnv); job != "" {
		return true, demoWorker(job)
	}
	return runProbeChild()
}
