package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// S14.2 on PostgreSQL: two daemons on one database are one Effectonce.
func TestTwoDaemonsOnOneDatabase(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	dir := t.TempDir()
	config := "store: env:EFFECTONCE_STORE\n"
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	first := start(t, dir, nil, "serve", "--store", database, "--listen", "127.0.0.1:0")
	second := start(t, dir, []string{"EFFECTONCE_STORE=" + database}, "serve", "--listen", "127.0.0.1:0")

	const claim = `{"tool": "hello", "intent_id": "hello:1", "arguments": {"to": "world"}}`
	status, claimed := ask(t, first.url+"/v1/claims", claim)
	if status != 201 || claimed["do"] != "execute" {
		t.Fatalf("status %d, %v", status, claimed)
	}
	if status, answer := ask(t, second.url+"/v1/claims", claim); status != 409 {
		t.Errorf("the second daemon: status %d, %v", status, answer)
	}
	status, done := ask(t, fmt.Sprintf("%s/v1/claims/%s/complete", second.url, claimed["key"]), fmt.Sprintf(`{"token": %v, "result": {"said": "hello"}, "reference": "h_1"}`, claimed["token"]))
	if status != 200 || done["state"] != "succeeded" {
		t.Fatalf("status %d, %v", status, done)
	}
	if status, again := ask(t, first.url+"/v1/claims", claim); status != 200 || again["replayed"] != true || again["reference"] != "h_1" {
		t.Errorf("again: status %d, %v", status, again)
	}
	for _, p := range []*process{first, second} {
		if code := p.signal(t, syscall.SIGTERM); code != 0 {
			t.Errorf("exit code %d: %s", code, p.stderr)
		}
	}

	// The downstream key depends on the secret, which is in the database (S3.9).
	code, out, errs := answer(t, nil, "", "explain", "hello", "--arguments", `{"to": "world"}`, "--intent-id", "hello:1", "--store", database, "--json")
	var shown struct {
		Key           string `json:"key"`
		DownstreamKey string `json:"downstream_key"`
	}
	if err := json.Unmarshal([]byte(out), &shown); code != 0 || err != nil || shown.Key != claimed["key"] || shown.DownstreamKey != claimed["downstream_key"] {
		t.Errorf("explain: exit code %d, %v, %s%s; the claim said %v", code, err, out, errs, claimed)
	}
}

func TestMigrateADatabase(t *testing.T) {
	t.Parallel()
	database := pgtest.URL(t)
	for i, want := range []string{`"from": 0`, `"from": 2`} {
		code, out, errs := answer(t, nil, "", "migrate", "--store", database, "--json")
		if code != 0 || !strings.Contains(out, want) || !strings.Contains(out, `"to": 2`) {
			t.Errorf("%d: exit code %d, %s%s", i, code, out, errs)
		}
	}
	code, out, errs := answer(t, map[string]string{"STORE": database}, "", "migrate", "--store", "env:STORE")
	if code != 0 || !strings.Contains(out, "the schema is up to date") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

// What is wrong with a store's name or place is said without its password (S15.4).
func TestStoresThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	away := "postgres://user:s3cret@" + unusedAddress(t) + "/db"
	dir := t.TempDir()
	withPassword := filepath.Join(dir, "password.yaml")
	if err := os.WriteFile(withPassword, []byte("store: postgres://user:s3cret@localhost/db\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"migrate", "--store", away}, 8, "no connection"},
		{[]string{"explain", "hello", "--arguments", "{}", "--intent-id", "hello:1", "--store", away}, 8, "no connection"},
		{[]string{"migrate", "--store", "env:NO_SUCH_VARIABLE"}, 2, "NO_SUCH_VARIABLE is not set"},
		{[]string{"migrate", "--store", "mysql://user:s3cret@localhost/db"}, 2, "mysql"},
		{[]string{"policy", "check", withPassword}, 2, "holds a password in clear"},
	} {
		code, out, errs := answer(t, nil, "", c.args...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Contains(out+errs, "s3cret") {
			t.Errorf("%s: exit code %d, want %d and %q: %s%s", c.args[0], code, c.code, c.want, out, errs)
		}
	}
	if u, err := url.Parse(away); err != nil || !strings.Contains((storeName{url: away}).String(), u.Host) {
		t.Errorf("the name is %s", storeName{url: away})
	}
}

func TestMigrateAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "effectonce.db")
	for range 2 {
		code, out, errs := answer(t, nil, "", "migrate", "--store", path)
		if code != 0 || out != path+": the schema is up to date.\n" {
			t.Errorf("exit code %d, %s%s", code, out, errs)
		}
	}
}
