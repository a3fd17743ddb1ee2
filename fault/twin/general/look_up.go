package general

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce/contract"
)

// read answers a request without an effect: a look-up of the contract, a sweep, a resource by its id, or nothing.
func (s *Server) read(in incoming, seen *Received) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen.Outcome = "listed"
	if in.Method == http.MethodHead || in.Method == http.MethodOptions {
		return reply{status: http.StatusOK}
	}
	visible := []*Effect{}
	for _, e := range slices.Backward(s.effects) {
		if s.now().Sub(e.At) >= s.lag && s.config.Breaks != BreaksLookUp {
			visible = append(visible, e)
		}
	}
	if p, ok := s.listed(in, visible); ok {
		return p
	}
	for _, e := range visible {
		if e.operation.Path != "" && pathAndID(e) == in.Path {
			return s.success(e)
		}
	}
	seen.Outcome = CaseMissing
	return s.refusal(in.operation, CaseMissing, s.values(in.operation, in.Request))
}

// pathAndID is where a resource can be read in the manner of most APIs: its id under where it was made.
func pathAndID(e *Effect) string {
	return strings.TrimSuffix(e.request.Path, "/") + "/" + url.PathEscape(e.ID)
}

// listing is what a list's request asks for.
type listing struct {
	look *contract.LookUp
	of   *contract.Operation
	// sweep lists whatever was made at the same place; since is the beginning of the period, zero if none is asked for.
	sweep bool
	since time.Time
}

// listed answers a request that is a look-up or a sweep of an operation; ok is false if it is none. Several operations can be listed by one
// request. The lock is held.
func (s *Server) listed(in incoming, visible []*Effect) (p reply, ok bool) {
	asked := s.listings(in)
	if len(asked) == 0 {
		return reply{}, false
	}
	first := asked[0]
	var found []*Effect
	for _, e := range visible {
		if slices.ContainsFunc(asked, func(l listing) bool { return s.shows(l, in, e) }) {
			found = append(found, e)
		}
	}
	if first.look.Single {
		return s.single(first, in, found), true
	}
	return s.page(first, in, found), true
}

// listings are the look-ups and sweeps that have the form of a request and of one another.
func (s *Server) listings(in incoming) []listing {
	var all []listing
	for _, name := range slices.Sorted(maps.Keys(s.contract.Operations)) {
		o := s.contract.Operations[name]
		since, period := sinceOf(o, in)
		lists := slices.Clone(o.LookUps)
		for _, l := range lists {
			if isRequestOf(l, in) && (len(all) == 0 || all[0].look.Items == l.Items && all[0].look.Single == l.Single) {
				all = append(all, listing{look: l, of: o, since: since})
			}
		}
		if sweep := o.Sweep; period {
			l := &contract.LookUp{Method: http.MethodGet, Path: sweep.Path, Answer: sweep.Answer, Items: sweep.Items, Stamp: sweep.Stamp, Reference: sweep.Reference, Paging: sweep.Paging}
			all = append([]listing{{look: l, of: o, sweep: true, since: since}}, all...)
		}
	}
	return all
}

