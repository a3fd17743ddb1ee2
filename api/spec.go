package api

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
)

// This file makes the OpenAPI 3.1 document from the endpoints and the types of their bodies.

const (
	exampleKey      = "5f2b7c9d1e3a48606d8f0a1b2c3d4e5f60718293a4b5c6d7e8f9000102030405"
	jsonType        = "application/json"
	problemType     = "application/problem+json"
	specDescription = `Effectonce makes every authorised intent take effect once, however often it is delivered, re-decided, replayed or raced.

Two ways: *managed execution* (POST /v1/operations: Effectonce calls the provider, by policy and contract) and *external execution* (POST /v1/claims and its follow-ups: the caller has the effect itself, Effectonce the claim, the fence and the record).

Every answer about an operation carries outcome, next (what an agent does now) and replayed. Refusals are problem documents (RFC 9457) with a stable code; the code's help is at /errors/{code}. Durations are Go's (30s, 1h30m), times RFC 3339 in UTC, keys lower-case hex.`
)

var (
	succeededExample = map[string]any{
		"key": exampleKey, "tenant": "default", "tool": "stripe.refund", "intent_id": "refund:order-8812:ticket-5521", "state": "succeeded",
		"outcome": "succeeded", "next": "use_result", "replayed": false, "version": 2, "result": map[string]any{"id": "re_1", "status": "succeeded"},
		"reference": "re_1", "attempts": 1, "created_at": "2026-11-30T10:00:00Z", "settled_at": "2026-11-30T10:00:01Z",
	}
	unknownExample = map[string]any{
		"key": exampleKey, "tenant": "default", "tool": "stripe.refund", "intent_id": "refund:order-8812:ticket-5521", "state": "unknown",
		"outcome": "unknown", "next": "wait", "replayed": false, "version": 2, "attempts": 1, "reason": "the call timed out", "retry_after": "2s",
		"created_at": "2026-11-30T10:00:00Z",
	}
	claimExample = map[string]any{
		"key": exampleKey, "tenant": "default", "tool": "crm.refund", "intent_id": "refund:order-8812:ticket-5521", "state": "in_progress",
		"outcome": "in_progress", "next": "retry_after", "replayed": false, "version": 1, "attempts": 1, "created_at": "2026-11-30T10:00:00Z",
		"do": "execute", "token": 1, "send_within": "30s", "lease_for": "1m0s", "attempt": 1,
		"downstream_key": "0b6e2f1c-5a7d-4c3e-9f10-2b3c4d5e6f70", "stamp": exampleKey,
	}
)

// always are the codes that any request can get.
var always = []effectonce.Code{
	effectonce.CodeInvalid, effectonce.CodeForbidden, effectonce.CodeShuttingDown, effectonce.CodeStoreUnavailable, effectonce.CodeStoreBroken,
	effectonce.CodeClockStepped, effectonce.CodeInternal,
}

func newSpec(version string) *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Effectonce", Version: version, Description: specDescription,
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Tags: []*huma.Tag{
			{Name: "managed execution", Description: "Effectonce calls the provider."},
			{Name: "external execution", Description: "The caller has the effect itself, under a claim."},
			{Name: "events", Description: "Events that come in, and messages that go out."},
			{Name: "runs", Description: "What models decided, step by step, and what became of it."},
			{Name: "operations", Description: "What became of intents, and people's decisions about them."},
			{Name: "daemon", Description: "The process itself."},
		},
		Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)},
	}
}

// document adds an endpoint to the OpenAPI document and returns the schema of its body, nil if it has none.
func document[B any](s *server, e *endpoint) *huma.Schema {
	op := &huma.Operation{
		Method: e.method, Path: e.path, OperationID: e.id, Summary: e.summary, Description: e.description, Tags: []string{e.tag},
		Parameters: pathParams(e.path), Responses: map[string]*huma.Response{},
	}
	op.Parameters = append(op.Parameters, e.query...)
	codes := append(slices.Clone(always), e.problems...)

	var schema *huma.Schema
	if body := reflect.TypeFor[B](); body != reflect.TypeFor[none]() {
		schema = s.registry.Schema(body, true, "")
		if args := s.resolve(schema).Properties["arguments"]; args != nil {
			args.Type = huma.TypeObject
			args.PrecomputeMessages()
		}
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{jsonType: {Schema: schema, Example: e.example}}}
		codes = append(codes, effectonce.CodeNotCanonical, effectonce.CodeTooLarge)
	}
	for _, a := range e.answers {
		if a.body == reflect.TypeFor[none]() {
			op.Responses[strconv.Itoa(a.status)] = &huma.Response{Description: a.what}
			continue
		}
		s.evolves(a.body)
		op.Responses[strconv.Itoa(a.status)] = &huma.Response{
			Description: a.what,
			Headers:     answerHeaders(a.status, a.body),
			Content:     map[string]*huma.MediaType{jsonType: {Schema: s.registry.Schema(a.body, true, ""), Example: a.example}},
		}
	}
	s.problems(op, codes)
	s.spec.AddOperation(op)
	return schema
}

