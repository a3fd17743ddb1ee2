package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

// BodyBytesMax bounds a request's body. A body that carries a provider's result may be twice as large, so that a result too
// large to keep can still be reported and leaves its digest (S6.8).
const BodyBytesMax = 1 << 20

// resultField is the one field that is not read strictly: what a provider answered is on record as it is, and a number that has
// no canonical form must not hide an effect (S6.8).
const resultField = "result"

// wholeBody is the field of a problem with the body itself.
const wholeBody = "body"

// read reads a request's JSON body into v: strictly (S4.4), with unknown names refused, and checked against the schema that is
// published for it. Every error names field and remedy.
func (s *server) read(w http.ResponseWriter, r *http.Request, schema *huma.Schema, limit int64, v any) error {
	if err := contentType(r); err != nil {
		return err
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &effectonce.Error{Code: effectonce.CodeTooLarge, Field: wholeBody, Detail: fmt.Sprintf("the body is larger than %d bytes", limit), Remedy: "send less, or a reference to what is large"}
	case err != nil:
		return &effectonce.Error{Code: effectonce.CodeInvalid, Field: wholeBody, Detail: "the body could not be read whole", Remedy: "send the request again", Cause: err}
	}
	tree, err := s.tree(data)
	if err != nil {
		return err
	}
	if err := s.shape(schema, "", tree); err != nil {
		return err
	}
	var res huma.ValidateResult
	huma.Validate(s.registry, schema, huma.NewPathBuffer(make([]byte, 0, 64), 0), huma.ModeWriteToServer, tree, &res)
	if len(res.Errors) > 0 {
		return s.misfit(schema, res.Errors[0])
	}
	if err := json.Unmarshal(data, v); err != nil {
		field := wholeBody
		var unfit *json.UnmarshalTypeError
		if errors.As(err, &unfit) && unfit.Field != "" {
			field = unfit.Field
		}
		return invalid(field, "the value does not fit", "the OpenAPI document at /openapi.json has the types and ranges")
	}
	return nil
}

// contentType refuses what is not declared as JSON. It also keeps out forms, which a browser would send for any site.
func contentType(r *http.Request) error {
	unsupported := func(field, detail, remedy string) error {
		return &status{cause: invalid(field, detail, remedy), status: http.StatusUnsupportedMediaType}
	}
	ct, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || ct != "application/json" {
		return unsupported("Content-Type", "the body must be declared as JSON", "send the header Content-Type: application/json")
	}
	if c, ok := params["charset"]; ok && !strings.EqualFold(c, "utf-8") {
		return unsupported("Content-Type", "JSON is UTF-8", "send UTF-8, without a charset")
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return unsupported("Content-Encoding", "the body must not be encoded", "send it as it is")
	}
	return nil
}

// tree reads the body for validation. Each member but the result is read strictly by itself.
func (s *server) tree(data []byte) (map[string]any, error) {
	members, err := members(data)
	if err != nil {
		return nil, err
	}
	tree := make(map[string]any, len(members))
	for _, m := range members {
		if _, ok := tree[m.name]; ok {
			return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: pathOf("", "/"+escape(m.name)), Detail: "the name appears twice", Remedy: "send each name once"}
		}
		if m.name == resultField {
			if !utf8.Valid(m.value) {
				return nil, invalid(resultField, "is not UTF-8", "report the effect with its reference alone")
			}
		} else if _, err := canon.Decode(m.value, canon.DefaultLimits); err != nil {
			return nil, strict(m.name, err)
		}
		tree[m.name] = nil
	}
	if err := json.Unmarshal(data, &tree); err != nil {
		// Only the result can hold what a float cannot: it is of any type, so any value will do for the validation.
		tree = make(map[string]any, len(members))
		for _, m := range members {
			var v any
			if json.Unmarshal(m.value, &v) != nil {
				v = ""
			}
			tree[m.name] = v
		}
	}
	return tree, nil
}

// strict describes what the strict reader refused: what is no JSON at all is invalid, the rest has no canonical form (S4.4).
func strict(field string, err error) error {
	e := &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: pathOf("", "/"+escape(field)), Cause: err}
	var c *canon.Error
	if !errors.As(err, &c) || c.Problem == canon.ProblemSyntax {
		e.Code = effectonce.CodeInvalid
	}
	if c != nil && c.Path != "" && field == wholeBody {
		e.Field = ""
	}
	return e
}

// escape makes a name a part of an RFC 6901 pointer.
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

type member struct {
	name  string
	value json.RawMessage
}

// members splits a JSON object into its members, in order and with repeats.
func members(data []byte) ([]member, error) {
	syntax := func(detail string) error {
		return invalid(wholeBody, detail, "send one JSON object")
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, syntax("the body is empty")
	}
	if !json.Valid(data) {
		// The strict reader says where; what it accepts of invalid JSON does not exist.
		_, err := canon.Decode(data, canon.Limits{Bytes: 2 * BodyBytesMax})
		return nil, strict(wholeBody, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, syntax("the body is not a JSON object")
	}
	var all []member
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, syntax("the body is not JSON")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, syntax("the body is not JSON")
		}
		all = append(all, member{name, value})
	}
	return all, nil
}

// shape refuses names that a request does not have and reports those it must have, object by object.
func (s *server) shape(schema *huma.Schema, path string, tree map[string]any) error {
	schema = s.resolve(schema)
	if schema.AdditionalProperties != false {
		return nil
	}
	known := slices.Sorted(maps.Keys(schema.Properties))
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		at := pathOf(path, "/"+escape(name))
		sub, ok := schema.Properties[name]
		if !ok {
			return invalid(at, "is not a field of this request", "its fields are "+strings.Join(known, ", "))
		}
		if inner, ok := tree[name].(map[string]any); ok && s.resolve(sub).Type == huma.TypeObject {
			if err := s.shape(sub, at, inner); err != nil {
				return err
			}
		}
	}
	for _, name := range schema.Required {
		if _, ok := tree[name]; !ok {
			return invalid(pathOf(path, "/"+name), "is missing", s.expects(schema, name))
		}
	}
	return nil
}

// misfit turns a finding of the schema's validation into an error.
func (s *server) misfit(schema *huma.Schema, err error) error {
	var d *huma.ErrorDetail
	if !errors.As(err, &d) {
		return invalid(wholeBody, err.Error(), "the OpenAPI document at /openapi.json describes it")
	}
	at, path := s.resolve(schema), strings.Split(d.Location, ".")
	for i, name := range path {
		sub := at.Properties[name]
		if sub == nil {
			break
		}
		if i == len(path)-1 {
			return invalid(d.Location, d.Message, s.expects(at, name))
		}
		at = s.resolve(sub)
	}
	field := d.Location
	if field == "" {
		field = wholeBody
	}
	return invalid(field, d.Message, "the OpenAPI document at /openapi.json describes it")
}

// expects says what a field is for, which is the remedy for a missing or unfit value.
func (s *server) expects(schema *huma.Schema, name string) string {
	sub := schema.Properties[name]
	what := sub.Description
	if what == "" {
		what = s.resolve(sub).Description
	}
	if what == "" {
		return "give it"
	}
	return "give " + name + ": " + what
}

func (s *server) resolve(schema *huma.Schema) *huma.Schema {
	for schema.Ref != "" {
		schema = s.registry.SchemaFromRef(schema.Ref)
	}
	return schema
}
