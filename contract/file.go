package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// The shapes below are the file's, field by field; reader turns them into a Contract.
type (
	fileContract struct {
		Contract   string                   `yaml:"contract"`
		Title      string                   `yaml:"title"`
		Scope      []string                 `yaml:"scope"`
		Credential *fileCredential          `yaml:"credential"`
		APIVersion string                   `yaml:"api_version"`
		Sources    map[string]fileSource    `yaml:"sources"`
		ReplayMark *fileReplayMark          `yaml:"replay_mark"`
		Failure    fileFailure              `yaml:"failure"`
		Operations map[string]fileOperation `yaml:"operations"`
	}
	fileCredential struct {
		Header string `yaml:"header"`
		Prefix string `yaml:"prefix"`
	}
	fileSource struct {
		URL     string `yaml:"url"`
		Checked string `yaml:"checked"`
		Grade   string `yaml:"grade"`
		Says    string `yaml:"says"`
	}
	fileReplayMark struct {
		Header string `yaml:"header"`
		Value  string `yaml:"value"`
	}
	fileFailure struct {
		Code    []string `yaml:"code"`
		Message []string `yaml:"message"`
	}
	fileOperation struct {
		Method     string         `yaml:"method"`
		Path       string         `yaml:"path"`
		Encoding   string         `yaml:"encoding"`
		Key        *fileKey       `yaml:"key"`
		Retention  *fileRetention `yaml:"retention"`
		Stamp      *fileStamp     `yaml:"stamp"`
		Reference  string         `yaml:"reference"`
		Processing *fileSpan      `yaml:"processing"`
		LookUp     *fileLookUp    `yaml:"look_up"`
		Given      []string       `yaml:"given"`
		Verdicts   []fileRule     `yaml:"verdicts"`
		Examples   []fileExample  `yaml:"examples"`
	}
	fileKey struct {
		In        string `yaml:"in"`
		Name      string `yaml:"name"`
		Encoding  string `yaml:"encoding"`
		LengthMax int    `yaml:"length_max"`
		Prefix    string `yaml:"prefix"`
		Source    string `yaml:"source"`
	}
	fileRetention struct {
		AtLeast string `yaml:"at_least"`
		Forever bool   `yaml:"forever"`
		Source  string `yaml:"source"`
	}
	fileStamp struct {
		In     string `yaml:"in"`
		Field  string `yaml:"field"`
		Path   string `yaml:"path"`
		Echoed bool   `yaml:"echoed"`
		Source string `yaml:"source"`
	}
	fileSpan struct {
		AtMost string `yaml:"at_most"`
		Source string `yaml:"source"`
	}
	fileLookUp struct {
		Path      string            `yaml:"path"`
		Query     map[string]string `yaml:"query"`
		Items     string            `yaml:"items"`
		Stamp     string            `yaml:"stamp"`
		Reference string            `yaml:"reference"`
		Paging    filePaging        `yaml:"paging"`
		Lag       *fileSpan         `yaml:"lag"`
		Source    string            `yaml:"source"`
	}
	filePaging struct {
		Kind      string `yaml:"kind"`
		Parameter string `yaml:"parameter"`
		More      string `yaml:"more"`
		Next      string `yaml:"next"`
		First     *int   `yaml:"first"`
	}
	fileRule struct {
		When          fileMatch `yaml:"when"`
		Verdict       string    `yaml:"verdict"`
		Authoritative bool      `yaml:"authoritative"`
		StoredError   bool      `yaml:"stored_error"`
		Reason        string    `yaml:"reason"`
		Source        string    `yaml:"source"`
	}
	fileMatch struct {
		Status  any               `yaml:"status"`
		Header  map[string]string `yaml:"header"`
		Body    map[string]any    `yaml:"body"`
		Missing []string          `yaml:"missing"`
		Attempt string            `yaml:"attempt"`
	}
	fileExample struct {
		Name          string            `yaml:"name"`
		Resend        bool              `yaml:"resend"`
		Status        int               `yaml:"status"`
		Header        map[string]string `yaml:"header"`
		Body          any               `yaml:"body"`
		Text          *string           `yaml:"text"`
		Want          string            `yaml:"want"`
		Authoritative bool              `yaml:"authoritative"`
		StoredError   bool              `yaml:"stored_error"`
		Reference     string            `yaml:"reference"`
	}
)

