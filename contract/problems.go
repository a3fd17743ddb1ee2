package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Problem is one thing that is wrong with a contract file.
type Problem struct {
	File string
	// Line is 0 where there is none to name.
	Line int
	// Field is the path in the file; Detail what is wrong, Remedy what to do about it.
	Field, Detail, Remedy string
}

// Error implements error, in one line that editors can follow.
func (p Problem) Error() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
	}
	s += ": "
	if p.Field != "" {
		s += p.Field + ": "
	}
	s += p.Detail
	if p.Remedy != "" {
		s += " (" + p.Remedy + ")"
	}
	return s
}

// Problems is everything that is wrong with a file, in the order of its lines.
type Problems []Problem

// Error implements error, one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, one := range p {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

type problems struct {
	file  string
	lines map[string]int
	list  Problems
}

func (p *problems) add(field, detail, remedy string) {
	p.list = append(p.list, Problem{File: p.file, Line: p.line(field), Field: field, Detail: detail, Remedy: remedy})
}

// line finds the line of a field, or of the nearest thing around it that is there.
func (p *problems) line(field string) int {
	for field != "" {
		if n, ok := p.lines[field]; ok {
			return n
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return 1
}

// linesOf maps the path of each field to its line.
func linesOf(file *ast.File) map[string]int {
	lines := map[string]int{}
	for _, doc := range file.Docs {
		walkLines(lines, "", doc.Body)
	}
	return lines
}

func walkLines(lines map[string]int, at string, node ast.Node) {
	switch n := node.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			walkLines(lines, at, v)
		}
	case *ast.MappingValueNode:
		name := n.Key.GetToken().Value
		if at != "" {
			name = at + "." + name
		}
		lines[name] = n.Key.GetToken().Position.Line
		walkLines(lines, name, n.Value)
	case *ast.SequenceNode:
		for i, v := range n.Values {
			name := fmt.Sprintf("%s[%d]", at, i)
			if t := v.GetToken(); t != nil && t.Position != nil {
				lines[name] = t.Position.Line
			}
			if m, ok := v.(*ast.MappingNode); ok && len(m.Values) > 0 {
				lines[name] = m.Values[0].Key.GetToken().Position.Line
			}
			walkLines(lines, name, v)
		}
	}
}

// syntaxProblem turns the YAML library's error into one of ours.
func syntaxProblem(file string, err error) error {
	var y yaml.Error
	if errors.As(err, &y) {
		p := Problem{File: file, Detail: y.GetMessage(), Remedy: "correct the field; unknown ones are refused"}
		if t := y.GetToken(); t != nil && t.Position != nil {
			p.Line = t.Position.Line
		}
		return Problems{p}
	}
	return Problems{{File: file, Detail: err.Error()}}
}
