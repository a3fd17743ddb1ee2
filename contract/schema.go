package contract

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// schemaEnums are the words that a field takes, by the field's place in the file's shapes.
var schemaEnums = map[string][]string{
	"fileScopeForm.part":        strings.Split(listed(ScopeParts), ", "),
	"fileScopeForm.in":          {"host", "header", "query", "body", "form", "path", "credential_scope"},
	"fileSigned.kind":           {"sigv4", "hmac", "none"},
	"fileContract.answer":       {"json", "xml", "form", "text"},
	"fileOperation.answer":      {"json", "xml", "form", "text"},
	"fileLookUp.answer":         {"json", "xml"},
	"fileSource.grade":          {"official", "specification", "mirror", "observed", "operator", "reading"},
	"fileOperation.effect":      {"keyed", "convergent", "none", "read"},
	"fileOperation.encoding":    {"form", "json"},
	"fileLookUp.encoding":       {"form", "json"},
	"fileLookUp.method":         {"GET", "POST"},
	"fileLookUp.match":          {"stamp", "key", "reference"},
	"fileLookUp.consistency":    {"strong", "eventual", "unknown"},
	"fileLookUp.absent_means":   {"absent", "unknown"},
	"fileCondition.in":          strings.Split(listed(conditionPlaces), ", "),
	"fileKey.in":                keyPlaces,
	"fileSpot.in":               keyPlaces,
	"fileCompanion.in":          keyPlaces,
	"fileStamp.in":              keyPlaces,
	"fileCompanion.first_sent":  {"http", "rfc3339", "unix"},
	"fileRetention.kind":        {"at_least", "lifetime", "while_active", "unpublished", "best_effort"},
	"fileRetention.starts":      {"first_receipt", "first_completion", "resource_end", "client_declared"},
	"fileRetention.after":       {"new_effect", "refused"},
	"fileFingerprint.provider":  {"full", "vars", "none"},
	"fileReplays.success":       {"original", "current_state"},
	"fileReplays.errors":        {"replayed", "not_stored", "reexecuted", "partial"},
	"fileCompensation.by":       {"id", "key"},
	"fileSweep.answer":          {"json", "xml"},
	"fileSweep.since":           {"unix", "unix_ms", "rfc3339", "date"},
	"filePaging.kind":           {"none", "starting_after", "page", "cursor"},
	"fileRule.verdict":          {"succeeded", "rejected", "throttled", "in_flight", "unknown", "done_elsewhere", "expired", "mismatch"},
	"fileRule.proves":           {"key"},
	"fileExample.want":          {"succeeded", "rejected", "throttled", "in_flight", "unknown", "done_elsewhere", "expired", "mismatch"},
	"fileExample.proves":        {"key"},
	"fileMatch.attempt":         {"any", "first", "resend", "after_unknown"},
	"fileOperation.given.items": settingNames,
}

var keyPlaces = []string{"header", "precondition", "query", "body", "body_json", "body_form", "form", "path", "graphql_variable", "graphql_directive", "mail_header"}

// schemaRequired are the fields that the loader does not do without, whatever else is said.
var schemaRequired = map[string][]string{
	"fileContract":     {"contract", "operations"},
	"fileSource":       {"url", "checked", "grade"},
	"fileCredential":   {"header"},
	"fileSigned":       {"kind"},
	"fileScopeForm":    {"part"},
	"fileCondition":    {"in"},
	"fileKey":          {"in", "name"},
	"fileSpot":         {"in", "name"},
	"fileCompanion":    {"in", "name"},
	"fileStamp":        {"in", "field", "path"},
	"fileLookUp":       {"path", "reference"},
	"fileSweep":        {"path", "since", "stamp", "reference", "source"},
	"fileRule":         {"when", "verdict"},
	"fileMatch":        {"status"},
	"fileCompensation": {"operation", "by"},
	"fileSpan":         {"at_most"},
}

// schemaPatterns are the spellings of texts.
var schemaPatterns = map[string]string{
	"fileContract.contract":    namePattern.String(),
	"fileSource.checked":       `^[0-9]{4}-[0-9]{2}-[0-9]{2}$`,
	"fileRetention.at_least":   durationPattern,
	"fileSpan.at_most":         durationPattern,
	"fileLookUp.horizon":       durationPattern,
	"fileKey.encoding":         `^(uuid|(hex|base64url|base32)(\([0-9]{1,3}\))?)$`,
	"fileReplayMark.header":    headerPattern.String(),
	"fileCredential.header":    headerPattern.String(),
	"fileContract.api_version": headerPattern.String(),
}

const durationPattern = `^([0-9]+d|([0-9.]+(ns|us|µs|ms|s|m|h))+|0)$`

// Schema is the JSON Schema of a contract file, made from the shapes that the loader reads. It says what can be said without knowing what a
// field means; the loader refuses more.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[fileContract](), "")
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Effectonce provider contract"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("contract: " + err.Error())
	}
	return append(text, '\n')
}

func schemaOf(t reflect.Type, at string) map[string]any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[fileScope]() {
		names := make([]any, len(ScopeParts))
		for i, p := range ScopeParts {
			names[i] = string(p)
		}
		return map[string]any{"oneOf": []any{map[string]any{"enum": names}, schemaOf(reflect.TypeFor[fileScopeForm](), at)}}
	}
	switch t.Kind() {
	case reflect.Struct:
		properties := map[string]any{}
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("yaml")
			properties[name] = schemaOf(f.Type, t.Name()+"."+name)
		}
		s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
		if required := schemaRequired[t.Name()]; required != nil {
			s["required"] = required
		}
		return s
	case reflect.Map:
		s := map[string]any{"type": "object"}
		if t.Elem().Kind() != reflect.Interface {
			s["additionalProperties"] = schemaOf(t.Elem(), at+".values")
		}
		return s
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), at+".items")}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Interface:
		return map[string]any{}
	}
	s := map[string]any{"type": "string"}
	if words := schemaEnums[at]; words != nil {
		s["enum"] = slices.Clone(words)
	}
	if pattern := schemaPatterns[at]; pattern != "" {
		s["pattern"] = pattern
	}
	return s
}
