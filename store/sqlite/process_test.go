package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/sqlite"
)

// The tests of this file start the test binary again as processes of their own, which share a file.

const (
	roleVar = "EFFECTONCE_SQLITE_TEST_ROLE"
	pathVar = "EFFECTONCE_SQLITE_TEST_PATH"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role, os.Getenv(pathVar)); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// play is what a child process does. It says on its standard output what was acknowledged, one line each.
func play(role, path string) error {
	ctx := context.Background()
	name, arg, _ := strings.Cut(role, " ")
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	switch name {
	case "open":
		secret, err := s.Secret(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("secret %x\n", secret)
	case "withdraw":
		if arg == "many" {
			err = withdrawMany(ctx, s, path)
		} else {
			err = withdrawAndHang(ctx, s, path)
		}
		if err != nil {
			return err
		}
	case "load": // writes until it is killed
		for c := range 4 {
			go keepBooks(ctx, s, fmt.Sprintf("books-%s-%d", arg, c))
		}
		for c := range 16 {
			go func() {
				for i := 0; ; i++ {
					writePair(ctx, s, fmt.Sprintf("%s-%d-%d", arg, c, i))
				}
			}()
		}
		select {}
	case "race": // creates the same keys as its rivals
		n, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		for c := range 8 {
			wg.Go(func() {
				for i := range n / 8 {
					if i%10 == 0 {
						raceForLimit(ctx, s, fmt.Sprintf("limited-%d-%d", c, i))
					}
					id := fmt.Sprintf("%d-%d", c, i)
					op, created, err := s.Create(ctx, recorded(id))
					if err != nil {
						fmt.Println("error", err)
						return
					}
					if !created {
						continue
					}
					if _, err := s.Apply(ctx, ended(op)); err != nil {
						fmt.Println("error", err)
						return
					}
					say("won", id)
				}
			})
		}
		wg.Wait()
	}
	return s.Close()
}

var stdout sync.Mutex

func say(words ...any) {
	stdout.Lock()
	defer stdout.Unlock()
	fmt.Println(words...)
}

// writePair claims and records an operation, and says so after each acknowledgement.
func writePair(ctx context.Context, s *sqlite.Store, id string) {
	op, created, err := s.Create(ctx, recorded(id))
	if err != nil || !created {
		say("error", id, created, err)
		return
	}
	say("created", id)
	if _, err := s.Apply(ctx, ended(op)); err != nil {
		say("error", id, err)
		return
	}
	say("ended", id)
}

// keepBooks writes what is counted in more than one table, until it is killed.
func keepBooks(ctx context.Context, s *sqlite.Store, prefix string) {
	for i := 0; ; i++ {
		op := operation(fmt.Sprintf("%s-%d", prefix, i))
		op.Aliases = []effectonce.Key{operation(fmt.Sprintf("%s-%d-alias", prefix, i)).Key}
		op.Limits = []effectonce.Limit{{Name: "total", Amount: 1, Max: effectonce.LimitValueMax}, {Name: "daily", Amount: 3, Max: effectonce.LimitValueMax, Per: 24 * time.Hour}}
		tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "w"}, time.Now())
		if err == nil {
			op, _, err = s.Create(ctx, tr)
		}
		if err == nil && i%2 == 0 {
			end := effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictRejected, Failure: effectonce.Failure{Code: "no"}}}
			if tr, err = effectonce.Next(op, end, time.Now()); err == nil {
				_, err = s.Apply(ctx, tr)
			}
		}
		if err == nil {
			_, _, err = s.Decide(ctx, effectonce.Decision{Tenant: "acme", Run: prefix, Step: strconv.Itoa(i)})
		}
		if err == nil {
			err = s.Append(ctx, effectonce.Message{Subject: "orders", Data: []byte("1")}, effectonce.Message{Subject: prefix, Data: []byte("2")})
		}
		if err == nil && i%3 == 0 {
			var q effectonce.Queue
			if q, _, err = s.TakeQueue(ctx, time.Minute, 2); err == nil {
				err = s.ReturnQueue(ctx, q, effectonce.Relayed{Delivered: 1})
			}
			if effectonce.CodeOf(err) == effectonce.CodeNotFound {
				err = nil
			}
		}
		if err != nil {
			say("error", err)
			return
		}
	}
}

