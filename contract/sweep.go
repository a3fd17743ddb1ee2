package contract

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sweepPagesMax bounds a sweep. A list that is longer is unreadable, never clean.
const sweepPagesMax = 10_000

// Sweep says how everything is listed that an operation did in a period, whoever asked for it (S7.5a). Nil: it cannot be.
type Sweep struct {
	// Path and Query are templates: {since} is the beginning of the period, any other name is for whoever asks to give, such as {location}; with a question mark
	// ({location?}) it can be left out.
	Path   string
	Query  map[string]string
	Header map[string]string
	// Since is how the list writes times: unix, unix_ms, rfc3339 or date.
	Since string
	// Answer is the format of the answer; Items, Stamp and Reference are paths as in a look-up.
	Answer    Format
	Items     Path
	Stamp     Path
	Reference Path
	// Created is where an item says when it was made, so that older ones are left out; needed where the query has no {since}.
	Created Path
	Paging  Paging
	// Lag is how far the list may be behind: what is newer than that is not looked at yet.
	Lag    Span
	Source Source
}

type fileSweep struct {
	Path      string            `yaml:"path"`
	Query     map[string]string `yaml:"query"`
	Header    map[string]string `yaml:"header"`
	Since     string            `yaml:"since"`
	Answer    string            `yaml:"answer"`
	Items     string            `yaml:"items"`
	Stamp     string            `yaml:"stamp"`
	Reference string            `yaml:"reference"`
	Created   string            `yaml:"created"`
	Paging    filePaging        `yaml:"paging"`
	Lag       *fileSpan         `yaml:"lag"`
	Source    string            `yaml:"source"`
}

func (r *reader) sweep(at string, f fileSweep) *Sweep {
	s := &Sweep{
		Path: f.Path, Query: f.Query, Header: f.Header, Since: f.Since, Answer: Format(f.Answer),
		Items: r.path(at+".items", f.Items), Stamp: r.path(at+".stamp", f.Stamp), Reference: r.path(at+".reference", f.Reference),
		Created: r.path(at+".created", f.Created),
		Paging: Paging{
			Kind: PagingKind(f.Paging.Kind), Parameter: f.Paging.Parameter,
			More: r.path(at+".paging.more", f.Paging.More), Next: r.path(at+".paging.next", f.Paging.Next), First: f.Paging.First,
		},
		Lag: r.span(at+".lag", f.Lag), Source: r.cited(at, f.Source),
	}
	if s.Answer == "" {
		s.Answer = FormatJSON
	}
	return s
}

var sweepPlaceholder = regexp.MustCompile(`\{([a-z][a-z0-9_]*)(\??)\}`)

// checkSweep refuses a sweep that could not see what it is there for.
func (o *Operation) checkSweep(p *problems, at string) {
	s := o.Sweep
	if s == nil {
		return
	}
	at += ".sweep"
	limited := strings.Contains(s.Path+fmt.Sprint(s.Query), "{since}")
	switch {
	case !o.Stamp.Set():
		p.add(at, "compares stamps that the operation does not set", "describe the stamp")
	case len(s.Stamp.Segments()) == 0:
		p.add(at+".stamp", "is missing", "say where an item shows the stamp")
	}
	if len(s.Reference.Segments()) == 0 {
		p.add(at+".reference", "is missing", "say where an item shows its id")
	}
	if !strings.HasPrefix(s.Path, "/") {
		p.add(at+".path", "does not begin with a slash", "write the path under the base URL")
	}
	if !limited && s.Created == "" {
		p.add(at, "is limited to no period", "put {since} into the query, or say in created where an item shows its time")
	}
	if !slices.Contains([]string{"unix", "unix_ms", "rfc3339", "date"}, s.Since) {
		p.add(at+".since", fmt.Sprintf("%q is no form of a time", s.Since), "use unix, unix_ms, rfc3339 or date")
	}
	if s.Answer != FormatJSON && s.Answer != FormatXML {
		p.add(at+".answer", fmt.Sprintf("%q is not a format", s.Answer), "use json or xml")
	}
	if !s.Source.Good() {
		p.add(at+".source", "is missing: a list that leaves something out would look clean", "name the source that says what the list holds")
	}
	checkPaging(p, at, s.Paging)
}

