package contract

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
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
	c.Hosts, c.Signed = f.Hosts, r.signed("signed", f.Signed)
	c.Scope, c.ScopeFrom = r.scope("scope", f.Scope)
	c.Otherwise = Otherwise{Reads: []string{http.MethodGet, http.MethodHead, http.MethodOptions}}
	if f.Otherwise != nil {
		c.Otherwise.Writes = f.Otherwise.Writes
		if f.Otherwise.Reads != nil {
			c.Otherwise.Reads = f.Otherwise.Reads
		}
	}
	if f.Credential != nil {
		c.Credential = Credential(*f.Credential)
		if c.Credential.Header == "" {
			r.problems.add("credential.header", "is missing", "name the header, such as Authorization")
		}
	}
	for name, op := range f.Operations {
		op = r.like("operations."+name, op, f.Operations)
		o := r.operation("operations."+name, op)
		o.Name, o.Contract, o.versionHeader = name, f.Contract, f.APIVersion
		if op.Signed == nil {
			o.Signed = c.Signed
		}
		if op.Answer == "" {
			o.Answer = cmp.Or(Format(f.Answer), FormatJSON)
		}
		for _, part := range c.Scope {
			if !slices.Contains(o.Scope, part) {
				o.Scope = append(o.Scope, part)
			}
		}
		o.ScopeFrom = append(slices.Clone(c.ScopeFrom), o.ScopeFrom...)
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
	for i, e := range f.Requests {
		c.Requests = append(c.Requests, r.request(fmt.Sprintf("requests[%d]", i), e))
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

// like fills what an operation leaves out from the one that it is like.
func (r *reader) like(at string, f fileOperation, all map[string]fileOperation) fileOperation {
	if f.Like == "" {
		return f
	}
	other, ok := all[f.Like]
	if !ok || other.Like != "" {
		r.problems.add(at+".like", fmt.Sprintf("there is no operation %q that stands for itself", f.Like), "name an operation without like")
		return f
	}
	from, to := reflect.ValueOf(other), reflect.ValueOf(&f).Elem()
	for i := range to.NumField() {
		if to.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return f
}

func (r *reader) scope(at string, f []fileScope) (parts []ScopePart, from []ScopeFrom) {
	for i, s := range f {
		at := fmt.Sprintf("%s[%d]", at, i)
		part := ScopePart(s.Part)
		if !slices.Contains(ScopeParts, part) {
			r.problems.add(at, fmt.Sprintf("%q is not a scope part", s.Part), "use "+listed(ScopeParts))
		}
		parts = append(parts, part)
		if s.In == "" {
			continue
		}
		in := Place(s.In)
		if !slices.Contains([]Place{PlaceHost, PlaceHeader, PlaceQuery, PlaceBody, PlaceForm, PlacePath, PlaceCredentialScope}, in) {
			r.problems.add(at+".in", fmt.Sprintf("%q is no place for a scope part", s.In), "use host, header, query, body, form, path or credential_scope")
		}
		from = append(from, ScopeFrom{Part: part, In: in, Name: s.Name, Default: s.Default})
	}
	return parts, from
}

func (r *reader) signed(at string, f *fileSigned) Signing {
	if f == nil {
		return Signing{}
	}
	s := Signing(*f)
	switch {
	case s.Kind != "sigv4" && s.Kind != "hmac" && s.Kind != "none":
		r.problems.add(at+".kind", fmt.Sprintf("%q is not a signature", s.Kind), "use sigv4, hmac or none")
	case s.Kind == "sigv4" && s.Service == "":
		r.problems.add(at+".service", "is missing", "name the service as its signatures do, such as ec2")
	case s.Kind == "none":
		return Signing{}
	}
	return s
}

func (r *reader) operation(at string, f fileOperation) *Operation {
	o := &Operation{
		Method: strings.ToUpper(f.Method), Path: f.Path, Encoding: Encoding(f.Encoding), Answer: Format(f.Answer), Signed: r.signed(at+".signed", f.Signed),
		Effect: Effect(f.Effect), EffectSource: r.cited(at, f.EffectSource),
		Reference: r.path(at+".reference", f.Reference), Given: f.Given, Processing: r.span(at+".processing", f.Processing),
	}
	o.Scope, o.ScopeFrom = r.scope(at+".scope", f.Scope)
	for i, c := range f.Where {
		at := fmt.Sprintf("%s.where[%d]", at, i)
		o.Where = append(o.Where, Condition{In: Place(c.In), Name: c.Name, Values: texts(c.Value), Absent: c.Absent})
		if c.Absent == (c.Value != nil) && !(c.In == string(PlaceGraphQL) && c.Name != "") {
			r.problems.add(at+".value", "is missing, or given besides absent", "say which value the place has, or absent: true")
		}
	}
	if f.Key != nil {
		o.Key = r.key(at+".key", *f.Key)
	}
	if f.Retention != nil {
		o.Retention = r.retention(at+".retention", *f.Retention)
	}
	if f.Stamp != nil {
		o.Stamp = Stamp{
			Place: r.place(at+".stamp.in", f.Stamp.In, o.Encoding), Field: r.path(at+".stamp.field", f.Stamp.Field), Path: r.path(at+".stamp.path", f.Stamp.Path),
			At: r.path(at+".stamp.at", f.Stamp.At), List: f.Stamp.List, LengthMax: f.Stamp.LengthMax, Append: f.Stamp.Append, InLookUp: f.Stamp.InLookUp,
			Echoed: f.Stamp.Echoed, Source: r.cited(at+".stamp", f.Stamp.Source),
		}
	}
	if p := f.Fingerprint; p != nil {
		o.Fingerprint = Fingerprint{Provider: p.Provider, Headers: p.Headers, Source: r.cited(at+".fingerprint", p.Source)}
		for _, one := range p.Exclude {
			o.Fingerprint.Exclude = append(o.Fingerprint.Exclude, r.path(at+".fingerprint.exclude", one))
		}
	}
	if f.Replays != nil {
		o.Replays = ReplayModel{Success: f.Replays.Success, Errors: f.Replays.Errors, Source: r.cited(at+".replays", f.Replays.Source)}
	}
	if f.Compensation != nil {
		o.Compensation = &Compensation{Operation: f.Compensation.Operation, By: f.Compensation.By, Source: r.cited(at+".compensation", f.Compensation.Source)}
	}
	if f.LookUp != nil {
		o.LookUps = append(o.LookUps, r.lookUp(at+".look_up", *f.LookUp))
	}
	for i, l := range f.LookUps {
		o.LookUps = append(o.LookUps, r.lookUp(fmt.Sprintf("%s.look_ups[%d]", at, i), l))
	}
	if len(o.LookUps) > 0 {
		o.LookUp = o.LookUps[0]
	}
	if f.Sweep != nil {
		o.Sweep = r.sweep(at+".sweep", *f.Sweep)
	}
	if f.LookUp != nil && len(f.LookUps) > 0 {
		r.problems.add(at+".look_up", "is given besides look_ups", "put it first into look_ups")
	}
	for i, rule := range f.Verdicts {
		o.Verdicts = append(o.Verdicts, r.rule(fmt.Sprintf("%s.verdicts[%d]", at, i), rule))
	}
	for i, e := range f.Examples {
		o.Examples = append(o.Examples, r.example(fmt.Sprintf("%s.examples[%d]", at, i), e))
	}
	if o.Effect == "" {
		switch {
		case o.Key.Place != "":
			o.Effect = EffectKeyed
		case o.Method == http.MethodGet || o.Method == http.MethodHead:
			o.Effect = EffectRead
		default:
			o.Effect = EffectNone
		}
	}
	if o.Encoding == "" && (o.Effect == EffectRead || o.Method == http.MethodDelete) {
		o.Encoding = EncodingJSON
	}
	return o
}

// place reads a place; body_json and body_form are body, and say the encoding again.
func (r *reader) place(at, s string, encoding Encoding) Place {
	switch s {
	case "body_json", "body_form":
		if s != "body_"+string(encoding) {
			r.problems.add(at, fmt.Sprintf("says %s, and the encoding is %q", s, encoding), "use body")
		}
		return PlaceBody
	}
	return Place(s)
}

// sized is an encoding with its length: hex(32).
var sized = regexp.MustCompile(`^(hex|base64url|base32)\((\d{1,3})\)$`)

func (r *reader) key(at string, f fileKey) Key {
	k := Key{
		Place: Place(f.In), Name: f.Name, Argument: f.Argument, At: r.path(at+".at", f.At), List: f.List,
		Form:      effectonce.KeyForm{Encoding: f.Encoding, LengthMax: f.LengthMax, Prefix: f.Prefix},
		LengthMin: f.LengthMin, Charset: f.Charset, Minted: f.Minted, Required: f.Required, ServerMints: f.ServerMints,
		Source: r.cited(at, f.Source),
	}
	if f.In == "body_json" || f.In == "body_form" {
		k.Place = PlaceBody
	}
	if m := sized.FindStringSubmatch(f.Encoding); m != nil {
		n, _ := strconv.Atoi(m[2])
		if f.LengthMax > 0 && n > f.LengthMax {
			r.problems.add(at+".encoding", fmt.Sprintf("makes %d characters, and length_max is %d", n, f.LengthMax), "make it shorter")
		}
		k.Form.Encoding, k.Form.LengthMax = m[1], n
	}
	for i, s := range f.Also {
		at := fmt.Sprintf("%s.also[%d]", at, i)
		k.Also = append(k.Also, Spot{Place: Place(s.In), Name: s.Name, Argument: s.Argument, At: r.path(at+".at", s.At), List: s.List})
	}
	for i, c := range f.Companions {
		at := fmt.Sprintf("%s.companions[%d]", at, i)
		k.Companions = append(k.Companions, Companion{
			Spot:  Spot{Place: Place(c.In), Name: c.Name, Argument: c.Argument, At: r.path(at+".at", c.At), List: c.List},
			Value: c.Value, FirstSent: c.FirstSent,
		})
		if (c.Value == nil) == (c.FirstSent == "") {
			r.problems.add(at+".value", "is missing, or given besides first_sent", "give a constant, or first_sent: http, rfc3339 or unix")
		}
		if !slices.Contains([]string{"", "http", "rfc3339", "unix"}, c.FirstSent) {
			r.problems.add(at+".first_sent", fmt.Sprintf("%q is not a format", c.FirstSent), "use http, rfc3339 or unix")
		}
	}
	return k
}

func (r *reader) retention(at string, f fileRetention) Retention {
	t := Retention{
		Kind: RetentionKind(f.Kind), Forever: f.Forever, Starts: f.Starts, After: f.After, BodyBytesMax: f.BodyBytesMax, Source: r.cited(at, f.Source),
	}
	if f.AtLeast != "" {
		t.AtLeast = r.duration(at+".at_least", f.AtLeast)
	}
	switch {
	case t.Kind == "" && t.AtLeast > 0:
		t.Kind = RetentionAtLeast
	case t.Kind == "" && t.Forever:
		t.Kind = RetentionLifetime
	case t.Kind == RetentionLifetime && t.AtLeast == 0:
		t.Forever = true
	}
	return t
}

func (r *reader) lookUp(at string, f fileLookUp) *LookUp {
	l := &LookUp{
		Name: f.Name, Method: strings.ToUpper(cmp.Or(f.Method, http.MethodGet)), Encoding: Encoding(f.Encoding), Header: f.Header, Body: f.Body,
		Path: f.Path, Query: f.Query, Answer: Format(cmp.Or(f.Answer, string(FormatJSON))), By: By(cmp.Or(f.Match, string(ByStamp))), Single: f.Single,
		Items: r.path(at+".items", f.Items), Stamp: r.path(at+".stamp", f.Stamp), Key: r.path(at+".key", f.Key), Reference: r.path(at+".reference", f.Reference),
		AbsentStatus: f.AbsentStatus, Consistency: f.Consistency,
		Paging: Paging{
			Kind: PagingKind(f.Paging.Kind), Parameter: f.Paging.Parameter,
			More: r.path(at+".paging.more", f.Paging.More), Next: r.path(at+".paging.next", f.Paging.Next), First: f.Paging.First,
		},
		Lag: r.span(at+".lag", f.Lag), Source: r.cited(at, f.Source),
	}
	if l.Single && l.Paging.Kind == "" {
		l.Paging.Kind = PagingNone
	}
	if f.Horizon != "" {
		l.Horizon = r.duration(at+".horizon", f.Horizon)
	}
	if l.Consistency == "strong" && f.Lag == nil {
		l.Lag = Span{Stated: true, Source: l.Source}
	}
	switch f.AbsentMeans {
	case "", "absent", "unknown":
	default:
		r.problems.add(at+".absent_means", fmt.Sprintf("%q is neither absent nor unknown", f.AbsentMeans), "use absent or unknown")
	}
	l.AbsentMeansUnknown = f.AbsentMeans == "unknown" || l.Consistency == "unknown"
	if f.AbsentMeans == "absent" && (!l.Lag.Known() || l.Consistency == "unknown") {
		r.problems.add(at+".absent_means", "concludes absence, and nobody says how far the view may be behind", "give lag with a source, or consistency: strong with one, or leave it out")
	}
	return l
}

func (r *reader) rule(at string, f fileRule) Rule {
	rule := Rule{
		When: r.match(at+".when", f.When), Reference: r.path(at+".reference", f.Reference), Proves: f.Proves,
		Authoritative: f.Authoritative, StoredError: f.StoredError, Reason: strings.TrimSpace(f.Reason),
	}
	if f.Source != "" {
		rule.Source = r.cited(at, f.Source)
	}
	rule.Verdict, rule.Means = meaning(f.Verdict, f.Proves)
	return rule
}

func (r *reader) match(at string, f fileMatch) Match {
	m := Match{Header: f.Header, Attempt: On(f.Attempt), Status: r.statuses(at+".status", f.Status), Text: texts(f.Text)}
	switch m.Attempt {
	case "":
		m.Attempt = OnAny
	case "after_unknown":
		// A resend is exactly that: a send after one that may have arrived.
		m.Attempt = OnResend
	}
	if len(f.Body) > 0 {
		m.Body = map[Path][]string{}
	}
	for p, v := range f.Body {
		m.Body[r.path(at+".body", p)] = texts(v)
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

// meaning turns a verdict of the file into one of the core's and what it means beyond that.
func meaning(verdict, proves string) (effectonce.Verdict, Means) {
	switch m := Means(verdict); m {
	case MeansElsewhere:
		if proves == "key" {
			return effectonce.VerdictSucceeded, m
		}
		return effectonce.VerdictUnknown, m
	case MeansExpired:
		return effectonce.VerdictRejected, m
	case MeansMismatch:
		return effectonce.VerdictUnknown, m
	}
	return effectonce.Verdict(verdict), ""
}

// texts reads a value or a list of them.
func texts(v any) []string {
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, one := range list {
		out = append(out, fmt.Sprint(one))
	}
	return out
}

func listed[S ~string](all []S) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = string(one)
	}
	return strings.Join(names, ", ")
}
