package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
)

// remote is a daemon, asked over its HTTP API. Answers are kept in the API's own form, so that --json shows what the API says.
type remote struct {
	url string
	// timeout bounds a call; 0 means remoteTimeout.
	timeout time.Duration
}

func (o *opsCommand) remote() remote { return remote{url: strings.TrimSuffix(o.Server, "/")} }

// listQuery selects operations; zero fields select all.
type listQuery struct {
	States                    []string
	Tool, IntentID, Run, Text string
	Alarmed                   bool
	After                     string
	Limit                     int
}

func (q listQuery) values() url.Values {
	v := pageQuery(q.Limit, map[string]string{"tool": q.Tool, "intent_id": q.IntentID, "run": q.Run, "q": q.Text, "after": q.After})
	for _, s := range q.States {
		v.Add("state", s)
	}
	if q.Alarmed {
		v.Set("alarmed", "true")
	}
	return v
}

// pageQuery selects a page of a list; what is empty is left out.
func pageQuery(limit int, filter map[string]string) url.Values {
	v := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, text := range filter {
		if text != "" {
			v.Set(name, text)
		}
	}
	return v
}

func (r remote) list(ctx context.Context, q listQuery) (api.List, error) {
	var page api.List
	return page, r.call(ctx, http.MethodGet, "/v1/operations?"+q.values().Encode(), nil, &page)
}

func (r remote) get(ctx context.Context, key effectonce.Key) (api.Detail, error) {
	var op api.Detail
	return op, r.call(ctx, http.MethodGet, "/v1/operations/"+key.String(), nil, &op)
}

func (r remote) events(ctx context.Context, key effectonce.Key) (api.EventList, error) {
	var events api.EventList
	return events, r.call(ctx, http.MethodGet, "/v1/operations/"+key.String()+"/events", nil, &events)
}

func (r remote) resolve(ctx context.Context, key effectonce.Key, body api.Resolve) (api.Operation, error) {
	var op api.Operation
	return op, r.call(ctx, http.MethodPost, "/v1/operations/"+key.String()+"/resolve", body, &op)
}

// Bounds of one call to the daemon.
const (
	remoteTimeout        = 30 * time.Second
	remoteAnswerBytesMax = 64 << 20
)

func (r remote) call(ctx context.Context, method, path string, send, receive any) error {
	limit := r.timeout
	if limit == 0 {
		limit = remoteTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var body io.Reader
	if send != nil {
		b, err := json.Marshal(send)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, body)
	if err != nil {
		return invalid("server", fmt.Sprintf("%.200q is not a URL", r.url), "give it like "+defaultServer)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if context.Cause(ctx) == context.Canceled {
			return context.Canceled
		}
		return &lineError{code: exitUnavailable, name: "unreachable", detail: "the daemon at " + r.url + " cannot be reached", cause: err,
			remedy: "is it running? start it with effectonce serve, or name it with --server"}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, remoteAnswerBytesMax))
	if err != nil {
		return &lineError{code: exitUnavailable, name: "unreachable", detail: "the daemon's answer broke off", cause: err, remedy: "try again"}
	}
	if response.StatusCode >= 300 {
		return refusal(r.url, response.StatusCode, text)
	}
	if err := json.Unmarshal(text, receive); err != nil {
		return notDaemon(r.url, response.StatusCode)
	}
	return nil
}

// refusal is the daemon's problem document as the error that it describes.
func refusal(url string, status int, text []byte) error {
	var p api.Problem
	if err := json.Unmarshal(text, &p); err != nil || p.Code == "" {
		return notDaemon(url, status)
	}
	e := &effectonce.Error{Code: effectonce.Code(p.Code), Field: p.Field, Fields: p.Fields, Detail: p.Detail, Remedy: p.Remedy, Sent: effectonce.Sent(p.Sent), Limit: p.Limit}
	// A key or a duration that cannot be read is left out.
	e.Key, _ = effectonce.ParseKey(p.Key)
	e.RetryAfter, _ = time.ParseDuration(p.RetryAfter)
	return e
}

func notDaemon(url string, status int) error {
	return &lineError{code: exitUnavailable, name: "unreachable", detail: fmt.Sprintf("%s answers %d, but not like effectonce", url, status),
		remedy: "name the daemon with --server"}
}
