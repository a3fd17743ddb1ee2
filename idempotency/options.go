package idempotency

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/textproto"
	"slices"
	"time"

	"github.com/effectonce/effectonce"
)

// Options configure a [Middleware]. The zero value works; its tenant is [effectonce.DefaultTenant], for a server with one.
type Options struct {
	// Name is the tool that requests are operations of. Empty: the pattern of the http.ServeMux that the handler is registered under, with
	// its method, else "http". One key is one operation per tool.
	Name string
	// Tenant says whose request it is. It is part of the operation's key, so that two tenants never share one; a request for which
	// it returns "" is refused. Nil: all are of the default tenant.
	Tenant func(r *http.Request) string
	// Actor names who asks, for the audit and for Access.
	Actor func(r *http.Request) string
	// Access is asked before anything about an operation that another request made is told (S5.12, S15.2); an error refuses with 403. It is
	// asked besides the guard's own Access. It costs a read of the store per request.
	Access func(r *http.Request, op effectonce.Operation) error

	// Methods are those that are guarded; nil means POST and PATCH. Requests with others pass through.
	Methods []string
	// Optional lets requests without a key pass through, unguarded. By default they are refused with 400.
	Optional bool
	// KeyBytesMax bounds a client's key; 0 means 255, and at most effectonce.IdentifierBytesMax.
	KeyBytesMax int
	// Headers are request headers that are part of what is asked, besides method, path, query, content type and body: the same key with
	// another value of them is refused.
	Headers []string
	// ReplayHeaders are the response headers that are stored and replayed; nil means [DefaultReplayHeaders].
	ReplayHeaders []string
	// ReplayMember, if set, is the name of a member that a replayed JSON object gets with the value true, for models that see the body only
	// (S7.10). Bodies are then not the same bytes.
	ReplayMember string

	// RequestBytesMax bounds a request's body; 0 means 1 MiB. Larger ones are refused with 413.
	RequestBytesMax int
	// ResponseBytesMax bounds the body of an answer that is kept; 0 means 1 MiB. A larger one reaches its caller, and a repeat is answered
	// with 410 and its digest: see the package's documentation.
	ResponseBytesMax int
	// LargeMax is how many requests may hold bodies of more than 32 KiB in memory at a time; 0 means 64. More of them wait for five seconds,
	// and are refused with 503 (requests) or not kept (answers).
	LargeMax int

	// Wait is how long a duplicate waits for the outcome of a request that is under way; 0: it is answered with 409 at once.
	Wait time.Duration
	// Terms are the rules of the operations; what is zero takes its default: CallTimeout 30s bounds the handler, whoever waits for it;
	// Heartbeat 15s is how soon a dead process is noticed; Results is how long answers are kept, 0 for ever; Attempts 100 and
	// Backoff 100ms pace what [NotSent] lets run again. Class, Keyed and Managed are set here.
	Terms effectonce.Terms
	// LookUp, if set, says what became of a request whose end is not known. Terms.Lag says how far behind it may be.
	LookUp func(ctx context.Context, q Query) (a Answer, found bool, err error)

	// Begin, if set, runs handlers in a transaction of the caller's on the store's database; see [Tx].
	Begin func(ctx context.Context) (Transaction, error)

	// Docs is the address of the page that documents the use of keys. Problems point to it, and a Link header does.
	Docs string
	// Logger gets what has no caller to tell it to; nil means slog.Default. It is never given bodies, keys or headers.
	Logger *slog.Logger
}

// Query is what a look-up is asked about.
type Query struct {
	// Key is the client's key; Request the repeat that asks, with its body read already.
	Key     string
	Request *http.Request
	// Call has the operation's stamp and downstream key, as the handler had them: see [Call].
	Call effectonce.Call
}

// Answer is what a handler answered, or would have.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// DefaultReplayHeaders returns the response headers that are stored and replayed by default: those that describe the answer. Cookies,
// challenges, dates and what concerns the connection are not among them.
func DefaultReplayHeaders() []string {
	return []string{
		"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Type",
		"Etag", "Last-Modified", "Link", "Location", "Vary",
	}
}

// Middleware guards handlers. It is safe for concurrent use, and any number of handlers may share one.
type Middleware struct {
	guard   *effectonce.Guard
	options Options
	slots   slots
	turns   turns
}

// New makes middleware over a guard. The error is an [effectonce.ErrInvalid] that names the option at fault.
func New(guard *effectonce.Guard, o Options) (*Middleware, error) {
	if guard == nil {
		return nil, invalidOption("guard", "is missing")
	}
	if o.Methods == nil {
		o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if o.ReplayHeaders == nil {
		o.ReplayHeaders = DefaultReplayHeaders()
	}
	o.Headers, o.ReplayHeaders = canonicalNames(o.Headers), canonicalNames(o.ReplayHeaders)
	for _, f := range []struct {
		name string
		v    *int
		by   int
	}{
		{"key_bytes_max", &o.KeyBytesMax, 255}, {"request_bytes_max", &o.RequestBytesMax, 1 << 20},
		{"response_bytes_max", &o.ResponseBytesMax, 1 << 20}, {"large_max", &o.LargeMax, 64},
	} {
		if *f.v < 0 {
			return nil, invalidOption(f.name, "is negative")
		}
		if *f.v == 0 {
			*f.v = f.by
		}
	}
	if o.KeyBytesMax > effectonce.IdentifierBytesMax {
		return nil, invalidOption("key_bytes_max", "is larger than what an intent id can have")
	}
	if o.Begin != nil && o.LookUp != nil {
		return nil, invalidOption("look_up", "has nothing to do: in a transaction no end is unknown")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	var err error
	if o.Terms, err = terms(o); err != nil {
		return nil, err
	}
	return &Middleware{guard: guard, options: o, slots: make(slots, o.LargeMax)}, nil
}

func terms(o Options) (effectonce.Terms, error) {
	t := o.Terms
	// Nothing remembers the key of a handler, and only the client has the request: a keyed or managed one would run again by itself.
	if t.Policy != "" || t.Keyed || t.Forever || t.Managed || t.Class != "" && t.Class != effectonce.ClassNonIdempotent {
		return t, invalidOption("terms", "names a policy, a class, a key or managed execution, which a handler does not have")
	}
	if t.Attempts == 0 {
		t.Attempts = 100
	}
	if t.Backoff == 0 {
		t.Backoff = 100 * time.Millisecond
	}
	t.LookUp = o.LookUp != nil
	t = t.WithDefaults()
	if t.Heartbeat == 0 && t.LeaseCap() > 15*time.Second {
		t.Heartbeat = 15 * time.Second
	}
	return t, t.Check()
}

func canonicalNames(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = textproto.CanonicalMIMEHeaderKey(n)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func invalidOption(name, detail string) error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "options." + name, Detail: detail}
}

// errBusy says that there is no room for another large body.
var errBusy = errors.New("too many large bodies at once")
