package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/api"
	"github.com/effectonce/effectonce/client"
	"github.com/effectonce/effectonce/store/memory"
)

// daemon is the API over a memory store whose clock the test moves.
type daemon struct {
	client  *client.Client
	offset  atomic.Int64
	effects atomic.Int64
	mu      sync.Mutex
	err     error
}

func start(t *testing.T) *daemon {
	d := &daemon{}
	store := memory.Open(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(d.offset.Load())) }})
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	server := httptest.NewServer(api.New(api.Options{Guard: effectonce.New(store, effectonce.Options{Logger: log}), Store: store, Tools: d, Logger: log}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.Options{Actor: "agent-7"})
	if err != nil {
		t.Fatal(err)
	}
	d.client = c
	return d
}

// Tool has one managed tool, whose intent id the caller gives.
func (d *daemon) Tool(name string) (api.Tool, bool) { return tool{d}, name == "shop.refund" }

type tool struct{ d *daemon }

func (t tool) Intent(args json.RawMessage, meta map[string]string) (effectonce.Intent, error) {
	return effectonce.Intent{Arguments: args}, nil
}

func (t tool) Explain(json.RawMessage, map[string]string) (api.Reading, error) {
	return api.Reading{Policy: "p1", Arguments: []api.Argument{{Name: "amount", Kind: "material", Why: "it is compared"}}}, nil
}

func (t tool) Provider() effectonce.Provider {
	return effectonce.Func(func(context.Context, effectonce.Call) (map[string]string, error) {
		t.d.effects.Add(1)
		t.d.mu.Lock()
		defer t.d.mu.Unlock()
		return map[string]string{"id": "re_1"}, t.d.err
	})
}

