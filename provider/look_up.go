package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

// Limits of a look-up. A list that is longer is unavailable, never absent.
const (
	lookUpPagesMax = 100
	pageBytesMax   = 4 << 20
)

// LookUp implements [effectonce.Provider]: it lists as the frozen look-up says, to the last page, and checks the stamp of each
// item (S7.1). Any error, any answer but a readable 200, a list that loops or does not end, and another scope than the frozen one
// are unavailable. From when on absence counts is for the terms to say: see contract.Operation.Terms.
func (h *HTTP) LookUp(ctx context.Context, call effectonce.Call) effectonce.Finding {
	f, err := parseFrozen(call.Request)
	if err != nil {
		return unavailable(err.Error())
	}
	if f.LookUp == nil {
		return unavailable("there is no look-up")
	}
	secret, err := h.secret(ctx)
	if err != nil {
		return unavailable(err.Error())
	}
	if f.Scope != h.scope.with(secret) {
		return unavailable("the scope changed since the request was made; there a look-up concludes nothing")
	}
	s := search{http: h, look: f.LookUp, call: call, secret: secret, seen: map[string]bool{}}
	finding := s.run(ctx)
	finding.Detail = redact(finding.Detail, secret)
	finding.Reference = redact(finding.Reference, secret)
	if finding.Result != nil {
		finding.Result = []byte(redact(string(finding.Result), secret))
	}
	return finding
}

func unavailable(detail string) effectonce.Finding {
	return effectonce.Finding{Found: effectonce.FoundUnavailable, Detail: detail}
}

// search is one look-up in progress.
type search struct {
	http   *HTTP
	look   *frozenLookUp
	call   effectonce.Call
	secret string
	pages  int
	items  int
	// seen are the cursors that were followed.
	seen  map[string]bool
	found []item
}

type item struct {
	reference string
	raw       json.RawMessage
}

func (s *search) run(ctx context.Context) effectonce.Finding {
	cursor, first := "", true
	if s.look.Paging.Kind == contract.PagingPage && s.look.Paging.First != nil {
		cursor = strconv.Itoa(*s.look.Paging.First)
	}
	for first || cursor != "" {
		if s.pages == lookUpPagesMax {
			return unavailable(fmt.Sprintf("the list did not end after %d pages", s.pages))
		}
		if cursor != "" && s.seen[cursor] {
			return unavailable("the list loops")
		}
		s.seen[cursor] = true
		first = false
		body, err := s.fetch(ctx, cursor)
		if err != nil {
			return unavailable(err.Error())
		}
		s.pages++
		if cursor, err = s.page(body, cursor); err != nil {
			return unavailable(err.Error())
		}
	}
	return s.conclude()
}

func (s *search) conclude() effectonce.Finding {
	seen := fmt.Sprintf("%d pages, %d items", s.pages, s.items)
	switch len(s.found) {
	case 1:
		return effectonce.Finding{Found: effectonce.FoundOne, Result: s.found[0].raw, Reference: s.found[0].reference, Detail: seen + ", one is ours"}
	case 0:
		return effectonce.Finding{Found: effectonce.FoundAbsent, Detail: seen + ", none is ours"}
	}
	return effectonce.Finding{Found: effectonce.FoundMany, Detail: fmt.Sprintf("%s, %d are ours", seen, len(s.found))}
}

