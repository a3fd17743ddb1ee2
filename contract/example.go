package contract

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/effectonce/effectonce"
)

func (r *reader) example(at string, f fileExample) Example {
	e := Example{
		Name: f.Name, Resend: f.Resend, Want: effectonce.Verdict(f.Want),
		Authoritative: f.Authoritative, StoredError: f.StoredError, Reference: f.Reference,
	}
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

// checkExamples runs the examples against the rules, so that a contract whose author expected something else is refused.
func checkExamples(p *problems, at string, o *Operation) {
	for i, e := range o.Examples {
		got := o.Classify(e.Response, e.Resend)
		want := fmt.Sprintf("%s, authoritative %t, stored_error %t, reference %q", e.Want, e.Authoritative, e.StoredError, e.Reference)
		have := fmt.Sprintf("%s, authoritative %t, stored_error %t, reference %q", got.Verdict, got.Authoritative, got.StoredError, got.Reference)
		if want != have {
			p.add(fmt.Sprintf("%s.examples[%d]", at, i), fmt.Sprintf("%q is classified as %s, and %s is expected", e.Name, have, want), "correct the verdicts or the example")
		}
	}
}
