//go:build unix

package fault

import (
	"os"
	"syscall"
	"time"
)

func crash() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	// The signal ends all threads; this one must not get any further until then.
	select {}
}

func stop() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	// Another thread may take the signal, a moment after Kill returns; this one must not run on before that.
	time.Sleep(20 * time.Millisecond)
}

// killed reports whether a child died by SIGKILL.
func killed(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
