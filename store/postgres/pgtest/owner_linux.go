package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// immediate asks the server to stop without ceremony.
var immediate = syscall.SIGQUIT

// account is who a server runs as when the tests run as root, which PostgreSQL refuses; nil where they do not.
func account() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(errU, errG)
	}
	return nil, errors.New("a PostgreSQL server does not run as root, and there is no user postgres or nobody")
}

// own gives a directory to the account.
func own(dir string) error {
	a, err := account()
	if err != nil || a == nil {
		return err
	}
	return os.Chown(dir, int(a.Uid), int(a.Gid))
}

// unprivileged makes a command run as the account, and end when this process does.
func unprivileged(c *exec.Cmd) {
	a, _ := account()
	c.SysProcAttr = &syscall.SysProcAttr{Credential: a, Pdeathsig: immediate}
}
