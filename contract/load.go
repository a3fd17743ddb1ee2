package contract

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/effectonce/effectonce/canon"
)

//go:embed providers/*.yaml
var embedded embed.FS

var builtin = sync.OnceValue(func() []*Contract {
	names, err := fs.Glob(embedded, "providers/*.yaml")
	if err != nil {
		panic(err)
	}
	var all []*Contract
	for _, name := range names {
		data, err := embedded.ReadFile(name)
		if err != nil {
			panic(err)
		}
		c, err := Parse(name, data)
		if err != nil {
			// The files are part of the program and tested with it.
			panic("contract: " + err.Error())
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Contract) int { return strings.Compare(a.Name, b.Name) })
	return all
})

// Builtin returns the contracts that come with the program, sorted by name.
func Builtin() []*Contract { return slices.Clone(builtin()) }

// Load returns a built-in contract by name. The error lists the names there are.
func Load(name string) (*Contract, error) {
	var names []string
	for _, c := range builtin() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return nil, fmt.Errorf("there is no contract %q (there are %s)", name, strings.Join(names, ", "))
}

// SizeBytesMax bounds a contract file.
const SizeBytesMax = 1 << 20

// Parse reads a contract file; file is its name, for messages. The error is a Problems, with everything that is wrong: syntax,
// unknown fields, and declarations that would be dangerous to believe (S14.5).
func Parse(file string, data []byte) (*Contract, error) {
	if len(data) > SizeBytesMax {
		return nil, Problems{{File: file, Detail: "is larger than a mebibyte", Remedy: "split it"}}
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, syntaxProblem(file, err)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return nil, Problems{{File: file, Line: 1, Detail: "does not hold one contract", Remedy: "write one YAML document"}}
	}
	var f fileContract
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return nil, syntaxProblem(file, err)
	}
	p := &problems{file: file, lines: linesOf(tree)}
	r := &reader{problems: p}
	c := r.contract(f)
	c.File = file
	c.check(p)
	if len(p.list) == 0 {
		for name, o := range c.Operations {
			checkExamples(p, "operations."+name, o)
		}
		c.checkRequests(p)
	}
	if len(p.list) > 0 {
		slices.SortStableFunc(p.list, func(a, b Problem) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return strings.Compare(a.Field, b.Field)
		})
		return nil, p.list
	}
	c.Version, err = version(data)
	if err != nil {
		return nil, Problems{{File: file, Detail: "has no canonical form: " + err.Error()}}
	}
	for _, o := range c.Operations {
		o.Version = c.Version
	}
	return c, nil
}

// version digests what a file says, so that neither a comment nor an example makes another contract of it.
func version(data []byte) (string, error) {
	var tree map[string]any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return "", err
	}
	delete(tree, "requests")
	if operations, ok := tree["operations"].(map[string]any); ok {
		for _, o := range operations {
			if o, ok := o.(map[string]any); ok {
				delete(o, "examples")
			}
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return "", err
	}
	document, err := canon.Decode(text, canon.Limits{Bytes: 4 * SizeBytesMax})
	if err != nil {
		return "", err
	}
	digest, err := canon.Sum(document)
	if err != nil {
		return "", err
	}
	return digest.String(), nil
}
