package s16_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// diskBytes is the size of a test's own disk: room for an empty PostgreSQL database, and a little.
const diskBytes = "size=48m"

// disk is a small file system of a test's own.
type disk struct {
	t   *testing.T
	dir string
}

// newDisk mounts one. Where that is not allowed the test is skipped, loudly; what a full disk does to SQLite is then still shown by
// a limit on the size of files.
func newDisk(t *testing.T) disk {
	t.Helper()
	// Not among the test's own directories, which PostgreSQL's user may not enter.
	dir, err := os.MkdirTemp("", "effectonce-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, diskBytes); err != nil {
		missing(t, "a full disk needs a small file system to fill, and mounting one is not allowed ("+err.Error()+"); run the tests as root")
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return disk{t: t, dir: dir}
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" || os.Getenv("EFFECTONCE_TEST_ALL") != "" {
		t.Fatal(what)
	}
	t.Skip("SKIPPED: " + what)
}

func (d disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill writes until there is no room for another byte.
func (d disk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, size := range []int{1 << 20, 4096, 1} {
		for err = nil; err == nil; {
			_, err = io.Writer(f).Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			d.t.Fatal(err)
		}
	}
	_ = f.Close()
}

// free makes room again.
func (d disk) free() {
	d.t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		d.t.Fatal(err)
	}
}

// give hands the disk to the user whose process owns a file.
func (d disk) give(to string) {
	d.t.Helper()
	info, err := os.Stat(to)
	if err != nil {
		d.t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(d.dir, int(owner.Uid), int(owner.Gid)); err != nil {
		d.t.Fatal(err)
	}
}