// fetch gets one page.
func (s *search) fetch(ctx context.Context, cursor string) ([]byte, error) {
	path, err := s.look.Path.filled(s.call, url.PathEscape)
	if err != nil {
		return nil, err
	}
	query := slices.Clone(s.look.Query)
	if cursor != "" {
		start := url.QueryEscape(s.look.Paging.Parameter) + "=" + url.QueryEscape(cursor)
		if len(query) > 0 {
			start = "&" + start
		}
		query = append(query, part{Text: start})
	}
	request, err := newRequest(http.MethodGet, s.http.base, path, query, s.look.Headers, s.call)
	if err != nil {
		return nil, err
	}
	if err := s.http.authenticate(request, s.secret); err != nil {
		return nil, err
	}
	response, err := s.http.lookUps.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return nil, errors.New("the look-up failed: " + transportText(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the look-up was answered %d", response.StatusCode)
	}
	a, err := readAnswer(response, pageBytesMax)
	if err != nil {
		return nil, errors.New("the look-up's answer could not be read: " + transportText(err))
	}
	if a.beginning {
		return nil, errors.New("a page of the look-up is too large")
	}
	return a.body, nil
}

// page takes the items of a page and returns the cursor of the next one, empty at the end.
func (s *search) page(body []byte, cursor string) (next string, err error) {
	document, err := contract.DecodeBody(body, false)
	if err != nil {
		return "", errors.New("the look-up's answer is not JSON")
	}
	items, err := itemsAt(body, s.look.Items)
	if err != nil {
		return "", err
	}
	last := ""
	for _, raw := range items {
		if last, err = s.take(raw); err != nil {
			return "", err
		}
	}
	s.items += len(items)
	return s.next(document, len(items), last, cursor)
}

// take keeps an item if it is this operation's, and returns its reference.
func (s *search) take(raw json.RawMessage) (string, error) {
	v, err := contract.DecodeBody(raw, false)
	if err != nil {
		return "", errors.New("an item of the look-up is not JSON")
	}
	reference := s.look.Reference.Text(v)
	if reference == "" || len(reference) > contract.ReferenceBytesMax {
		return "", errors.New("an item of the look-up has no id at " + string(s.look.Reference))
	}
	stamp := s.look.Stamp.Text(v)
	// A resource with our reference and somebody else's stamp is not ours.
	ours := s.call.Stamp != "" && stamp == s.call.Stamp || stamp == "" && s.call.Reference != "" && reference == s.call.Reference
	known := slices.ContainsFunc(s.found, func(i item) bool { return i.reference == reference })
	if ours && !known {
		// Lists move while they are read, so one item can come twice.
		s.found = append(s.found, item{reference, raw})
	}
	return reference, nil
}

func (s *search) next(document any, items int, last, cursor string) (string, error) {
	paging := s.look.Paging
	more, stated := true, false
	if paging.More != "" {
		v, _ := paging.More.Find(document)
		if more, stated = v.(bool); !stated {
			return "", errors.New("the look-up does not say at " + string(paging.More) + " whether there is more")
		}
		if !more {
			return "", nil
		}
	}
	switch paging.Kind {
	case contract.PagingStartingAfter:
		if last == "" {
			return "", errors.New("the look-up says that there is more and shows nothing")
		}
		return last, nil
	case contract.PagingCursor:
		next := paging.Next.Text(document)
		if next == "" && stated {
			return "", errors.New("the look-up says that there is more and does not say where")
		}
		if v, ok := paging.Next.Find(document); ok && v != nil && v != "" && next == "" {
			return "", errors.New("the look-up's cursor cannot be read")
		}
		return next, nil
	case contract.PagingPage:
		if items == 0 {
			if stated {
				return "", errors.New("the look-up says that there is more and shows nothing")
			}
			return "", nil
		}
		n, err := strconv.Atoi(cursor)
		if err != nil {
			return "", errors.New("the look-up has no first page")
		}
		return strconv.Itoa(n + 1), nil
	}
	if stated {
		return "", errors.New("the look-up says that there is more, and the contract knows of no pages")
	}
	return "", nil
}

// itemsAt returns the raw items at a path, as they were written.
func itemsAt(body []byte, path contract.Path) ([]json.RawMessage, error) {
	at := json.RawMessage(body)
	for _, segment := range path.Segments() {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(at, &object); err != nil || object[segment] == nil {
			return nil, errors.New("the look-up's answer holds nothing at " + string(path))
		}
		at = object[segment]
	}
	if !bytes.HasPrefix(bytes.TrimSpace(at), []byte("[")) {
		return nil, errors.New("the look-up's answer is not a list")
	}
	var items []json.RawMessage
	if err := json.Unmarshal(at, &items); err != nil {
		return nil, errors.New("the look-up's answer is not a list")
	}
	return items, nil
}
