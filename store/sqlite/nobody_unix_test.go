//go:build unix

package sqlite_test

import (
	"os"
	"os/exec"
	"syscall"
)

// asNobody makes a command run as a user without privileges, if this process may choose.
func asNobody(c *exec.Cmd) {
	if os.Geteuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
}
