package contract

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Problem is one thing that is wrong with a contract file.
type Problem struct {
	File string
	// Line and Column count from 1, and are 0 where there is none to name.
	Line, Column int
	// Field is the path in the file; Detail what is wrong, Remedy what to do about it.
	Field, Detail, Remedy string
}

// Error implements error, in one line that editors can follow.
func (p Problem) Error() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
		if p.Column > 0 {
			s += ":" + strconv.Itoa(p.Column)
		}
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
	lines map[string]position
	list  Problems
}

func (p *problems) add(field, detail, remedy string) {
	at := p.position(field)
	p.list = append(p.list, Problem{File: p.file, Line: at.line, Column: at.column, Field: field, Detail: detail, Remedy: remedy})
}

type position struct{ line, column int }

func positionOf(t *token.Token) position { return position{t.Position.Line, t.Position.Column} }

// position finds where a field is, or the nearest thing around it that is there.
func (p *problems) position(field string) position {
	for field != "" {
		if n, ok := p.lines[field]; ok {
			return n
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return position{1, 1}
}

// linesOf maps the path of each field to where it is.
func linesOf(file *ast.File) map[string]position {
	lines := map[string]position{}
	for _, doc := range file.Docs {
		walkLines(lines, "", doc.Body)
	}
	return lines
}

func walkLines(lines map[string]position, at string, node ast.Node) {
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
		lines[name] = positionOf(n.Key.GetToken())
		walkLines(lines, name, n.Value)
	case *ast.SequenceNode:
		for i, v := range n.Values {
			name := fmt.Sprintf("%s[%d]", at, i)
			if t := v.GetToken(); t != nil && t.Position != nil {
				lines[name] = positionOf(t)
			}
			if m, ok := v.(*ast.MappingNode); ok && len(m.Values) > 0 {
				lines[name] = positionOf(m.Values[0].Key.GetToken())
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
			p.Line, p.Column = t.Position.Line, t.Position.Column
		}
		return Problems{p}
	}
	return Problems{{File: file, Detail: err.Error()}}
}
