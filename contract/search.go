package contract

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// searchPagesMax bounds a look-up. A list that is longer is unavailable, never absent.
const searchPagesMax = 100

// Known is what is known of an operation when it is looked for.
type Known struct {
	// Key is the downstream key, Stamp the operation's stamp.
	Key, Stamp string
	// Reference is what an answer named, "" if none did. Doubtful says that the answer was an error that named what is there already: then
	// only a resource that shows the stamp or the key is ours.
	Reference string
	Doubtful  bool
	// FirstSent is when the first send that may have arrived began, and Age how long that is ago. Templates have {first_sent}, in seconds since 1970
	// and ten minutes earlier, since the provider's clock is another one.
	FirstSent time.Time
	Age       time.Duration
}

// clocksApart is by how much a provider's clock may be behind ours.
const clocksApart = 10 * time.Minute

// Search is a look-up in progress (S7.1). It makes the requests and reads the answers; sending them is its caller's work:
//
//	for {
//		request, more := s.Next()
//		if !more { break }
//		s.Take(send(request)) // or s.Fail, if there is no whole answer
//	}
//	finding := s.Finding()
//
// It is not safe for concurrent use.
type Search struct {
	operation *Operation
	look      *LookUp
	known     Known
	first     Request

	cursor string
	seen   map[string]bool
	pages  int
	items  int
	over   bool
	failed string
	found  map[string]json.RawMessage
	order  []string
}

// Search begins a look-up for what a request did. The request is the one that was sent or will be; its credential is not taken over. An
// error means that this look-up cannot ask for this request.
func (o *Operation) Search(l *LookUp, r Request, known Known) (*Search, error) {
	s := &Search{operation: o, look: l, known: known, seen: map[string]bool{}, found: map[string]json.RawMessage{}}
	if l.By == ByReference && known.Reference == "" {
		return nil, errors.New("no answer named a resource to ask for")
	}
	if l.By == ByStamp && known.Stamp == "" || l.By == ByKey && known.Key == "" {
		return nil, fmt.Errorf("there is no %s to look for", l.By)
	}
	var err error
	if s.first, err = o.lookUpRequest(l, r, known); err != nil {
		return nil, err
	}
	if l.Paging.Kind == PagingPage && l.Paging.First != nil {
		s.cursor = strconv.Itoa(*l.Paging.First)
	}
	return s, nil
}

// lookUpRequest fills the look-up's templates.
func (o *Operation) lookUpRequest(l *LookUp, r Request, known Known) (Request, error) {
	v := newView(r)
	values := map[string]any{"downstream_key": known.Key, "stamp": o.Stamp.Cut(known.Stamp), "reference": known.Reference}
	if !known.FirstSent.IsZero() {
		values["first_sent"] = strconv.FormatInt(known.FirstSent.Add(-clocksApart).Unix(), 10)
	}
	if v.readBody() == nil {
		values["body"] = v.json
		if v.form != nil {
			values["body"] = formTree(v.form)
		}
	}
	if v.readQuery() == nil {
		values["query"] = formTree(v.query)
	}
	header := map[string]any{}
	for name := range v.Header {
		header[strings.ToLower(name)] = v.Header.Get(name)
	}
	delete(header, "authorization")
	delete(header, "cookie")
	values["header"] = header
	if parts, ok := matchPath(o.Path, v.segments); ok {
		path := map[string]any{}
		for name, value := range parts {
			path[name] = value
		}
		values["path"] = path
	}

	out := Request{Method: l.Method, Host: r.Host, Header: http.Header{}}
	for _, name := range append(o.businessHeaders(), o.versionHeader) {
		if name != "" && r.Header.Get(name) != "" {
			out.Header.Set(name, r.Header.Get(name))
		}
	}
	var err error
	if out.Path, _, err = fillText(l.Path, values, url.PathEscape); err != nil {
		return out, err
	}
	var query []string
	for _, name := range slices.Sorted(maps.Keys(l.Query)) {
		text, present, err := fillText(l.Query[name], values, nil)
		if err != nil {
			return out, err
		}
		if present {
			query = append(query, url.QueryEscape(name)+"="+url.QueryEscape(text))
		}
	}
	out.Query = strings.Join(query, "&")
	for _, name := range slices.Sorted(maps.Keys(l.Header)) {
		text, present, err := fillText(l.Header[name], values, nil)
		if err != nil {
			return out, err
		}
		if strings.ContainsAny(text, "\r\n\x00") {
			return out, errors.New("a header cannot hold a line break")
		}
		if present {
			out.Header.Set(name, text)
		}
	}
	if l.Method != http.MethodPost {
		return out, nil
	}
	return l.withBody(out, values)
}

