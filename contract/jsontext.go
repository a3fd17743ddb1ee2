package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/effectonce/effectonce/canon"
)

// jsonNode is a value of a JSON text with its place in it, so that a value can be set while every other byte stays.
type jsonNode struct {
	start, end int
	members    []jsonMember // of an object
	items      []jsonNode   // of an array
	kind       byte         // '{', '[', '"', or '0' for everything else
}

type jsonMember struct {
	name  string
	start int // of the name
	value jsonNode
}

// parseJSON reads a text. Names that occur twice in one object are refused, since two readers could take two different values.
func parseJSON(text []byte) (jsonNode, error) {
	if !utf8.Valid(text) {
		return jsonNode{}, errors.New("the body is not UTF-8")
	}
	if !json.Valid(text) {
		return jsonNode{}, errors.New("the body is not JSON")
	}
	s := jsonScanner{text: text}
	return s.value(0)
}

// jsonScanner walks over a text that is known to be valid.
type jsonScanner struct {
	text []byte
	at   int
}

func (s *jsonScanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n,:", s.text[s.at]) >= 0 {
		s.at++
	}
}

func (s *jsonScanner) value(depth int) (jsonNode, error) {
	if depth > depthMax {
		return jsonNode{}, errors.New("the body is nested too deeply")
	}
	s.space()
	n := jsonNode{start: s.at, kind: '0'}
	switch s.text[s.at] {
	case '{':
		n.kind = '{'
		s.at++
		seen := map[string]bool{}
		for s.space(); s.text[s.at] != '}'; s.space() {
			m := jsonMember{start: s.at}
			m.name = s.string()
			if seen[m.name] {
				return n, fmt.Errorf("the body holds %q twice", m.name)
			}
			seen[m.name] = true
			var err error
			if m.value, err = s.value(depth + 1); err != nil {
				return n, err
			}
			n.members = append(n.members, m)
		}
		s.at++
	case '[':
		n.kind = '['
		s.at++
		for s.space(); s.text[s.at] != ']'; s.space() {
			item, err := s.value(depth + 1)
			if err != nil {
				return n, err
			}
			n.items = append(n.items, item)
		}
		s.at++
	case '"':
		n.kind = '"'
		s.string()
	default:
		for s.at < len(s.text) && strings.IndexByte(" \t\r\n,:]}", s.text[s.at]) < 0 {
			s.at++
		}
	}
	n.end = s.at
	return n, nil
}

func (s *jsonScanner) string() string {
	start := s.at
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
	var decoded string
	if err := json.Unmarshal(s.text[start:s.at], &decoded); err != nil {
		return string(s.text[start:s.at])
	}
	return decoded
}

func (n jsonNode) member(name string) (jsonNode, bool) {
	for _, m := range n.members {
		if m.name == name {
			return m.value, true
		}
	}
	return jsonNode{}, false
}

func (n jsonNode) otherSpelling(name string) (string, bool) {
	for _, m := range n.members {
		if m.name != name && strings.EqualFold(m.name, name) {
			return m.name, true
		}
	}
	return "", false
}

// edit is a stretch of a text and what takes its place.
type edit struct {
	start, end int
	with       string
}

func applyEdits(text []byte, edits []edit) []byte {
	slices.SortStableFunc(edits, func(a, b edit) int { return a.start - b.start })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, text[at:e.start]...), e.with...)
		at = e.end
	}
	return append(out, text[at:]...)
}

// setJSON sets the value at a path in an object, and leaves every other byte as it is. A member whose name differs only by case is
// taken out, since some servers read names without it.
func setJSON(text []byte, segments []string, value any) ([]byte, error) {
	spelled, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	at := root
	for i, segment := range segments {
		if at.kind != '{' {
			return nil, fmt.Errorf("the body holds something at %s that is no object", strings.Join(segments[:i], "."))
		}
		if i < len(segments)-1 {
			// What else is in it belongs to the caller, so it cannot be taken out.
			if name, other := at.otherSpelling(segment); other {
				return nil, fmt.Errorf("the body holds %s, which some servers read as %s", name, segment)
			}
		} else if text, at, err = dropOtherSpellings(text, segments[:i], at, segment); err != nil {
			return nil, err
		}
		next, ok := at.member(segment)
		if ok && string(text[next.start:next.end]) == "null" && i < len(segments)-1 {
			return applyEdits(text, []edit{{next.start, next.end, nestedJSON(segments[i+1:], spelled)}}), nil
		}
		if !ok {
			name, err := json.Marshal(segment)
			if err != nil {
				return nil, err
			}
			with := string(name) + ":" + nestedJSON(segments[i+1:], spelled)
			if len(at.members) > 0 {
				with += ","
			}
			return applyEdits(text, []edit{{at.start + 1, at.start + 1, with}}), nil
		}
		at = next
	}
	return applyEdits(text, []edit{{at.start, at.end, string(spelled)}}), nil
}

// nestedJSON puts a value under names.
func nestedJSON(names []string, spelled []byte) string {
	s := string(spelled)
	for _, name := range slices.Backward(names) {
		key, err := json.Marshal(name)
		if err != nil {
			return s
		}
		s = "{" + string(key) + ":" + s + "}"
	}
	return s
}

// spellingsMax bounds the spellings of a name that are taken out; each costs a reading of the text.
const spellingsMax = 4

// dropOtherSpellings takes members out whose names differ from name only by case, and finds the object again.
func dropOtherSpellings(text []byte, path []string, object jsonNode, name string) ([]byte, jsonNode, error) {
	spellings := 0
	for _, m := range object.members {
		if strings.EqualFold(m.name, name) {
			spellings++
		}
	}
	if spellings > spellingsMax {
		return nil, object, fmt.Errorf("the body holds %s in %d spellings", name, spellings)
	}
	for i, m := range object.members {
		if m.name == name || !strings.EqualFold(m.name, name) {
			continue
		}
		e := edit{start: m.start, end: m.value.end}
		if i > 0 {
			e.start = object.members[i-1].value.end
		} else if len(object.members) > 1 {
			e.end = object.members[1].start
		}
		text = applyEdits(text, []edit{e})
		at, err := parseJSON(text)
		if err != nil {
			return nil, at, err
		}
		for _, segment := range path {
			at, _ = at.member(segment)
		}
		return dropOtherSpellings(text, path, at, name)
	}
	return text, object, nil
}

// decodeJSON reads a text into maps and lists, with numbers as they are spelled. Names that occur twice are refused.
func decodeJSON(text []byte) (any, error) {
	v, err := canon.Decode(text, canon.Limits{Bytes: RequestBytesMax, Depth: depthMax, Members: 1 << 20})
	if err == nil {
		return v, nil
	}
	// Numbers that canonical form refuses are no reason to refuse a request: nothing here depends on their value.
	if _, again := parseJSON(text); again != nil {
		return nil, again
	}
	return DecodeBody(text, false)
}
