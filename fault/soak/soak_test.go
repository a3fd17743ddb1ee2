//go:build unix

package soak_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/fault/twin"
	"github.com/effectonce/effectonce/store/postgres"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
	"github.com/effectonce/effectonce/store/sqlite"
)

const (
	patience = 2 * time.Minute
	clients  = 6
	// stopped is longer than a lease.
	stopped = 2500 * time.Millisecond
)

// S16.1 to S16.6, S16.11, S16.13 to S16.18, S5.1: whatever is killed, whenever: in the end the ledger and the store are one.
func TestSoak(t *testing.T) {
	kills := number(t, "EFFECTONCE_SOAK", 5)
	seed := uint64(number(t, "EFFECTONCE_SOAK_SEED", int(time.Now().UnixNano()%1_000_000)))
	t.Run("sqlite", func(t *testing.T) {
		place := filepath.Join(t.TempDir(), "effectonce.db")
		soak(t, place, place, kills, seed, func(ctx context.Context) (effectonce.Store, error) {
			return sqlite.Open(ctx, place, sqlite.Options{})
		})
	})
	t.Run("postgres", func(t *testing.T) {
		place := pgtest.URL(t)
		t.Setenv("SOAK_STORE", place)
		soak(t, place, "env:SOAK_STORE", kills, seed, func(ctx context.Context) (effectonce.Store, error) {
			return postgres.Open(ctx, place, postgres.Options{})
		})
	})
}

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is to be a number of at least 1, not %q", variable, text)
	}
	return n
}

func soak(t *testing.T, place, named string, kills int, seed uint64, open func(context.Context) (effectonce.Store, error)) {
	t.Helper()
	begun := time.Now()
	rng := rand.New(rand.NewPCG(seed, 0x50a4))
	provider, url := startTwin(t)
	dir := t.TempDir()
	post := newLetters(t, seed)
	text := fmt.Sprintf(configuration, named, url, limitPerCustomer, post.server.URL)
	if err := os.WriteFile(filepath.Join(dir, "effectonce.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemons := []*daemon{newDaemon(t, dir), newDaemon(t, dir)}
	for _, d := range daemons {
		d.start()
	}
	for _, d := range daemons {
		d.serves()
	}
	c := newCrowd(daemons, seed)
	c.start(clients)
	events := newTriggers(c)
	events.start()
	post.start(daemons, seed)
	killed, paused, both := 0, 0, 0
	for killed < kills {
		provider.SetFaults(randomFaults(rng))
		<-time.After(time.Duration(50+rng.IntN(450)) * time.Millisecond)
		d, other := daemons[rng.IntN(2)], (*daemon)(nil)
		if rng.IntN(12) == 0 {
			d.signal(syscall.SIGSTOP)
			<-time.After(stopped)
			d.signal(syscall.SIGCONT)
			paused++
			continue
		}
		d.kill()
		killed++
		if rng.IntN(4) == 0 {
			other = daemons[0]
			if other == d {
				other = daemons[1]
			}
			other.kill()
			killed++
			both++
		}
		<-time.After(time.Duration(rng.IntN(150)) * time.Millisecond)
		for _, down := range []*daemon{d, other} {
			if down != nil {
				down.start()
				down.serves()
			}
		}
		if killed/20 > (killed-1)/20 || killed >= kills {
			progress("%s: %d of %d kills, %d pauses, %d refunds begun, %d effects, %s", t.Name(), killed, kills, paused, c.next.Load(), provider.Ledger().Count, time.Since(begun).Round(time.Second))
		}
	}
	c.end()
	provider.SetFaults(nil)
	close(events.stop)
	events.sending.Wait()
	close(post.stop)
	post.sending.Wait()
	defer events.end()
	store, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ended := audit{t: t, store: store, ledger: provider.Ledger, crowd: c, events: events}
	ended.run()
	post.arrived()
	events.end()
	if t.Failed() {
		for i, d := range daemons {
			t.Logf("daemon %d: %s", i+1, tail(d))
		}
		t.Logf("%s, seed %d", place, seed)
	}
	progress("%s: seed %d: %d SIGKILLs (%d of both at once), %d pauses of %s; %d requests of clients, %d of them in vain; %s; %s", t.Name(), seed, killed, both, paused, stopped, c.asked.Load(), c.errors.Load(), ended, time.Since(begun).Round(time.Second))
	progress("%s: %d events accepted, handed out %d times, %d consumers died; %d messages out, %d of them came again", t.Name(), len(events.accepted), events.handed, events.dropped, len(post.acknowledged), post.again)
}

// progress is shown at once with -v, whatever becomes of the test.
func progress(format string, args ...any) {
	if testing.Verbose() {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

func tail(d *daemon) string {
	d.logs.Lock()
	defer d.logs.Unlock()
	text := d.log.String()
	return text[max(0, len(text)-3000):]
}

func startTwin(t *testing.T) (*twin.Server, string) {
	t.Helper()
	server, err := twin.New(twin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ctx, l)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return server, "http://" + l.Addr().String()
}

// troubles are what answers suffer from. Those of a machine in front of the provider that say nothing about the effect come after it
// as well as before it.
var troubles = []string{
	"after-effect drop", "after-effect reset", "after-effect status=502", "after-effect status=503", "after-effect status=500", "after-effect cut",
	"after-effect garble", "after-effect foreign", "after-effect hang=3s", "after-effect slow=1600ms", "before-effect status=503", "before-effect drop",
	"before-effect slow=300ms", "instead drop", "instead status=503", "instead status=429", "instead status=401", "hold=400ms", "hold=1800ms",
}

// randomFaults strikes about a quarter of the next requests.
func randomFaults(rng *rand.Rand) twin.Plan {
	var steps []string
	for n := 1; n <= 400; n++ {
		if rng.IntN(4) == 0 {
			steps = append(steps, fmt.Sprintf("refunds#%d %s", n, troubles[rng.IntN(len(troubles))]))
		}
		if rng.IntN(4) == 0 {
			steps = append(steps, fmt.Sprintf("lookup#%d %s", n, []string{"status=503", "drop", "garble", "cut"}[rng.IntN(4)]))
		}
	}
	plan, err := twin.ParsePlan(strings.Join(steps, "; "))
	if err != nil {
		panic(err)
	}
	return plan
}