func (l *LookUp) withBody(out Request, values map[string]any) (Request, error) {
	filled, _, err := fillTree(l.Body, values)
	if err != nil {
		return out, err
	}
	tree, _ := filled.(map[string]any)
	if l.Encoding == EncodingForm {
		if out.Header.Get("Content-Type") == "" {
			out.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			fields = append(fields, url.QueryEscape(name)+"="+url.QueryEscape(fmt.Sprint(tree[name])))
		}
		out.Body = []byte(strings.Join(fields, "&"))
		return out, nil
	}
	if out.Header.Get("Content-Type") == "" {
		out.Header.Set("Content-Type", "application/json")
	}
	if tree == nil {
		tree = map[string]any{}
	}
	out.Body, err = json.Marshal(tree)
	return out, err
}

// placeholders lists what the look-up's templates ask for.
func (l *LookUp) placeholders() []string {
	var names []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			for _, rest := range strings.Split(v, "{")[1:] {
				if name, _, closed := strings.Cut(rest, "}"); closed && isPlaceholder(name) {
					names = append(names, strings.TrimSuffix(name, "?"))
				}
			}
		case map[string]any:
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(l.Path)
	walk(l.Body)
	for _, texts := range []map[string]string{l.Query, l.Header} {
		for _, text := range texts {
			walk(text)
		}
	}
	slices.Sort(names)
	return names
}

// isPlaceholder tells a placeholder from a brace of the text's own, as GraphQL has them.
func isPlaceholder(name string) bool { return name != "" && !strings.ContainsAny(name, " \n\"$:{") }

// fillText fills {name} and {name?} in a text; present is false where an optional value is missing.
func fillText(template string, values map[string]any, escape func(string) string) (text string, present bool, err error) {
	var b strings.Builder
	rest := template
	for {
		before, after, found := strings.Cut(rest, "{")
		b.WriteString(before)
		if !found {
			return b.String(), true, nil
		}
		name, behind, closed := strings.Cut(after, "}")
		if !closed || !isPlaceholder(name) {
			b.WriteString("{")
			rest = after
			continue
		}
		name, optional := strings.CutSuffix(name, "?")
		value := Path(name).Text(values)
		if value == "" {
			if optional {
				return "", false, nil
			}
			return "", false, fmt.Errorf("the look-up needs %s, which the request does not have", name)
		}
		if escape != nil {
			value = escape(value)
		}
		b.WriteString(value)
		rest = behind
	}
}

func fillTree(v any, values map[string]any) (any, bool, error) {
	switch v := v.(type) {
	case string:
		return fillText(v, values, nil)
	case map[string]any:
		out := map[string]any{}
		for name, child := range v {
			filled, present, err := fillTree(child, values)
			if err != nil {
				return nil, false, err
			}
			if present {
				out[name] = filled
			}
		}
		return out, true, nil
	case []any:
		out := []any{}
		for _, child := range v {
			filled, present, err := fillTree(child, values)
			if err != nil {
				return nil, false, err
			}
			if present {
				out = append(out, filled)
			}
		}
		return out, true, nil
	}
	return v, true, nil
}

// Next returns the request for the next page, without a credential; more is false at the end.
func (s *Search) Next() (r Request, more bool) {
	switch {
	case s.over || s.failed != "":
		return Request{}, false
	case s.pages == searchPagesMax:
		s.fail("the list did not end after %d pages", s.pages)
		return Request{}, false
	case s.seen[s.cursor] && s.pages > 0:
		s.fail("the list loops")
		return Request{}, false
	}
	s.seen[s.cursor] = true
	r = s.first
	r.Header = s.first.Header.Clone()
	if s.cursor == "" {
		return r, true
	}
	var err error
	switch {
	case r.Method != http.MethodPost:
		r.Query, err = setForm(r.Query, s.look.Paging.Parameter, s.cursor)
	case s.look.Encoding == EncodingForm:
		var body string
		body, err = setForm(string(r.Body), s.look.Paging.Parameter, s.cursor)
		r.Body = []byte(body)
	default:
		r.Body, err = setJSON(r.Body, Path(s.look.Paging.Parameter).Segments(), s.cursor)
	}
	if err != nil {
		s.fail("the next page cannot be asked for: %v", err)
		return Request{}, false
	}
	return r, true
}

