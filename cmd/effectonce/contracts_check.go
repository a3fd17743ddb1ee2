package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/effectonce/effectonce/contract"
)

type contractsCheckCommand struct {
	Path string `arg:"" optional:"" help:"A contract file, or a directory of them; the built-in contracts if left out."`
}

// checkedContract is what a sound file holds.
type checkedContract struct {
	File       string `json:"file"`
	Name       string `json:"name"`
	Version    string `json:"version"`
	Operations int    `json:"operations"`
	Examples   int    `json:"examples"`
	Requests   int    `json:"requests"`
}

// Help implements kong.HelpProvider.
func (contractsCheckCommand) Help() string {
	return `The examples of answers and requests in a file are run. The exit code is 2 if there is any problem.`
}

// Run checks files.
func (k *contractsCheckCommand) Run(c *terminal) error {
	sound := []checkedContract{}
	var problems contract.Problems
	add := func(found *contract.Contract) {
		one := checkedContract{File: found.File, Name: found.Name, Version: found.Version, Operations: len(found.Operations), Requests: len(found.Requests)}
		for _, o := range found.Operations {
			one.Examples += len(o.Examples)
		}
		sound = append(sound, one)
	}
	if k.Path == "" {
		for _, found := range contract.Builtin() {
			add(found)
		}
		return k.report(c, sound)
	}
	files, err := contractFiles(k.Path)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return invalid("path", "cannot be read: "+err.Error(), "name readable files")
		}
		found, err := contract.Parse(file, data)
		var wrong contract.Problems
		if errors.As(err, &wrong) {
			problems = append(problems, wrong...)
			continue
		}
		if err != nil {
			return err
		}
		if before, twice := names[found.Name]; twice {
			problems = append(problems, contract.Problem{File: file, Line: 1, Column: 1, Field: "contract", Detail: fmt.Sprintf("%q is in %s already", found.Name, before), Remedy: "give it another name"})
			continue
		}
		names[found.Name] = file
		add(found)
	}
	if len(problems) > 0 {
		return c.contractProblems(problems)
	}
	return k.report(c, sound)
}

func (k *contractsCheckCommand) report(c *terminal, sound []checkedContract) error {
	if c.json {
		return c.show(map[string]any{"contracts": sound, "problems": []configProblem{}})
	}
	for _, one := range sound {
		c.say("%s: %s is valid: %s, %s of answers and %s of requests are as expected.", printed(one.File), printed(one.Name),
			counted(one.Operations, "operation"), counted(one.Examples, "example"), counted(one.Requests, "example"))
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
