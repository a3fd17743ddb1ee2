// Package pgtest gives tests a PostgreSQL server: an installed one that it starts in a temporary directory, or the one that
// EFFECTONCE_TEST_POSTGRES_URL names. It is for tests only.
//
// A package that uses it runs its tests with [Main], which stops the server:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// urlVariable names a server to use instead of a throwaway one; its role must be allowed to create databases.
const urlVariable = "EFFECTONCE_TEST_POSTGRES_URL"

// shared is this process's server, started when it is first asked for.
var shared struct {
	sync.Mutex
	cluster *Cluster
	err     error
}

// Main runs the tests and stops the process's server, if one was started. It does not return.
func Main(m *testing.M) { os.Exit(Tests{M: m}.Run()) }

// Tests are the tests of a package whose TestMain hands them on to something else.
type Tests struct{ M interface{ Run() int } }

// Run runs the tests, stops the process's server, if one was started, and returns the exit code.
func (t Tests) Run() int {
	code := t.M.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster != nil {
		shared.cluster.remove()
		shared.cluster = nil
	}
	return code
}

// URL returns the URL of an empty database of the test's own, which is dropped when the test ends. Where there is no server, the
// test is skipped.
func URL(t testing.TB) string {
	t.Helper()
	base := os.Getenv(urlVariable)
	if base == "" {
		base = sharedCluster(t).URL("postgres")
	}
	return database(t, base)
}

func sharedCluster(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.cluster == nil && shared.err == nil {
		Need(t)
		shared.cluster, shared.err = start(false)
	}
	if shared.err != nil {
		t.Fatalf("the PostgreSQL server for the tests: %v", shared.err)
	}
	return shared.cluster
}

var databases atomic.Int64

// database creates a database on the server at base.
func database(t testing.TB, base string) string {
	t.Helper()
	name := fmt.Sprintf("effectonce_test_%d_%d", os.Getpid(), databases.Add(1))
	admin(t, base, "CREATE DATABASE "+name)
	t.Cleanup(func() { admin(t, base, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	u, err := url.Parse(base)
	if err != nil {
		t.Fatalf("%s: not a URL", urlVariable)
	}
	u.Path = "/" + name
	return u.String()
}

// admin runs a statement on a connection of its own.
func admin(t testing.TB, at, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, at)
	if err == nil {
		_, err = c.Exec(ctx, sql)
		_ = c.Close(ctx)
	}
	if err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// Need skips the test where no PostgreSQL server is installed, and fails it where nothing may be skipped (CI,
// EFFECTONCE_TEST_ALL).
func Need(t testing.TB) {
	t.Helper()
	if os.Getenv(urlVariable) == "" && program("postgres") == "" {
		missing(t, "no PostgreSQL server is installed; get one with: apt-get install postgresql (or set "+urlVariable+")")
	}
}

// NeedCluster is [Need] for tests that stop and restart the server, which a named one is not there for.
func NeedCluster(t testing.TB) {
	t.Helper()
	if program("postgres") == "" {
		missing(t, "no PostgreSQL server is installed that may be restarted; get one with: apt-get install postgresql")
	}
}

func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" || os.Getenv("EFFECTONCE_TEST_ALL") != "" {
		t.Fatal(what)
	}
	t.Skip("SKIPPED: " + what)
}

// Program returns the path of one of PostgreSQL's programs, of the newest version that is installed, or of another program that
// is on the path or among the system's; empty where there is none.
func Program(name string) string { return program(name) }

func program(name string) string {
	var dirs []string
	versions, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	for i := len(versions) - 1; i >= 0; i-- {
		dirs = append(dirs, versions[i])
	}
	dirs = append(dirs, strings.Split(os.Getenv("PATH"), string(os.PathListSeparator))...)
	dirs = append(dirs, "/usr/local/pgsql/bin", "/usr/local/bin", "/opt/homebrew/bin", "/usr/sbin")
	for _, dir := range dirs {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}
