package contract

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

func githubIssue(t *testing.T) *Operation {
	t.Helper()
	c, err := Load("github/rest")
	if err != nil {
		t.Fatal(err)
	}
	return c.Operations["issues.create"]
}

var ourMark, otherMark = strings.Repeat("a1", 32), strings.Repeat("b2", 32)

func issueRequest(body string) Request {
	return Request{Method: "POST", Path: "/repos/o/r/issues", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body)}
}

// S7.1, S4: a mark goes to the end of the caller's text, once, and is no business.
func TestMarkIsAppended(t *testing.T) {
	t.Parallel()
	o := githubIssue(t)
	mark := `\n\n\u003c!-- effectonce ` + ourMark + ` --\u003e`
	for given, want := range map[string]string{
		`{"title":"t","body":"it broke"}`: `{"title":"t","body":"it broke` + mark + `"}`,
		`{"title":"t","body":""}`:         `{"title":"t","body":"` + mark + `"}`,
		`{"title":"t","body":null}`:       `{"title":"t","body":"` + mark + `"}`,
		`{"title":"t"}`:                   `{"body":"` + mark + `","title":"t"}`,
		`{"title":"t","body":"it broke\n\n<!-- effectonce ` + otherMark + ` -->"}`: `{"title":"t","body":"it broke` + mark + `"}`,
	} {
		r := issueRequest(given)
		sent, err := o.Inject(r, "", ourMark, time.Unix(1, 0))
		if err != nil || string(sent.Body) != want {
			t.Errorf("%s: %s, %v; want %s", given, sent.Body, err, want)
			continue
		}
		again, err := o.Inject(sent, "", ourMark, time.Unix(1, 0))
		if err != nil || string(again.Body) != want {
			t.Errorf("%s: a second time %s, %v", given, again.Body, err)
		}
		before, err1 := o.Business(r)
		after, err2 := o.Business(sent)
		if err1 != nil || err2 != nil || string(before) != string(after) {
			t.Errorf("%s: business %s, and %s with a mark; %v %v", given, before, after, err1, err2)
		}
	}
	if _, err := o.Inject(issueRequest(`{"title":"t","body":["b"]}`), "", ourMark, time.Unix(1, 0)); err == nil {
		t.Error("a list got a mark")
	}
}

// S7.1, S6.7: only a mark at the end of a text and at the beginning of a line is its own.
func TestMarkIsRead(t *testing.T) {
	t.Parallel()
	o := githubIssue(t)
	ours, others := "<!-- effectonce "+ourMark+" -->", "<!-- effectonce "+otherMark+" -->"
	for text, want := range map[string]string{
		"it broke\n\n" + ours:                 ourMark,
		"it broke\r\n\r\n" + ours + "\r\n":    ourMark,
		ours:                                  ourMark,
		"see\n\n" + others + "\n\n" + ours:    ourMark,
		"see\n\n" + ours + "\n\n" + others:    otherMark,
		"> it broke\n> " + ours:               "",
		"it broke " + ours:                    "",
		"it broke\n\n" + ours + "\nme too":    "",
		"it broke":                            "",
		"":                                    "",
		"x\n<!-- effectonce -->":              "",
		"x\n<!-- effectonce a1 -->":           "",
		"x\n<!-- effectonce " + ourMark[1:]:   "",
		"x\n<!-- effectonce " + ourMark + "z": "",
	} {
		if got := o.Stamp.read(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{"x\n\n" + ours: false, "x\n\n" + others: true, "x": false} {
		body := `{"number":7,"body":` + string(mustJSON(t, text)) + `}`
		if got := o.Foreign(Response{Status: 201, Body: []byte(body)}, ourMark); got != want {
			t.Errorf("%q is foreign: %t", text, got)
		}
	}
}

// S7.1: an issue is found in the list by its mark; where there is none, nothing is concluded.
func TestMarkIsFound(t *testing.T) {
	t.Parallel()
	o := githubIssue(t)
	ours, others := `\n\n<!-- effectonce `+ourMark+` -->`, `\n\n<!-- effectonce `+otherMark+` -->`
	for pages, want := range map[string]effectonce.Found{
		`[{"number":9,"body":null},{"number":8,"body":"x` + others + `"},{"number":7,"body":"x` + ours + `"}]`: effectonce.FoundOne,
		`[{"number":8,"body":"x` + ours + `"},{"number":7,"body":"x` + ours + `"}]`:                            effectonce.FoundMany,
		`[{"number":8,"body":"x` + others + `"}]`:                                                              effectonce.FoundUnavailable,
	} {
		s, err := o.Search(o.LookUp, issueRequest(`{"title":"t","body":"x"}`), Known{Stamp: ourMark})
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range []string{pages, "[]"} {
			r, more := s.Next()
			if !more || r.Path != "/repos/o/r/issues" {
				t.Fatalf("%s: %+v, %t", pages, r, more)
			}
			s.Take(Response{Status: 200, Body: []byte(page)})
		}
		if got := s.Finding(); got.Found != want || want == effectonce.FoundOne && got.Reference != "7" {
			t.Errorf("%s: %+v, want %s", pages, got, want)
		}
	}
}

// A template has no place for a mark, and is called without.
func TestMarkNeedsTheWire(t *testing.T) {
	t.Parallel()
	c, err := Load("github/rest")
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Resolve("issues.create", Settings{})
	if err != nil || o.Stamp.Set() || o.LookUp != nil {
		t.Errorf("%+v, %v", o, err)
	}
	if !c.Operations["issues.create"].Stamp.Set() {
		t.Error("the contract was changed")
	}
}

// S14.5
func TestMarkRefused(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"<!-- {stamp} -->", "\n{stamp}", "\n<!-- -->", "\n<!-- {stamp} {stamp} -->", "\n<!-- {stamp}"} {
		file := strings.Replace(wired, "field: meta.ref, path: meta.ref", `field: meta.ref, path: meta.ref, append: `+string(mustJSON(t, mark)), 1)
		if _, err := Parse("acme.yaml", []byte(file)); err == nil || !strings.Contains(err.Error(), "stamp.append") {
			t.Errorf("%q: %v", mark, err)
		}
	}
	file := strings.Replace(wired, `field: "metadata[effectonce]", path`, `field: "metadata[effectonce]", append: "\n({stamp})", path`, 1)
	if _, err := Parse("acme.yaml", []byte(file)); err == nil {
		t.Error("a form got a mark")
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
