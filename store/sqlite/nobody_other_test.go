//go:build !unix

package sqlite_test

import "os/exec"

func asNobody(*exec.Cmd) {}
