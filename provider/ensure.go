package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/contract"
)

// Ensure makes the calls of a convergent tool (S11.1): the state is observed with a GET, applied with the call if it is another one than
// the call asks for, and observed again.
type Ensure struct {
	// Path and Query are templates of the observation, as those of the call.
	Path  string
	Query map[string]string
	// Met maps paths in the observed JSON to what must be there: templates as those of the body.
	Met map[string]any
	// Absent says that the resource must not be there (404), instead of Met.
	Absent bool
}

// frozenObserve is the observation of a frozen request.
type frozenObserve struct {
	Path    string         `json:"path"`
	Query   parts          `json:"query,omitempty"`
	Headers []frozenHeader `json:"headers,omitempty"`
	Met     []frozenMet    `json:"met,omitempty"`
	Absent  bool           `json:"absent,omitempty"`
}

// frozenMet is a value that must be at a path, in canonical JSON.
type frozenMet struct {
	Path  contract.Path   `json:"path"`
	Value json.RawMessage `json:"value"`
}

func (h *HTTP) setEnsure(o HTTPOptions) error {
	e := o.Ensure
	if e == nil {
		return nil
	}
	if h.operation.Key.Place != "" {
		return invalid("ensure", "contract "+h.operation.Contract+" sends a key: a repeat under it is answered from memory, and nothing is applied", "use a contract without a key, such as http/none")
	}
	if e.Path == "" {
		return invalid("ensure.observe.path", "is missing", "give the path at which the state can be read")
	}
	if _, err := parsePieces(e.Path); err != nil {
		return invalid("ensure.observe.path", err.Error(), "write /v1/things/{argument}")
	}
	for _, name := range slices.Sorted(maps.Keys(e.Query)) {
		if err := checkTemplates(e.Query[name], "ensure.observe.query."+name); err != nil {
			return err
		}
	}
	switch {
	case len(e.Met) == 0 && !e.Absent:
		return invalid("ensure.met", "is missing", "say which fields of the state must have which values, or absent: true")
	case len(e.Met) > 0 && e.Absent:
		return invalid("ensure.absent", "stands beside met", "keep one of the two")
	}
	for _, path := range slices.Sorted(maps.Keys(e.Met)) {
		if len(contract.Path(path).Segments()) == 0 {
			return invalid("ensure.met", fmt.Sprintf("%q is not a path", path), "write names with dots between them")
		}
	}
	tree, err := jsonTree(e.Met)
	if err != nil {
		return invalid("ensure.met", "is not JSON: "+err.Error(), "use text, numbers, booleans, lists and maps")
	}
	if err := checkTemplates(tree, "ensure.met"); err != nil {
		return err
	}
	copied := *e
	copied.Met, _ = tree.(map[string]any)
	h.ensure = &copied
	return nil
}

// frozenObserve renders the observation.
func (h *HTTP) frozenObserve(arguments map[string]any) (*frozenObserve, error) {
	e := h.ensure
	if e == nil {
		return nil, nil
	}
	f := &frozenObserve{Absent: e.Absent}
	pieces, err := parsePieces(e.Path)
	if err != nil {
		return nil, invalid("ensure.observe.path", err.Error(), "write /v1/things/{argument}")
	}
	for _, p := range pieces {
		if p.name == "" {
			f.Path += p.text
			continue
		}
		segment, err := pathSegment([]piece{p}, arguments, "ensure.observe.path")
		if err != nil {
			return nil, err
		}
		f.Path += segment
	}
	for _, name := range slices.Sorted(maps.Keys(e.Query)) {
		value, present, err := lookUpParts(e.Query[name], arguments, url.QueryEscape, url.QueryEscape)
		if err != nil {
			return nil, invalid("ensure.observe.query."+name, err.Error(), "give it, or mark it as optional: {name?}")
		}
		if !present {
			continue
		}
		start := url.QueryEscape(name) + "="
		if len(f.Query) > 0 {
			start = "&" + start
		}
		f.Query = append(append(f.Query, part{Text: start}), value...)
	}
	f.Query = merged(f.Query)
	if f.Headers, err = h.headerParts(arguments, false); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(e.Met)) {
		at := "ensure.met." + path
		v, present, err := fill(e.Met[path], arguments, at)
		if err != nil {
			return nil, err
		}
		if !present {
			continue
		}
		value, err := canon.Encode(v)
		if err != nil {
			return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: at, Cause: err}
		}
		f.Met = append(f.Met, frozenMet{Path: contract.Path(path), Value: value})
	}
	if len(f.Met) == 0 && !f.Absent {
		return nil, invalid("ensure.met", "asks for nothing in this call, since all of it is absent", "give at least one of the arguments")
	}
	return f, nil
}

