package egress

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/provider"
)

// CodeIntentMissing is the problem of a write without an intent, CodeUndescribed that of a write that the contract does not describe.
const (
	CodeIntentMissing = "intent_missing"
	CodeUndescribed   = "operation_undescribed"
)

// missingIntent says what to add to a request.
type missingIntent struct{ operation string }

func (e *missingIntent) Error() string { return "the request has an effect and names no intent" }

// requestArgument is the argument that has what a request says outside of its body.
const requestArgument = "@request"

// intent makes the intent of a write. The request comes back without what must not be sent (S4.3).
func (r *Route) intent(op *contract.Operation, in *incoming) (effectonce.Intent, contract.Request, error) {
	request := in.Request
	business, err := op.Business(request)
	if err != nil {
		return effectonce.Intent{}, request, invalid("request", "cannot be compared: "+err.Error(), "send it as the provider's documentation shows it, not compressed")
	}
	arguments, err := arguments(op, request, business)
	if err != nil {
		return effectonce.Intent{}, request, err
	}
	encoded, err := canon.Encode(arguments)
	if err != nil {
		return effectonce.Intent{}, request, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "request", Cause: err}
	}
	tool := r.o.Tools[op.Name]
	if tool == nil {
		if in.ask.id == "" {
			return effectonce.Intent{}, request, &missingIntent{operation: op.Name}
		}
		intent := effectonce.Intent{Tool: r.ToolName(op.Name), Run: in.ask.run, Step: in.ask.step, ID: in.ask.id, Business: encoded, Actor: in.ask.actor}
		intent.Terms = op.TermsOf(r.o.Terms, request)
		return intent, request, nil
	}
	intent, err := tool.Intent(encoded, map[string]string{"run": in.ask.run, "step": in.ask.step})
	if err != nil {
		return effectonce.Intent{}, request, err
	}
	switch {
	case intent.ID == "" && in.ask.id == "":
		return intent, request, &missingIntent{operation: op.Name}
	case intent.ID == "":
		intent.ID = in.ask.id
	case in.ask.id != "" && in.ask.id != intent.ID:
		return intent, request, invalid(HeaderIntent, fmt.Sprintf("is not the intent id that the policy builds from this request, %q", intent.ID), "leave it out: the policy builds it")
	}
	intent.Run, intent.Step, intent.Actor = in.ask.run, in.ask.step, in.ask.actor
	intent.Terms = op.TermsOf(intent.Terms, request)
	request, err = withoutUnsent(request, tool)
	return intent, request, err
}

// ToolName is the name of the tool of an operation without a policy.
func (r *Route) ToolName(operation string) string { return r.o.Name + "." + operation }

// arguments are what a policy sees of a request: the fields of its body, of which a nested one is metadata.ticket; what the placeholders of its
// path stand for, where the body has no field of that name; and the rest of the request, so that it is compared.
func arguments(op *contract.Operation, request contract.Request, business json.RawMessage) (map[string]any, error) {
	decoded, err := canon.Decode(business, canon.Limits{Bytes: 4 * BodyBytesMax})
	if err != nil {
		return nil, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "request", Cause: err}
	}
	rest, ok := decoded.(map[string]any)
	if !ok {
		return nil, invalid("request", "cannot be compared", "")
	}
	out := map[string]any{}
	add := func(name string, v any) error {
		if _, twice := out[name]; twice {
			return invalid("request", fmt.Sprintf("has two fields that are called %.100q here", name), "send one of them")
		}
		out[name] = v
		return nil
	}
	if err := flatten("", rest["body"], isForm(request), add); err != nil {
		return nil, err
	}
	delete(rest, "body")
	for name, value := range pathValues(op.Path, request.Path) {
		if _, taken := out[name]; !taken {
			out[name] = value
		}
	}
	return out, add(requestArgument, rest)
}