// raceForLimit takes from a limit that is shared with the rivals, of which each has its own operations.
func raceForLimit(ctx context.Context, s *sqlite.Store, id string) {
	op := operation(fmt.Sprintf("%s-%d", id, os.Getpid()))
	op.Limits = []effectonce.Limit{{Name: "shared", Amount: 1, Max: sharedMax}}
	tr, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "w"}, time.Now())
	if err == nil {
		_, _, err = s.Create(ctx, tr)
	}
	if err == nil {
		_, _, err = s.Decide(ctx, effectonce.Decision{Tenant: "acme", Run: "shared", Step: op.IntentID})
	}
	if err == nil {
		err = s.Append(ctx, effectonce.Message{Subject: "shared", Data: []byte(op.IntentID)})
	}
	if err != nil && !errors.Is(err, effectonce.ErrLimitExceeded) {
		say("error", err)
	}
}

// sharedMax is less than three processes want.
const sharedMax = 50

// books checks that what is stored in two places is the same in both.
func books(t *testing.T, path string) {
	t.Helper()
	db := plain(t, path)
	for what, query := range map[string]string{
		"a limit's sum is not that of its reservations":    "SELECT count(*) FROM limits WHERE used <> (SELECT ifnull(sum(r.amount), 0) FROM reservations r WHERE r.limit_id = limits.id)",
		"a failed operation holds something":               "SELECT count(*) FROM reservations r LEFT JOIN operations o ON o.id = r.operation WHERE o.id IS NULL OR o.state = 'failed'",
		"an operation holds nothing of its limits":         "SELECT count(*) FROM operations o WHERE o.limits IS NOT NULL AND o.state <> 'failed' AND json_array_length(o.limits) <> (SELECT count(*) FROM reservations r WHERE r.operation = o.id)",
		"an alias is missing":                              "SELECT count(*) FROM operations o WHERE o.aliases IS NOT NULL AND length(o.aliases) / 32 <> (SELECT count(*) FROM operations a WHERE a.alias_of = o.id)",
		"an alias leads nowhere":                           "SELECT count(*) FROM operations a WHERE a.alias_of IS NOT NULL AND NOT EXISTS (SELECT 1 FROM operations o WHERE o.id = a.alias_of AND o.alias_of IS NULL)",
		"a queue does not know what waits in it":           "SELECT count(*) FROM queues WHERE waiting <> (SELECT count(*) FROM messages m WHERE m.queue = queues.id)",
		"a queue that waits is neither due nor parked":     "SELECT count(*) FROM queues WHERE (waiting > 0) <> (due_at IS NOT NULL OR parked)",
		"a number of a message was used twice or left out": "SELECT count(*) FROM queues WHERE waiting > 0 AND next - waiting <> (SELECT min(m.seq) FROM messages m WHERE m.queue = queues.id)",
		"a run does not know its steps":                    "SELECT count(*) FROM runs WHERE steps <> (SELECT count(*) FROM decisions d WHERE d.run = runs.id) OR steps <> (SELECT max(d.seq) FROM decisions d WHERE d.run = runs.id)",
	} {
		var n int
		if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil || n != 0 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func operation(id string) effectonce.Operation {
	op := effectonce.Operation{Tenant: "acme", Tool: "stripe.refund", Scope: effectonce.ScopeBusiness, IntentID: id, Business: []byte(`{"amount":480}`), Terms: effectonce.DefaultTerms()}
	var err error
	if op.Key, err = op.Identity().Key(); err != nil {
		panic(err)
	}
	return op
}

func recorded(id string) effectonce.Transition {
	t, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: operation(id), Claim: true, Owner: "w"}, time.Now())
	if err != nil {
		panic(err)
	}
	return t
}

func ended(op effectonce.Operation) effectonce.Transition {
	t, err := effectonce.Next(op, effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{Verdict: effectonce.VerdictSucceeded, Reference: "re_" + op.IntentID}}, time.Now())
	if err != nil {
		panic(err)
	}
	return t
}

// child is a process of its own.
type child struct {
	*exec.Cmd
	out *bufio.Scanner
}

func spawn(t *testing.T, role, path string) child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe)
	c.Env = append(os.Environ(), roleVar+"="+role, pathVar+"="+path)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return child{Cmd: c, out: bufio.NewScanner(out)}
}

// lines reads what is left of the child's output and waits for its end.
func (c child) lines(t *testing.T) []string {
	t.Helper()
	var all []string
	for c.out.Scan() {
		all = append(all, c.out.Text())
	}
	if err := errors.Join(c.out.Err(), c.Wait()); err != nil {
		t.Fatalf("child: %v\n%s", err, strings.Join(all, "\n"))
	}
	return all
}