// SweepNeeds lists what has to be given to sweep an operation, and what may be given.
func (s *Sweep) SweepNeeds() (needed, optional []string) {
	texts := []string{s.Path}
	for _, t := range []map[string]string{s.Query, s.Header} {
		texts = append(texts, slices.Collect(maps.Values(t))...)
	}
	for _, m := range sweepPlaceholder.FindAllStringSubmatch(strings.Join(texts, " "), -1) {
		switch {
		case m[1] == "since":
		case m[2] == "?":
			optional = append(optional, m[1])
		default:
			needed = append(needed, m[1])
		}
	}
	slices.Sort(needed)
	slices.Sort(optional)
	return slices.Compact(needed), slices.Compact(optional)
}

// Swept is one resource that a sweep saw.
type Swept struct {
	Reference string
	// Stamp is what it shows where the stamp is; "" if nothing.
	Stamp string
	// Created is when it was made; zero if it does not say.
	Created time.Time
}

// Sweeper is a sweep in progress: like [Search] it makes the requests and reads the answers, and sending them is its caller's work. It is not
// safe for concurrent use.
type Sweeper struct {
	sweep  *Sweep
	stamp  Stamp
	look   LookUp
	first  Request
	since  time.Time
	cursor string
	seen   map[string]bool
	pages  int
	over   bool
	failed error
}

// Sweeping begins a sweep of what the operation did since a moment. Given fills the names that the contract leaves to whoever asks; an error says
// which is missing.
func (o *Operation) Sweeping(since time.Time, given map[string]string) (*Sweeper, error) {
	s := o.Sweep
	if s == nil {
		return nil, fmt.Errorf("contract %s does not say how %s is listed by time", o.Contract, o.Name)
	}
	w := &Sweeper{sweep: s, stamp: o.Stamp, since: since, seen: map[string]bool{}}
	w.look = LookUp{Method: http.MethodGet, Answer: s.Answer, Items: s.Items, Reference: s.Reference, Paging: s.Paging}
	values := map[string]any{"since": timeText(since, s.Since)}
	for name, v := range given {
		values[name] = v
	}
	w.first = Request{Method: http.MethodGet, Header: http.Header{}}
	var err error
	if w.first.Path, _, err = fillText(s.Path, values, url.PathEscape); err != nil {
		return nil, errors.New(strings.Replace(err.Error(), "the look-up needs", "the sweep needs", 1))
	}
	var query []string
	for _, name := range slices.Sorted(maps.Keys(s.Query)) {
		text, present, err := fillText(s.Query[name], values, nil)
		if err != nil {
			return nil, errors.New(strings.Replace(err.Error(), "the look-up needs", "the sweep needs", 1))
		}
		if present {
			query = append(query, url.QueryEscape(name)+"="+url.QueryEscape(text))
		}
	}
	w.first.Query = strings.Join(query, "&")
	for name, template := range s.Header {
		text, present, err := fillText(template, values, nil)
		if err != nil || strings.ContainsAny(text, "\r\n\x00") {
			return nil, fmt.Errorf("the sweep cannot set the header %s", name)
		}
		if present {
			w.first.Header.Set(name, text)
		}
	}
	if s.Paging.Kind == PagingPage && s.Paging.First != nil {
		w.cursor = strconv.Itoa(*s.Paging.First)
	}
	return w, nil
}

