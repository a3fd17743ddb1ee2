//go:build unix

package s16_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault"
	"github.com/effectonce/effectonce/fault/twin"
	"github.com/effectonce/effectonce/provider"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/worker"
)

// childVariable is set in the environment of the test binary when it is to be a process of a test instead of running tests.
const childVariable = "EFFECTONCE_S16_CHILD"

// spec tells a child what to be.
type spec struct {
	Role role `json:"role"`
	// Rules, Faults: of a twin.
	Rules  twin.Rules `json:"rules,omitzero"`
	Faults string     `json:"faults,omitempty"`
	Ledger string     `json:"ledger,omitempty"`
	// The rest is an agent's or a worker's.
	Owner string `json:"owner,omitempty"`
	Store string `json:"store,omitempty"`
	Clock string `json:"clock,omitempty"`
	Twin  string `json:"twin,omitempty"`
	Kind  kind   `json:"kind,omitempty"`
	// Plan strikes the store and the provider.
	Plan string `json:"plan,omitempty"`
	Asks []ask  `json:"asks,omitempty"`
	// Key is the idempotency key of a naive caller; empty: a new one for each try, as SDKs make them.
	Key string `json:"key,omitempty"`
}

type role string

const (
	roleTwin   role = "twin"
	roleAgent  role = "agent"  // does its asks at once, prints the answers and ends
	roleWorker role = "worker" // works what is due until it is killed
	roleNaive  role = "naive"  // calls the provider without a guard
)

// ask is one intent of an agent.
type ask struct {
	ID        string           `json:"id"`
	Arguments json.RawMessage  `json:"arguments,omitempty"`
	Business  json.RawMessage  `json:"business,omitempty"`
	Terms     effectonce.Terms `json:"terms"`
	// Wait is how long the agent waits for an outcome; Times how often it asks, all at the same moment.
	Wait  time.Duration `json:"wait,omitempty"`
	Times int           `json:"times,omitempty"`
	// ForgetAt is when the intent's identity ends.
	ForgetAt time.Time `json:"forget_at,omitzero"`
	// HangUp cancels the caller's context as soon as the provider is being called.
	HangUp bool `json:"hang_up,omitempty"`
	// Large makes the provider's answer larger than what is kept.
	Large bool `json:"large,omitempty"`
	// Bulk is how many bytes larger the stored arguments and the provider's answer are, so that the store's files have to grow.
	Bulk int `json:"bulk,omitempty"`
	// DiskFull lets no file grow any more: at once, or as soon as the provider answered.
	DiskFull      bool `json:"disk_full,omitempty"`
	DiskFullAfter bool `json:"disk_full_after,omitempty"`
}

// answer is what an agent was told, one line of its output.
type answer struct {
	State     effectonce.State  `json:"state,omitempty"`
	Next      effectonce.Advice `json:"next,omitempty"`
	Replayed  bool              `json:"replayed,omitempty"`
	Reference string            `json:"reference,omitempty"`
	Code      effectonce.Code   `json:"code,omitempty"`
	Sent      effectonce.Sent   `json:"sent,omitempty"`
	Fields    []string          `json:"fields,omitempty"`
	Text      string            `json:"text,omitempty"`
}

const (
	readyLine  = "ready "
	struckLine = "struck "
)

func TestMain(m *testing.M) {
	text := os.Getenv(childVariable)
	if text == "" {
		os.Exit(runTests(m))
	}
	var s spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if err := s.run(context.Background()); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.Role, err)
		os.Exit(1)
	}
}

// runTests lets more tests run at once than there are processors: mostly they wait for processes.
func runTests(m *testing.M) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	return pgtest.Tests{M: m}.Run()
}

func (s spec) run(ctx context.Context) error {
	// A child must not outlive a test binary that was killed: its standard input ends with it.
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	switch s.Role {
	case roleTwin:
		return s.runTwin(ctx)
	case roleNaive:
		return s.runNaive(ctx)
	}
	store, err := openStore(ctx, s.Store, s.clock().Now)
	if err != nil {
		return err
	}
	defer store.Close()
	plan, err := fault.ParsePlan(s.Plan)
	if err != nil {
		return err
	}
	inner, err := s.http()
	if err != nil {
		return err
	}
	decorated := fault.Provider(inner, plan, announced)
	faulty := fault.Store(store, plan, announced)
	guard := effectonce.New(faulty, effectonce.Options{
		Clock: s.clock(), Owner: s.Owner, Logger: slog.New(slog.DiscardHandler),
		Providers: func(effectonce.Operation) effectonce.Provider { return decorated },
	})
	if s.Role == roleWorker {
		return s.runWorker(ctx, guard, faulty)
	}
	return s.runAgent(ctx, guard, inner, decorated)
}

