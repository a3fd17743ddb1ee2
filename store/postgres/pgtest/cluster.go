package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a server with a data directory of its own, on a free port of the loopback interface and a socket.
type Cluster struct {
	dir  string
	port int
	// durable says that commits wait for the disk.
	durable bool
	server  *exec.Cmd
	ended   chan struct{}
}

// Start starts a server of the test's own, which the test may stop and restart. It waits for the disk at each commit, like one in
// production.
func Start(t testing.TB) *Cluster {
	t.Helper()
	NeedCluster(t)
	c, err := start(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.remove)
	return c
}

// Database creates a database of the test's own and returns its URL.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	return database(t, c.URL("postgres"))
}

// URL is the URL of a database of the server.
func (c *Cluster) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

// Port is the server's port.
func (c *Cluster) Port() int { return c.port }

// Kill ends the server like a crash (pg_ctl stop -m immediate): what was not committed is lost, and connections break.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	if err := c.server.Process.Signal(immediate); err != nil {
		t.Fatal(err)
	}
	<-c.ended
}

// Up starts the server again after [Cluster.Kill] and waits until it takes connections.
func (c *Cluster) Up(t testing.TB) {
	t.Helper()
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
}

func start(durable bool) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "effectonce-pg-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, durable: durable}
	if err := c.init(); err != nil {
		c.remove()
		return nil, err
	}
	if err := c.run(); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

func (c *Cluster) init() error {
	if err := own(c.dir); err != nil {
		return err
	}
	initdb := exec.Command(program("initdb"), "-D", c.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir = c.dir
	unprivileged(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	c.port = port
	settings := fmt.Sprintf("port = %d\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '%s'\nmax_connections = 300\n", port, c.dir)
	if !c.durable {
		settings += "fsync = off\n"
	}
	f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(settings)
	return errors.Join(err, f.Close())
}

// run starts the server as a child that ends with this process.
func (c *Cluster) run() error {
	log, err := os.OpenFile(filepath.Join(c.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	c.server = exec.Command(program("postgres"), "-D", c.data())
	c.server.Dir = c.dir
	c.server.Stdout, c.server.Stderr = log, log
	unprivileged(c.server)
	if err := c.server.Start(); err != nil {
		return err
	}
	c.ended = make(chan struct{})
	go func(server *exec.Cmd, ended chan struct{}) {
		_ = server.Wait()
		close(ended)
	}(c.server, c.ended)
	return c.awaited()
}

// awaited waits until the server takes connections.
func (c *Cluster) awaited() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, c.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.ended:
			log, _ := os.ReadFile(filepath.Join(c.dir, "server.log"))
			return fmt.Errorf("the server ended: %s", log)
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *Cluster) remove() {
	if c.server != nil && c.server.Process != nil {
		_ = c.server.Process.Signal(immediate)
		<-c.ended
	}
	_ = os.RemoveAll(c.dir)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
