package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// recorder is the ResponseWriter of a handler. It holds the answer until it is on record. What is flushed, or larger than what is kept,
// streams through to the caller; the end of it is still sent only when the record is there.
//
// A caller that is gone is no error: the handler goes on, and its answer is recorded (S6.6).
type recorder struct {
	w    http.ResponseWriter
	m    *Middleware
	ctx  context.Context
	room *room

	mu     sync.Mutex
	header http.Header
	// status is 0 until the header is written; shown are the headers as they were then.
	status int
	shown  http.Header
	// body is what is kept, of which sent bytes have been sent already. omitted says why there is none although there was a body.
	body    []byte
	sent    int
	omitted string
	bytes   int64
	sum     hash.Hash
	// streaming says that the status has been sent; gone that the caller cannot be written to; over that the handler has returned.
	streaming, gone, over bool
}

func (m *Middleware) recorder(ctx context.Context, w http.ResponseWriter, room *room) *recorder {
	return &recorder{w: w, m: m, ctx: ctx, room: room, header: w.Header().Clone(), sum: sha256.New()}
}

// Header implements http.ResponseWriter.
func (c *recorder) Header() http.Header {
	if c.header == nil {
		c.header = make(http.Header)
	}
	return c.header
}

// WriteHeader implements http.ResponseWriter.
func (c *recorder) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeHeader(status)
}

func (c *recorder) writeHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %d", status))
	}
	switch {
	case c.over || c.status != 0:
		return
	case status == http.StatusSwitchingProtocols:
		panic("an answer that leaves HTTP cannot be recorded")
	case status < 200:
		// Early hints are for the present caller and no part of the answer.
		h := c.w.Header()
		before := h.Clone()
		maps.Copy(h, c.Header().Clone())
		c.w.WriteHeader(status)
		clear(h)
		maps.Copy(h, before)
		return
	}
	c.status = status
	c.shown = c.Header().Clone()
}

// Write implements http.ResponseWriter. Its errors are the handler's own mistakes, never the caller's absence.
func (c *recorder) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return 0, http.ErrHandlerTimeout
	}
	if c.status == 0 {
		c.writeHeader(http.StatusOK)
	}
	if !bodyAllowed(c.status) {
		return 0, http.ErrBodyNotAllowed
	}
	c.bytes += int64(len(p))
	c.sum.Write(p)
	c.keep(p)
	if c.omitted != "" {
		c.toCaller(p)
	} else if c.streaming {
		c.flushKept()
	}
	return len(p), nil
}

// keep holds the bytes, unless they are too many. Then everything goes to the caller, and a tombstone will be recorded.
func (c *recorder) keep(p []byte) {
	if c.omitted != "" {
		return
	}
	switch n := len(c.body) + len(p); {
	case n > c.m.options.ResponseBytesMax:
		c.omitted = omittedTooLarge
	case n > smallBytes && !c.room.large(c.ctx):
		c.omitted = omittedNoRoom
	default:
		c.body = append(c.body, p...)
		return
	}
	c.stream(p)
	c.flushKept()
	c.body, c.sent = nil, 0
}

// stream sends the status and the headers. The length is left out, so that the end of the answer is a sign of its own, which comes with
// the record.
func (c *recorder) stream(next []byte) {
	if c.streaming {
		return
	}
	c.streaming = true
	c.describe(next)
	c.shown.Del("Content-Length")
	c.replaceHeaders()
	c.w.WriteHeader(c.status)
}

// describe adds the content type that net/http would guess, so that it is recorded too.
func (c *recorder) describe(next []byte) {
	if _, ok := c.shown["Content-Type"]; ok || c.shown.Get("Content-Encoding") != "" || !bodyAllowed(c.status) {
		return
	}
	start := slices.Concat(c.body[:min(len(c.body), 512)], next[:min(len(next), 512)])
	if len(start) > 0 {
		c.shown.Set("Content-Type", http.DetectContentType(start))
	}
}

func (c *recorder) replaceHeaders() {
	h := c.w.Header()
	clear(h)
	maps.Copy(h, c.shown)
}

func (c *recorder) flushKept() {
	c.toCaller(c.body[c.sent:])
	c.sent = len(c.body)
}

func (c *recorder) toCaller(p []byte) {
	if c.gone || len(p) == 0 {
		return
	}
	if _, err := c.w.Write(p); err != nil {
		c.gone = true
	}
}

// Flush implements http.Flusher.
func (c *recorder) Flush() { _ = c.FlushError() }

// FlushError is for http.ResponseController: what was written so far is sent.
func (c *recorder) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return http.ErrHandlerTimeout
	}
	if c.status == 0 {
		c.writeHeader(http.StatusOK)
	}
	c.stream(nil)
	c.flushKept()
	if c.gone {
		return nil
	}
	err := http.NewResponseController(c.w).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		// What is around this middleware does not flush. The caller is still there.
		return err
	}
	c.gone = err != nil
	return nil
}

// SetReadDeadline, SetWriteDeadline and EnableFullDuplex are for http.ResponseController. There is no Hijack: an answer that leaves HTTP
// cannot be recorded.
func (c *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetReadDeadline(t)
}

// SetWriteDeadline is for http.ResponseController.
func (c *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// EnableFullDuplex is for http.ResponseController. The request has been read already.
func (c *recorder) EnableFullDuplex() error { return nil }

// finish ends the handler's writing and returns its answer.
func (c *recorder) finish() stored {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == 0 {
		c.writeHeader(http.StatusOK)
	}
	c.over = true
	if !c.streaming {
		c.describe(nil)
	}
	s := stored{Status: c.status, Headers: c.m.replayed(c.shown), Omitted: c.omitted, Bytes: c.bytes, SHA256: hex.EncodeToString(c.sum.Sum(nil))}
	if c.omitted == "" {
		s.body = c.body
	}
	return s
}

// stop ends the handler's writing, whatever it has written.
func (c *recorder) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// deliver sends what has not been sent, after the record.
func (c *recorder) deliver() {
	if !c.streaming {
		if bodyAllowed(c.status) {
			c.shown.Set("Content-Length", strconv.Itoa(len(c.body)))
		}
		if c.shown.Get("Trailer") != "" || c.hasPrefixedTrailer() {
			c.shown.Del("Content-Length")
		}
		c.replaceHeaders()
		c.w.WriteHeader(c.status)
	}
	c.flushKept()
	c.trailers()
}

func (c *recorder) hasPrefixedTrailer() bool {
	for name := range c.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// trailers hands on what the handler set after its header.
func (c *recorder) trailers() {
	h := c.w.Header()
	for name, values := range c.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			h[name] = values
		}
	}
	for _, list := range c.shown.Values("Trailer") {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if v, ok := c.header[name]; ok {
				h[name] = v
			}
		}
	}
}
