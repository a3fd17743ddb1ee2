package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/events"
	"github.com/effectonce/effectonce/provider"
)

// What holds where the file says nothing.
const (
	DefaultListen = "127.0.0.1:7171"
	DefaultStore  = "effectonce.db"
)

// Config is a checked configuration. Only [Config.KeepIdentities] changes it, before the first call.
type Config struct {
	// File is where it was read from, for messages.
	File string
	// Listen is the address of the daemon, on loopback. Store is the path of the SQLite file, a PostgreSQL URL without a password, or
	// env:NAME for a URL in an environment variable.
	Listen, Store string
	// Tools by name.
	Tools map[string]*Tool
	// Inbox is where events come in, by the source's name; Outbox where outgoing messages go, in the order of the file. Both are
	// checked, with defaults filled.
	Inbox  map[string]events.Source
	Outbox []events.Route
	// Routes are the egress proxy's, in the order of the file.
	Routes []Route
	// Providers says how each provider of the file is asked without a tool.
	Providers map[string]provider.RawOptions
	// Breaker says when new calls to a provider pause; nil: never (S7.9).
	Breaker *effectonce.BreakerOptions
	// Documents finds a policy version that was stored earlier ([Config.Keep]); whoever opens the store sets it before the
	// first call. Nil: only the versions of this file are known.
	Documents func(ctx context.Context, version string) ([]byte, error)

	// sources are the places of the inbox's sources in the file.
	sources map[string]*node
}

// Load reads and checks a file, with the process's environment. The error is a [Problems], or says that the file cannot be
// read.
func Load(path string) (*Config, error) {
	data, err := readBounded(path, fileBytesMax)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, data, os.LookupEnv)
}

// Parse checks the content of a file; file is its path, from which relative paths in it start, and env looks up an environment
// variable. It reads the files that the configuration names: contracts and secrets. The error is a [Problems] with
// everything that is wrong. Empty content is a configuration without tools.
func Parse(file string, data []byte, env func(string) (string, bool)) (*Config, error) {
	c := &check{file: file}
	c.root = c.parse(data)
	var form fileForm
	c.object(c.root, valueOf(&form), nil)

	r := &reading{check: c, dir: filepath.Dir(file), env: env, config: &Config{File: file, Tools: map[string]*Tool{}}}
	r.daemon(form)
	r.contracts(form.Contracts)
	for _, name := range slices.Sorted(maps.Keys(form.Providers)) {
		r.provider(name, form.Providers[name])
	}
	r.routed(form.Routes)
	for _, name := range slices.Sorted(maps.Keys(form.Tools)) {
		r.tool(name, form.Tools[name])
	}
	r.routes(form.Routes)
	r.services()
	r.compensations(form.Tools)
	r.inbox(form.Inbox)
	r.outbox(form.Outbox)
	r.breaker(form.Breaker)
	if len(c.problems) > 0 {
		return nil, c.problems.sorted()
	}
	return r.config, nil
}

// reading is a file while it is checked.
type reading struct {
	*check
	dir       string
	env       func(string) (string, bool)
	config    *Config
	own       map[string]*contract.Contract
	providers map[string]*source
	// byRoute are operations of routes, by the tool that is their policy.
	byRoute map[string]*contract.Operation
	// addresses are those that are listened on.
	addresses map[string]bool
}

func (r *reading) daemon(form fileForm) {
	r.config.Listen = form.Listen
	if form.Listen == "" {
		r.config.Listen = DefaultListen
	} else if detail := notLoopback(form.Listen); detail != "" {
		r.on([]string{"listen"}, detail, "use an address of this machine only, such as "+DefaultListen+": callers are not authenticated")
	}
	r.store(form.Store)
}

// store reads where the store is: a PostgreSQL URL or a reference to one as it stands, or a path from the file's directory.
func (r *reading) store(name string) {
	switch {
	case strings.HasPrefix(name, "postgres://"), strings.HasPrefix(name, "postgresql://"):
		u, err := url.Parse(name)
		if err != nil {
			// The parser's words can hold parts of a password.
			r.on([]string{"store"}, "is not a URL that can be read", "write postgres://user@host:port/database")
			return
		}
		if _, secret := u.User.Password(); secret || u.Query().Has("password") {
			r.on([]string{"store"}, "holds a password in clear", "write env:NAME, with the whole URL in that variable, or use PGPASSWORD or a .pgpass file")
			return
		}
		r.config.Store = name
	case strings.HasPrefix(name, "env:"):
		r.config.Store = name
	default:
		if name == "" {
			name = DefaultStore
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(r.dir, name)
		}
		r.config.Store = name
	}
}

func notLoopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "is not an address of the form host:port"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "has a port that is not a number from 0 to 65535"
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "is not a loopback address"
	}
	return ""
}

// contractFilesMax bounds the user's own contracts.
const contractFilesMax = 200

// contracts reads the user's own contracts from a directory.
func (r *reading) contracts(dir string) {
	r.own = map[string]*contract.Contract{}
	if dir == "" {
		return
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(r.dir, dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.on([]string{"contracts"}, fmt.Sprintf("the directory %s cannot be read: %v", dir, cause(err)), "name a directory with contract files (*.yaml)")
		return
	}
	read := 0
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".yaml" && ext != ".yml" {
			continue
		}
		if read++; read > contractFilesMax {
			r.on([]string{"contracts"}, fmt.Sprintf("has more than %d contracts", contractFilesMax), "name a directory of contracts only")
			return
		}
		r.contractFile(filepath.Join(dir, e.Name()))
	}
}

func (r *reading) contractFile(path string) {
	data, err := readBounded(path, contract.SizeBytesMax)
	if err != nil {
		r.on([]string{"contracts"}, err.Error(), "make it readable, or take it away")
		return
	}
	c, err := contract.Parse(path, data)
	if err != nil {
		r.contractProblems(path, err)
		return
	}
	if _, err := contract.Load(c.Name); err == nil {
		r.problems = append(r.problems, Problem{File: path, Line: 1, Column: 1, Field: "contract", Detail: fmt.Sprintf("%q is built in", c.Name), Remedy: "give your contract another name"})
		return
	}
	if before, twice := r.own[c.Name]; twice {
		r.problems = append(r.problems, Problem{File: path, Line: 1, Column: 1, Field: "contract", Detail: fmt.Sprintf("%q is in %s already", c.Name, before.File), Remedy: "give it another name"})
		return
	}
	r.own[c.Name] = c
}

func (r *reading) contractProblems(path string, err error) {
	var problems contract.Problems
	if !errors.As(err, &problems) {
		r.on([]string{"contracts"}, path+": "+err.Error(), "correct the contract")
		return
	}
	for _, p := range problems {
		remedy := p.Remedy
		if remedy == "" {
			remedy = "correct it"
		}
		r.problems = append(r.problems, Problem{File: p.File, Line: max(p.Line, 1), Column: max(p.Column, 1), Field: p.Field, Detail: p.Detail, Remedy: remedy})
	}
}

// contractNames lists the contracts that a provider can name.
func (r *reading) contractNames() []string {
	names := slices.Collect(maps.Keys(r.own))
	for _, c := range contract.Builtin() {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

// Keep stores the policy version of each tool, so that repeats of operations can be read under it after the file changed
// (S3.11). It is called once the store is open and before the first call.
func (c *Config) Keep(ctx context.Context, put func(ctx context.Context, doc []byte) (canon.Digest, error)) error {
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if err := c.Tools[name].keep(ctx, put); err != nil {
			return err
		}
	}
	return nil
}

// listed writes words for a remedy.
func listed(words []string) string { return strings.Join(words, ", ") }