// reader turns a file's shapes into a contract and gathers what is wrong.
type reader struct {
	problems *problems
	sources  map[string]Source
}

func (r *reader) contract(f fileContract) *Contract {
	c := &Contract{Name: f.Contract, Title: f.Title, VersionHeader: f.APIVersion, Sources: map[string]Source{}, Operations: map[string]*Operation{}}
	for name, s := range f.Sources {
		c.Sources[name] = r.source("sources."+name, s)
	}
	r.sources = c.Sources
	for i, s := range f.Scope {
		part := ScopePart(s)
		if !slices.Contains([]ScopePart{ScopeBaseURL, ScopeAPIVersion, ScopeAccount, ScopeCredential}, part) {
			r.problems.add(fmt.Sprintf("scope[%d]", i), fmt.Sprintf("%q is not a scope part", s), "use base_url, api_version, account or credential")
		}
		c.Scope = append(c.Scope, part)
	}
	if f.Credential != nil {
		c.Credential = Credential(*f.Credential)
		if c.Credential.Header == "" {
			r.problems.add("credential.header", "is missing", "name the header, such as Authorization")
		}
	}
	for name, op := range f.Operations {
		o := r.operation("operations."+name, op)
		o.Name, o.Contract = name, f.Contract
		for _, p := range f.Failure.Code {
			o.Code = append(o.Code, r.path("failure.code", p))
		}
		for _, p := range f.Failure.Message {
			o.Message = append(o.Message, r.path("failure.message", p))
		}
		if f.ReplayMark != nil {
			o.Replay = ReplayMark(*f.ReplayMark)
		}
		c.Operations[name] = o
	}
	return c
}

func (r *reader) source(at string, f fileSource) Source {
	s := Source{URL: f.URL, Checked: f.Checked, Grade: Grade(f.Grade), Says: strings.TrimSpace(f.Says)}
	switch s.Grade {
	case GradeOfficial, GradeSpecification, GradeMirror, GradeObserved, GradeOperator, GradeReading:
	default:
		r.problems.add(at+".grade", fmt.Sprintf("%q is not a grade", f.Grade), "use official, specification, mirror, observed, operator or reading")
	}
	if s.URL == "" {
		r.problems.add(at+".url", "is missing", "say where it can be read")
	}
	if _, err := time.Parse(time.DateOnly, s.Checked); err != nil {
		r.problems.add(at+".checked", fmt.Sprintf("%q is not a day", f.Checked), "write the day on which somebody looked, as 2026-11-30")
	}
	return s
}

func (r *reader) operation(at string, f fileOperation) *Operation {
	o := &Operation{
		Method: strings.ToUpper(f.Method), Path: f.Path, Encoding: Encoding(f.Encoding),
		Reference: r.path(at+".reference", f.Reference), Given: f.Given, Processing: r.span(at+".processing", f.Processing),
	}
	if f.Key != nil {
		o.Key = Key{
			Place: Place(f.Key.In), Name: f.Key.Name,
			Form:   effectonce.KeyForm{Encoding: f.Key.Encoding, LengthMax: f.Key.LengthMax, Prefix: f.Key.Prefix},
			Source: r.cited(at+".key", f.Key.Source),
		}
	}
	if f.Retention != nil {
		o.Retention = Retention{Forever: f.Retention.Forever, Source: r.cited(at+".retention", f.Retention.Source)}
		if f.Retention.AtLeast != "" {
			o.Retention.AtLeast = r.duration(at+".retention.at_least", f.Retention.AtLeast)
		}
	}
	if f.Stamp != nil {
		o.Stamp = Stamp{
			Place: Place(f.Stamp.In), Field: r.path(at+".stamp.field", f.Stamp.Field), Path: r.path(at+".stamp.path", f.Stamp.Path),
			Echoed: f.Stamp.Echoed, Source: r.cited(at+".stamp", f.Stamp.Source),
		}
	}
	if f.LookUp != nil {
		o.LookUp = r.lookUp(at+".look_up", *f.LookUp)
	}
	for i, rule := range f.Verdicts {
		o.Verdicts = append(o.Verdicts, r.rule(fmt.Sprintf("%s.verdicts[%d]", at, i), rule))
	}
	for i, e := range f.Examples {
		o.Examples = append(o.Examples, r.example(fmt.Sprintf("%s.examples[%d]", at, i), e))
	}
	return o
}

