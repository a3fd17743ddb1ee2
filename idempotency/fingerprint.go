package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/canon"
)

const (
	// textBytesMax is how long a path, query or type is recorded as it is; a longer one by its digest.
	textBytesMax = 512
	// membersMax and memberNameMax bound a JSON object whose members are recorded one by one, so that a refusal can name those that differ.
	membersMax    = 64
	memberNameMax = 128
)

// errTooLarge says that a body is over its limit.
var errTooLarge = errors.New("the body is over the limit")

// readBody reads a request's body whole, since what is asked must be known before it is claimed.
func readBody(r *http.Request, bytesMax int, room *room) ([]byte, error) {
	if r.ContentLength > int64(bytesMax) {
		return nil, errTooLarge
	}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body := make([]byte, 0, min(max(r.ContentLength, 511)+1, smallBytes))
	for {
		if len(body) == cap(body) {
			if len(body) >= smallBytes && !room.large(r.Context()) {
				return nil, errBusy
			}
			body = append(body, 0)[:len(body)]
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if len(body) > bytesMax {
			return nil, errTooLarge
		}
		if err == io.EOF {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// business describes what a request asks, as the business arguments of its operation: everything in it is compared with a repeat. Bodies
// are in it as digests, so that the store has no copy of them.
func business(r *http.Request, body []byte, headers []string) json.RawMessage {
	b := map[string]any{
		"method": r.Method, "path": shortened(r.URL.EscapedPath()), "query": shortened(r.URL.RawQuery), "content_type": contentType(r.Header.Get("Content-Type")),
	}
	if e := r.Header.Values("Content-Encoding"); len(e) > 0 {
		b["content_encoding"] = shortened(strings.ToLower(strings.Join(e, ",")))
	}
	for _, name := range headers {
		if v := r.Header.Values(name); len(v) > 0 {
			// A digest: it may be a credential.
			b["header."+name] = digest([]byte(strings.Join(v, ",")))
		}
	}
	if !isJSON(r.Header.Get("Content-Type")) || r.Header.Get("Content-Encoding") != "" || !jsonBody(b, body) {
		b["body"] = "bytes:" + digest(body)
	}
	return effectonce.Arguments(b)
}

// jsonBody adds a JSON body by its canonical form (S4.1, S4.2). It reports false for one that has none, which counts by its bytes.
func jsonBody(b map[string]any, body []byte) bool {
	v, err := canon.Decode(body, canon.Limits{Bytes: len(body) + 1})
	if err == nil {
		v, err = canon.NFC(v)
	}
	if err != nil {
		return false
	}
	object, ok := v.(map[string]any)
	if !ok || len(object) > membersMax {
		sum, err := canon.Sum(v)
		if err == nil {
			b["body"] = "json:" + hex.EncodeToString(sum[:])
		}
		return err == nil
	}
	members := make(map[string]any, len(object))
	for name, value := range object {
		sum, err := canon.Sum(value)
		if err != nil {
			return false
		}
		if len(name) > memberNameMax {
			name = digest([]byte(name))
		}
		members["body."+name] = hex.EncodeToString(sum[:])
	}
	b["body"] = "object"
	for name, sum := range members {
		b[name] = sum
	}
	return true
}

func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

// contentType removes differences of spelling from a media type.
func contentType(s string) string {
	t, params, err := mime.ParseMediaType(s)
	if err != nil {
		return shortened(s)
	}
	if out := mime.FormatMediaType(t, params); out != "" {
		return shortened(out)
	}
	return shortened(s)
}

// shortened keeps what is short and can be shown, and takes the digest of anything else: bytes that are not UTF-8 have no canonical form.
func shortened(s string) string {
	visible := len(s) <= textBytesMax
	for i := 0; visible && i < len(s); i++ {
		visible = s[i] >= ' ' && s[i] < 0x7f
	}
	if visible {
		return s
	}
	return "sha256:" + digest([]byte(s))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// again returns the request with its body to be read from memory, under another context.
func again(ctx context.Context, r *http.Request, body []byte) *http.Request {
	r = r.WithContext(ctx)
	r.Body = http.NoBody
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	return r
}
