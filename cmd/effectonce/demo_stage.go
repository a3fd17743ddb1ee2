package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "embed"

	"github.com/effectonce/effectonce/fault/twin"
)

// demoCallTimeout is how long the unguarded tool waits for the provider; the guarded one's is in demo.yaml.
const demoCallTimeout = time.Second

//go:embed demo.yaml
var demoConfig string

// demoConfigProvider is what demo.yaml says where the provider is; the stage puts its own there.
const demoConfigProvider = "http://127.0.0.1:7190"

// stage is what the scenarios play on: the provider, the daemon, and a directory of their own.
type stage struct {
	dir     string
	log     *os.File
	twin    *child
	control twin.Control
	// daemon runs only while a guarded half is played, at address and on the file store.
	daemon  *child
	address string
	store   string

	running children
}

func newStage(ctx context.Context) (s *stage, err error) {
	dir, err := os.MkdirTemp("", "effectonce-demo-")
	if err != nil {
		return nil, err
	}
	s = &stage{dir: dir}
	defer func() {
		if err != nil {
			s.close(false)
		}
	}()
	if s.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	s.twin, err = startServing(ctx, nil, s.log, "twin", "stripe", "--listen", "127.0.0.1:0", "--ledger", filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		return nil, err
	}
	s.running.add(s.twin)
	s.control = twin.Control{BaseURL: s.twin.URL}
	return s, os.WriteFile(s.config(), []byte(strings.ReplaceAll(demoConfig, demoConfigProvider, s.twin.URL)), 0o600)
}

func (s *stage) config() string { return filepath.Join(s.dir, "effectonce.yaml") }

// close ends all processes and removes the directory, or returns it if it is to be kept.
func (s *stage) close(keep bool) string {
	s.running.stop()
	if s.log != nil {
		s.log.Close()
	}
	if keep {
		return s.dir
	}
	// A directory that cannot be removed is a temporary one.
	_ = os.RemoveAll(s.dir)
	return ""
}

// play runs one half of a scenario at a provider that has forgotten everything, with a daemon that has an empty store if it is
// the guarded half, and counts the provider's ledger.
func (s *stage) play(ctx context.Context, sc scenario, guarded bool) (count int, minor int64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errTooLong)
	defer cancel()
	if err := s.control.Reset(ctx); err != nil {
		return 0, 0, err
	}
	plan, err := twin.ParsePlan(sc.faults)
	if err == nil {
		err = s.control.SetFaults(ctx, plan)
	}
	if err != nil {
		return 0, 0, err
	}
	half := sc.unguarded
	if guarded {
		half = sc.guarded
		s.store, s.address = filepath.Join(s.dir, sc.name+".db"), ""
		if err := s.startDaemon(ctx); err != nil {
			return 0, 0, err
		}
		defer func() { s.daemon.stop() }()
	}
	if err := half(ctx, s); err != nil {
		return 0, 0, err
	}
	return s.count(ctx)
}

// count reads the ledger after everything that reached the provider has been processed.
func (s *stage) count(ctx context.Context) (int, int64, error) {
	err := until(ctx, 10*time.Second, "the provider has finished", func(ctx context.Context) (bool, error) {
		log, err := s.control.Requests(ctx)
		for _, r := range log.Requests {
			if r.Outcome == "" || r.Outcome == string(twin.Started) {
				return false, err
			}
		}
		return err == nil, err
	})
	if err != nil {
		return 0, 0, err
	}
	ledger, err := s.control.Ledger(ctx)
	var sum int64
	for _, e := range ledger.Effects {
		if !strings.EqualFold(e.Currency, "eur") {
			return 0, 0, fmt.Errorf("the ledger has a refund in %q", e.Currency)
		}
		sum += e.Amount
	}
	return ledger.Count, sum, err
}

// refunded waits until the ledger shows a refund.
func (s *stage) refunded(ctx context.Context) error {
	return until(ctx, 10*time.Second, "the provider has refunded", func(ctx context.Context) (bool, error) {
		ledger, err := s.control.Ledger(ctx)
		return ledger.Count > 0, err
	})
}

// toolCall is one call of the unguarded tool.
func (s *stage) toolCall(d decision) step {
	tool := refundTool{provider: s.twin.URL, timeout: demoCallTimeout}
	return func(ctx context.Context) error {
		_, err := tool.call(ctx, d)
		return err
	}
}

func (s *stage) startWorker(job string) (*child, error) {
	worker, out, err := startChild([]string{demoJobEnv + "=" + job}, s.log)
	if err != nil {
		return nil, err
	}
	if f, ok := out.(*os.File); ok {
		// It says nothing there.
		f.Close()
	}
	s.running.add(worker)
	return worker, nil
}

// startDaemon starts the daemon on the stage's store, at the same address as before if there was one.
func (s *stage) startDaemon(ctx context.Context) error {
	address := s.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	daemon, err := startServing(ctx, []string{"STRIPE_KEY=sk_demo"}, s.log, "serve", "--listen", address, "--config", s.config(), "--store", s.store)
	if err != nil {
		return err
	}
	s.running.add(daemon)
	s.daemon = daemon
	s.address = strings.TrimPrefix(daemon.URL, "http://")
	return nil
}