// sinceOf reads the beginning of the period that a sweep's request asks for.
func sinceOf(o *contract.Operation, in incoming) (since time.Time, ok bool) {
	if o.Sweep == nil || in.Method != http.MethodGet || !fitsPath(o.Sweep.Path, in.Path) {
		return since, false
	}
	limited := false
	for name, template := range o.Sweep.Query {
		if !strings.Contains(template, "{since}") {
			continue
		}
		limited = true
		for _, f := range formFields(in.Query) {
			if f[0] != name {
				continue
			}
			before, after, _ := strings.Cut(template, "{since}")
			text := strings.TrimSuffix(strings.TrimPrefix(f[1], before), after)
			for _, form := range []string{time.RFC3339, time.DateOnly} {
				if at, err := time.Parse(form, text); err == nil {
					return at, true
				}
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if o.Sweep.Since == "unix_ms" {
				return time.UnixMilli(n), err == nil
			}
			return time.Unix(n, 0), err == nil
		}
	}
	return since, !limited
}

// shows says whether a list shows an effect.
func (s *Server) shows(l listing, in incoming, e *Effect) bool {
	if e.At.Before(l.since) {
		return false
	}
	if l.sweep {
		return e.operation.Method == l.of.Method && e.operation.Path == l.of.Path
	}
	return e.operation == l.of && (l.look.Horizon == 0 || s.now().Sub(e.At) < l.look.Horizon) && s.selects(l.look, in, e)
}

// isRequestOf says whether a request has the form of a look-up, whatever it looks for.
func isRequestOf(l *contract.LookUp, in incoming) bool {
	method := l.Method
	if method == "" {
		method = http.MethodGet
	}
	if in.Method != method || !fitsPath(l.Path, in.Path) {
		return false
	}
	if method != http.MethodPost {
		return true
	}
	tree := decoded(in.Request)
	for path, text := range leaves(l.Body, nil) {
		if got := at(tree, path); !strings.Contains(text, "{") && got != "" && got != text {
			return false
		}
	}
	return true
}

func fitsPath(template, path string) bool {
	want, got := strings.Split(strings.Trim(template, "/"), "/"), strings.Split(strings.Trim(path, "/"), "/")
	if len(want) != len(got) {
		return false
	}
	for i, w := range want {
		before, inner, has := strings.Cut(w, "{")
		_, after, _ := strings.Cut(inner, "}")
		if !has && w != got[i] || has && (len(got[i]) <= len(before)+len(after) || !strings.HasPrefix(got[i], before) || !strings.HasSuffix(got[i], after)) {
			return false
		}
	}
	return true
}

// selects says whether a look-up's request asks for an effect: each filter of the contract that it uses has the value that the effect's own
// request has there. A filter that the request leaves out, or that the effect's request does not know, selects all; an optional one that it does not
// know selects nothing.
func (s *Server) selects(l *contract.LookUp, in incoming, e *Effect) bool {
	values := s.values(e.operation, e.request)
	values["stamp"], values["downstream_key"], values["reference"] = e.operation.Stamp.Cut(e.Stamp), e.Key, e.ID
	asked, err := url.PathUnescape(in.Path)
	if path, _ := known(l.Path, values); err != nil || !fitsPath(path, asked) {
		return false
	}
	fits := func(template, asks string) bool {
		wants, all := known(template, values)
		return asks == "" || !strings.Contains(template, "{") || asks == wants || !all && !strings.Contains(wants, "?}")
	}
	fields := formFields(in.Query)
	for name, template := range l.Query {
		i := slices.IndexFunc(fields, func(f [2]string) bool { return f[0] == name })
		if i >= 0 && !fits(template, fields[i][1]) {
			return false
		}
	}
	if l.Method != http.MethodPost {
		return true
	}
	got := decoded(in.Request)
	for path, template := range leaves(l.Body, nil) {
		if !fits(template, at(got, path)) {
			return false
		}
	}
	return true
}

var lookUpPlaceholder = regexp.MustCompile(`\{([a-z][a-z0-9_]*(?:[.\[][^{}\s"$:?]*)?)\??\}`)

// known fills what is known; all is false where something is not, and then its placeholder stays.
func known(template string, values map[string]any) (text string, all bool) {
	all = true
	text = lookUpPlaceholder.ReplaceAllStringFunc(template, func(one string) string {
		m := lookUpPlaceholder.FindStringSubmatch(one)
		v, ok := contract.Path(m[1]).Find(values)
		if !ok || v == nil {
			all = false
			return one
		}
		return fmt.Sprint(v)
	})
	return text, all
}

// leaves are the texts of a body's template, by their path with a zero byte between names.
func leaves(v any, at []string) map[string]string {
	found := map[string]string{}
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			maps.Copy(found, leaves(child, append(slices.Clone(at), name)))
		}
	case []any:
		for i, child := range v {
			maps.Copy(found, leaves(child, append(slices.Clone(at), strconv.Itoa(i))))
		}
	case string:
		found[strings.Join(at, "\x00")] = v
	}
	return found
}

func at(tree any, path string) string {
	for name := range strings.SplitSeq(path, "\x00") {
		switch v := tree.(type) {
		case map[string]any:
			tree = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return ""
			}
			tree = v[i]
		default:
			return ""
		}
	}
	if tree == nil {
		return ""
	}
	return fmt.Sprint(tree)
}

