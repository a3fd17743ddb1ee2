package effectonce_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/effectonce/effectonce"

// room is a package of the main module: which packages of the module it may import, and why no others.
type room struct {
	imports []string
	why     string
}

// rooms lists every package. Surfaces point at the core, adapters point at the core, and only cmd ties them together.
var rooms = map[string]room{
	"canon":          {nil, "canonical form is the ground floor: it knows nothing of the project"},
	".":              {[]string{"canon"}, "the core knows its own vocabulary and ports only; adapters and surfaces know the core"},
	"policy":         {[]string{".", "canon"}, "a policy says what a tool means; it knows neither providers nor stores"},
	"contract":       {[]string{".", "canon"}, "a contract says what a provider promises; it knows neither policies nor stores"},
	"provider":       {[]string{".", "canon", "contract"}, "a provider adapter speaks by contract; it knows neither surfaces nor stores"},
	"journal":        {[]string{".", "canon"}, "a journal is decisions over the store port; it knows no surface"},
	"events":         {[]string{".", "canon"}, "inbox and outbox speak to brokers and webhooks; they know no other surface and no store"},
	"worker":         {[]string{".", "canon"}, "a worker calls the same guard as everybody else"},
	"config":         {[]string{".", "canon", "policy", "contract", "provider", "events"}, "the configuration ties tools to providers; it opens no store and speaks no protocol"},
	"loopback":       {[]string{"."}, "a check of requests that both surfaces on loopback make; it knows neither"},
	"api":            {[]string{".", "canon", "journal", "events", "loopback"}, "a surface turns its protocol into intents and outcomes; tools and stores are handed to it by cmd"},
	"egress":         {[]string{".", "canon", "contract", "provider", "loopback"}, "a surface turns requests on the wire into intents; policies and stores are handed to it by cmd"},
	"client":         {[]string{".", "canon"}, "the client needs the vocabulary and nothing of the daemon"},
	"idempotency":    {[]string{".", "canon"}, "middleware for other people's servers stands on the guard alone; the daemon and its surfaces do not come along"},
	"store/memory":   {[]string{".", "canon"}, "a driver implements the store port; it knows neither other drivers nor surfaces"},
	"store/sqlite":   {[]string{".", "canon"}, "a driver implements the store port; it knows neither other drivers nor surfaces"},
	"store/postgres": {[]string{".", "canon"}, "a driver implements the store port; it knows neither other drivers nor surfaces"},

	// What follows is for tests and for trying things out. Production code does not import it.
	"store/storetest":       {[]string{".", "canon"}, "the conformance suite knows the port and no driver"},
	"store/postgres/pgtest": {nil, "it starts databases for tests; it knows no schema and no rules"},
	"fault/twin":            {nil, "the twin stands for a provider, which knows nothing of Effectonce"},
	"fault/twin/general":    {[]string{"contract", "fault/twin"}, "a contract is the script that this twin plays; it knows nothing else of the project"},
	"fault":                 {[]string{".", "canon", "contract", "provider", "policy", "config", "worker", "fault/twin", "store/memory", "store/sqlite"}, "the fault kit wraps ports; it knows no surface"},
	"fault/sim":             {[]string{".", "canon", "worker", "journal", "fault", "fault/twin", "store/memory"}, "the simulator drives the guard and the ports; it knows no surface"},

	"cmd/effectonce": {[]string{".", "canon", "policy", "contract", "provider", "worker", "config", "api", "egress", "client", "journal", "events", "store/memory", "store/sqlite", "store/postgres", "fault", "fault/twin", "fault/twin/general"}, "cmd composes; it takes the twin and the probe from the fault kit, for the commands of these names"},
}

// onlyTests lists packages that may import testing although their files are not tests.
var onlyTests = []string{"store/storetest", "store/postgres/pgtest", "fault/sim"}

// noProtocol names what the core must not know, by prefix of the import path.
var noProtocol = []string{"database/sql", "net", "net/http", "os/exec", "testing", "modernc.org/", "github.com/danielgtaylor/", "github.com/goccy/", "github.com/alecthomas/", "github.com/pressly/"}

const (
	codeLinesMax = 600
	testLinesMax = 800
)

// source is one Go file of the repository.
type source struct {
	path  string // slash-separated, from the repository root
	dir   string
	file  *ast.File
	lines int
	test  bool
}

