package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/config"
)

// Exit codes beside those of effectonce.Registry.
const (
	exitInternal    = 1
	exitUnavailable = 8
	exitCounts      = 9
	exitInterrupted = 130
)

// lineError is an error of the command line itself, with its exit code.
type lineError struct {
	code           int
	name           string
	detail, remedy string
	cause          error
}

func (f *lineError) Error() string {
	s := f.detail
	if f.cause != nil {
		s += ": " + f.cause.Error()
	}
	return s
}

func (f *lineError) Unwrap() error { return f.cause }

// invalid is bad input, as the registry has it.
func invalid(field, detail, remedy string) error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: field, Detail: detail, Remedy: remedy}
}

// usage says what is wrong with a command line, and where its help is.
func usage(parsed *kong.Context, err error) error {
	help := "effectonce --help"
	var p *kong.ParseError
	if errors.As(err, &p) && p.Context != nil {
		parsed = p.Context
	}
	if parsed != nil {
		if node := parsed.Selected(); node != nil {
			help = node.FullPath() + " --help"
		}
	}
	return invalid("", err.Error(), "see "+help)
}

// problem is an error as a document: the form that the HTTP API uses, with the exit code.
type problem struct {
	Type       string           `json:"type"`
	Title      string           `json:"title"`
	Status     int              `json:"status,omitempty"`
	Code       effectonce.Code  `json:"code"`
	Detail     string           `json:"detail,omitempty"`
	Field      string           `json:"field,omitempty"`
	Fields     []string         `json:"fields,omitempty"`
	Limit      string           `json:"limit,omitempty"`
	HeldBy     []effectonce.Key `json:"held_by,omitempty"`
	Remedy     string           `json:"remedy,omitempty"`
	Next       string           `json:"next,omitempty"`
	RetryAfter string           `json:"retry_after,omitempty"`
	Sent       effectonce.Sent  `json:"sent,omitempty"`
	Key        effectonce.Key   `json:"key,omitzero"`
	// Problems are those of a configuration, each with its place.
	Problems []configProblem `json:"problems,omitempty"`
	Exit     int             `json:"exit"`
}

// fail reports an error and returns the exit code: a line for people on standard error, or with --json a problem
// document on standard output.
func (c *terminal) fail(err error) int {
	var reported *reported
	if errors.As(err, &reported) {
		return reported.exit
	}
	p := problemOf(err)
	if c.json {
		b, _ := json.MarshalIndent(p, "", "  ")
		fmt.Fprintln(c.out, string(b))
		return p.Exit
	}
	for _, q := range p.Problems {
		fmt.Fprintln(c.err, q.line())
	}
	fmt.Fprintln(c.err, "effectonce: "+p.line())
	return p.Exit
}

// reported is an error whose report has been written already, as the command's answer.
type reported struct{ exit int }

func (r *reported) Error() string { return fmt.Sprintf("exit code %d", r.exit) }

func (p problem) line() string {
	s := p.Detail
	if s == "" {
		s = strings.ToLower(p.Title[:1]) + p.Title[1:]
	}
	if p.Field != "" {
		s = p.Field + separator(s) + s
	}
	if len(p.Fields) > 0 {
		s += ": " + strings.Join(p.Fields, ", ")
	}
	if p.Remedy != "" {
		s += " (" + p.Remedy + ")"
	}
	return s
}

// predicates are words with which a detail says something about its field; any other detail is a sentence of its own.
var predicates = map[string]bool{
	"is": true, "are": true, "was": true, "were": true, "has": true, "have": true, "had": true, "does": true, "do": true, "did": true,
	"can": true, "cannot": true, "could": true, "must": true, "may": true, "would": true, "needs": true, "holds": true, "belongs": true,
	"names": true, "begins": true, "ends": true, "stands": true, "lacks": true, "builds": true, "completes": true, "asks": true, "says": true,
}

// separator stands between a field and what is said of it.
func separator(detail string) string {
	word, _, _ := strings.Cut(detail, " ")
	if predicates[strings.TrimRight(word, ",:;")] {
		return " "
	}
	return ": "
}

func problemOf(err error) problem {
	var known *effectonce.Error
	var own *lineError
	var wrong config.Problems
	switch {
	case errors.As(err, &wrong):
		return configurationProblem(wrong)
	case errors.As(err, &known):
		k := effectonce.KindOf(known.Code)
		p := problem{Type: "/errors/" + string(k.Code), Title: k.Title, Status: k.Status, Code: known.Code, Detail: known.Detail,
			Field: known.Field, Fields: known.Fields, Remedy: known.Remedy, Next: string(k.Next), Sent: known.Sent, Key: known.Key, Limit: known.Limit, HeldBy: known.HeldBy, Exit: k.Exit}
		var form *canon.Error
		switch {
		case errors.As(known.Cause, &form):
			p.Detail, p.Remedy = firstOf(p.Detail, form.Detail), firstOf(p.Remedy, form.Remedy)
			p.Field += strings.ReplaceAll(form.Path, "/", ".")
		case known.Cause != nil:
			p.Detail = strings.TrimPrefix(p.Detail+": "+known.Cause.Error(), ": ")
		}
		if known.RetryAfter > 0 {
			p.RetryAfter = known.RetryAfter.String()
		}
		return p
	case errors.As(err, &own):
		return problem{Type: "/errors/" + own.name, Title: own.detail, Code: effectonce.Code(own.name), Detail: own.Error(), Remedy: own.remedy, Exit: own.code}
	case errors.Is(err, context.Canceled):
		return problem{Type: "/errors/interrupted", Title: "interrupted", Code: "interrupted", Exit: exitInterrupted}
	}
	return problem{Type: "/errors/internal", Title: effectonce.KindOf(effectonce.CodeInternal).Title, Code: effectonce.CodeInternal, Detail: err.Error(), Exit: exitInternal}
}

// show writes v as indented JSON.
func (c *terminal) show(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, string(b))
	return err
}

// say writes a line for people.
func (c *terminal) say(format string, args ...any) { fmt.Fprintf(c.out, format+"\n", args...) }

// ready tells the program that started this one, in one line of JSON, that it serves.
func (c *terminal) ready(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, string(b))
	return err
}
