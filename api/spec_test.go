package api

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
)

// S14.2: the document that is served is complete. That answers keep to it is checked for every answer of every test.
func TestOpenAPIDocument(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	a := f.send("GET", "/openapi.json", "")
	if a.code != 200 || a.get("openapi") != "3.1.0" {
		t.Fatalf("status %d, openapi %v", a.code, a.get("openapi"))
	}
	paths := a.get("paths").(map[string]any)
	want := map[string][]string{
		"/v1/operations": {"get", "post"}, "/v1/operations/{key}": {"get"}, "/v1/operations/{key}/events": {"get"}, "/v1/operations/{key}/resolve": {"post"},
		"/v1/claims": {"post"}, "/v1/claims/{key}/heartbeat": {"post"}, "/v1/claims/{key}/looked_up": {"post"}, "/v1/claims/{key}/complete": {"post"},
		"/v1/claims/{key}/reject": {"post"}, "/v1/claims/{key}/unknown": {"post"}, "/v1/claims/{key}/not_sent": {"post"}, "/v1/explain": {"post"},
		"/v1/runs": {"get"}, "/v1/runs/{run}": {"get"}, "/v1/runs/{run}/undo": {"post"}, "/v1/runs/{run}/steps/{step}": {"get"},
		"/v1/runs/{run}/steps/{step}/decision": {"post"}, "/v1/operations/{key}/compensate": {"post"}, "/v1/limits": {"get"},
		"/v1/inbox/{source}": {"post"}, "/v1/inbox/{source}/claim": {"post"}, "/v1/outbox": {"get", "post"}, "/v1/outbox/{subject}": {"get"}, "/v1/outbox/retry": {"post"},
		"/openapi.json": {"get"}, "/healthz": {"get"}, "/readyz": {"get"}, "/metrics": {"get"}, "/errors/{code}": {"get"},
	}
	if len(paths) != len(want) {
		t.Errorf("%d paths, want %d", len(paths), len(want))
	}
	for path, methods := range want {
		item, _ := paths[path].(map[string]any)
		for _, m := range methods {
			op, ok := item[m].(map[string]any)
			if !ok || op["summary"] == "" || op["operationId"] == "" {
				t.Errorf("%s %s is not documented", m, path)
			}
		}
	}
	for _, k := range effectonce.Registry {
		if !strings.Contains(a.raw, "`"+string(k.Code)+"`") {
			t.Errorf("the code %s is not documented", k.Code)
		}
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	t.Parallel()
	s := newFixture(t, nil).server
	for name, schema := range s.registry.Map() {
		for field, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
	codes := s.registry.Map()["Problem"].Properties["code"].Enum
	for _, k := range effectonce.Registry {
		if !slices.Contains(codes, any(string(k.Code))) {
			t.Errorf("the code %s is not in the enumeration", k.Code)
		}
	}
}

func TestExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	s := newFixture(t, nil).server
	check := func(where string, m *huma.MediaType, mode huma.ValidateMode) {
		if m == nil || m.Example == nil {
			return
		}
		b, err := json.Marshal(m.Example)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(b, &tree); err != nil {
			t.Fatal(err)
		}
		var res huma.ValidateResult
		huma.Validate(s.registry, m.Schema, huma.NewPathBuffer(nil, 0), mode, tree, &res)
		for _, e := range res.Errors {
			t.Errorf("%s: %v", where, e)
		}
	}
	for path, item := range s.spec.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post} {
			if op == nil {
				continue
			}
			if op.RequestBody != nil {
				m := op.RequestBody.Content[jsonType]
				if m.Example == nil {
					t.Errorf("%s %s has no example", op.Method, path)
				}
				check(path+" request", m, huma.ModeWriteToServer)
			}
			for code, r := range op.Responses {
				check(path+" "+code, r.Content[jsonType], huma.ModeReadFromServer)
			}
		}
	}
}