// imports returns the import paths of the file.
func (s source) imports() []string {
	var paths []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// internal returns the packages of the module that the file imports, by their directory.
func (s source) internal() []string {
	var dirs []string
	for _, p := range s.imports() {
		if p == module {
			dirs = append(dirs, ".")
		} else if dir, ok := strings.CutPrefix(p, module+"/"); ok {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// sources parses every Go file of the repository.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		p = filepath.ToSlash(p)
		all = append(all, source{path: p, dir: path.Dir(p), file: file, test: strings.HasSuffix(p, "_test.go"), lines: fset.File(file.FileStart).LineCount()})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ownModule reports whether the file belongs to a module of its own, which has other dependencies on purpose.
func (s source) ownModule() bool {
	return strings.HasPrefix(s.path, "integration/") || strings.HasPrefix(s.path, "bench/")
}

// TestImportsPointTheAllowedWay: what a package may know is in its row above, with the reason.
func TestImportsPointTheAllowedWay(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || s.ownModule() || strings.HasPrefix(s.path, "examples/") {
			continue
		}
		r, ok := rooms[s.dir]
		if !ok {
			t.Errorf("%s: package %s has no row in layout_test.go: say what it may import, and why", s.path, s.dir)
			continue
		}
		for _, dir := range s.internal() {
			if !slices.Contains(r.imports, dir) {
				t.Errorf("%s imports %s: %s", s.path, dir, r.why)
			}
		}
	}
}

// TestNothingImportsCmd: programs are leaves; what two of them need belongs in a package.
func TestNothingImportsCmd(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for _, dir := range s.internal() {
			if strings.HasPrefix(dir, "cmd/") {
				t.Errorf("%s imports %s: programs are leaves", s.path, dir)
			}
		}
	}
}

// TestProductionKnowsNoTests: a fault or a test helper that production code can reach is a fault in production.
func TestProductionKnowsNoTests(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || s.ownModule() || strings.HasPrefix(s.dir, "fault") || slices.Contains(onlyTests, s.dir) {
			continue
		}
		for _, p := range s.imports() {
			if p == "testing" || strings.HasPrefix(p, "testing/") {
				t.Errorf("%s imports %s: production code knows no tests", s.path, p)
			}
		}
		for _, dir := range s.internal() {
			kit := dir == "fault" || strings.HasPrefix(dir, "fault/") || slices.Contains(onlyTests, dir)
			if kit && s.dir != "cmd/effectonce" {
				t.Errorf("%s imports %s: production code does not know the fault kit", s.path, dir)
			}
		}
	}
}

// TestCoreSpeaksNoProtocol: the core and the rules of tools stay free of SQL, HTTP, MCP and YAML.
func TestCoreSpeaksNoProtocol(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || s.dir != "." && s.dir != "canon" && s.dir != "policy" {
			continue
		}
		for _, p := range s.imports() {
			for _, no := range noProtocol {
				if p == no || strings.HasSuffix(no, "/") && strings.HasPrefix(p, no) {
					t.Errorf("%s imports %s: the core decides and speaks no protocol; put it into an adapter or a surface", s.path, p)
				}
			}
		}
	}
}

// TestEveryPackageSaysWhatItIsFor: each package has a doc comment.
func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	documented := make(map[string]bool)
	for _, s := range sources(t) {
		documented[s.dir] = documented[s.dir] || s.file.Doc != nil && len(s.file.Doc.Text()) > 40
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no doc comment that says what it is for", dir)
		}
	}
}

// TestExportedNamesAreDocumented: each exported type, function and method says what it is for.
func TestExportedNamesAreDocumented(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || s.ownModule() || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !conventional(d.Name.Name) {
					t.Errorf("%s: %s has no doc comment", s.path, d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
						t.Errorf("%s: type %s has no doc comment", s.path, ts.Name.Name)
					}
				}
			}
		}
	}
}

// conventional names a method whose meaning its interface in the standard library fixes.
func conventional(name string) bool {
	return slices.Contains([]string{"Error", "Unwrap", "Is", "String", "Len", "Less", "Swap", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "ServeHTTP"}, name)
}

// exportedReceiver reports whether a function can be reached from outside: it has no receiver, or an exported one.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.IsExported()
		default:
			return true
		}
	}
}

// TestNamesSayWhatIsInside: a package or file named after nothing collects everything.
func TestNamesSayWhatIsInside(t *testing.T) {
	t.Parallel()
	empty := []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "shared", "base", "lib"}
	for _, s := range sources(t) {
		file := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test")
		for _, name := range []string{s.file.Name.Name, path.Base(s.dir), file} {
			if slices.Contains(empty, name) {
				t.Errorf("%s: %q says nothing about what is inside", s.path, name)
			}
		}
	}
}

// TestFilesHaveOneSubject: a file that outgrows these lengths has more than one.
func TestFilesHaveOneSubject(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		limit := codeLinesMax
		if s.test {
			limit = testLinesMax
		}
		if s.lines > limit && !ast.IsGenerated(s.file) {
			t.Errorf("%s has %d lines, the limit is %d: it has more than one subject", s.path, s.lines, limit)
		}
	}
}

// TestNoSleepingInTests: a test that sleeps is slow on a fast machine and wrong on a slow one. Inside a synctest bubble
// sleeping is how time passes.
func TestNoSleepingInTests(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test && !slices.Contains(onlyTests, s.dir) || slices.Contains(s.imports(), "testing/synctest") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if ok && sel.Sel.Name == "Sleep" {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
					t.Errorf("%s calls time.Sleep: wait for what is awaited, with a deadline, or use testing/synctest", s.path)
				}
			}
			return true
		})
	}
}