func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// S16.1 to S16.3 as far as the store goes: what was acknowledged survives a SIGKILL, and nothing is there by halves.
func TestAcknowledgedWritesSurviveAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effectonce.db")
	states := map[string]effectonce.State{}
	for round := range 4 {
		c := spawn(t, fmt.Sprintf("load r%d", round), path)
		for n := 0; c.out.Scan(); n++ {
			word, id, _ := strings.Cut(c.out.Text(), " ")
			switch word {
			case "created":
				states[id] = effectonce.StateInProgress
			case "ended":
				states[id] = effectonce.StateSucceeded
			default:
				t.Fatal(c.out.Text())
			}
			if n == 300+100*round {
				if err := c.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}

		s := open(t, path)
		for id, state := range states {
			op, err := s.Load(t.Context(), operation(id).Key)
			if err != nil {
				t.Fatalf("%s was acknowledged as %s: %v", id, state, err)
			}
			if op.State != state && (state != effectonce.StateInProgress || op.State != effectonce.StateSucceeded) {
				t.Errorf("%s is %s, acknowledged as %s", id, op.State, state)
			}
		}
		wholeStore(t, s)
		books(t, path)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// wholeStore checks that each operation has exactly the events of its versions (S5.1 I7).
func wholeStore(t *testing.T, s *sqlite.Store) {
	t.Helper()
	f := effectonce.Filter{Limit: effectonce.ListLimitMax}
	for {
		page, err := s.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range page.Operations {
			events, err := s.Events(t.Context(), op.Key)
			if err != nil {
				t.Fatal(err)
			}
			if int64(len(events)) != op.Version || events[len(events)-1].To != op.State {
				t.Errorf("%s has version %d and %d events", op.IntentID, op.Version, len(events))
			}
		}
		if f.After = page.Next; f.After == "" {
			return
		}
	}
}

// S5.3: each key is created by exactly one of several processes that share the file.
func TestProcessesShareAFile(t *testing.T) {
	t.Parallel()
	const n = 400
	path := filepath.Join(t.TempDir(), "effectonce.db")
	if err := open(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	var children []child
	for range 3 {
		children = append(children, spawn(t, "race "+strconv.Itoa(n), path))
	}
	winners := map[string]int{}
	for i, c := range children {
		won := 0
		for _, line := range c.lines(t) {
			word, id, _ := strings.Cut(line, " ")
			if word != "won" {
				t.Error(line)
				continue
			}
			winners[id]++
			won++
		}
		t.Logf("process %d won %d", i, won)
	}
	for id, times := range winners {
		if times != 1 {
			t.Errorf("%s was won %d times", id, times)
		}
	}
	if len(winners) != n {
		t.Errorf("%d keys have a winner, want %d", len(winners), n)
	}
	s := open(t, path)
	wholeStore(t, s)
	books(t, path)
	uses, err := s.Limits(t.Context(), effectonce.LimitFilter{Name: "shared"})
	if err != nil || len(uses) != 1 || uses[0].Used != sharedMax { // S8.3
		t.Errorf("%+v, %v", uses, err)
	}
}

func TestProcessesOpenANewFileAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effectonce.db")
	var children []child
	for range 6 {
		children = append(children, spawn(t, "open", path))
	}
	secrets := map[string]bool{}
	for _, c := range children {
		lines := c.lines(t)
		if len(lines) != 1 || !strings.HasPrefix(lines[0], "secret ") {
			t.Errorf("got %v", lines)
			continue
		}
		secrets[lines[0]] = true
	}
	if len(secrets) != 1 {
		t.Errorf("%d different secrets", len(secrets))
	}
}

// TestReadOnlyFile opens the file as a user whom permissions bind. It is not parallel: a program that was just written cannot be
// started while another test's child still holds the file that was open for it.
func TestReadOnlyFile(t *testing.T) {
	dir, err := os.MkdirTemp("", "effectonce")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(os.Chmod(dir, 0o755), os.RemoveAll(dir)) })
	path := filepath.Join(dir, "effectonce.db")
	s := open(t, path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(dir, "child")
	copyProgram(t, exe)
	for name, mode := range map[string]os.FileMode{path: 0o444, dir: 0o555} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), exe)
	c.Env = []string{roleVar + "=open", pathVar + "=" + path}
	asNobody(c)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "store_broken") || !strings.Contains(string(out), "read-only") || !strings.Contains(string(out), path) {
		t.Errorf("%v: %s", err, out)
	}
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(dst, src)
	if err := errors.Join(err, dst.Close()); err != nil {
		t.Fatal(err)
	}
}
