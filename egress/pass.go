package egress

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// How long nothing may move on a connection while a body is streamed, and how long a provider may take for the head of an answer to a request
// that passes.
const (
	idleMax   = time.Minute
	headerMax = 5 * time.Minute
)

// passing is the transport for requests that pass: bytes are not touched, and nothing is sent twice.
func passing(rt http.RoundTripper) http.RoundTripper {
	base, ok := rt.(*http.Transport)
	if rt == nil {
		base, ok = http.DefaultTransport.(*http.Transport), true
	}
	if !ok {
		return once{rt}
	}
	t := base.Clone()
	t.DisableCompression = true
	t.ResponseHeaderTimeout = headerMax
	t.MaxIdleConnsPerHost = 64
	t.MaxResponseHeaderBytes = 64 << 10
	return once{t}
}

// once sends what may have an effect in a form that net/http does not repeat: it repeats a request with an idempotency key and without a body on
// a reused connection that breaks.
type once struct{ http.RoundTripper }

func (t once) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		if r.Body == nil || r.Body == http.NoBody {
			r.Body = io.NopCloser(strings.NewReader(""))
			r.ContentLength = 0
		}
		r.GetBody = nil
	}
	return t.RoundTripper.RoundTrip(r)
}

// outgoing makes what is sent of a request that passes, in out, which is a copy of it.
func (r *Route) outgoing(out *http.Request, in *incoming) error {
	target, err := r.raw.Target(in.Path, in.Query)
	if err != nil {
		return invalid("path", err.Error(), "send it as the provider's documentation shows it")
	}
	out.URL, out.Host = target, target.Host
	out.RequestURI = ""
	for name := range out.Header {
		if strings.HasPrefix(name, "Effectonce-") {
			out.Header.Del(name)
		}
	}
	if err := r.raw.Authenticate(out.Context(), out, in.Body); err != nil {
		return &effectonce.Error{Code: effectonce.CodeInternal, Detail: "the credential cannot be used", Cause: err}
	}
	return nil
}

// signs reports whether requests are signed, so that a body has to be known before it is sent.
func (r *Route) signs() bool { return r.raw.Contract().Signed.Kind != "" }

// pass sends a request on as it is and streams the answer back.
func (r *Route) pass(w http.ResponseWriter, request *http.Request, in *incoming) {
	if in.rest != nil && r.signs() {
		r.refuse(w, &effectonce.Error{Code: effectonce.CodeTooLarge, Field: "body", Detail: "the body is too large to be signed again", Remedy: "send a reference to what is large"})
		return
	}
	clone := request.Clone(request.Context())
	control := http.NewResponseController(w)
	switch {
	case in.rest != nil:
		clone.Body, clone.ContentLength = steadyBody{io.NopCloser(in.rest), control}, in.length
	case len(in.Body) > 0:
		clone.Body, clone.ContentLength = io.NopCloser(strings.NewReader(string(in.Body))), int64(len(in.Body))
		clone.TransferEncoding = nil
	default:
		clone.Body, clone.ContentLength = http.NoBody, 0
	}
	if in.rest == nil {
		// Nothing more is read: the server's time-out for the request must not end the answer.
		_ = control.SetReadDeadline(time.Time{})
	}
	var refused error
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			refused = r.outgoing(p.Out, in)
			p.Out.Trailer = request.Trailer
		},
		ModifyResponse: func(response *http.Response) error {
			for name := range response.Header {
				if strings.HasPrefix(name, "Effectonce-") || name == "Alt-Svc" {
					response.Header.Del(name)
				}
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { r.refuse(w, upstream(err)) },
	}
	proxy.Transport = checked{r.passing, &refused}
	proxy.ServeHTTP(steadyWriter{w, control}, clone)
}

// checked does not send what could not be rewritten.
type checked struct {
	http.RoundTripper
	refused *error
}

func (t checked) RoundTrip(r *http.Request) (*http.Response, error) {
	if *t.refused != nil {
		return nil, *t.refused
	}
	return t.RoundTripper.RoundTrip(r)
}

// unreachable is a provider that gave no answer to a request that passed.
type unreachable struct {
	timeout bool
	cause   error
}

func (e *unreachable) Error() string { return "the provider gave no answer" }
func (e *unreachable) Unwrap() error { return e.cause }

func upstream(err error) error {
	var known *effectonce.Error
	var body *http.MaxBytesError
	if errors.As(err, &known) || errors.As(err, &body) {
		return err
	}
	var timeout net.Error
	return &unreachable{timeout: errors.As(err, &timeout) && timeout.Timeout(), cause: err}
}

// steadyBody and steadyWriter give a connection time as long as something moves on it.
type steadyBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b steadyBody) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(idleMax)) // a connection without deadlines has none to give
	return b.ReadCloser.Read(p)
}

type steadyWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w steadyWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(idleMax))
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w steadyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