// problems documents an operation's refusals, by status.
func (s *server) problems(op *huma.Operation, codes []effectonce.Code) {
	slices.Sort(codes)
	byStatus := map[int][]string{}
	for _, c := range slices.Compact(codes) {
		k := effectonce.KindOf(c)
		byStatus[k.Status] = append(byStatus[k.Status], fmt.Sprintf("`%s`: %s", c, k.Title))
	}
	if op.RequestBody != nil {
		byStatus[http.StatusUnsupportedMediaType] = []string{"`invalid`: the body is not declared as JSON"}
	}
	problem := s.registry.Schema(reflect.TypeFor[Problem](), true, "")
	for code, lines := range byStatus {
		op.Responses[strconv.Itoa(code)] = &huma.Response{
			Description: strings.Join(lines, ". "),
			Content:     map[string]*huma.MediaType{problemType: {Schema: problem}},
		}
	}
}

func pathParams(path string) []*huma.Param {
	str := &huma.Schema{Type: huma.TypeString}
	var params []*huma.Param
	if strings.Contains(path, "{key}") {
		params = append(params, &huma.Param{Name: "key", In: "path", Required: true, Description: "The operation's key: 64 hex digits.", Schema: str, Example: exampleKey})
	}
	if strings.Contains(path, "{run}") {
		params = append(params, &huma.Param{Name: "run", In: "path", Required: true, Description: "The run, percent-encoded.", Schema: str, Example: "run-71"})
	}
	if strings.Contains(path, "{step}") {
		params = append(params, &huma.Param{Name: "step", In: "path", Required: true, Description: "The step, percent-encoded.", Schema: str, Example: "refund"})
	}
	if strings.Contains(path, "{source}") {
		params = append(params, &huma.Param{Name: "source", In: "path", Required: true, Description: "The source, as the configuration names it.", Schema: str, Example: "stripe"})
	}
	if strings.Contains(path, "{subject}") {
		params = append(params, &huma.Param{Name: "subject", In: "path", Required: true, Description: "The subject, percent-encoded.", Schema: str, Example: "orders.8812"})
	}
	if strings.Contains(path, "{code}") {
		params = append(params, &huma.Param{Name: "code", In: "path", Required: true, Description: "The error code.", Schema: str, Example: "payload_mismatch"})
	}
	return params
}

func answerHeaders(code int, body reflect.Type) map[string]*huma.Param {
	str := &huma.Schema{Type: huma.TypeString}
	switch body {
	case reflect.TypeFor[Operation](), reflect.TypeFor[Claim](), reflect.TypeFor[Detail](), reflect.TypeFor[Compensation]():
	default:
		return nil
	}
	h := map[string]*huma.Param{"Effectonce-Replayed": {Description: "true on a replay: nothing was executed for this request.", Schema: str}}
	if code != http.StatusOK {
		h["Location"] = &huma.Param{Description: "Where the operation is shown.", Schema: str}
	}
	if code == http.StatusAccepted {
		h["Retry-After"] = &huma.Param{Description: "Seconds to wait before asking again.", Schema: str}
	}
	return h
}

func (s *server) documentText(path, id, summary string) {
	op := &huma.Operation{
		Method: http.MethodGet, Path: path, OperationID: id, Summary: summary, Tags: []string{"daemon"}, Parameters: pathParams(path),
		Responses: map[string]*huma.Response{"200": {Description: summary + "."}},
	}
	s.problems(op, []effectonce.Code{effectonce.CodeForbidden, effectonce.CodeNotFound})
	s.spec.AddOperation(op)
}

// evolves leaves a type of answers open: a later release may add fields, and clients ignore those they do not know.
func (s *server) evolves(body reflect.Type) {
	s.resolve(s.registry.Schema(body, true, "")).AdditionalProperties = nil
}

// finishSpec adds what is only known at run time: the error codes.
func (s *server) finishSpec() {
	for _, t := range []reflect.Type{reflect.TypeFor[Problem](), reflect.TypeFor[Event](), reflect.TypeFor[Argument]()} {
		s.evolves(t)
	}
	code := s.resolve(s.registry.Schema(reflect.TypeFor[Problem](), true, "")).Properties["code"]
	var b strings.Builder
	b.WriteString(code.Description)
	for _, k := range effectonce.Registry {
		code.Enum = append(code.Enum, string(k.Code))
		fmt.Fprintf(&b, "\n- `%s` (%d, next %s): %s. %s", k.Code, k.Status, k.Next, k.Title, k.Help)
	}
	code.Description = b.String()
	code.PrecomputeMessages()
}
