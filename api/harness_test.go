package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// fixture is a handler over a memory store whose clock the test moves, with tools whose provider counts its effects.
type fixture struct {
	t       testing.TB
	server  *server
	guard   *effectonce.Guard
	store   *memory.Store
	offset  atomic.Int64
	effects atomic.Int64
	looks   atomic.Int64

	mu sync.Mutex
	// behave is what the provider's function does; nil succeeds.
	behave func(ctx context.Context, c effectonce.Call) (any, error)
	found  bool
}

// newFixture makes a fixture. wrap, if not nil, stands between the guard and the memory store.
func newFixture(t testing.TB, wrap func(effectonce.Store) effectonce.Store) *fixture {
	f := &fixture{t: t}
	f.store = memory.Open(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(f.offset.Load())) }})
	var store effectonce.Store = f.store
	if wrap != nil {
		store = wrap(store)
	}
	metrics := NewMetrics()
	store = metrics.Store(store)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	f.guard = effectonce.New(store, effectonce.Options{Logger: log, Owner: "test"})
	f.server = build(Options{Guard: f.guard, Store: store, Tools: f, Logger: log, Metrics: metrics, Version: "1.2.3"})
	return f
}

// later moves the store's clock.
func (f *fixture) later(d time.Duration) { f.offset.Add(int64(d)) }

func (f *fixture) behaves(b func(ctx context.Context, c effectonce.Call) (any, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behave = b
}

func (f *fixture) provider() effectonce.Provider {
	return effectonce.Func(func(ctx context.Context, c effectonce.Call) (any, error) {
		f.effects.Add(1)
		f.mu.Lock()
		b := f.behave
		f.mu.Unlock()
		if b != nil {
			return b(ctx, c)
		}
		return map[string]any{"id": "re_1", "attempt": c.Attempt}, nil
	}).WithLookUp(func(context.Context, effectonce.Call) (any, bool, error) {
		f.looks.Add(1)
		return map[string]any{"id": "re_found"}, f.found, nil
	})
}

// Tool implements Tools.
func (f *fixture) Tool(name string) (Tool, bool) {
	t := testTool{f: f, name: name, class: effectonce.ClassNonIdempotent}
	switch name {
	case "shop.refund": // managed, template
		t.template, t.managed = true, true
	case "shop.note": // managed, the caller gives the intent id
		t.managed = true
	case "shop.read":
		t.template, t.managed, t.class = true, true, effectonce.ClassReadOnly
	case "shop.twin":
		t.template, t.managed, t.twins = true, true, effectonce.TwinReject
	case "shop.held":
		t.template, t.managed, t.approval = true, true, true
	case "crm.keyed": // external, keyed for a day
		t.keyed = true
	case "shop.panic":
		t.panics = true
	case "shop.order", "hotel.book": // compensated by the next two
		t.template, t.managed = true, true
		return undoable{t, map[string]string{"shop.order": "shop.cancel", "hotel.book": "hotel.cancel"}[name]}, true
	case "shop.cancel":
		t.managed = true
	case "hotel.cancel": // external
	case "shop.limited":
		t.template, t.managed, t.max = true, true, 500
	default:
		return nil, false
	}
	return t, true
}

// undoable is a tool whose configuration says how it is undone.
type undoable struct {
	testTool
	by string
}

func (u undoable) Compensation(op effectonce.Operation, _ map[string]string) (string, effectonce.Intent, bool, error) {
	terms := effectonce.DefaultTerms()
	return u.by, effectonce.Intent{Arguments: effectonce.Arguments(map[string]any{"undo": op.IntentID}), Terms: terms}, true, nil
}

type testTool struct {
	f                                          *fixture
	name                                       string
	class                                      effectonce.Class
	twins                                      effectonce.TwinPolicy
	template, managed, keyed, approval, panics bool
	max                                        int64
}

func (t testTool) Intent(args json.RawMessage, meta map[string]string) (effectonce.Intent, error) {
	if t.panics {
		panic("a defect")
	}
	terms := effectonce.DefaultTerms()
	terms.Class, terms.Managed, terms.Approval, terms.Keyed = t.class, t.managed, t.approval, t.keyed
	if t.keyed {
		terms.Retention = 24 * time.Hour
	}
	if t.twins != "" {
		terms.Twins, terms.TwinsWithin = t.twins, time.Hour
	}
	in := effectonce.Intent{Arguments: args, Run: meta["run"], Step: meta["step"], Terms: terms}
	if !t.template {
		return in, nil
	}
	var a struct {
		OrderID string          `json:"order_id"`
		Amount  json.RawMessage `json:"amount"`
	}
	if err := json.Unmarshal(args, &a); err != nil || a.OrderID == "" {
		return in, &effectonce.Error{Code: effectonce.CodeIntentIncomplete, Field: "arguments.order_id", Detail: "is missing", Remedy: "give it"}
	}
	in.ID = "refund:" + a.OrderID
	in.Business = effectonce.Arguments(map[string]any{"amount": a.Amount})
	if t.max > 0 {
		in.Limits = []effectonce.Limit{{Name: "refunds", Amount: 300, Max: t.max}}
	}
	if meta["period"] != "" {
		in.ID += ":" + meta["period"]
		if end, err := time.Parse("2006", meta["period"]); err == nil {
			in.ForgetAt = end.AddDate(1, 0, 0)
		}
	}
	return in, nil
}

func (t testTool) Provider() effectonce.Provider {
	if !t.managed {
		return nil
	}
	return t.f.provider()
}

func (t testTool) Explain(args json.RawMessage, _ map[string]string) (Reading, error) {
	return Reading{Policy: "p1", Template: "refund:{order_id}", Arguments: []Argument{{Name: "order_id", Kind: "identity", Given: json.RawMessage(`"o1"`), Why: "the template names it"}}}, nil
}

// answered is a response. Get reads a field of its body by name.
type answered struct {
	code   int
	header http.Header
	raw    string
	body   map[string]any
}

func (a answered) get(name string) any { return a.body[name] }
func (a answered) key() string         { return fmt.Sprint(a.body["key"]) }
func (a answered) token() int          { n, _ := a.body["token"].(float64); return int(n) }

// send makes a request as a program on this machine would, and checks the answer against the OpenAPI document.
func (f *fixture) send(method, path, body string, change ...func(*http.Request)) answered {
	f.t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:7171"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	a := answered{code: w.Code, header: w.Header(), raw: w.Body.String()}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") || w.Code == http.StatusNoContent && a.raw == "" {
		return a
	}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		f.t.Fatalf("%s %s: the answer is not JSON: %v: %.300s", method, path, err, a.raw)
	}
	if err := f.documented(r, a); err != nil {
		f.t.Errorf("%s %s: %d: %v\n%.600s", method, path, a.code, err, a.raw)
	}
	return a
}

