//go:build !linux

package pgtest

import (
	"os"
	"os/exec"
)

// immediate stops the server.
var immediate = os.Kill

// own has nothing to do: the tests do not run as root.
func own(string) error { return nil }

func unprivileged(*exec.Cmd) {}
