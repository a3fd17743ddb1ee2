package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/contract"
	"github.com/effectonce/effectonce/fault/twin/general"
	"github.com/effectonce/effectonce/provider"
)

// operationStore is a store that has a list of operations, in pages.
type operationStore struct {
	effectonce.Store
	operations []effectonce.Operation
	lists      int
	failing    bool
}

func (s *operationStore) List(_ context.Context, f effectonce.Filter) (effectonce.Page, error) {
	s.lists++
	begin := 0
	if _, err := fmt.Sscan(f.After, &begin); f.After != "" && err != nil {
		return effectonce.Page{}, err
	}
	if s.failing && s.lists > 1 {
		return effectonce.Page{}, errors.New("the store is gone")
	}
	end := min(begin+f.Limit, len(s.operations))
	page := effectonce.Page{Operations: s.operations[begin:end]}
	if end < len(s.operations) {
		page.Next = fmt.Sprint(end)
	}
	return page, nil
}

// The store is read in pages, only as far as there are resources without an operation; one that fails makes no clean sweep. S7.5a
func TestSweepReadsTheStoreAsFarAsItMust(t *testing.T) {
	t.Parallel()
	store := &operationStore{}
	for n := range 3 * effectonce.ListLimitMax {
		store.operations = append(store.operations, effectonce.Operation{Stamp: fmt.Sprintf("%064x", n)})
	}
	o := &contract.Operation{Stamp: contract.Stamp{Place: contract.PlaceBody}}
	nobody := func(effectonce.Operation) bool { return false }
	for _, c := range []struct {
		stamp, lists int
	}{{7, 1}, {effectonce.ListLimitMax + 7, 2}, {1 << 20, 3}} {
		seen := newSwept()
		if err := seen.add(o, contract.Swept{Reference: "r", Stamp: fmt.Sprintf("%064x", c.stamp)}); err != nil {
			t.Fatal(err)
		}
		store.lists = 0
		if _, err := seen.compare(t.Context(), store, nobody); err != nil || store.lists != c.lists {
			t.Errorf("of stamp %d: %d pages, %v", c.stamp, store.lists, err)
		}
	}
	seen := newSwept()
	if err := seen.add(o, contract.Swept{Reference: "r"}); err != nil {
		t.Fatal(err)
	}
	store.lists, store.failing = 0, true
	if _, err := seen.compare(t.Context(), store, nobody); err == nil {
		t.Error("a store that fails was read to its end")
	}
}

