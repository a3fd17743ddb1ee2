package events

import (
	"net/http"
	"regexp"
	"strings"
)

// cloudEvent reads CloudEvents 1.0 over HTTP, in structured or binary mode. tree has the attributes, and data where it is JSON.
func cloudEvent(header http.Header, body []byte) (attributes map[string]any, tree map[string]any, err error) {
	ct := mediaType(header.Get("Content-Type"))
	refuse := func(field, detail, remedy string) error { return invalid(field, detail, remedy) }
	tree = map[string]any{}
	switch {
	case strings.HasPrefix(ct, "application/cloudevents-batch"):
		return nil, nil, refuse("Content-Type", "batches of CloudEvents are not taken", "send one event per request")
	case ct == "application/cloudevents+json":
		whole, ok := decode(body).(map[string]any)
		if !ok {
			return nil, nil, refuse("body", "is not a CloudEvent in JSON", "send one JSON object")
		}
		tree = whole
	case strings.HasPrefix(ct, "application/cloudevents"):
		return nil, nil, refuse("Content-Type", "of the structured formats only JSON is taken", "send application/cloudevents+json, or binary mode")
	default:
		for name, values := range header {
			if attribute, ok := strings.CutPrefix(strings.ToLower(name), "ce-"); ok && len(values) == 1 {
				tree[attribute] = unescapeHeader(values[0])
			}
		}
		if ct != "" {
			tree["datacontenttype"] = header.Get("Content-Type")
		}
		if ct == "application/json" || strings.HasSuffix(ct, "+json") {
			if data := decode(body); data != nil {
				tree["data"] = data
			}
		}
	}
	if v, ok := tree["specversion"].(string); !ok || !strings.HasPrefix(v, "1.") && v != "1" {
		return nil, nil, refuse("specversion", "is missing or not 1.0", "send a CloudEvent of version 1.0, in binary or structured mode")
	}
	for _, name := range []string{"id", "source", "type"} {
		if v, ok := tree[name].(string); !ok || v == "" {
			return nil, nil, absent(name, &missing{name, "is missing, and a CloudEvent has it"})
		}
	}
	attributes = map[string]any{}
	for name, v := range tree {
		if name != "data" && name != "data_base64" {
			attributes[name] = v
		}
	}
	return attributes, tree, nil
}

func mediaType(ct string) string {
	ct, _, _ = strings.Cut(ct, ";")
	return strings.ToLower(strings.TrimSpace(ct))
}

// unescapeHeader undoes what the binding does to attributes in binary mode: quoting, and percent-encoding. What is neither is taken as
// it is.
func unescapeHeader(v string) string {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		v = quotedPair.ReplaceAllString(v[1:len(v)-1], "$1")
	}
	if !strings.Contains(v, "%") {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] == '%' && i+2 < len(v) && isHex(v[i+1]) && isHex(v[i+2]) {
			b.WriteByte(unhex(v[i+1])<<4 | unhex(v[i+2]))
			i += 2
			continue
		}
		b.WriteByte(v[i])
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}

var quotedPair = regexp.MustCompile(`\\(.)`)
