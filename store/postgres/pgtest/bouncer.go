package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bouncer starts a PgBouncer that pools by transaction in front of the server of the database at target, with size server
// connections, and returns the database's URL through it. Where PgBouncer is not installed, the test is skipped.
func Bouncer(t testing.TB, target string, size int) string {
	t.Helper()
	bin := program("pgbouncer")
	if bin == "" {
		missing(t, "PgBouncer is not installed; get it with: apt-get install pgbouncer")
	}
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "effectonce-bouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := fmt.Sprintf(`[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
auth_file = %s
pool_mode = transaction
default_pool_size = %d
max_client_conn = 500
server_login_retry = 1
`, u.Hostname(), u.Port(), u.User.Username(), port, filepath.Join(dir, "users"), size)
	if err := os.WriteFile(filepath.Join(dir, "users"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "pgbouncer.ini")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := own(dir); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, path)
	cmd.Dir = dir
	unprivileged(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(immediate)
		<-ended
	})
	u.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	await(t, u.String(), ended)
	return u.String()
}

func await(t testing.TB, at string, ended <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		c, err := pgx.Connect(ctx, at)
		if err == nil {
			_ = c.Close(ctx)
			return
		}
		select {
		case <-ended:
			t.Fatalf("PgBouncer ended: %v", err)
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Via is the URL of another database through the proxy that through leads to.
func Via(t testing.TB, through, target string) string {
	t.Helper()
	proxy, err := url.Parse(through)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = proxy.Host
	return u.String()
}
