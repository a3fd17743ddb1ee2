package twin

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ids of the objects in a list, with what their metadata calls n.
func (g got) list() (ns []string, more bool) {
	data, _ := g.object["data"].([]any)
	ns = []string{}
	for _, d := range data {
		object := d.(map[string]any)
		if nested, ok := object["data"].(map[string]any); ok {
			object = nested["object"].(map[string]any)
		}
		ns = append(ns, object["metadata"].(map[string]any)["n"].(string))
	}
	more, _ = g.object["has_more"].(bool)
	return ns, more
}

// fill makes n refunds of pi_1, numbered from 1 in their metadata, and one of pi_2.
func (tw twinUnderTest) fill(n int) {
	tw.t.Helper()
	for i := 1; i <= n; i++ {
		tw.send(tw.t.Context(), "POST", "/v1/refunds", fmt.Sprintf("k%d", i),
			fmt.Sprintf("payment_intent=pi_1&amount=1&metadata[n]=%d&metadata[odd]=%d", i, i%2)).want(tw.t, 200, "")
	}
	tw.send(tw.t.Context(), "POST", "/v1/refunds", "k-other", "payment_intent=pi_2&amount=1&metadata[n]=other").want(tw.t, 200, "")
}

func TestListPages(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.fill(12)
	first := tw.get("/v1/refunds?payment_intent=pi_1")
	ns, more := first.list()
	if diff := cmp.Diff([]string{"12", "11", "10", "9", "8", "7", "6", "5", "4", "3"}, ns); diff != "" || !more {
		t.Errorf("first page, has_more %v (-want +got):\n%s", more, diff)
	}
	data := first.object["data"].([]any)
	last := data[len(data)-1].(map[string]any)["id"].(string)
	ns, more = tw.get("/v1/refunds?payment_intent=pi_1&starting_after=" + last).list()
	if diff := cmp.Diff([]string{"2", "1"}, ns); diff != "" || more {
		t.Errorf("second page, has_more %v (-want +got):\n%s", more, diff)
	}
	ns, _ = tw.get("/v1/refunds?charge=ch_2&limit=100").list()
	if diff := cmp.Diff([]string{"other"}, ns); diff != "" {
		t.Errorf("by charge (-want +got):\n%s", diff)
	}
	ns, more = tw.get("/v1/refunds?limit=1").list()
	if diff := cmp.Diff([]string{"other"}, ns); diff != "" || !more {
		t.Errorf("all, limit 1, has_more %v (-want +got):\n%s", more, diff)
	}
	for query, code := range map[string]string{
		"limit=0": "parameter_invalid_integer", "limit=101": "parameter_invalid_integer", "limit=x": "parameter_invalid_integer",
		"starting_after=re_nobody": "resource_missing", "payment_intent=order": "resource_missing",
		"metadata[n]=1": "parameter_unknown", "created=yesterday": "parameter_invalid_integer",
	} {
		tw.get("/v1/refunds?"+query).want(t, 400, code)
	}
}

func TestListByCreation(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	tw := startTwin(t, Config{Now: func() time.Time { return now }})
	tw.fill(1)
	if err := tw.Control.Advance(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	tw.send(t.Context(), "POST", "/v1/refunds", "later", "payment_intent=pi_1&amount=1&metadata[n]=later").want(t, 200, "")
	for query, want := range map[string][]string{
		"created[gt]=1000000":                      {"later"},
		"created[gte]=1000000":                     {"later", "other", "1"},
		"created[lt]=1000060":                      {"other", "1"},
		"created[lte]=1000060&created[gt]=1000000": {"later"},
		"created=1000060":                          {"later"},
	} {
		ns, _ := tw.get("/v1/refunds?" + query).list()
		if diff := cmp.Diff(want, ns); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestGetOne(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	made := tw.refund("k1")
	one := tw.get("/v1/refunds/" + made.id())
	one.want(t, 200, "")
	if one.body != made.body {
		t.Errorf("the refund reads otherwise than it was answered:\n%s\n%s", one.body, made.body)
	}
	tw.get("/v1/refunds/re_nobody").want(t, 404, "resource_missing")
}

func TestSearchLags(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	tw := startTwin(t, Config{Now: func() time.Time { return now }})
	tw.fill(5)
	search := func(clause, more string) got {
		return tw.get("/v1/refunds/search?query=" + url.QueryEscape(clause) + more)
	}
	if ns, _ := search("metadata['odd']:'1'", "").list(); len(ns) != 0 {
		t.Errorf("found within the index lag: %v", ns) // S16.15
	}
	if ns, _ := tw.get("/v1/refunds?payment_intent=pi_1").list(); len(ns) != 5 {
		t.Errorf("the list lags too: %v", ns)
	}
	if err := tw.Control.Advance(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	first := search(`metadata["odd"]:"1"`, "&limit=2")
	ns, more := first.list()
	next, _ := first.object["next_page"].(string)
	if diff := cmp.Diff([]string{"5", "3"}, ns); diff != "" || !more || next == "" || first.object["object"] != "search_result" {
		t.Errorf("first page, has_more %v, next_page %q (-want +got):\n%s", more, next, diff)
	}
	second := search("metadata['odd']:'1'", "&limit=2&page="+next)
	ns, more = second.list()
	if diff := cmp.Diff([]string{"1"}, ns); diff != "" || more || second.object["next_page"] != nil {
		t.Errorf("second page, has_more %v (-want +got):\n%s", more, diff)
	}
	if ns, _ := search(`metadata['n']:'it\'s'`, "").list(); len(ns) != 0 {
		t.Errorf("found %v", ns)
	}
	search("amount>100", "").want(t, 400, "invalid_request_error")
	search("metadata['n']:'1'", "&starting_after=re_1").want(t, 400, "parameter_unknown")
}

func TestLookupLag(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	tw := startTwin(t, Config{
		Now:   func() time.Time { return now },
		Rules: Rules{Kind: LookupOnly, LookupLag: time.Second},
	})
	made := tw.refund("")
	tw.get("/v1/refunds/"+made.id()).want(t, 404, "resource_missing")
	if err := tw.Control.Advance(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	tw.get("/v1/refunds/"+made.id()).want(t, 200, "")
}

func TestEventsNameTheKey(t *testing.T) {
	t.Parallel()
	tw := startTwin(t, Config{})
	tw.fill(2)
	events := tw.get("/v1/events?type=refund.created&limit=2")
	ns, more := events.list()
	if diff := cmp.Diff([]string{"other", "2"}, ns); diff != "" || !more {
		t.Errorf("events, has_more %v (-want +got):\n%s", more, diff)
	}
	second := events.object["data"].([]any)[1].(map[string]any)
	if key := second["request"].(map[string]any)["idempotency_key"]; key != "k2" {
		t.Errorf("idempotency_key is %v, want k2", key)
	}
	ns, more = tw.get("/v1/events?starting_after=" + second["id"].(string)).list()
	if diff := cmp.Diff([]string{"1"}, ns); diff != "" || more {
		t.Errorf("the rest, has_more %v (-want +got):\n%s", more, diff)
	}
	if ns, _ := tw.get("/v1/events?type=charge.refunded").list(); len(ns) != 0 {
		t.Errorf("events of another type: %v", ns)
	}
	if err := tw.Control.Advance(t.Context(), 30*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if ns, _ := tw.get("/v1/events").list(); len(ns) != 0 {
		t.Errorf("events older than 30 days: %v", ns)
	}
}
