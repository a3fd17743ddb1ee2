// Package examples_test kills the example agents, and the daemon under them, and counts refunds at the provider (S16.11, S16.16).
package examples_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce/client"
	"github.com/effectonce/effectonce/fault/twin"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// patience is how long a test waits for something that has to happen.
const patience = 2 * time.Minute

// binaries builds the programs under test once.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "effectonce-examples-")
	if err != nil {
		return "", err
	}
	built = dir
	out, err := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "../cmd/effectonce", "./agent-go").CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("go build: %w: %s", err, out)
	}
	return dir, nil
})

// built is where binaries has built them.
var built string

func TestMain(m *testing.M) {
	code := pgtest.Tests{M: m}.Run()
	if built != "" {
		// What is left in the temporary directory harms nobody.
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// world is a twin, a daemon that can be killed, and a place for tickets.
type world struct {
	t      *testing.T
	bin    string
	dir    string
	addr   string
	store  string
	twin   twin.Control
	client *client.Client

	daemon *exec.Cmd
}

// newWorld starts a twin with faults and a daemon on a store: a URL, or a file in a directory of the world's own.
func newWorld(t *testing.T, agent, store, faults string) *world {
	t.Helper()
	bin, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, bin: bin, dir: t.TempDir(), addr: freeAddress(t), store: store}
	_, url := w.serving("twin", "stripe", "--listen", "127.0.0.1:0", "--fault", faults)
	w.twin = twin.Control{BaseURL: url}
	text, err := os.ReadFile(filepath.Join(agent, "effectonce.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The example's configuration, at this twin, and with times that a test can wait for.
	config := string(text)
	for old, now := range map[string]string{
		"http://127.0.0.1:7190":         url,
		"timeout: 10s":                  "timeout: 1s\n    lease: {grace: 500ms}\n    settle: {pause: 50ms, transit: 50ms, processing: 300ms}",
		"backoff: 1s, backoff_max: 10s": "backoff: 100ms, backoff_max: 500ms",
	} {
		if !strings.Contains(config, old) {
			t.Fatalf("the example's configuration has no %q any more", old)
		}
		config = strings.Replace(config, old, now, 1)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "effectonce.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.client, err = client.New("http://"+w.addr, client.Options{}); err != nil {
		t.Fatal(err)
	}
	w.startDaemon()
	return w
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serving starts effectonce and waits until it says where it serves. It ends with the test.
func (w *world) serving(args ...string) (*exec.Cmd, string) {
	w.t.Helper()
	cmd := exec.Command(filepath.Join(w.bin, "effectonce"), append(args, "--json", "--until-eof")...)
	cmd.Dir, cmd.Env = w.dir, append(os.Environ(), "STRIPE_KEY=sk_test_local")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	var ready struct{ URL string }
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &ready) != nil || ready.URL == "" {
		w.t.Fatalf("effectonce %v did not start: %s", args, lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return cmd, ready.URL
}

func (w *world) startDaemon() {
	w.t.Helper()
	w.daemon, _ = w.serving("serve", "--listen", w.addr, "--store", w.store, "--log", "json")
}

// restartDaemon kills the daemon, whatever it is doing, and starts it again.
func (w *world) restartDaemon() {
	w.t.Helper()
	_ = w.daemon.Process.Kill()
	_ = w.daemon.Wait()
	w.startDaemon()
}

// ticket writes a ticket of its own and returns its file; its payment is the run's name.
func (w *world) ticket(run string) string {
	file := filepath.Join(w.dir, run+".json")
	text := fmt.Sprintf(`{"ticket_id": "t-%s", "order_id": "o-%s", "payment_intent": "pi_%s", "paid": 480, "text": "It arrived broken."}`, run, run, run)
	// Agents of one run may read it meanwhile: it is whole at any moment.
	next, err := os.CreateTemp(w.dir, run)
	if err == nil {
		_, err = next.WriteString(text)
		err = errors.Join(err, next.Close(), os.Rename(next.Name(), file))
	}
	if err != nil {
		w.t.Error(err)
	}
	return file
}

// ended is how one process of an agent ended, and where it has been.
type ended struct {
	killed bool
	code   int
	points []point
	said   string
}

// point is where an agent was, and when.
type point struct {
	at   time.Time
	name string
}

// work runs the agent until it ends by itself, dies at a point, or is killed after some time (0: never).
func (w *world) work(agent, run, dieAt string, after time.Duration) ended {
	args := []string{"-server", "http://" + w.addr, "-run", run, "-ticket", w.ticket(run)}
	cmd := exec.Command(filepath.Join(w.bin, "agent-go"), args...)
	if agent == "agent-python" {
		cmd = exec.Command("python3", append([]string{"agent-python/agent.py"}, "--server", args[1], "--run", args[3], "--ticket", args[5])...)
	}
	cmd.Env = append(os.Environ(), "AGENT_DIE_AT="+dieAt)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		w.t.Error(err)
		return ended{code: 1}
	}
	limit := patience
	if after > 0 {
		limit = after
	}
	stop := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if !stop.Stop() && after == 0 {
		w.t.Errorf("%s, run %s, does not end: %s", agent, run, errs.String())
		return ended{code: 1}
	}
	e := ended{code: cmd.ProcessState.ExitCode(), said: out.String() + errs.String()}
	var exit *exec.ExitError
	e.killed = errors.As(err, &exit) && e.code < 0
	for line := range strings.Lines(errs.String()) {
		at, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if when, err := time.Parse(time.RFC3339Nano, at); err == nil {
			e.points = append(e.points, point{when, name})
		}
	}
	return e
}

// check compares what happened at the provider with what was decided, and when the model was asked with when it was recorded.
// points has one list for each agent that worked on the run.
func (w *world) check(run string, points ...[]point) {
	w.t.Helper()
	ledger, err := w.twin.Ledger(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	steps, finished, err := w.client.Run(w.t.Context(), run)
	if err != nil || !finished || len(steps) != 3 {
		w.t.Fatalf("run %s has %d steps, finished %v, %v", run, len(steps), finished, err)
	}
	var amounts []int64
	for _, e := range ledger.Effects {
		if e.Resource == "pi_"+run {
			amounts = append(amounts, e.Amount)
		}
	}
	var decided struct{ Amount int64 }
	if err := json.Unmarshal(steps[1].Decision.Arguments, &decided); err != nil {
		w.t.Fatal(err)
	}
	if len(amounts) != 1 || amounts[0] != 100*decided.Amount {
		w.t.Errorf("run %s: refunds of %v at the provider, and %d was decided: want exactly one, of that", run, amounts, decided.Amount)
	}
	for _, alone := range points {
		w.neverAskedAgain(run, alone, steps, len(points) == 1)
	}
}

// neverAskedAgain checks one agent's way through its processes: once a decision is recorded its model is not asked about the step.
// With nobody else at work that is compared with the moment of the recording; else with what this agent was told.
func (w *world) neverAskedAgain(run string, points []point, steps []client.Step, nobodyElse bool) {
	w.t.Helper()
	recorded := map[string]time.Time{}
	if nobodyElse {
		for _, s := range steps {
			recorded[s.Step] = s.Decision.At
		}
	}
	for _, p := range points {
		what, step, _ := strings.Cut(p.name, ":")
		was, ok := recorded[step]
		switch {
		case what == "recorded" && !ok, what == "done" && !ok:
			recorded[step] = p.at
		// Daemon and agents read one machine's clock, and stores keep microseconds.
		case what == "asked" && ok && p.at.Truncate(time.Microsecond).After(was):
			w.t.Errorf("run %s: the model was asked about %s at %v, and its decision was recorded at %v", run, step, p.at, was)
		}
	}
}

// agents are those that can run here.
func agents(t *testing.T) []string {
	t.Helper()
	all := []string{"agent-go"}
	if _, err := exec.LookPath("python3"); err == nil {
		return append(all, "agent-python")
	}
	const why = "there is no python3: install it (apt-get install python3) to run the agent in examples/agent-python"
	if os.Getenv("CI") != "" || os.Getenv("EFFECTONCE_TEST_ALL") != "" {
		t.Fatal(why)
	}
	t.Run("agent-python", func(t *testing.T) { t.Skip(why) })
	return all
}

// S16.16, S16.11, S10.1, S10.2: killed at each point, and started again with the same run.
func TestAnAgentKilledAtAnyPointGoesOn(t *testing.T) {
	t.Parallel()
	points := []string{
		"started", "asked:ticket", "decided:ticket", "recorded:ticket", "done:ticket",
		"asked:step-1", "decided:step-1", "recorded:step-1", "execute:step-1", "executed:step-1", "done:step-1",
		"asked:step-2", "decided:step-2", "recorded:step-2", "finished:step-2",
	}
	for _, agent := range agents(t) {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, agent, "agent.db", "")
			for i, at := range points {
				run := fmt.Sprintf("p%d", i)
				first := w.work(agent, run, at, 0)
				if !first.killed {
					t.Fatalf("it was to be killed at %s, and ended with %d: %s", at, first.code, first.said)
				}
				second := w.work(agent, run, "", 0)
				if second.code != 0 {
					t.Fatalf("killed at %s and started again it ends with %d: %s", at, second.code, second.said)
				}
				w.check(run, slices.Concat(first.points, second.points))
				// Asked again is only what was not recorded when it was killed.
				for _, step := range []string{"ticket", "step-1", "step-2"} {
					want := 1
					if at == "asked:"+step || at == "decided:"+step {
						want = 2
					}
					if n := count(first.points, "asked:"+step) + count(second.points, "asked:"+step); n != want {
						t.Errorf("killed at %s: asked %d times about %s, want %d", at, n, step, want)
					}
				}
			}
		})
	}
}

func count(points []point, name string) int {
	n := 0
	for _, p := range points {
		if p.name == name {
			n++
		}
	}
	return n
}

// S16.16, S16.11: agents and daemon are killed at random moments, answers of the provider are lost, and two agents work on a run at once.
func TestAgentsAndDaemonKilledAtRandomGoOn(t *testing.T) {
	t.Parallel()
	for _, agent := range agents(t) {
		t.Run(agent+" on SQLite", func(t *testing.T) {
			t.Parallel()
			killAtRandom(t, agent, "agent.db")
		})
	}
	t.Run("agent-go on PostgreSQL", func(t *testing.T) {
		t.Parallel()
		killAtRandom(t, "agent-go", pgtest.URL(t))
	})
}

func killAtRandom(t *testing.T, agent, store string) {
	const runs = 4
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := newWorld(t, agent, store, "refunds#* hold=20ms; refunds#2 after-effect drop; refunds#4 before-effect drop")
	var working sync.WaitGroup
	// On the first half of the runs there is one agent, on the others there are two.
	var points [2 * runs][]point
	for i := range points {
		if i%2 == 1 && i < runs {
			continue
		}
		working.Go(func() {
			points[i] = w.untilFinished(agent, fmt.Sprintf("r%d", i/2), rand.New(rand.NewPCG(seed, uint64(1+i))))
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		working.Wait()
	}()
	w.harass(done, rand.New(rand.NewPCG(seed, 0)))
	if t.Failed() {
		return
	}
	for i := range runs {
		if one, other := points[2*i], points[2*i+1]; other == nil {
			w.check(fmt.Sprintf("r%d", i), one)
		} else {
			w.check(fmt.Sprintf("r%d", i), one, other)
		}
	}
}

// untilFinished starts the agent and kills it after some time, again and again, and then lets it finish.
func (w *world) untilFinished(agent, run string, dice *rand.Rand) []point {
	var all []point
	for try := 0; ; try++ {
		after := time.Duration(1+dice.IntN(250)) * time.Millisecond
		if try >= 8 {
			after = 0
		}
		e := w.work(agent, run, "", after)
		all = append(all, e.points...)
		if !e.killed {
			if e.code != 0 {
				w.t.Errorf("run %s ended with %d: %s", run, e.code, e.said)
			}
			return all
		}
	}
}

// harass kills the daemon now and then, a few times, until done.
func (w *world) harass(done <-chan struct{}, dice *rand.Rand) {
	w.t.Helper()
	for range 8 {
		select {
		case <-time.After(time.Duration(50+dice.IntN(400)) * time.Millisecond):
			w.restartDaemon()
		case <-done:
			return
		}
	}
	<-done
}