// flatten gives every leaf of a body a name. Names keep apart what is nested and what has a dot in its name.
func flatten(at string, v any, form bool, add func(string, any) error) error {
	object, ok := v.(map[string]any)
	if v == nil && at == "" {
		return nil
	}
	if !ok || len(object) == 0 {
		if at == "" {
			at = "@body"
		}
		return add(at, v)
	}
	for name, child := range object {
		if form && at == "" {
			name = formName(name)
		} else {
			name = strings.ReplaceAll(name, ".", `\.`)
		}
		if at != "" {
			name = at + "." + name
		}
		if err := flatten(name, child, form, add); err != nil {
			return err
		}
	}
	return nil
}

// formName is the name of a form's field with dots instead of brackets: metadata[ticket] is metadata.ticket.
func formName(name string) string {
	parts := strings.FieldsFunc(name, func(c rune) bool { return c == '[' || c == ']' })
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], ".", `\.`)
	}
	return strings.Join(parts, ".")
}

func isForm(r contract.Request) bool {
	return strings.HasPrefix(strings.ToLower(r.Header.Get("Content-Type")), "application/x-www-form-urlencoded")
}

// pathValues are what the placeholders of a path stand for, where each is a whole segment.
func pathValues(template, path string) map[string]string {
	values := map[string]string{}
	segments := strings.Split(path, "/")
	for i, want := range strings.Split(template, "/") {
		if i >= len(segments) || !strings.HasPrefix(want, "{") || !strings.HasSuffix(want, "}") || strings.HasSuffix(want, "...}") {
			continue
		}
		if s, err := url.PathUnescape(segments[i]); err == nil {
			values[want[1:len(want)-1]] = s
		}
	}
	return values
}

// withoutUnsent takes free text out of a request's body: it is compared nowhere, and the provider must not get it (S4.3).
func withoutUnsent(request contract.Request, tool Tool) (contract.Request, error) {
	if isForm(request) {
		kept := make([]string, 0, 8)
		for pair := range strings.SplitSeq(string(request.Body), "&") {
			name, _, _ := strings.Cut(pair, "=")
			plain, err := url.QueryUnescape(name)
			if err != nil {
				return request, invalid("body", "is not a form", "encode it")
			}
			if !tool.Unsent(formName(plain)) {
				kept = append(kept, pair)
			}
		}
		if body := strings.Join(kept, "&"); len(body) != len(request.Body) {
			request.Body = []byte(body)
		}
		return request, nil
	}
	trimmed := bytes.TrimSpace(request.Body)
	if !bytes.HasPrefix(trimmed, []byte("{")) {
		return request, nil
	}
	decoded, err := contract.DecodeBody(trimmed, false)
	if err != nil {
		return request, nil // whatever it is, no policy has read a field of it
	}
	if !drop(decoded, "", tool) {
		return request, nil
	}
	body, err := canon.Encode(decoded)
	if err != nil {
		return request, &effectonce.Error{Code: effectonce.CodeNotCanonical, Field: "body", Cause: err}
	}
	request.Body = body
	return request, nil
}

func drop(v any, at string, tool Tool) (dropped bool) {
	object, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for name, child := range object {
		full := strings.ReplaceAll(name, ".", `\.`)
		if at != "" {
			full = at + "." + full
		}
		if tool.Unsent(full) {
			delete(object, name)
			dropped = true
			continue
		}
		dropped = drop(child, full, tool) || dropped
	}
	return dropped
}

// freeze completes an intent for a caller.
func (r *Route) freeze(call *provider.RawCall, op *contract.Operation, intent *effectonce.Intent, request contract.Request) (err error) {
	if intent.Request, err = call.Freeze(op, request); err != nil {
		return err
	}
	intent.RequestScope = call.Scope()
	intent.Terms.Managed = r.raw.Held()
	if intent.Terms.LookUp && !provider.LooksUp(op, request) {
		intent.Terms.LookUp = false
	}
	return nil
}
