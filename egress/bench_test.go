package egress_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/memory"
)

// benchUpstream answers refunds and lists at once.
func benchUpstream(b *testing.B) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"object":"list","data":[],"has_more":false}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		values, _ := url.ParseQuery(string(body))
		fmt.Fprintf(w, `{"id":"re_1","object":"refund","metadata":{"effectonce":%q}}`, values.Get("metadata[effectonce]"))
	}))
	b.Cleanup(s.Close)
	return s
}

// compare sends pairs of requests in turn, so that both have the same machine, and reports their medians.
func compare(b *testing.B, direct, through func(n int) *http.Request, between func(n int)) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	one := func(r *http.Request) time.Duration {
		began := time.Now()
		response, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != 200 {
			b.Fatalf("%d %s (%v)", response.StatusCode, body, err)
		}
		return time.Since(began)
	}
	var a, z, s []time.Duration
	n := 0
	for b.Loop() {
		a = append(a, one(direct(n)))
		z = append(z, one(through(n)))
		if between != nil {
			began := time.Now()
			between(n)
			s = append(s, time.Since(began))
		}
		n++
	}
	median := func(d []time.Duration) float64 {
		if len(d) == 0 {
			return 0
		}
		slices.Sort(d)
		return float64(d[len(d)/2].Microseconds())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(a), "direct-µs")
	b.ReportMetric(median(z), "proxy-µs")
	if between != nil {
		b.ReportMetric(median(s), "store-µs")
	}
	b.ReportMetric(median(z)-median(a)-median(s), "more-µs")
}

// BenchmarkRead compares a read through the proxy with the direct one.
func BenchmarkRead(b *testing.B) {
	u := benchUpstream(b)
	w := newWorldOn(b, noStore{}, u.URL)
	get := func(base string) func(int) *http.Request {
		return func(int) *http.Request { return request(b, "GET", base+"/v1/refunds?limit=3", "") }
	}
	compare(b, get(u.URL), get(w.base), nil)
}

// BenchmarkWrite compares a guarded write with the direct one and the store's two round trips alone.
func BenchmarkWrite(b *testing.B) {
	for name, open := range map[string]func() effectonce.Store{
		"memory": func() effectonce.Store { return memory.Open(memory.Options{}) },
		"sqlite": func() effectonce.Store { return openSQLite(b) },
	} {
		b.Run(name, func(b *testing.B) {
			u := benchUpstream(b)
			w := newWorldOn(b, open(), u.URL)
			guard := effectonce.New(open(), effectonce.Options{Logger: quiet()})
			post := func(base string) func(int) *http.Request {
				return func(n int) *http.Request {
					return request(b, "POST", base+"/v1/refunds", fmt.Sprintf("payment_intent=pi_%d&amount=480", n), "Content-Type=application/x-www-form-urlencoded", fmt.Sprintf("Effectonce-Intent=refund:%d", n))
				}
			}
			// Of the size of what a route stores.
			nothing := effectonce.Func(func(context.Context, effectonce.Call) (any, error) { return strings.Repeat("r", 400), nil })
			arguments, frozen := effectonce.Arguments(map[string]string{"a": strings.Repeat("a", 300)}), []byte(strings.Repeat("f", 900))
			compare(b, post(u.URL), post(w.base), func(n int) {
				if _, err := guard.Do(context.Background(), effectonce.Intent{Tool: "t", ID: fmt.Sprint(n), Arguments: arguments, Request: frozen}, nothing); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
