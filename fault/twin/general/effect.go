package general

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/effectonce/effectonce/contract"
)

// Effect is one line of the ledger: something that happened. Key and Stamp are what the request bore, also where the provider ignores or drops
// them, because the ledger is the truth and not the provider's view.
type Effect struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	// Operation is its name in the contract.
	Operation string `json:"operation"`
	Key       string `json:"key,omitempty"`
	Stamp     string `json:"stamp,omitempty"`
	// Business is a digest of what the request asked for, without key and stamp: equal for two requests that want the same.
	Business  string    `json:"business,omitempty"`
	At        time.Time `json:"at"`
	RequestID string    `json:"request_id,omitempty"`
	// Around marks one that was put there by the control plane and not by a request.
	Around   bool `json:"around,omitempty"`
	Resource any  `json:"resource"`

	operation *contract.Operation
	request   contract.Request
}

// values are what templates over a request can name.
func (s *Server) values(o *contract.Operation, r contract.Request) map[string]any {
	header := map[string]any{}
	for name := range r.Header {
		header[strings.ToLower(name)] = r.Header.Get(name)
	}
	values := map[string]any{"body": decoded(r), "query": formTree(r.Query), "header": header}
	if o != nil {
		values["path"] = pathValues(o.Path, r.Path)
		if key, _ := o.ClientKey(r); key != "" {
			values["key"] = key
		}
		if stamp := stampOf(o, r); stamp != "" && s.config.Breaks != BreaksStamp {
			values["stamp"] = stamp
		}
	}
	return values
}

func (s *Server) valuesOf(e *Effect) map[string]any {
	values := s.values(e.operation, e.request)
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %d", s.contract.Name, e.Number))
	hexed := hex.EncodeToString(digest[:])
	values["n"], values["hex"] = e.Number, hexed[:24]
	values["uuid"] = hexed[:8] + "-" + hexed[8:12] + "-4" + hexed[13:16] + "-8" + hexed[17:20] + "-" + hexed[20:32]
	values["now"], values["now_rfc3339"] = e.At.Unix(), e.At.UTC().Format(time.RFC3339)
	values["id"] = e.ID
	if e.Resource != nil {
		values["resource"] = e.Resource
	}
	return values
}

// make fills the effect's id and its resource.
func (s *Server) make(e *Effect) {
	play := s.play(e.operation)
	id := play.ID
	if id == "" {
		id = "twin_{n}"
	}
	e.ID = filledText(id, s.valuesOf(e))
	o := e.operation
	if play.Resource != nil {
		e.Resource, _ = fill(play.Resource, s.valuesOf(e))
	} else {
		body := map[string]any{}
		if example, ok := successOf(o); ok {
			if shown, isObject := decoded(contract.Request{Body: example.Body}).(map[string]any); isObject {
				body = shown
			}
		}
		if asked, isObject := copied(decoded(e.request)).(map[string]any); isObject {
			maps.Copy(body, asked)
		}
		e.Resource = s.marked(body, o.Reference, o.Stamp.Path, "", e)
	}
	if s.config.Breaks == BreaksStamp && o.Stamp.Set() {
		drop(e.Resource, o.Stamp.Path.Segments())
	}
}

// marked puts id, stamp and key where a contract reads them.
func (s *Server) marked(tree any, reference, stamp, key contract.Path, e *Effect) any {
	if reference != "" {
		tree = set(tree, reference.Segments(), e.ID)
	}
	// A mark in a text is there already, since the text is the request's.
	if stamp != "" && e.Stamp != "" && e.operation.Stamp.Append == "" && s.config.Breaks != BreaksStamp {
		tree = set(tree, stamp.Segments(), e.Stamp)
	}
	if key != "" && e.Key != "" {
		tree = set(tree, key.Segments(), e.Key)
	}
	return tree
}

// written is when it happened, in a form of a sweep.
func (e *Effect) written(form string) any {
	switch form {
	case "unix":
		return e.At.Unix()
	case "unix_ms":
		return e.At.UnixMilli()
	case "date":
		return e.At.UTC().Format(time.DateOnly)
	}
	return e.At.UTC().Format(time.RFC3339)
}

// stampOf reads the stamp of a request: what is at its place, or in a text the last thing that looks like one behind the beginning of its mark.
func stampOf(o *contract.Operation, r contract.Request) string {
	if !o.Stamp.Set() {
		return ""
	}
	text := stampField(o, r)
	if o.Stamp.Append == "" {
		return text
	}
	before, _, _ := strings.Cut(strings.TrimSpace(o.Stamp.Append), "{stamp}")
	at := strings.LastIndex(text, before)
	if at < 0 {
		return ""
	}
	return leadingHex.FindString(text[at+len(before):])
}

var leadingHex = regexp.MustCompile(`^[0-9a-f]{22,64}`)

func stampField(o *contract.Operation, r contract.Request) string {
	name := string(o.Stamp.Field)
	first := func(form string) string {
		for _, f := range formFields(form) {
			if f[0] == name {
				return f[1]
			}
		}
		return ""
	}
	switch o.Stamp.Place {
	case contract.PlaceHeader, contract.PlacePrecondition:
		return r.Header.Get(name)
	case contract.PlaceQuery:
		return first(r.Query)
	case contract.PlacePath:
		text, _ := pathValues(o.Path, r.Path)[name].(string)
		return text
	case contract.PlaceGraphQLVariable:
		return contract.Path("variables." + name).Text(decoded(r))
	case contract.PlaceMailHeader:
		at, _ := o.Stamp.At.Find(decoded(r))
		if list, ok := at.([]any); ok {
			for _, item := range list {
				if one, ok := item.(map[string]any); ok && strings.EqualFold(fmt.Sprint(one["Name"], one["name"]), name+"<nil>") {
					return fmt.Sprint(one["Value"])
				}
			}
			return ""
		}
		return contract.Path(name).Text(at)
	}
	if s := first(string(r.Body)); s != "" && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return s
	}
	return o.Stamp.Field.Text(decoded(r))
}