// Next returns the request for the next page, without a credential; more is false at the end.
func (w *Sweeper) Next() (r Request, more bool) {
	switch {
	case w.over || w.failed != nil:
		return Request{}, false
	case w.pages == sweepPagesMax:
		w.failed = fmt.Errorf("the list did not end after %d pages", w.pages)
		return Request{}, false
	case w.pages > 0 && w.seen[w.cursor]:
		w.failed = errors.New("the list loops")
		return Request{}, false
	}
	w.seen[w.cursor] = true
	r = w.first
	r.Header = w.first.Header.Clone()
	if w.cursor == "" {
		return r, true
	}
	var err error
	if r.Query, err = setForm(r.Query, w.sweep.Paging.Parameter, w.cursor); err != nil {
		w.failed = err
		return Request{}, false
	}
	return r, true
}

// Fail says that the last request got no whole answer. The sweep is over and unreadable.
func (w *Sweeper) Fail(err error) { w.failed = err }

// Take reads the answer to the last request and returns its resources of the period. After an answer that cannot be read there are none, and the
// sweep is unreadable; see Err.
func (w *Sweeper) Take(r Response) []Swept {
	w.pages++
	fail := func(err error) []Swept {
		w.failed = err
		return nil
	}
	switch {
	case r.Status != http.StatusOK:
		return fail(fmt.Errorf("page %d was answered %d", w.pages, r.Status))
	case r.Beginning:
		return fail(fmt.Errorf("page %d is too large", w.pages))
	}
	document, err := w.sweep.Answer.decode(r.Body, false)
	if err != nil {
		return fail(fmt.Errorf("page %d is not %s", w.pages, strings.ToUpper(string(w.sweep.Answer))))
	}
	items, err := w.look.itemsOf(document)
	if err != nil {
		return fail(errors.New(strings.Replace(err.Error(), "the look-up's", "the list's", 1)))
	}
	found := []Swept{}
	last := ""
	for _, item := range items {
		last = w.sweep.Reference.first(item)
		if last == "" || len(last) > ReferenceBytesMax {
			return fail(errors.New("an item has no id at " + string(w.sweep.Reference)))
		}
		one := Swept{Reference: last, Stamp: w.stamp.read(w.sweep.Stamp.first(item))}
		if w.sweep.Created != "" {
			if one.Created, err = parseTime(w.sweep.Created.first(item), w.sweep.Since); err != nil {
				return fail(errors.New("an item does not say when it was made at " + string(w.sweep.Created)))
			}
			if one.Created.Before(w.since.Truncate(precision(w.sweep.Since))) {
				continue
			}
		}
		found = append(found, one)
	}
	if w.cursor, w.over, err = w.look.Paging.following(document, len(items), last, w.cursor); err != nil {
		return fail(errors.New(strings.Replace(err.Error(), "the look-up", "the list", 1)))
	}
	return found
}

// Pages is how many pages were read.
func (w *Sweeper) Pages() int { return w.pages }

// Err says why the sweep is unreadable: it failed, or is not at its end. Nil: everything was read.
func (w *Sweeper) Err() error {
	if w.failed == nil && !w.over {
		return errors.New("the list was not read to its end")
	}
	return w.failed
}

func timeText(t time.Time, form string) string {
	switch form {
	case "unix":
		return strconv.FormatInt(t.Unix(), 10)
	case "unix_ms":
		return strconv.FormatInt(t.UnixMilli(), 10)
	case "date":
		return t.UTC().Format(time.DateOnly)
	}
	return t.UTC().Format(time.RFC3339)
}

func parseTime(text, form string) (time.Time, error) {
	switch form {
	case "unix", "unix_ms":
		n, err := strconv.ParseInt(text, 10, 64)
		if form == "unix_ms" {
			return time.UnixMilli(n), err
		}
		return time.Unix(n, 0), err
	case "date":
		return time.Parse(time.DateOnly, text)
	}
	return time.Parse(time.RFC3339, text)
}

// precision is how exact a form of time is, so that what is on the edge of the period is looked at.
func precision(form string) time.Duration {
	switch form {
	case "unix_ms":
		return time.Millisecond
	case "date":
		return 24 * time.Hour
	}
	return time.Second
}