// item is a resource as a list shows it.
func (s *Server) item(l *contract.LookUp, e *Effect) any {
	play := s.play(e.operation)
	switch {
	case play.Item != nil:
		item, _ := fill(play.Item, s.valuesOf(e))
		return item
	case play.Resource != nil && play.Answer == nil:
		return copied(e.Resource)
	}
	item := s.marked(copied(e.Resource), l.Reference, l.Stamp, l.Key, e)
	if sweep := e.operation.Sweep; sweep != nil && sweep.Created != "" {
		item = set(item, sweep.Created.Segments(), e.written(sweep.Since))
	}
	if s.config.Breaks == BreaksStamp && l.Stamp != "" {
		drop(item, l.Stamp.Segments())
	}
	return item
}

func (s *Server) single(l listing, in incoming, found []*Effect) reply {
	if len(found) > 0 {
		return s.encodeAs(l.look.Answer, http.StatusOK, set(nil, l.look.Items.Segments(), s.item(l.look, found[0])))
	}
	p := s.refusal(l.of, CaseMissing, s.values(l.of, in.Request))
	if len(l.look.AbsentStatus) > 0 {
		p.status = l.look.AbsentStatus[0]
	}
	return p
}

// page is one page of a list, in the manner of the contract's paging.
func (s *Server) page(of listing, in incoming, found []*Effect) reply {
	l, o := of.look, of.of
	size := s.behaviour.Page
	if size == 0 {
		size = usualPage
	}
	if n, err := strconv.Atoi(parameter(l, in, s.behaviour.Limit)); err == nil && n > 0 && n < size {
		size = n
	}
	begin, cursor := 0, parameter(l, in, l.Paging.Parameter)
	switch l.Paging.Kind {
	case contract.PagingStartingAfter, contract.PagingCursor:
		id := strings.TrimPrefix(cursor, "after:")
		if i := slices.IndexFunc(found, func(e *Effect) bool { return e.ID == id }); cursor != "" && i < 0 {
			return s.refusal(o, CaseInvalid, s.values(o, in.Request))
		} else if cursor != "" {
			begin = i + 1
		}
	case contract.PagingPage:
		first := 1
		if l.Paging.First != nil {
			first = *l.Paging.First
		}
		if n, err := strconv.Atoi(cursor); err == nil {
			begin = min(max(n-first, 0)*size, len(found))
		}
	default:
		size = len(found)
	}
	end := min(begin+size, len(found))
	shown := []any{}
	for _, e := range found[begin:end] {
		shown = append(shown, s.item(l, e))
	}
	var body any = map[string]any{}
	if extra := s.play(o).List; extra != nil {
		body, _ = fill(extra, s.values(o, in.Request))
	}
	body = setList(body, l, shown)
	if l.Paging.More != "" {
		body = set(body, l.Paging.More.Segments(), end < len(found))
	}
	if l.Paging.Next != "" && end < len(found) {
		body = set(body, l.Paging.Next.Segments(), "after:"+found[end-1].ID)
	}
	return s.encodeAs(l.Answer, http.StatusOK, body)
}

// setList puts items where a look-up reads them. In XML an empty list is an empty element around where its items would be.
func setList(body any, l *contract.LookUp, shown []any) any {
	segments := l.Items.Segments()
	if l.Answer == contract.FormatXML && len(shown) == 0 {
		if len(segments) > 1 {
			return set(body, segments[:len(segments)-1], nil)
		}
		return body
	}
	return set(body, segments, shown)
}

// parameter reads a parameter of a look-up's request from where it is sent: the query, or the body of a POST.
func parameter(l *contract.LookUp, in incoming, name string) string {
	if name == "" {
		return ""
	}
	fields := formFields(in.Query)
	if l.Method == http.MethodPost {
		if l.Encoding != contract.EncodingForm {
			return contract.Path(name).Text(decoded(in.Request))
		}
		fields = formFields(string(in.Body))
	}
	for _, f := range fields {
		if f[0] == name {
			return f[1]
		}
	}
	return ""
}