// Each resource is compared by its stamp, also by one that is cut, and by what the operation's answer named. S7.5a
func TestSweepComparesByStampAndReference(t *testing.T) {
	t.Parallel()
	stamp := func(n int) string { return fmt.Sprintf("%064x", n) }
	whole := &contract.Operation{Stamp: contract.Stamp{Place: contract.PlaceBody}}
	cut := &contract.Operation{Stamp: contract.Stamp{Place: contract.PlaceBody, LengthMax: 40}}
	mine := func(op effectonce.Operation) bool { return op.Tool == "mine" }
	operations := []effectonce.Operation{
		{Tool: "mine", Stamp: "a" + stamp(1)[1:], State: effectonce.StateSucceeded},
		{Tool: "mine", Stamp: "b" + stamp(2)[1:], State: effectonce.StateFailed},
		{Tool: "mine", Stamp: stamp(3), Reference: "r3", State: effectonce.StateSucceeded},
		{Tool: "other", Stamp: stamp(4), Reference: "r4", State: effectonce.StateSucceeded},
	}
	seen := newSwept()
	for _, one := range []struct {
		of *contract.Operation
		contract.Swept
	}{
		{whole, contract.Swept{Reference: "r1", Stamp: operations[0].Stamp}},
		{whole, contract.Swept{Reference: "r1", Stamp: operations[0].Stamp}},
		{cut, contract.Swept{Reference: "r2", Stamp: operations[1].Stamp[:40]}},
		{whole, contract.Swept{Reference: "r3"}},
		{whole, contract.Swept{Reference: "r4", Stamp: "order-7"}},
		{whole, contract.Swept{Reference: "r5", Stamp: strings.Repeat("f", 64)}},
	} {
		if err := seen.add(one.of, one.Swept); err != nil {
			t.Fatal(err)
		}
	}
	if seen.count() != 5 {
		t.Errorf("%d resources: one that comes twice is one", seen.count())
	}
	for _, op := range operations {
		seen.match(op, mine)
	}
	got := map[string]string{}
	for _, f := range seen.findings() {
		got[strings.Join(f.References, ",")] = f.Kind
	}
	want := map[string]string{"r2": sweepNotFailed, "r4": sweepUnstamped, "r5": sweepNoOperation}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// Exit codes: 0 clean, 6 it found something, 7 unreadable, whatever was found. S7.5a
func TestSweepExitCodes(t *testing.T) {
	t.Parallel()
	finding := []sweepFound{{Kind: sweepUnstamped, References: []string{"r1\x1b[31m"}}}
	for _, c := range []struct {
		report sweepReport
		want   int
	}{
		{sweepReport{}, 0},
		{sweepReport{Found: finding}, 6},
		{sweepReport{Unreadable: "page 2 was answered 503"}, 7},
		{sweepReport{Unreadable: "page 2 was answered 503", Found: finding}, 7},
	} {
		for _, asJSON := range []bool{false, true} {
			var out bytes.Buffer
			err := c.report.show(&terminal{out: &out, json: asJSON})
			code := 0
			var r *reported
			if errors.As(err, &r) {
				code = r.exit
			} else if err != nil {
				t.Fatal(err)
			}
			if code != c.want {
				t.Errorf("%+v ends with %d, want %d", c.report, code, c.want)
			}
			if asJSON && !json.Valid(out.Bytes()) || strings.Contains(out.String(), "\x1b") {
				t.Errorf("it says %q", out.String())
			}
		}
	}
}

// Square's payments: a cut stamp, a page at a time, in the period alone; and a contract whose list pages by cursor. S7.5a
func TestSweepReadsAPeriodToItsEnd(t *testing.T) {
	t.Parallel()
	c, err := contract.Load("square")
	if err != nil {
		t.Fatal(err)
	}
	behaviour := general.Builtin()["square"]
	behaviour.Page = 3
	server, err := general.New(general.Config{Contract: c, Behaviour: behaviour})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	web := httptest.NewServer(server)
	defer web.Close()
	add := func(stamp string, count int) {
		t.Helper()
		body := json.RawMessage(`{"source_id": "cnon:ok", "amount_money": {"amount": 1, "currency": "USD"}}`)
		if _, err := server.Add(general.Resource{Operation: "payments.create", Body: body, Stamp: stamp, Count: count}); err != nil {
			t.Fatal(err)
		}
	}
	add("", 2)
	if err := server.Advance(10 * 24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	stamp := strings.Repeat("c", 64)
	add(stamp, 1)
	add("", 6)

	since := server.Now().Add(-time.Hour)
	raw, err := provider.NewRaw(provider.RawOptions{Contract: c, BaseURL: web.URL})
	if err != nil {
		t.Fatal(err)
	}
	reader := sweepReader{raw: raw, client: web.Client()}
	o := c.Operations["payments.create"]
	sweep := func() (seen *swept, pages int, err error) {
		sweeper, err := o.Sweeping(since, map[string]string{"location": "L1"})
		if err != nil {
			t.Fatal(err)
		}
		seen = newSwept()
		err = reader.read(t.Context(), sweeper, func(one contract.Swept) error { return seen.add(o, one) })
		return seen, sweeper.Pages(), err
	}
	seen, pages, err := sweep()
	if err != nil || pages != 3 || seen.count() != 7 {
		t.Fatalf("%d pages, %d resources, %v", pages, seen.count(), err)
	}
	if seen.match(effectonce.Operation{Stamp: stamp, State: effectonce.StateSucceeded}, func(effectonce.Operation) bool { return false }) != 1 || len(seen.findings()) != 6 {
		t.Errorf("findings: %+v", seen.findings())
	}
	for _, plan := range []string{"lookup#2 instead status=500", "lookup#2-9 instead drop", "lookup#2 after-effect cut", "lookup#2 after-effect garble"} {
		faults, err := general.ParsePlan(c, plan)
		if err != nil {
			t.Fatal(err)
		}
		server.SetFaults(faults)
		if _, _, err := sweep(); err == nil {
			t.Errorf("%s: the sweep is called readable", plan)
		}
	}
	if _, err := o.Sweeping(since, nil); err == nil || !strings.Contains(err.Error(), "location") {
		t.Errorf("without a location: %v", err)
	}
}