func (r *reader) lookUp(at string, f fileLookUp) *LookUp {
	l := &LookUp{
		Path: f.Path, Query: f.Query,
		Items: r.path(at+".items", f.Items), Stamp: r.path(at+".stamp", f.Stamp), Reference: r.path(at+".reference", f.Reference),
		Paging: Paging{
			Kind: PagingKind(f.Paging.Kind), Parameter: f.Paging.Parameter,
			More: r.path(at+".paging.more", f.Paging.More), Next: r.path(at+".paging.next", f.Paging.Next), First: f.Paging.First,
		},
		Lag: r.span(at+".lag", f.Lag), Source: r.cited(at, f.Source),
	}
	return l
}

func (r *reader) rule(at string, f fileRule) Rule {
	rule := Rule{
		When: r.match(at+".when", f.When), Verdict: effectonce.Verdict(f.Verdict),
		Authoritative: f.Authoritative, StoredError: f.StoredError, Reason: strings.TrimSpace(f.Reason),
	}
	if f.Source != "" {
		rule.Source = r.cited(at, f.Source)
	}
	return rule
}

func (r *reader) match(at string, f fileMatch) Match {
	m := Match{Header: f.Header, Attempt: On(f.Attempt), Status: r.statuses(at+".status", f.Status)}
	if m.Attempt == "" {
		m.Attempt = OnAny
	}
	if len(f.Body) > 0 {
		m.Body = map[Path][]string{}
	}
	for p, v := range f.Body {
		values, ok := v.([]any)
		if !ok {
			values = []any{v}
		}
		for _, value := range values {
			m.Body[r.path(at+".body", p)] = append(m.Body[Path(p)], fmt.Sprint(value))
		}
	}
	for _, p := range f.Missing {
		m.Missing = append(m.Missing, r.path(at+".missing", p))
	}
	return m
}

func (r *reader) statuses(at string, v any) []StatusRange {
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var ranges []StatusRange
	for _, one := range list {
		from, to, found := strings.Cut(fmt.Sprint(one), "-")
		if !found {
			to = from
		}
		a, err1 := strconv.Atoi(strings.TrimSpace(from))
		b, err2 := strconv.Atoi(strings.TrimSpace(to))
		if err1 != nil || err2 != nil || a < 100 || b > 999 || a > b {
			r.problems.add(at, fmt.Sprintf("%v is not a status", one), "write 409, 500-599 or a list of these")
			continue
		}
		ranges = append(ranges, StatusRange{a, b})
	}
	return ranges
}

func (r *reader) span(at string, f *fileSpan) Span {
	if f == nil {
		return Span{}
	}
	return Span{AtMost: r.duration(at+".at_most", f.AtMost), Stated: true, Source: r.cited(at, f.Source)}
}

// cited finds the source that a claim names. Without one the claim counts as unknown, which is no error.
func (r *reader) cited(at, name string) Source {
	if name == "" {
		return Source{}
	}
	s, ok := r.sources[name]
	if !ok {
		r.problems.add(at+".source", fmt.Sprintf("there is no source %q", name), "use a name from sources")
	}
	return s
}

func (r *reader) path(at, s string) Path {
	if what := Path(s).check(); what != "" {
		r.problems.add(at, what, "write names with dots between them, such as error.code")
	}
	return Path(s)
}

func (r *reader) duration(at, s string) time.Duration {
	d, err := ParseDuration(s)
	if err != nil {
		r.problems.add(at, err.Error(), "write 90s, 24h or 30d")
	}
	return d
}

// ParseDuration reads Go's durations, and whole days as 30d. Negative ones are refused.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36500 {
			return 0, fmt.Errorf("%q is not a duration", s)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration", s)
	}
	return d, nil
}
