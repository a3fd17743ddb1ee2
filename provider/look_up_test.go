package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
)

func refund(id, stamp string) string {
	return fmt.Sprintf(`{"id":%q,"amount":48000,"metadata":{"effectonce":%q}}`, id, stamp)
}

func page(more bool, items ...string) string {
	return fmt.Sprintf(`{"object":"list","data":[%s],"has_more":%t}`, strings.Join(items, ","), more)
}

// S7.1, C10, C18: one, many, absent and unavailable.
func TestLookUp(t *testing.T) {
	t.Parallel()
	other := refund("re_9", "another-operation")
	ours := refund("re_1", testStamp)
	for _, tt := range []struct {
		name string
		// pages by the value of starting_after; "" is the first.
		pages     map[string]string
		reference string
		want      effectonce.Found
		found     string
	}{
		{"nothing", map[string]string{"": page(false)}, "", effectonce.FoundAbsent, ""},
		{"ours", map[string]string{"": page(false, other, ours)}, "", effectonce.FoundOne, "re_1"},
		{"ours on the last page", map[string]string{"": page(true, other), "re_9": page(true, refund("re_8", "x")), "re_8": page(false, ours)}, "", effectonce.FoundOne, "re_1"},
		{"absent on page one is not absent", map[string]string{"": page(true, other)}, "", effectonce.FoundUnavailable, ""},
		{"an equal amount is not identity", map[string]string{"": page(false, other)}, "", effectonce.FoundAbsent, ""},
		{"two of ours", map[string]string{"": page(true, ours), "re_1": page(false, refund("re_2", testStamp))}, "", effectonce.FoundMany, ""},
		{"ours seen on two pages", map[string]string{"": page(true, ours, other), "re_9": page(false, ours)}, "", effectonce.FoundOne, "re_1"},
		{"ours by reference", map[string]string{"": page(false, `{"id":"re_5","metadata":{}}`)}, "re_5", effectonce.FoundOne, "re_5"},
		{"our reference with another stamp", map[string]string{"": page(false, other)}, "re_9", effectonce.FoundAbsent, ""},
		{"a list that loops", map[string]string{"": page(true, other), "re_9": page(true, other)}, "", effectonce.FoundUnavailable, ""},
		{"more, and nothing shown", map[string]string{"": page(true)}, "", effectonce.FoundUnavailable, ""},
		{"more is not said", map[string]string{"": `{"data":[]}`}, "", effectonce.FoundUnavailable, ""},
		{"more is a text", map[string]string{"": `{"data":[],"has_more":"false"}`}, "", effectonce.FoundUnavailable, ""},
		{"no list", map[string]string{"": `{"has_more":false}`}, "", effectonce.FoundUnavailable, ""},
		{"null for a list", map[string]string{"": `{"data":null,"has_more":false}`}, "", effectonce.FoundUnavailable, ""},
		{"an object for a list", map[string]string{"": `{"data":{},"has_more":false}`}, "", effectonce.FoundUnavailable, ""},
		{"garbled", map[string]string{"": `{"data":[`}, "", effectonce.FoundUnavailable, ""},
		{"empty", map[string]string{"": ""}, "", effectonce.FoundUnavailable, ""},
		{"an item without an id", map[string]string{"": page(false, `{"metadata":{}}`)}, "", effectonce.FoundUnavailable, ""},
		{"a page that is too large", map[string]string{"": page(false, `{"id":"`+strings.Repeat("x", pageBytesMax)+`"}`)}, "", effectonce.FoundUnavailable, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, seen := serve(t, func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				if r.Method != http.MethodGet || q.Get("payment_intent") != "pi_1" || q.Get("limit") != "100" || q.Has("charge") || r.Header.Get("Authorization") == "" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				body, ok := tt.pages[q.Get("starting_after")]
				if !ok {
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = w.Write([]byte(body))
			})
			h := newHTTP(t, stripeOptions(t, server.URL))
			call := aCall(t, h, refundArgs)
			call.Reference = tt.reference
			f := h.LookUp(t.Context(), call)
			if f.Found != tt.want || f.Reference != tt.found || f.Detail == "" {
				t.Errorf("got %+v", f)
			}
			if f.Found == effectonce.FoundOne && !json.Valid(f.Result) {
				t.Errorf("result %s", f.Result)
			}
			if n := seen.count(); n < len(tt.pages) && tt.want != effectonce.FoundUnavailable {
				t.Errorf("%d of %d pages read", n, len(tt.pages))
			}
		})
	}
}