// state is what an observation found: the resource as JSON, nothing where there is none.
type state struct {
	document json.RawMessage
	// differs says, for people, how it is another one than was asked for; empty: it is the same.
	differs string
}

// MarshalJSON writes the resource, or null.
func (s state) MarshalJSON() ([]byte, error) {
	if len(s.document) == 0 {
		return []byte("null"), nil
	}
	return s.document, nil
}

// converge observes, applies if different, and observes again. apply sends the frozen request.
func (h *HTTP) converge(ctx context.Context, call effectonce.Call, look *frozenObserve, secret string, apply func(ctx context.Context) effectonce.End) effectonce.End {
	applied, differs := effectonce.End{}, ""
	observe := func(ctx context.Context, call effectonce.Call) (state, bool, error) {
		s, err := h.observe(ctx, call, look, secret)
		differs = s.differs
		return s, err == nil && s.differs == "", err
	}
	end := effectonce.Ensure(observe, func(ctx context.Context, _ effectonce.Call, _ state) error {
		applied = apply(ctx)
		if applied.Verdict == effectonce.VerdictSucceeded {
			return nil
		}
		return errors.New("not applied")
	}).Call(ctx, call)
	switch {
	case applied.Verdict != "" && applied.Verdict != effectonce.VerdictSucceeded:
		return applied
	case end.Verdict == effectonce.VerdictUnknown && differs != "":
		end.Failure.Message += ": " + differs
	}
	return end
}

// observe reads the state, and compares it with the one that is asked for.
func (h *HTTP) observe(ctx context.Context, call effectonce.Call, look *frozenObserve, secret string) (state, error) {
	request, err := newRequest(http.MethodGet, h.base, look.Path, look.Query, look.Headers, call)
	if err != nil {
		return state{}, err
	}
	if err := h.authenticate(request, secret); err != nil {
		return state{}, err
	}
	response, err := h.lookUps.RoundTrip(request.WithContext(ctx))
	if err != nil {
		return state{}, errors.New("the state could not be observed: " + transportText(err))
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		if look.Absent {
			return state{}, nil
		}
		return state{differs: "there is no such resource"}, nil
	default:
		return state{}, fmt.Errorf("observing the state was answered %d", response.StatusCode)
	}
	a, err := readAnswer(response, pageBytesMax)
	if err != nil || a.beginning {
		return state{}, errors.New("the observed state cannot be read to its end")
	}
	document, err := contract.DecodeBody(a.body, false)
	if err != nil {
		return state{}, errors.New("the observed state is not JSON")
	}
	s := state{document: json.RawMessage(redact(string(a.body), secret))}
	if look.Absent {
		s.differs = "the resource is there"
		return s, nil
	}
	for _, met := range look.Met {
		v, ok := met.Path.Find(document)
		if !ok {
			s.differs = fmt.Sprintf("there is nothing at %s", met.Path)
			return s, nil
		}
		// What has no canonical form is no value that a call can ask for.
		is, err := canon.Encode(v)
		if err != nil || !bytes.Equal(is, met.Value) {
			s.differs = fmt.Sprintf("%s is %.100s, and %.100s was asked for", met.Path, is, met.Value)
			return s, nil
		}
	}
	return s, nil
}
