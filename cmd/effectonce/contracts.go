package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/effectonce/effectonce/contract"
)

type contractsCommand struct {
	Ls      contractsLsCommand      `cmd:"" help:"List the contracts, with what each promises about repeats."`
	Show    contractsShowCommand    `cmd:"" help:"Show what the guard believes of a provider, and by which source."`
	Check   contractsCheckCommand   `cmd:"" help:"Check contract files: every problem with its place and remedy, and their examples."`
	Explain contractsExplainCommand `cmd:"" help:"Show what an answer means, or which operation a request is and what would be sent."`
	Schema  contractsSchemaCommand  `cmd:"" help:"Print the JSON Schema of a contract file."`
}

type contractsSchemaCommand struct{}

// Run prints the schema.
func (contractsSchemaCommand) Run(c *terminal) error {
	_, err := c.out.Write(contract.Schema())
	return err
}

type contractsLsCommand struct {
	Dir string `placeholder:"DIR" help:"Also the contracts in this directory."`
}

// contractOperation is what is shown of an operation.
type contractOperation struct {
	Name         string            `json:"name"`
	Request      string            `json:"request"`
	Where        []string          `json:"where,omitempty"`
	Effect       string            `json:"effect"`
	Key          []string          `json:"key,omitempty"`
	KeyForm      string            `json:"key_form,omitempty"`
	Retention    string            `json:"retention,omitempty"`
	Resend       string            `json:"resend"`
	Stamp        string            `json:"stamp,omitempty"`
	LookUps      []string          `json:"look_ups,omitempty"`
	Replays      string            `json:"replays,omitempty"`
	Compensation string            `json:"compensation,omitempty"`
	Verdicts     []string          `json:"verdicts,omitempty"`
	Given        []string          `json:"given,omitempty"`
	Examples     int               `json:"examples"`
	Evidence     map[string]string `json:"evidence,omitempty"`
}

// Run lists contracts.
func (l *contractsLsCommand) Run(c *terminal) error {
	all := contract.Builtin()
	if l.Dir != "" {
		own, err := readContracts(c, l.Dir)
		if err != nil {
			return err
		}
		all = append(all, own...)
	}
	type listed struct {
		Name       string              `json:"name"`
		Title      string              `json:"title"`
		File       string              `json:"file"`
		Version    string              `json:"version"`
		Operations []contractOperation `json:"operations"`
	}
	list := []listed{}
	for _, one := range all {
		entry := listed{Name: one.Name, Title: one.Title, File: one.File, Version: one.Version}
		for _, name := range operationNames(one) {
			entry.Operations = append(entry.Operations, describedOperation(one.Operations[name]))
		}
		list = append(list, entry)
	}
	if c.json {
		return c.show(map[string]any{"contracts": list})
	}
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "contract\toperation\teffect\tresend\tlook-up")
	for _, entry := range list {
		for _, o := range entry.Operations {
			lookUp := "-"
			if len(o.LookUps) > 0 {
				lookUp, _, _ = strings.Cut(o.LookUps[0], ";")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", printed(entry.Name), printed(o.Name), o.Effect, o.Resend, printed(lookUp))
		}
	}
	return w.Flush()
}

func operationNames(c *contract.Contract) []string {
	var names []string
	for name := range c.Operations {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// findContract is a built-in contract, or one in a file.
func findContract(c *terminal, name string) (*contract.Contract, error) {
	found, err := contract.Load(name)
	if err == nil {
		return found, nil
	}
	if !strings.HasSuffix(name, ".yaml") && !strings.HasSuffix(name, ".yml") {
		return nil, invalid("name", err.Error(), "name one of these, or a file such as acme.yaml")
	}
	return readContract(c, name)
}

func readContract(c *terminal, file string) (*contract.Contract, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, invalid("file", "cannot be read: "+err.Error(), "name a readable file")
	}
	found, err := contract.Parse(file, data)
	var problems contract.Problems
	if errors.As(err, &problems) {
		return nil, c.contractProblems(problems)
	}
	return found, err
}

// contractFiles are a file, or the contract files of a directory.
func contractFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, invalid("path", "cannot be read: "+err.Error(), "name a contract file or a directory of them")
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.HasSuffix(p, ".yaml") || strings.HasSuffix(p, ".yml")) {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		return nil, invalid("path", "cannot be read: "+err.Error(), "name a readable directory")
	}
	if len(files) == 0 {
		return nil, invalid("path", "holds no contract", "name a directory with files that end in .yaml")
	}
	return files, nil
}

func readContracts(c *terminal, dir string) ([]*contract.Contract, error) {
	files, err := contractFiles(dir)
	if err != nil {
		return nil, err
	}
	var all []*contract.Contract
	for _, file := range files {
		one, err := readContract(c, file)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// contractProblems reports what is wrong with contract files, as lines or as the answer in JSON.
func (c *terminal) contractProblems(problems contract.Problems) error {
	list := []configProblem{}
	for _, p := range problems {
		list = append(list, configProblem{File: p.File, Line: max(p.Line, 1), Column: max(p.Column, 1), Field: p.Field, Detail: p.Detail, Remedy: p.Remedy})
	}
	p := problemOf(invalid("", fmt.Sprintf("the contracts have %d problems", len(list)), "correct them; docs/contracts.md describes each field"))
	if len(list) == 1 {
		p.Detail = "the contract has a problem"
	}
	p.Title, p.Problems = "The contract is not valid", list
	if c.json {
		if err := c.show(p); err != nil {
			return err
		}
		return &reported{exit: p.Exit}
	}
	for _, one := range problems {
		fmt.Fprintln(c.err, printed(one.Error()))
	}
	fmt.Fprintln(c.err, "effectonce: "+p.line())
	return &reported{exit: p.Exit}
}