// want checks status and fields: name=value.
func (a answered) want(t testing.TB, code int, fields ...string) answered {
	t.Helper()
	if a.code != code {
		t.Fatalf("status %d, want %d: %s", a.code, code, a.raw)
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		if got := fmt.Sprint(a.body[name]); got != value {
			t.Fatalf("%s is %q, want %q: %s", name, got, value, a.raw)
		}
	}
	return a
}

// documented checks that the status is documented for the path, and the body by its schema.
func (f *fixture) documented(r *http.Request, a answered) error {
	ct := a.header.Get("Content-Type")
	problem := a.code >= 400
	if problem != (ct == problemType) {
		return fmt.Errorf("content type %q", ct)
	}
	schema := f.server.registry.Map()["Problem"]
	if problem {
		for _, name := range []string{"code", "detail", "remedy", "next", "title", "type"} {
			if a.body[name] == "" {
				return fmt.Errorf("%s is empty", name)
			}
		}
	}
	_, pattern := f.server.mux.Handler(r)
	method, path, ok := strings.Cut(pattern, " ")
	if ok && path != "/openapi.json" && a.code != http.StatusForbidden {
		op := operationOf(f.server.spec, method, path)
		if op == nil {
			return errors.New("the path is not documented")
		}
		doc := op.Responses[fmt.Sprint(a.code)]
		if doc == nil {
			return errors.New("the status is not documented")
		}
		m := doc.Content[ct]
		if m == nil {
			return errors.New("the content type is not documented")
		}
		schema = m.Schema
	} else if !problem {
		return nil
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader([]byte(a.raw)))
	if err := d.Decode(&tree); err != nil {
		return err
	}
	var res huma.ValidateResult
	huma.Validate(f.server.registry, schema, huma.NewPathBuffer(nil, 0), huma.ModeReadFromServer, tree, &res)
	return errors.Join(res.Errors...)
}

func operationOf(spec *huma.OpenAPI, method, path string) *huma.Operation {
	item := spec.Paths[path]
	if item == nil {
		return nil
	}
	if method == http.MethodGet {
		return item.Get
	}
	return item.Post
}

// untouched fails the test if anything was stored.
func (f *fixture) untouched() {
	f.t.Helper()
	if n := len(f.store.AllEvents()); n != 0 {
		f.t.Errorf("%d events are stored, want none", n)
	}
	page, err := f.store.List(f.t.Context(), effectonce.Filter{})
	if err != nil || len(page.Operations) != 0 {
		f.t.Errorf("%d operations are stored (%v), want none", len(page.Operations), err)
	}
}