func (s *Search) fail(format string, args ...any) { s.failed = fmt.Sprintf(format, args...) }

// Fail says that the last request got no whole answer. The look-up is over and unavailable.
func (s *Search) Fail(err error) { s.fail("the look-up failed: %v", err) }

// Take reads the answer to the last request.
func (s *Search) Take(r Response) {
	s.pages++
	if slices.Contains(s.look.AbsentStatus, r.Status) && s.look.Single {
		s.over = true
		return
	}
	if r.Status != http.StatusOK {
		s.fail("the look-up was answered %d", r.Status)
		return
	}
	if r.Beginning {
		s.fail("a page of the look-up is too large")
		return
	}
	document, err := s.look.Answer.decode(r.Body, false)
	if err != nil {
		s.fail("the look-up's answer is not %s", strings.ToUpper(string(s.look.Answer)))
		return
	}
	if list, ok := Path("errors").Find(document); ok && list != nil {
		if list, isList := list.([]any); !isList || len(list) > 0 {
			s.fail("the look-up's answer holds errors")
			return
		}
	}
	items, err := s.look.itemsOf(document)
	if err != nil {
		s.fail("%v", err)
		return
	}
	last := ""
	for _, item := range items {
		if last, err = s.item(item); err != nil {
			s.fail("%v", err)
			return
		}
	}
	s.items += len(items)
	if s.cursor, s.over, err = s.look.Paging.following(document, len(items), last, s.cursor); err != nil {
		s.fail("%v", err)
	}
}

// itemsOf returns the resources of a page. A page that does not hold the list is no empty list.
func (l *LookUp) itemsOf(document any) ([]any, error) {
	if l.Single {
		found, ok := l.Items.Find(document)
		if !ok || found == nil || found == "" {
			return nil, errors.New("the look-up's answer holds nothing at " + string(l.Items))
		}
		return []any{found}, nil
	}
	var items []any
	var walk func(v any, path []string, outer bool) error
	walk = func(v any, path []string, outer bool) error {
		nothing := errors.New("the look-up's answer holds nothing at " + string(l.Items))
		switch at := v.(type) {
		case []any:
			if len(path) == 0 {
				items = append(items, at...)
				return nil
			}
			for _, one := range at {
				if err := walk(one, path, false); err != nil {
					return err
				}
			}
			return nil
		case map[string]any:
			if len(path) == 0 {
				break
			}
			if next, ok := at[path[0]]; ok {
				return walk(next, path[1:], false)
			}
			if l.Answer == FormatXML && !outer {
				return nil
			}
			return nothing
		}
		if l.Answer != FormatXML || outer {
			return nothing
		}
		// In XML one item looks like none of a list, and an empty list like text.
		if v != "" {
			if len(path) > 0 {
				return nothing
			}
			items = append(items, v)
		}
		return nil
	}
	if err := walk(document, l.Items.Segments(), true); err != nil {
		return nil, err
	}
	return items, nil
}

// item keeps an item if it is this operation's, and returns its reference.
func (s *Search) item(item any) (string, error) {
	l, o := s.look, s.operation
	reference := l.Reference.first(item)
	if reference == "" || len(reference) > ReferenceBytesMax {
		return "", errors.New("an item of the look-up has no id at " + string(l.Reference))
	}
	stamp, key := "", ""
	if len(l.Stamp) > 0 {
		stamp = o.Stamp.read(l.Stamp.first(item))
	}
	if len(l.Key) > 0 {
		key = l.Key.first(item)
	}
	stamped := s.known.Stamp != "" && stamp == o.Stamp.Cut(s.known.Stamp)
	keyed := s.known.Key != "" && key == s.known.Key
	named := s.known.Reference != "" && reference == s.known.Reference
	// A resource with our reference and somebody else's stamp is not ours.
	foreign := stamp != "" && !stamped || key != "" && !keyed && l.By == ByKey
	ours := stamped || keyed && !foreign
	if !ours && named && !foreign {
		ours = !s.known.Doubtful
	}
	if l.By == ByReference && !ours {
		return "", errors.New("the resource that was named does not show that it is this operation's")
	}
	if _, before := s.found[reference]; ours && !before {
		raw, err := json.Marshal(item)
		if err != nil {
			return "", errors.New("an item of the look-up cannot be kept")
		}
		s.found[reference] = raw
		s.order = append(s.order, reference)
	}
	return reference, nil
}

