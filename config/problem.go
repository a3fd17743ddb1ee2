package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a configuration, with the place at which somebody can correct it. It never holds a
// secret.
type Problem struct {
	File         string
	Line, Column int
	// Field is the path of the field: "tools.stripe.refund.retry.within". Empty: the file as a whole.
	Field string
	// Detail says what is wrong, Remedy what to do.
	Detail, Remedy string
}

// String is file:line:column: field: what: remedy.
func (p Problem) String() string {
	s := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Field != "" {
		s += p.Field + ": "
	}
	return s + p.Detail + ": " + p.Remedy
}

// Problems are all the problems of one configuration, in the order of the file. It is an error.
type Problems []Problem

// Error has one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(p)
}
