package contract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/effectonce/effectonce"
)

func (r *reader) example(at string, f fileExample) Example {
	e := Example{
		Name: f.Name, Resend: f.Resend,
		Authoritative: f.Authoritative, StoredError: f.StoredError, Reference: f.Reference,
	}
	e.Want, e.Means = meaning(f.Want, f.Proves)
	e.Status, e.Header = f.Status, http.Header{}
	for name, value := range f.Header {
		e.Header.Set(name, value)
	}
	switch {
	case f.Text != nil:
		e.Body = []byte(*f.Text)
	case f.Body != nil:
		body, err := json.Marshal(f.Body)
		if err != nil {
			r.problems.add(at+".body", "is not JSON", "write it as JSON would have it")
		}
		e.Body = body
	}
	return e
}

// Run classifies the example's answer and says what is wanted and what it is.
func (e Example) Run(o *Operation) (want, have string, ok bool) {
	got := o.Classify(e.Response, e.Resend)
	describe := func(verdict effectonce.Verdict, means Means, authoritative, stored bool, reference string) string {
		s := string(verdict)
		if means != "" {
			s += " (" + string(means) + ")"
		}
		return fmt.Sprintf("%s, authoritative %t, stored_error %t, reference %q", s, authoritative, stored, reference)
	}
	want = describe(e.Want, e.Means, e.Authoritative, e.StoredError, e.Reference)
	have = describe(got.Verdict, meansOf(got), got.Authoritative, got.StoredError, got.Reference)
	return want, have, want == have
}

// meansOf finds what an end means beyond its verdict.
func meansOf(end effectonce.End) Means {
	switch m := Means(end.Failure.Code); {
	case m == MeansElsewhere, m == MeansExpired, m == MeansMismatch:
		return m
	case end.Omitted == OmittedNamed:
		return MeansElsewhere
	}
	return ""
}

func (r *reader) request(at string, f fileRequest) RequestExample {
	e := RequestExample{Name: f.Name, Want: f.Want}
	e.Method, e.Path, e.Query, e.Header = f.Method, f.Path, f.Query, http.Header{}
	for name, value := range f.Header {
		e.Header.Set(name, value)
	}
	switch {
	case f.Text != nil:
		e.Body = []byte(*f.Text)
	case f.Body != nil:
		body, err := json.Marshal(f.Body)
		if err != nil {
			r.problems.add(at+".body", "is not JSON", "write it as JSON would have it")
		}
		e.Body = body
		if e.Header.Get("Content-Type") == "" {
			e.Header.Set("Content-Type", "application/json")
		}
	}
	return e
}

// Run matches the request and says what it is: an operation's name, read, or unknown. Of an operation that sends a key it tries whether the key
// gets in, and whether the request is the same business afterwards.
func (e RequestExample) Run(c *Contract) (is string, err error) {
	o, ok := c.Match(e.Request)
	switch {
	case !ok:
		return "unknown", nil
	case o.Effect == EffectRead && o.Name == "":
		return "read", nil
	case o.Effect == EffectRead || len(o.injected()) == 0:
		return o.Name, nil
	}
	before, err := o.Business(e.Request)
	if err != nil {
		return o.Name, err
	}
	key := effectonce.DownstreamKey([]byte("example"), effectonce.Key{1}, 1, o.Key.Form)
	sent, err := o.Inject(e.Request, key, effectonce.StampOf([]byte("example"), effectonce.Key{1}), time.Unix(1, 0))
	if err != nil {
		return o.Name, err
	}
	after, err := o.Business(sent)
	if err != nil {
		return o.Name, err
	}
	if got, _ := o.ClientKey(sent); o.Key.Place != "" && o.Key.Place != PlaceMailHeader && got != key {
		return o.Name, fmt.Errorf("the key %s was set, and %q is what the request has", key, got)
	}
	if string(before) != string(after) {
		return o.Name, fmt.Errorf("with a key the request is other business: %s, and %s without", after, before)
	}
	return o.Name, nil
}

func (c *Contract) checkRequests(p *problems) {
	for i, e := range c.Requests {
		at := fmt.Sprintf("requests[%d]", i)
		is, err := e.Run(c)
		if err != nil {
			p.add(at, fmt.Sprintf("%q: %s: %v", e.Name, is, err), "correct the operation or the example")
		}
		if is != e.Want {
			p.add(at+".want", fmt.Sprintf("%q is matched with %s, and %s is expected", e.Name, is, e.Want), "correct the operation or the example; read is a request without effect, unknown a write that nobody described")
		}
	}
}

// checkExamples runs the examples against the rules, so that a contract whose author expected something else is refused.
func checkExamples(p *problems, at string, o *Operation) {
	for i, e := range o.Examples {
		if want, have, ok := e.Run(o); !ok {
			p.add(fmt.Sprintf("%s.examples[%d]", at, i), fmt.Sprintf("%q is classified as %s, and %s is expected", e.Name, have, want), "correct the verdicts or the example")
		}
	}
}
