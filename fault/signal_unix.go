//go:build unix

package fault

import (
	"os"
	"os/signal"
	"syscall"
)

func crash() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	// The signal ends all threads; this one must not get any further until then.
	select {}
}

func stop() {
	// Another thread may take the signal, any time after Kill returns; this one must not run on before the process has been
	// stopped and continued.
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-continued
}

// killed reports whether a child died by SIGKILL.
func killed(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