func (d *daemon) fails(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

var managed = client.Intent{Tool: "shop.refund", Run: "r1", ID: "refund:o1", Arguments: json.RawMessage(`{"amount":480}`)}

var external = client.Intent{Tool: "crm.refund", Run: "r1", Step: "s1", ID: "refund:o1", Arguments: json.RawMessage(`{"amount":480}`)}

func TestDo(t *testing.T) {
	t.Parallel()
	d := start(t)
	first, err := d.client.Do(t.Context(), managed, client.WaitFor(time.Second))
	if err != nil || first.Outcome != effectonce.OutcomeSucceeded || first.Replayed || first.Next != effectonce.AdviceUseResult {
		t.Fatalf("%+v, %v", first, err)
	}
	var result struct{ ID string }
	if err := first.Decode(&result); err != nil || result.ID != "re_1" {
		t.Errorf("result %+v, %v", result, err)
	}
	again, err := d.client.Do(t.Context(), managed)
	if err != nil || !again.Replayed || again.Operation.Key != first.Operation.Key || d.effects.Load() != 1 {
		t.Errorf("%+v, %v, %d effects", again, err, d.effects.Load())
	}
	op, err := d.client.Get(t.Context(), first.Operation.Key)
	if err != nil || op.Operation.Actor != "agent-7" || op.Operation.Run != "r1" || op.Operation.Proof != effectonce.ProofAnswer || op.Operation.Fingerprint.IsZero() ||
		string(op.Operation.Arguments) != `{"amount":480}` || op.Operation.CreatedAt.IsZero() || !op.Operation.Terms.Managed {
		t.Errorf("%+v, %v", op.Operation, err)
	}
	events, err := d.client.Events(t.Context(), first.Operation.Key)
	if err != nil || len(events) != 2 || events[0].Kind != effectonce.EventRecorded || events[0].Key != first.Operation.Key || events[1].Verdict != effectonce.VerdictSucceeded {
		t.Errorf("%+v, %v", events, err)
	}
	next := managed
	next.ID = "refund:o2"
	recorded, err := d.client.Do(t.Context(), next, client.RecordOnly())
	if !errors.Is(err, effectonce.ErrPending) || recorded.Operation.Attempt != 0 {
		t.Errorf("%+v, %v", recorded, err)
	}
}

// The errors are the library's, over the wire.
func TestErrorsAreTheLibrarys(t *testing.T) {
	t.Parallel()
	d := start(t)
	ctx := t.Context()
	must := func(want error, err error) *effectonce.Error {
		t.Helper()
		var e *effectonce.Error
		if !errors.Is(err, want) || !errors.As(err, &e) {
			t.Fatalf("%v, want %v", err, want)
		}
		return e
	}
	claim, err := d.client.Claim(ctx, external)
	if err != nil || claim.Do != effectonce.TaskExecute || claim.Token != 1 || claim.SendWithin != 30*time.Second || claim.LeaseFor != time.Minute || claim.DownstreamKey == "" || claim.Stamp == "" {
		t.Fatalf("%+v, %v", claim, err)
	}
	key := claim.Operation.Key

	loser, err := d.client.Claim(ctx, external)
	if e := must(effectonce.ErrConflict, err); e.RetryAfter <= 0 || e.Key != key || loser.Operation.State != effectonce.StateInProgress {
		t.Errorf("%+v, %+v", e, loser)
	}
	other := external
	other.Arguments = json.RawMessage(`{"amount":450}`)
	_, err = d.client.Claim(ctx, other)
	if e := must(effectonce.ErrPayloadMismatch, err); !slices.Equal(e.Fields, []string{"amount"}) || e.Remedy == "" {
		t.Errorf("%+v", e)
	}
	stale, err := d.client.Unknown(ctx, key, 9, effectonce.Failure{Code: "timeout"})
	if must(effectonce.ErrStaleToken, err); stale.Operation.Key != key {
		t.Errorf("%+v", stale)
	}
	_, err = d.client.Heartbeat(ctx, key, 9)
	must(effectonce.ErrStaleToken, err)
	_, err = d.client.Get(ctx, effectonce.Key{1})
	must(effectonce.ErrNotFound, err)
	_, err = d.client.Claim(ctx, client.Intent{Tool: "x"})
	if e := must(effectonce.ErrIntentIncomplete, err); e.Field != "intent_id" {
		t.Errorf("%+v", e)
	}
	_, err = d.client.Claim(ctx, client.Intent{Tool: "x", ID: "i", Arguments: json.RawMessage(`{"a":1e400}`)})
	must(effectonce.ErrNotCanonical, err)
	_, err = d.client.Claim(ctx, client.Intent{Tool: "x", ID: "i", Arguments: json.RawMessage(`{"a":`)})
	must(effectonce.ErrInvalid, err)
	_, err = d.client.Do(ctx, client.Intent{Tool: "nobody's", ID: "i"})
	must(&effectonce.Error{Code: effectonce.CodeUnknownTool}, err)
	_, _, err = d.client.List(ctx, effectonce.Filter{Limit: 5000})
	must(effectonce.ErrInvalid, err)

	d.fails(effectonce.Rejected(errors.New("card declined"), true))
	failed, err := d.client.Do(ctx, managed)
	if e := must(effectonce.ErrFailed, err); !strings.Contains(e.Detail, "card declined") || failed.Next != effectonce.AdviceNewIntent || failed.Operation.Failure == nil {
		t.Errorf("%+v, %+v", e, failed)
	}
	d.fails(errors.New("timeout"))
	next := managed
	next.Supersedes = &effectonce.Supersede{Key: failed.Operation.Key, Reason: "another card"}
	unknown, err := d.client.Do(ctx, next)
	if must(effectonce.ErrUnknownOutcome, err); unknown.RetryAfter <= 0 || unknown.Operation.Supersedes != failed.Operation.Key {
		t.Errorf("%+v", unknown)
	}
}

func TestClaimTakeOverAndResolve(t *testing.T) {
	t.Parallel()
	d := start(t)
	ctx := t.Context()
	in := external
	in.Timeout, in.Lease = time.Minute, 10*time.Second
	claim, err := d.client.Claim(ctx, in)
	if err != nil || claim.LeaseFor != 10*time.Second || claim.SendWithin != time.Minute {
		t.Fatalf("%+v, %v", claim, err)
	}
	key := claim.Operation.Key
	if left, err := d.client.Heartbeat(ctx, key, claim.Token); err != nil || left != 10*time.Second {
		t.Errorf("%v, %v", left, err)
	}
	d.offset.Add(int64(time.Hour))
	claim, err = d.client.Claim(ctx, in)
	if err != nil || claim.Do != effectonce.TaskLookUp || claim.LastAttempt != 1 {
		t.Fatalf("%+v, %v", claim, err)
	}
	claim, err = d.client.LookedUp(ctx, key, claim.Token, effectonce.Finding{Found: effectonce.FoundAbsent, Detail: "1 page"})
	if err != nil || claim.Do != effectonce.TaskReview || claim.Outcome.Outcome != effectonce.OutcomeInReview {
		t.Fatalf("%+v, %v", claim, err)
	}
	version := claim.Operation.Version
	_, err = d.client.Resolve(ctx, key, effectonce.Resolved{Version: version - 1, Resolution: effectonce.ResolveAbandoned, Person: "mara", Reason: "x"})
	if !errors.Is(err, effectonce.ErrStaleVersion) {
		t.Errorf("%v, want a stale version", err)
	}
	o, err := d.client.Resolve(ctx, key, effectonce.Resolved{Version: version, Resolution: effectonce.ResolveConfirmed, Person: "mara", Reason: "seen", Reference: "re_9"})
	if err != nil || o.Operation.Reference != "re_9" || o.Outcome != effectonce.OutcomeSucceeded {
		t.Errorf("%+v, %v", o, err)
	}
	page, next, err := d.client.List(ctx, effectonce.Filter{Tool: "crm.refund", States: []effectonce.State{effectonce.StateSucceeded, effectonce.StateReview}, Run: "r1", IntentID: "refund:o1", Text: "re_9", Limit: 1})
	if err != nil || len(page) != 1 || page[0].Operation.Key != key || next != "" {
		t.Errorf("%+v, %q, %v", page, next, err)
	}
}

func TestEndsOfAClaim(t *testing.T) {
	t.Parallel()
	failure := effectonce.Failure{Code: "card_declined", Message: "no", Status: 402}
	for name, tt := range map[string]struct {
		report func(*client.Client, context.Context, effectonce.Key) (effectonce.Outcome, error)
		want   effectonce.Status
	}{
		"complete": {func(c *client.Client, ctx context.Context, k effectonce.Key) (effectonce.Outcome, error) {
			return c.Complete(ctx, k, 1, json.RawMessage(`{"id":12345678901234567890}`), "re_1")
		}, effectonce.OutcomeSucceeded},
		"reject": {func(c *client.Client, ctx context.Context, k effectonce.Key) (effectonce.Outcome, error) {
			return c.Reject(ctx, k, 1, failure, true)
		}, effectonce.OutcomeFailed},
		"unknown": {func(c *client.Client, ctx context.Context, k effectonce.Key) (effectonce.Outcome, error) {
			return c.Unknown(ctx, k, 1, failure)
		}, effectonce.OutcomeUnknown},
		"not sent": {func(c *client.Client, ctx context.Context, k effectonce.Key) (effectonce.Outcome, error) {
			return c.NotSent(ctx, k, 1, effectonce.Failure{}, false, 0)
		}, effectonce.OutcomePending},
		"throttled": {func(c *client.Client, ctx context.Context, k effectonce.Key) (effectonce.Outcome, error) {
			return c.NotSent(ctx, k, 1, failure, true, time.Second)
		}, effectonce.OutcomePending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			claim, err := d.client.Claim(t.Context(), external)
			if err != nil {
				t.Fatal(err)
			}
			o, err := tt.report(d.client, t.Context(), claim.Operation.Key)
			if err != nil || o.Outcome != tt.want {
				t.Fatalf("%+v, %v", o, err)
			}
			if name == "complete" && string(o.Operation.Result) != `{"id":12345678901234567890}` {
				t.Errorf("the result is %s", o.Operation.Result)
			}
			if got, err := d.client.Wait(t.Context(), claim.Operation.Key, time.Millisecond); err != nil || got.Outcome != tt.want {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	d := start(t)
	e, err := d.client.Explain(t.Context(), external)
	if err != nil || e.IntentID != "refund:o1" || len(e.Arguments) != 1 || e.Arguments[0].Kind != "material" || e.Key.IsZero() {
		t.Fatalf("%+v, %v", e, err)
	}
	if _, err := d.client.Get(t.Context(), e.Key); !errors.Is(err, effectonce.ErrNotFound) {
		t.Errorf("%v: something is stored", err)
	}
	if e, err = d.client.Explain(t.Context(), managed); err != nil || e.Policy != "p1" || !e.Managed {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + l.Addr().String()
	l.Close()
	c, err := client.New(address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Do(t.Context(), managed)
	var e *effectonce.Error
	if !errors.As(err, &e) || e.Code != effectonce.CodeStoreUnavailable || e.Sent != effectonce.SentNo || !strings.Contains(err.Error(), "is the daemon running?") || !strings.Contains(err.Error(), "effectonce serve") {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "127.0.0.1:7171", "ftp://x", "http://", "http://x?y=1", "://"} {
		if _, err := client.New(bad, client.Options{}); !errors.Is(err, effectonce.ErrInvalid) {
			t.Errorf("%q: %v, want invalid", bad, err)
		}
	}
}

// A connection that breaks without an answer is reported, and the request not sent again.
func TestBrokenConnectionIsNotResent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 1 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
			return
		}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	c, err := client.New(server.URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// The second request goes out on the first one's connection, where the http package is most inclined to repeat.
	_, _ = c.Complete(t.Context(), effectonce.Key{1}, 1, nil, "re_1")
	_, err = c.Do(t.Context(), managed)
	var e *effectonce.Error
	if !errors.As(err, &e) || e.Code != effectonce.CodeStoreUnavailable || e.Sent != effectonce.SentUnknown {
		t.Errorf("%v", err)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

func TestSomethingElseAnswers(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"a web page":    func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"a redirect":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"a bad gateway": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		"broken JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{")
		},
		"a strange problem": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"title":"x"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(h)
			defer server.Close()
			c, err := client.New(server.URL, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Do(t.Context(), managed); effectonce.CodeOf(err) != effectonce.CodeInternal || !strings.Contains(err.Error(), "check the address") {
				t.Errorf("%v", err)
			}
		})
	}
}
