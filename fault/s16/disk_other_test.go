//go:build unix && !linux

package s16_test

import "testing"

// disk is a small file system of a test's own, which these tests know how to make on Linux only.
type disk struct{ dir string }

func newDisk(t *testing.T) disk {
	t.Helper()
	t.Skip("SKIPPED: a small file system to fill is made on Linux only")
	return disk{}
}

func (disk) fill()       {}
func (disk) free()       {}
func (disk) give(string) {}
