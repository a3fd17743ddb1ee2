package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/contract"
)

// frozen is the request that every attempt sends (S3.10): the bytes, with gaps for the downstream key and the stamp, and how
// to look up what it did. No credential is in it. It is stored, so its form has a version.
type frozen struct {
	V         int    `json:"v"`
	Contract  string `json:"contract"`
	Version   string `json:"contract_version"`
	Operation string `json:"operation"`
	// Scope is where it was bound for when it was rendered.
	Scope    string            `json:"scope"`
	Method   string            `json:"method"`
	Path     string            `json:"path"`
	Query    parts             `json:"query,omitempty"`
	Headers  []frozenHeader    `json:"headers,omitempty"`
	Encoding contract.Encoding `json:"encoding"`
	Body     parts             `json:"body,omitempty"`
	LookUp   *frozenLookUp     `json:"look_up,omitempty"`
	// Observe is set for convergent tools.
	Observe *frozenObserve `json:"observe,omitempty"`
}

// frozenVersion is the version of the form.
const frozenVersion = 1

type frozenHeader struct {
	Name  string `json:"name"`
	Value parts  `json:"value"`
}

// frozenLookUp is a look-up as the contract had it when the request was rendered, so that a later contract cannot make an
// effect look absent.
type frozenLookUp struct {
	Path      parts           `json:"path"`
	Query     parts           `json:"query,omitempty"`
	Headers   []frozenHeader  `json:"headers,omitempty"`
	Items     contract.Path   `json:"items,omitempty"`
	Stamp     contract.Path   `json:"stamp"`
	Reference contract.Path   `json:"reference"`
	Paging    contract.Paging `json:"paging"`
}

// insert names what goes into a gap.
type insert string

const (
	insertKey       insert = "downstream_key"
	insertStamp     insert = "stamp"
	insertReference insert = "reference"
)

// part is a stretch of bytes or a gap.
type part struct {
	Text   string `json:"text,omitempty"`
	Insert insert `json:"insert,omitempty"`
}

type parts []part

func plain(s string) parts {
	if s == "" {
		return nil
	}
	return parts{{Text: s}}
}

// filled writes the bytes with the gaps filled; escape makes a value fit for its surroundings. An empty value is refused, since
// a request without its key or stamp must never leave.
func (p parts) filled(call effectonce.Call, escape func(string) string) (string, error) {
	var b strings.Builder
	for _, one := range p {
		if one.Insert == "" {
			b.WriteString(one.Text)
			continue
		}
		var v string
		switch one.Insert {
		case insertKey:
			v = call.DownstreamKey
		case insertStamp:
			v = call.Stamp
		case insertReference:
			v = call.Reference
		}
		if v == "" {
			return "", fmt.Errorf("the %s is empty", one.Insert)
		}
		b.WriteString(escape(v))
	}
	return b.String(), nil
}

func asIs(s string) string { return s }

// inJSON escapes a value for the inside of a JSON string.
func inJSON(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(b[1 : len(b)-1])
}

func (f frozen) encode() ([]byte, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	document, err := canon.Decode(b, canon.Limits{Bytes: 4 * requestBytesMax})
	if err != nil {
		return nil, err
	}
	return canon.Encode(document)
}

func parseFrozen(request []byte) (frozen, error) {
	var f frozen
	if err := json.Unmarshal(request, &f); err != nil || f.V == 0 || f.Method == "" {
		return f, fmt.Errorf("the operation holds no frozen request: render it when the intent is made")
	}
	if f.V != frozenVersion {
		return f, fmt.Errorf("the frozen request has form %d, which this version does not know", f.V)
	}
	return f, nil
}

// request makes the HTTP request of a call, without the credential.
func (f frozen) request(base *url.URL, call effectonce.Call) (*http.Request, error) {
	inBody := inJSON
	if f.Encoding == contract.EncodingForm {
		inBody = url.QueryEscape
	}
	body, err := f.Body.filled(call, inBody)
	if err != nil {
		return nil, err
	}
	r, err := newRequest(f.Method, base, f.Path, f.Query, f.Headers, call)
	if err != nil {
		return nil, err
	}
	// A body that nobody can rewind cannot be sent twice: without GetBody, and with a body even where it is empty, net/http does
	// not repeat the request on another connection.
	r.Body = &onceBody{Reader: strings.NewReader(body)}
	r.ContentLength = int64(len(body))
	r.GetBody = nil
	return r, nil
}

type onceBody struct{ *strings.Reader }

// Close implements io.Closer.
func (*onceBody) Close() error { return nil }

func newRequest(method string, base *url.URL, path string, query parts, headers []frozenHeader, call effectonce.Call) (*http.Request, error) {
	rawQuery, err := query.filled(call, url.QueryEscape)
	if err != nil {
		return nil, err
	}
	address := base.Scheme + "://" + base.Host + base.EscapedPath() + path
	if rawQuery != "" {
		address += "?" + rawQuery
	}
	r, err := http.NewRequest(method, address, nil)
	if err != nil {
		return nil, fmt.Errorf("the request has no valid address")
	}
	for _, header := range headers {
		v, err := header.Value.filled(call, asIs)
		if err != nil {
			return nil, err
		}
		r.Header.Set(header.Name, v)
	}
	r.Header.Set("User-Agent", "effectonce")
	r.Header.Set("Accept", "application/json")
	return r, nil
}
