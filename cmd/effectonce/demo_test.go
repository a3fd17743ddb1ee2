package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// S14.7, and S16 rows 3, 4, 6, 7 (a second run), 11 as far as a demo goes: live, counted at the provider.
func TestDemoPaysTwiceWithoutTheGuardAndOnceWithIt(t *testing.T) {
	if testing.Short() {
		t.Skip("the demo takes ten seconds")
	}
	t.Parallel()
	tmp := t.TempDir()
	cmd := exec.Command(binary, "demo", "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var report struct{ Scenarios []demoRow }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Scenarios) != 6 {
		t.Errorf("%d scenarios, want 6", len(report.Scenarios))
	}
	for _, r := range report.Scenarios {
		if r.Unguarded < 2 || r.Guarded != 1 || r.Want != 1 {
			t.Errorf("%s: %d without the guard, %d with it, want more than 1 and 1", r.Name, r.Unguarded, r.Guarded)
		}
	}
	empty(t, tmp)
}

// An interrupted demo leaves neither processes nor files.
func TestDemoCleansUpWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := exec.Command(binary, "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The daemon's store is the sign that a guarded scenario is being played.
	eventually(t, "a daemon runs", func() bool {
		stores, err := filepath.Glob(filepath.Join(tmp, "*", "*.db"))
		return err == nil && len(stores) > 0
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	// The exit code is checked below.
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d: %s", code, exitInterrupted, said.String())
	}
	empty(t, tmp)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%s was left behind", e.Name())
	}
}

// Counts that are not as they must be are exit code 9, whatever else happens.
func TestDemoFailsWhenTheCountsAreWrong(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]demoRow{
		"the guard let two through":        {Name: "x", Unguarded: 2, Guarded: 2, Want: 1},
		"the guard let none through":       {Name: "x", Unguarded: 2, Guarded: 0, Want: 1},
		"nothing went wrong to begin with": {Name: "x", Unguarded: 1, Guarded: 1, Want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs strings.Builder
			c := &terminal{out: &out, err: &errs}
			err := (&demoCommand{}).conclude(c, demoReport{Scenarios: []demoRow{row}}, time.Second)
			if got := c.fail(err); got != exitCounts {
				t.Errorf("exit code %d, want %d", got, exitCounts)
			}
			if !strings.Contains(out.String(), "WRONG") {
				t.Errorf("the table does not say so:\n%s", out.String())
			}
		})
	}
}