// S7.1: a failed look-up is never absent.
func TestLookUpOutage(t *testing.T) {
	t.Parallel()
	for _, status := range []int{201, 204, 301, 302, 400, 401, 403, 404, 410, 429, 500, 502, 503} {
		server, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			if status != http.StatusNoContent {
				_, _ = w.Write([]byte(page(false)))
			}
		})
		h := newHTTP(t, stripeOptions(t, server.URL))
		if f := h.LookUp(t.Context(), aCall(t, h, refundArgs)); f.Found != effectonce.FoundUnavailable {
			t.Errorf("status %d: %+v", status, f)
		}
	}
	h := newHTTP(t, stripeOptions(t, "http://"+closedAddress(t)))
	call := aCall(t, h, refundArgs)
	if f := h.LookUp(t.Context(), call); f.Found != effectonce.FoundUnavailable || strings.Contains(f.Detail, testSecret) {
		t.Errorf("refused: %+v", f)
	}
	call.Request = nil
	if f := h.LookUp(t.Context(), call); f.Found != effectonce.FoundUnavailable {
		t.Errorf("without a request: %+v", f)
	}
	// S3.10: in another scope a look-up concludes nothing.
	server, _ := serve(t, answerWith(200, page(false)))
	elsewhere := newHTTP(t, stripeOptions(t, server.URL))
	if f := elsewhere.LookUp(t.Context(), aCall(t, h, refundArgs)); f.Found != effectonce.FoundUnavailable {
		t.Errorf("another scope: %+v", f)
	}
}

func TestLookUpWithoutEnd(t *testing.T) {
	t.Parallel()
	n := 0
	server, seen := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		_, _ = w.Write([]byte(page(true, refund("re_"+strconv.Itoa(n), "x"))))
	})
	h := newHTTP(t, stripeOptions(t, server.URL))
	if f := h.LookUp(t.Context(), aCall(t, h, refundArgs)); f.Found != effectonce.FoundUnavailable || seen.count() != lookUpPagesMax {
		t.Errorf("%+v after %d pages", f, seen.count())
	}
}

// The other kinds of paging.
func TestLookUpKinds(t *testing.T) {
	t.Parallel()
	zero, one := 0, 1
	ours := `{"id":1,"meta":{"ref":"` + testStamp + `"}}`
	other := `{"id":2,"meta":{"ref":"x"}}`
	for _, tt := range []struct {
		name   string
		paging contract.Paging
		items  contract.Path
		pages  map[string]string // by the value of p
		want   effectonce.Found
	}{
		{"one page", contract.Paging{Kind: contract.PagingNone}, "items", map[string]string{"": `{"items":[` + other + `]}`}, effectonce.FoundAbsent},
		{"a bare list", contract.Paging{Kind: contract.PagingNone}, "", map[string]string{"": `[` + ours + `]`}, effectonce.FoundOne},
		{"one page that has more", contract.Paging{Kind: contract.PagingNone, More: "more"}, "items", map[string]string{"": `{"items":[],"more":true}`}, effectonce.FoundUnavailable},
		{"a cursor to the end", contract.Paging{Kind: contract.PagingCursor, Parameter: "p", Next: "next"}, "items", map[string]string{"": `{"items":[` + other + `],"next":"a b"}`, "a b": `{"items":[` + ours + `],"next":null}`}, effectonce.FoundOne},
		{"a cursor nobody can read", contract.Paging{Kind: contract.PagingCursor, Parameter: "p", Next: "next"}, "items", map[string]string{"": `{"items":[],"next":{"a":1}}`}, effectonce.FoundUnavailable},
		{"a cursor that loops", contract.Paging{Kind: contract.PagingCursor, Parameter: "p", Next: "next"}, "items", map[string]string{"": `{"items":[],"next":"a"}`, "a": `{"items":[],"next":"a"}`}, effectonce.FoundUnavailable},
		{"numbered pages from one", contract.Paging{Kind: contract.PagingPage, Parameter: "p", First: &one}, "items", map[string]string{"1": `{"items":[` + other + `]}`, "2": `{"items":[` + ours + `]}`, "3": `{"items":[]}`}, effectonce.FoundOne},
		{"numbered pages from zero", contract.Paging{Kind: contract.PagingPage, Parameter: "p", First: &zero}, "items", map[string]string{"0": `{"items":[` + other + `]}`, "1": `{"items":[]}`}, effectonce.FoundAbsent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
				body, ok := tt.pages[r.URL.Query().Get("p")]
				if !ok {
					w.WriteHeader(http.StatusNotFound)
				}
				_, _ = w.Write([]byte(body))
			})
			o := keyedOptions(t, server.URL)
			o.Settings.LookUp.Paging, o.Settings.LookUp.Items = tt.paging, tt.items
			h := newHTTP(t, o)
			f := h.LookUp(t.Context(), aCall(t, h, `{"order_id":"o1","amount":{"minor":1,"currency":"EUR"}}`))
			if f.Found != tt.want {
				t.Errorf("%+v", f)
			}
		})
	}
}