// following finds the next cursor; over is true at the end.
func (p Paging) following(document any, items int, last, cursor string) (next string, over bool, err error) {
	stated := false
	if p.More != "" {
		v, _ := p.More.Find(document)
		more, isBool := v.(bool)
		if text, isText := v.(string); isText && (text == "true" || text == "false") {
			more, isBool = text == "true", true
		}
		if !isBool {
			return "", true, errors.New("the look-up does not say at " + string(p.More) + " whether there is more")
		}
		if !more {
			return "", true, nil
		}
		stated = true
	}
	switch p.Kind {
	case PagingStartingAfter:
		if last == "" {
			return "", true, errors.New("the look-up says that there is more and shows nothing")
		}
		return last, false, nil
	case PagingCursor:
		v, ok := p.Next.Find(document)
		next = textOf(v)
		if next == "" && (stated || ok && v != nil && v != "") {
			return "", true, errors.New("the look-up's cursor cannot be read")
		}
		return next, next == "", nil
	case PagingPage:
		if items == 0 && !stated {
			return "", true, nil
		}
		n, err := strconv.Atoi(cursor)
		if err != nil || items == 0 {
			return "", true, errors.New("the look-up says that there is more and shows nothing")
		}
		return strconv.Itoa(n + 1), false, nil
	}
	if stated {
		return "", true, errors.New("the look-up says that there is more, and the contract knows of no pages")
	}
	return "", true, nil
}

// Finding is what the look-up saw. Before its end, after a failure, where the contract does not let it conclude absence, and behind its
// horizon it is unavailable, never absent (S7.1).
func (s *Search) Finding() effectonce.Finding {
	seen := fmt.Sprintf("%s: %d pages, %d items", s.look.title(), s.pages, s.items)
	unavailable := func(why string) effectonce.Finding {
		return effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: seen + "; " + clip(why, MessageRunesMax)}
	}
	switch {
	case s.failed != "":
		return unavailable(s.failed)
	case !s.over:
		return unavailable("it was not read to its end")
	case len(s.found) > 1:
		return effectonce.Finding{Found: effectonce.FoundMany, Detail: fmt.Sprintf("%s, %d are ours", seen, len(s.found))}
	case len(s.found) == 1:
		reference := s.order[0]
		result := s.found[reference]
		return effectonce.Finding{Found: effectonce.FoundOne, Reference: reference, Result: result, Digest: sha256.Sum256(result), Detail: seen + ", one is ours"}
	case s.look.AbsentMeansUnknown:
		return unavailable("none is ours, which says nothing here")
	case s.look.Horizon > 0 && s.known.Age >= s.look.Horizon:
		return unavailable("none is ours, and the view does not reach back to the first send")
	}
	return effectonce.Finding{Found: effectonce.FoundAbsent, Detail: seen + ", none is ours"}
}

func (l *LookUp) title() string {
	if l.Name != "" {
		return l.Name
	}
	return l.Method + " " + l.Path
}

// Combine makes one finding of those of an operation's look-ups, in their order: what any of them found counts, and absence is what the
// first says.
func Combine(findings ...effectonce.Finding) effectonce.Finding {
	if len(findings) == 0 {
		return effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: "there is no look-up"}
	}
	out := findings[0]
	for _, f := range findings[1:] {
		switch {
		case f.Found != effectonce.FoundOne && f.Found != effectonce.FoundMany:
		case out.Found == effectonce.FoundOne && (f.Found == effectonce.FoundMany || f.Reference != out.Reference):
			out = effectonce.Finding{Found: effectonce.FoundMany, Detail: out.Detail + "; " + f.Detail + ", and it is another"}
		case out.Found != effectonce.FoundOne && out.Found != effectonce.FoundMany:
			out = f
		}
	}
	return out
}
