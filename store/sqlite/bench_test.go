package sqlite

import (
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
)

// BenchmarkClaimRecord measures a claim and the record of its success (a pair), each answered after its commit, at 1 and at 64
// callers, and in the same run the same SQL statements issued raw on a connection of their own: one pair at a time, and 64 rows
// per transaction. of-raw is the ratio. By default it runs on few stored operations; EFFECTONCE_BENCH_ROWS=10000,1000000 asks
// for more, which shows that cost does not grow with them (S17).
func BenchmarkClaimRecord(b *testing.B) {
	rows := []int{10_000}
	if s := os.Getenv("EFFECTONCE_BENCH_ROWS"); s != "" {
		rows = nil
		for f := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(f)
			if err != nil {
				b.Fatalf("EFFECTONCE_BENCH_ROWS: %v", err)
			}
			rows = append(rows, n)
		}
	}
	for _, n := range rows {
		stocked := filepath.Join(b.TempDir(), "stocked.db")
		stock(b, stocked, n)
		for _, callers := range []int{1, 64} {
			b.Run(fmt.Sprintf("rows=%d/callers=%d", n, callers), func(b *testing.B) {
				claimRecord(b, stocked, callers)
			})
		}
	}
}

// claimRecord alternates rounds through the store and rounds of raw statements, each on a copy of the stocked file.
func claimRecord(b *testing.B, stocked string, callers int) {
	dir := b.TempDir()
	copyFile(b, stocked, filepath.Join(dir, "store.db"))
	copyFile(b, stocked, filepath.Join(dir, "raw.db"))
	s, err := Open(b.Context(), filepath.Join(dir, "store.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	raw := openRaw(b, filepath.Join(dir, "raw.db"), s)
	defer func() { _ = raw.c.close() }()

	perRound := 128 * callers
	var seq atomic.Int64
	seq.Store(1 << 32) // none of the stocked keys
	round := func() (store, plain time.Duration, latencies []time.Duration) {
		at := time.Now()
		latencies = pairs(b, s, callers, perRound, &seq)
		store = time.Since(at)
		at = time.Now()
		for done := 0; done < perRound; done += callers {
			raw.pairs(b, callers, &seq)
		}
		return store, time.Since(at), latencies
	}
	round() // caches, statements
	var stores, raws time.Duration
	var all []time.Duration
	n := 0
	for b.Loop() {
		store, plain, latencies := round()
		stores, raws = stores+store, raws+plain
		all = append(all, latencies...)
		n += perRound
	}
	slices.Sort(all)
	b.ReportMetric(float64(n)/stores.Seconds(), "pairs/s")
	b.ReportMetric(float64(n)/raws.Seconds(), "raw-pairs/s")
	b.ReportMetric(raws.Seconds()/stores.Seconds(), "of-raw")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

func benchOperation(n int64) effectonce.Operation {
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n))
	return effectonce.Operation{
		Key: effectonce.Key(sha256.Sum256(seed[:])), Tenant: "default", Tool: "stripe.refund", Scope: effectonce.ScopeBusiness,
		IntentID: "refund:order-8812:ticket-" + strconv.FormatInt(n, 10), Actor: "agent-1", Stamp: "0123456789abcdef0123456789abcdef",
		DownstreamKey: "7f9c24e8-3b12-4fef-91f3-1a2b3c4d5e6f", Fingerprint: sha256.Sum256(seed[:4]),
		Business:     []byte(`{"amount":48000,"currency":"EUR","order_id":"ORDER-8812","payment_intent":"pi_3MtwBwLkdIwHu7ix28a3tqPa"}`),
		RequestScope: "https://api.stripe.com", Terms: effectonce.DefaultTerms(),
	}
}

func benchClaim(n int64) effectonce.Transition {
	op := benchOperation(n)
	op.Arguments, op.Request = op.Business, op.Business
	t, err := effectonce.Next(effectonce.Operation{}, effectonce.Recorded{Operation: op, Claim: true, Owner: "worker-1"}, time.Now())
	if err != nil {
		panic(err)
	}
	return t
}

func benchRecord(op effectonce.Operation) effectonce.Transition {
	t, err := effectonce.Next(op, effectonce.AttemptEnded{Token: op.Token, End: effectonce.End{
		Verdict: effectonce.VerdictSucceeded, Reference: "re_3MtwBwLkdIwHu7ix28a3tqPa", Result: []byte(`{"id":"re_3MtwBwLkdIwHu7ix28a3tqPa","status":"succeeded"}`)}}, time.Now())
	if err != nil {
		panic(err)
	}
	return t
}

// pairs runs pairs through the store and returns how long each write took.
func pairs(b *testing.B, s *Store, callers, total int, seq *atomic.Int64) []time.Duration {
	var wg sync.WaitGroup
	latencies := make([][]time.Duration, callers)
	for c := range callers {
		wg.Go(func() {
			for range total / callers {
				t := benchClaim(seq.Add(1))
				at := time.Now()
				op, created, err := s.Create(b.Context(), t)
				if err != nil || !created {
					b.Errorf("created %v, %v", created, err)
					return
				}
				latencies[c] = append(latencies[c], time.Since(at))
				t = benchRecord(op)
				at = time.Now()
				if _, err := s.Apply(b.Context(), t); err != nil {
					b.Error(err)
					return
				}
				latencies[c] = append(latencies[c], time.Since(at))
			}
		})
	}
	wg.Wait()
	return slices.Concat(latencies...)
}

// raw issues the store's statements in plain loops, with values made beforehand but for the keys.
type raw struct {
	c              *conn
	terms          int64
	claimed, ended effectonce.Transition
}

func openRaw(b *testing.B, path string, s *Store) *raw {
	b.Helper()
	c, err := dial(b.Context(), path, s.writerPragmas()...)
	if err != nil {
		b.Fatal(err)
	}
	return &raw{c: c, terms: 1, claimed: benchClaim(0), ended: benchRecord(benchClaim(0).Stamp(time.Now()).To)}
}

func (r *raw) must(b *testing.B, query string, args ...driver.Value) {
	b.Helper()
	if _, err := r.c.exec(query, args...); err != nil {
		b.Fatal(err)
	}
}

func (r *raw) pairs(b *testing.B, n int, seq *atomic.Int64) {
	first := seq.Add(int64(n)) - int64(n)
	s := &batch{querier: r.c}
	keys := make([]effectonce.Key, n)
	for i := range keys {
		keys[i] = benchOperation(first + int64(i)).Key
	}
	insert, err := lifeValues(&r.claimed.To)
	if err != nil {
		b.Fatal(err)
	}
	identity, err := identityValues(&r.claimed.To, r.terms)
	if err != nil {
		b.Fatal(err)
	}
	insert = append(insert, identity...)
	keyAt := len(insert) - identityCount
	update, err := lifeValues(&r.ended.To)
	if err != nil {
		b.Fatal(err)
	}
	update = append(update, nil, int64(1))

	r.must(b, "BEGIN IMMEDIATE")
	if _, err := highMark(r.c); err != nil {
		b.Fatal(err)
	}
	for i := range keys {
		insert[keyAt] = keys[i][:]
		res, err := r.c.exec(insertOperation, insert...)
		if err != nil {
			b.Fatal(err)
		}
		id, _ := res.LastInsertId()
		if err := s.event(id, &r.claimed.Event); err != nil {
			b.Fatal(err)
		}
	}
	r.must(b, "UPDATE clock SET high = ?", time.Now().UnixMicro())
	r.must(b, "COMMIT")

	r.must(b, "BEGIN IMMEDIATE")
	if _, err := highMark(r.c); err != nil {
		b.Fatal(err)
	}
	for i := range keys {
		t := r.ended
		t.From.Key, t.From.DueAt = keys[i], r.claimed.To.DueAt
		id, err := s.fenced(t)
		if err != nil {
			b.Fatal(err)
		}
		update[len(update)-2] = id
		if _, err := r.c.exec(updateOperation, update...); err != nil {
			b.Fatal(err)
		}
		if err := s.event(id, &r.ended.Event); err != nil {
			b.Fatal(err)
		}
	}
	r.must(b, "UPDATE clock SET high = ?", time.Now().UnixMicro())
	r.must(b, "COMMIT")
}

// stock makes a store with n settled operations that look like the benchmark's own.
func stock(b *testing.B, path string, n int) {
	b.Helper()
	s, err := Open(b.Context(), path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	var seq atomic.Int64
	pairs(b, s, 1, 1, &seq)
	c := s.w.c
	for _, q := range []string{"PRAGMA synchronous = OFF", "PRAGMA cache_size = -400000", "PRAGMA wal_autocheckpoint = 100000"} {
		if err := c.once(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
	columns := identityColumns + ", " + lifeColumns
	const chunk = 50_000
	for done := 1; done < n; done += chunk {
		rows := min(chunk, n-done)
		for _, q := range []string{
			"BEGIN IMMEDIATE",
			fmt.Sprintf(`INSERT INTO operations (%s) SELECT randomblob(32), %s FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n), operations WHERE id = 1`,
				columns, columns[len("key, "):], rows),
			fmt.Sprintf(`INSERT INTO events SELECT NULL, o.id, e.seq, e.at, e.kind, e.from_state, e.to_state, e.token, e.attempt, e.epoch, e.sends, e.risk, e.line, e.actor, e.verdict, e.found, e.resolution, e.reference, e.reason
				FROM operations o, events e WHERE o.id > %d AND e.operation = 1 ORDER BY o.id, e.seq`, done),
			"COMMIT",
		} {
			if err := c.once(b.Context(), q); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func copyFile(b *testing.B, from, to string) {
	b.Helper()
	src, err := os.Open(from)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	dst, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		b.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		b.Fatal(err)
	}
}