// announced are the real faults, each told to the test before it strikes.
var announced = fault.Actions{Struck: func(step fault.Step) { say(struckLine, step.String()) }}

var saying sync.Mutex

func say(parts ...string) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(strings.Join(parts, ""))
}

func (s spec) runTwin(ctx context.Context) error {
	plan, err := twin.ParsePlan(s.Faults)
	if err != nil {
		return err
	}
	server, err := twin.New(twin.Config{Rules: s.Rules, Plan: plan, StampField: "effectonce", LedgerFile: s.Ledger})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	say(readyLine, "http://", l.Addr().String())
	return server.Serve(ctx, l)
}

func (s spec) runWorker(ctx context.Context, guard *effectonce.Guard, store effectonce.Store) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	w := worker.New(guard, store, worker.Options{Every: 25 * time.Millisecond, PurgeEvery: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	say(readyLine)
	return w.Run(ctx)
}

func (s spec) runAgent(ctx context.Context, guard *effectonce.Guard, http *provider.HTTP, p effectonce.Provider) error {
	var all sync.WaitGroup
	start := make(chan struct{})
	for _, a := range s.Asks {
		in, err := a.intent(http)
		if err != nil {
			return err
		}
		for range max(a.Times, 1) {
			all.Go(func() {
				<-start
				say(a.do(ctx, guard, in, p))
			})
		}
	}
	say(readyLine)
	close(start)
	all.Wait()
	return nil
}

func (a ask) do(ctx context.Context, guard *effectonce.Guard, in effectonce.Intent, p effectonce.Provider) string {
	if a.HangUp {
		cctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ctx, p = cctx, around{p, cancel, same}
	}
	if a.Large {
		p = around{p, nothing, large}
	}
	if a.Bulk > 0 {
		in.Arguments = bulky(in.Arguments, a.Bulk)
		p = around{p, nothing, func(end effectonce.End) effectonce.End { end.Result = bulky(end.Result, a.Bulk); return end }}
	}
	if a.DiskFullAfter {
		p = around{p, nothing, func(end effectonce.End) effectonce.End { fillDisk(); return end }}
	}
	if a.DiskFull {
		fillDisk()
	}
	out, err := guard.Do(ctx, in, p, effectonce.WaitFor(a.Wait))
	line := answer{State: out.Operation.State, Next: out.Next, Replayed: out.Replayed, Reference: out.Operation.Reference}
	var e *effectonce.Error
	if errors.As(err, &e) {
		line.Code, line.Sent, line.Fields, line.Text = e.Code, e.Sent, e.Fields, e.Error()
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// around does something before a call, and something to its end.
type around struct {
	effectonce.Provider
	before func()
	after  func(effectonce.End) effectonce.End
}

func (a around) Call(ctx context.Context, c effectonce.Call) effectonce.End {
	a.before()
	return a.after(a.Provider.Call(ctx, c))
}

func nothing() {}

func same(end effectonce.End) effectonce.End { return end }

func large(end effectonce.End) effectonce.End {
	end.Result = append(append([]byte(`{"padding":"`), bytes.Repeat([]byte("x"), 2*effectonce.ResultBytesMax)...), `"}`...)
	return end
}

// bulky adds a field of n bytes that no compression makes smaller to a JSON object.
func bulky(object []byte, n int) []byte {
	noise := make([]byte, n/2)
	_, _ = rand.Read(noise)
	return fmt.Appendf(nil, `{"bulk":"%x",%s`, noise, object[1:])
}

// fillDisk makes every write that would let a file grow beyond a page fail in this process, as on a full disk.
func fillDisk() {
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
}

// movedClock is the machine's clock plus the offset in a file, which a test moves.
type movedClock struct {
	effectonce.SystemClock
	file string
}

func (s spec) clock() movedClock { return movedClock{file: s.Clock} }

// Now keeps the monotonic reading, so that time passes for a watch even where it is only the offset that moves.
func (c movedClock) Now() time.Time {
	text, err := os.ReadFile(c.file)
	if err != nil {
		panic(err)
	}
	offset, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		panic(err)
	}
	return time.Now().Add(time.Duration(offset))
}
