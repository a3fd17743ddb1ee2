package fault

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// probeVariable is set in the environment of a child of a probe.
const probeVariable = "EFFECTONCE_PROBE_CHILD"

// childEndMax bounds how long a child that neither sends nor settles may take beyond the call's time-out.
const childEndMax = 20 * time.Second

// prober runs the halves of a probe's windows.
type prober struct {
	options ProbeOptions
	dir     string
}

// probeJob is what a child gets, as the first line of its standard input: it may hold a credential, which has no business in an
// environment or a command line.
type probeJob struct {
	Mode    probeMode     `json:"mode"`
	Tool    ProbeTool     `json:"tool"`
	Timeout time.Duration `json:"timeout"`
	Effect  string        `json:"effect"`
	DB      string        `json:"db,omitempty"`
	Plan    string        `json:"plan,omitempty"`
	Written bool          `json:"written,omitempty"`
	// Until bounds settling.
	Until time.Duration `json:"until,omitempty"`
}

// settledAs is what the last child of a guarded half says.
type settledAs struct {
	State  effectonce.State `json:"state"`
	Reason string           `json:"reason"`
}

// half plays one half of a window with a new effect and returns how many effects that had at the tool.
func (p *prober) half(ctx context.Context, acts []act, guarded bool) (int, settledAs, error) {
	var id [8]byte
	// rand.Read never fails on supported systems.
	_, _ = rand.Read(id[:])
	effect := "probe-" + hex.EncodeToString(id[:])
	before, err := p.count(ctx, effect)
	if err != nil {
		return 0, settledAs{}, err
	}
	if guarded {
		acts = append(acts[:len(acts):len(acts)], act{mode: modeSettle})
	}
	var last []byte
	for len(acts) > 0 {
		n := 1
		for n < len(acts) && acts[n].group != 0 && acts[n].group == acts[0].group {
			n++
		}
		if last, err = p.run(ctx, effect, acts[:n]); err != nil {
			return 0, settledAs{}, err
		}
		acts = acts[n:]
	}
	var ended settledAs
	if guarded {
		if err := json.Unmarshal(last, &ended); err != nil {
			return 0, settledAs{}, fmt.Errorf("the worker said %q", last)
		}
	}
	after, err := p.finalCount(ctx, effect)
	return after - before, ended, err
}

// run starts the children of acts at once, waits for all, and returns what the last one said.
func (p *prober) run(ctx context.Context, effect string, acts []act) ([]byte, error) {
	type end struct {
		out []byte
		err error
	}
	ends := make([]chan end, len(acts))
	for i, a := range acts {
		ends[i] = make(chan end, 1)
		go func() {
			out, err := p.child(ctx, effect, a)
			ends[i] <- end{out, err}
		}()
	}
	var last []byte
	var failed error
	for _, c := range ends {
		e := <-c
		last, failed = e.out, errors.Join(failed, e.err)
	}
	return last, failed
}

// child runs one child to its end.
func (p *prober) child(ctx context.Context, effect string, a act) ([]byte, error) {
	program := p.options.Program
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program = self
	}
	job, err := json.Marshal(probeJob{
		Mode: a.mode, Tool: p.options.Tool, Timeout: p.options.Timeout, Effect: effect, DB: filepath.Join(p.dir, effect+".db"),
		Plan: a.plan, Written: a.written, Until: p.options.settleMax(),
	})
	if err != nil {
		return nil, err
	}
	limit := p.options.Timeout + childEndMax
	if a.mode == modeSettle {
		limit += p.options.settleMax()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, program)
	command.Env = append(os.Environ(), probeVariable+"=1")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	// The pipe stays open as long as the child runs: its end tells the child that this program is gone.
	stdin, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	// A child that dies at once does not read; its end says so below.
	_, _ = stdin.Write(append(job, '\n'))
	said, readErr := io.ReadAll(bufio.NewReader(out))
	err = command.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("a child (%s %s) did not end: %w", a.mode, a.plan, context.Cause(ctx))
	case a.killed() && !killed(command.ProcessState):
		return nil, fmt.Errorf("a child (%s %s) was to be killed there, but went on: %s %s", a.mode, a.plan, bytes.TrimSpace(said), bytes.TrimSpace(stderr.Bytes()))
	case a.killed():
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("a child (%s %s): %w: %s", a.mode, a.plan, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return said, readErr
}

// finalCount counts once the tool has had the time to process what it got.
func (p *prober) finalCount(ctx context.Context, effect string) (int, error) {
	timer := time.NewTimer(p.options.Tool.Processing)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return p.count(ctx, effect)
}

// count asks how many effects there are.
func (p *prober) count(ctx context.Context, effect string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	c := p.options.Count
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ReplaceAll(c.URL, "{effect}", url.QueryEscape(effect)), nil)
	if err != nil {
		return 0, probeInvalid("count.url", "is not an address", "write http://host/path")
	}
	for name, value := range c.Headers {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, fmt.Errorf("counting effects: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("counting effects: the answer is %s", response.Status)
	}
	var document any
	if err := json.NewDecoder(io.LimitReader(response.Body, 64<<20)).Decode(&document); err != nil {
		return 0, fmt.Errorf("counting effects: the answer is not JSON: %w", err)
	}
	at, ok := contract.Path(c.Path).Find(document)
	switch v := at.(type) {
	case float64:
		return int(v), nil
	case []any:
		return len(v), nil
	}
	if !ok {
		return 0, probeInvalid("count.path", fmt.Sprintf("there is nothing at %q of the answer", c.Path), "name where the number or the list is")
	}
	return 0, probeInvalid("count.path", fmt.Sprintf("what is at %q of the answer is neither a number nor a list", c.Path), "name where the number or the list is")
}
