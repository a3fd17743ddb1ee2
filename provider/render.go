package provider

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/contract"
)

// Render makes the frozen request of business arguments (S3.10): what every attempt sends, with gaps for downstream key and stamp and
// without the credential. Equal arguments give equal bytes. Whatever the arguments or the templates put in the place of key
// or stamp is overwritten (S3.9). The error is an [effectonce.Error] that names the argument or template.
func (h *HTTP) Render(arguments json.RawMessage) ([]byte, error) {
	document, err := canon.Decode(arguments, canon.DefaultLimits)
	if err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "arguments", Cause: err}
	}
	object, ok := document.(map[string]any)
	if !ok {
		return nil, invalid("arguments", "is not a JSON object", "give the arguments by name")
	}
	f := frozen{
		V: frozenVersion, Contract: h.operation.Contract, Version: h.version, Operation: h.operation.Name, Scope: h.Scope(),
		Method: h.operation.Method, Encoding: h.operation.Encoding,
	}
	if f.Path, err = h.path(object); err != nil {
		return nil, err
	}
	body, err := h.bodyTree(object)
	if err != nil {
		return nil, err
	}
	if f.Query, err = h.queryParts(object); err != nil {
		return nil, err
	}
	if f.Headers, err = h.headerParts(object, true); err != nil {
		return nil, err
	}
	if f.Encoding == contract.EncodingForm {
		f.Body, err = h.formBody(body)
	} else {
		f.Body, err = h.jsonBody(body)
	}
	if err != nil {
		return nil, err
	}
	if f.LookUp, err = h.frozenLookUp(object, body); err != nil {
		return nil, err
	}
	if f.Observe, err = h.frozenObserve(object); err != nil {
		return nil, err
	}
	b, err := f.encode()
	if err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "arguments", Cause: err}
	}
	if len(b) > requestBytesMax {
		return nil, &effectonce.Error{Code: effectonce.CodeTooLarge, Field: "arguments", Detail: "the request is larger than a mebibyte", Remedy: "send a reference to what is large"}
	}
	return b, nil
}

func (h *HTTP) path(arguments any) (string, error) {
	var b strings.Builder
	for _, p := range h.pathTemplate {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		segment, err := pathSegment(h.pathTemplates[p.name], arguments, "path."+p.name)
		if err != nil {
			return "", err
		}
		b.WriteString(segment)
	}
	return b.String(), nil
}

// pathSegment fills a part of a path, escaped.
func pathSegment(template []piece, arguments any, at string) (string, error) {
	s, present, err := text(template, arguments)
	if err != nil {
		return "", invalid(at, err.Error(), "give it")
	}
	// Dots would name another resource, and an empty segment the whole collection.
	if !present || s == "" || s == "." || s == ".." || !printable(s) {
		return "", invalid(at, "is empty or no part of a path", "give the id of the resource")
	}
	return url.PathEscape(s), nil
}

func (h *HTTP) queryParts(arguments any) (parts, error) {
	gaps := h.gaps(contract.PlaceQuery)
	var p parts
	add := func(name string, value part) {
		start := url.QueryEscape(name) + "="
		if len(p) > 0 {
			start = "&" + start
		}
		p = append(p, part{Text: start}, value)
	}
	for _, name := range slices.Sorted(maps.Keys(h.query)) {
		taken := false
		for _, path := range gaps {
			taken = taken || strings.EqualFold(name, string(path))
		}
		if taken {
			continue
		}
		pieces, err := parsePieces(h.query[name])
		if err != nil {
			return nil, invalid("query."+name, err.Error(), "write {argument}")
		}
		s, present, err := text(pieces, arguments)
		if err != nil {
			return nil, invalid("query."+name, err.Error(), "give it, or mark it as optional: {name?}")
		}
		if present {
			add(name, part{Text: url.QueryEscape(s)})
		}
	}
	for _, which := range []insert{insertKey, insertStamp} {
		if path, ok := gaps[which]; ok {
			add(string(path), part{Insert: which})
		}
	}
	return merged(p), nil
}

// headerParts lists the headers sorted by name; for the call itself also those of body, key and stamp.
func (h *HTTP) headerParts(arguments any, call bool) ([]frozenHeader, error) {
	var headers []frozenHeader
	for _, name := range slices.Sorted(maps.Keys(h.headers)) {
		template := h.headers[name]
		pieces, err := parsePieces(template)
		if err != nil {
			return nil, invalid("headers."+name, err.Error(), "write {argument}")
		}
		s, present, err := text(pieces, arguments)
		if err != nil {
			return nil, invalid("headers."+name, err.Error(), "give it, or mark it as optional: {name?}")
		}
		if !printable(s) {
			return nil, invalid("headers."+name, "would hold a control character", "give printable text")
		}
		if present {
			headers = append(headers, frozenHeader{name, plain(s)})
		}
	}
	for name, value := range h.fixed {
		headers = append(headers, frozenHeader{name, plain(value)})
	}
	if call {
		kind := "application/json"
		if h.operation.Encoding == contract.EncodingForm {
			kind = "application/x-www-form-urlencoded"
		}
		headers = append(headers, frozenHeader{"Content-Type", plain(kind)})
		for which, path := range h.gaps(contract.PlaceHeader) {
			headers = append(headers, frozenHeader{string(path), parts{{Insert: which}}})
		}
	}
	slices.SortFunc(headers, func(a, b frozenHeader) int { return strings.Compare(a.Name, b.Name) })
	return headers, nil
}
