package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// BenchmarkClaimRecord measures a claim and the record of its success (a pair), each answered after its durable commit, against
// pgbench issuing the store's own two statements, one pair per transaction script, in turns on one server. of-pgbench is the
// ratio to pgbench with as many clients, of-best that to pgbench's best in this run. Each iteration is one turn of each.
//
//	go test ./store/postgres -run '^$' -bench ClaimRecord -benchtime 3x -timeout 0
//
// EFFECTONCE_BENCH_ROWS=10000,1000000 asks for other numbers of stored operations than 10,000.
func BenchmarkClaimRecord(b *testing.B) {
	pgtest.NeedCluster(b)
	for _, rows := range benchRows(b) {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			cluster := pgtest.Start(b)
			url := cluster.Database(b)
			stock(b, url, rows)
			run := &benchRun{cluster: cluster, url: url}
			run.seq.Store(1 << 40) // none of the stocked keys
			for _, callers := range []int{8, 1, 32, 64} {
				b.Run(fmt.Sprintf("callers=%d/unbatched", callers), func(b *testing.B) { run.compare(b, callers, false) })
			}
			for _, callers := range []int{1, 8, 32, 64, 256} {
				b.Run(fmt.Sprintf("callers=%d/batched", callers), func(b *testing.B) { run.compare(b, callers, true) })
			}
		})
	}
}

func benchRows(b *testing.B) []int {
	asked := os.Getenv("EFFECTONCE_BENCH_ROWS")
	if asked == "" {
		return []int{10_000}
	}
	var rows []int
	for f := range strings.SplitSeq(asked, ",") {
		n, err := strconv.Atoi(f)
		if err != nil {
			b.Fatalf("EFFECTONCE_BENCH_ROWS: %v", err)
		}
		rows = append(rows, n)
	}
	return rows
}

// benchTurn is how long a turn takes.
const benchTurn = 2 * time.Second

type benchRun struct {
	cluster *pgtest.Cluster
	url     string
	seq     atomic.Int64
	best    float64
}

func (r *benchRun) compare(b *testing.B, callers int, batched bool) {
	s := opened(b, r.url, Options{Connections: 16})
	if !batched {
		s.creates = newBatcher(s.createBatch, 1, 16)
		s.applies = newBatcher(s.applyBatch, 1, 16)
	}
	script := r.script(b, s)
	r.turn(b, s, callers, 200*time.Millisecond) // connections, statements, caches
	var pairs, theirs, wal float64
	var latencies []time.Duration
	n := 0
	for b.Loop() {
		// pgbench has one connection per client; more than 64 of them only slow it down.
		theirs += r.pgbench(b, script, min(callers, 64))
		before := r.wal(b)
		rate, l := r.turn(b, s, callers, benchTurn)
		wal += (r.wal(b) - before) / float64(len(l)/2)
		pairs += rate
		latencies = append(latencies, l...)
		n++
	}
	pairs, theirs, wal = pairs/float64(n), theirs/float64(n), wal/float64(n)
	r.best = max(r.best, theirs)
	slices.Sort(latencies)
	b.ReportMetric(pairs, "pairs/s")
	b.ReportMetric(theirs, "pgbench-pairs/s")
	b.ReportMetric(pairs/theirs, "of-pgbench")
	b.ReportMetric(pairs/r.best, "of-best")
	b.ReportMetric(wal, "WAL-B/pair")
	b.ReportMetric(float64(latencies[len(latencies)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(latencies[len(latencies)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(0, "ns/op")
}

// turn runs pairs for d and returns how many there were in a second, and how long each write took.
func (r *benchRun) turn(b *testing.B, s *Store, callers int, d time.Duration) (rate float64, all []time.Duration) {
	latencies := make([][]time.Duration, callers)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range callers {
		wg.Go(func() {
			for time.Since(began) < d {
				at := time.Now()
				op, created, err := s.Create(b.Context(), benchClaim(r.seq.Add(1)))
				if err != nil || !created {
					b.Errorf("created %v, %v", created, err)
					return
				}
				between := time.Now()
				if _, err := s.Apply(b.Context(), benchRecord(op)); err != nil {
					b.Error(err)
					return
				}
				latencies[i] = append(latencies[i], between.Sub(at), time.Since(between))
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	all = slices.Concat(latencies...)
	return float64(len(all)/2) / took.Seconds(), all
}

func (r *benchRun) wal(b *testing.B) float64 {
	return number(b, r.url, "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8")
}

// pgbench runs the script and returns its transactions, which are pairs, in a second.
func (r *benchRun) pgbench(b *testing.B, script string, clients int) float64 {
	bin := pgtest.Program("pgbench")
	if bin == "" {
		b.Fatal("pgbench is not installed; it comes with PostgreSQL")
	}
	cmd := exec.Command(bin, "-n", "-M", "prepared", "-f", script, "-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)),
		"-T", strconv.Itoa(int(benchTurn.Seconds())), r.url)
	out, err := cmd.CombinedOutput()
	found := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if err != nil || found == nil {
		b.Fatalf("pgbench: %v: %s", err, out)
	}
	tps, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return tps
}

// script is the store's two statements for pgbench, with a random key and otherwise the values of a benchmark's operation.
func (r *benchRun) script(b *testing.B, s *Store) string {
	ctx := b.Context()
	claim := benchClaim(0)
	terms, err := s.intern(ctx, claim.To.Terms)
	if err != nil {
		b.Fatal(err)
	}
	insert := newArrays(insertColumns, 1)
	insert.identity(&claim.To, terms)
	if err := insert.life(&claim.To); err != nil {
		b.Fatal(err)
	}
	insert.moments(claim)
	insert.event(&claim.Event, 1)
	insert.endRow()
	record := &write{t: benchRecord(stamp(claim, time.Now()).To), id: 2}
	update := newArrays(updateColumns, 1)
	if _, err := update.fenced(record); err != nil {
		b.Fatal(err)
	}
	update.endRow()
	text := `\set r random(1, 9223372036854775806)` + "\n" + literal(b, s, createStatement, insert) + ";\n" + literal(b, s, applyStatements[0][0], update) + ";\n"
	path := filepath.Join(b.TempDir(), "pair.sql")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// literal is a statement with its parameters written out, on one line.
func literal(b *testing.B, s *Store, st *statement, rows *arrays) string {
	sql := strings.ReplaceAll(strings.ReplaceAll(st.sql, "$1::bigint", "NULL::bigint"), "$2::bigint", "0::bigint")
	params := rows.params()
	for i, c := range rows.cols {
		place, value := fmt.Sprintf("$%d::%s[]", i+3, c.sqlType.name), "ARRAY[sha256(int8send(:r))]"
		if c.name != "key" {
			value = "ARRAY[]::" + c.sqlType.name + "[]"
		}
		sql = strings.ReplaceAll(sql, place, value)
		place, value = fmt.Sprintf("$%d::%s", i+3+len(rows.cols), c.sqlType.name), "NULL::"+c.sqlType.name
		if param := params[len(rows.cols)+i]; param != nil {
			value = quoted(b, s, "SELECT ($1::"+c.sqlType.name+")::text", param) + "::" + c.sqlType.name
		}
		sql = strings.ReplaceAll(sql, place, value)
	}
	return strings.Join(strings.Fields(sql), " ")
}

func quoted(b *testing.B, s *Store, sql string, param []byte) string {
	var text string
	err := s.with(b.Context(), func(c *pgxpool.Conn) error {
		return s.query(b.Context(), c, &statement{sql: sql, once: true}, [][]byte{param}, func(r *scanner) error {
			text = string(r.next())
			return nil
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	// pgbench reads :name as a variable, in strings too.
	return "convert_from(decode('" + fmt.Sprintf("%x", text) + "', 'hex'), 'UTF8')"
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

// stock fills a database with n settled operations that look like the benchmark's own.
func stock(t testing.TB, url string, n int) {
	t.Helper()
	s := opened(t, url, Options{})
	op, _, err := s.Create(t.Context(), benchClaim(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), benchRecord(op)); err != nil {
		t.Fatal(err)
	}
	var cols []column
	for _, c := range operationColumns {
		if c.name != "key" {
			cols = append(cols, c)
		}
	}
	const chunk = 100_000
	for done := 1; done < n; done += chunk {
		execute(t, url, fmt.Sprintf(`INSERT INTO effectonce.operations (id, key, %s) SELECT nextval('effectonce.operation_ids'), sha256(int8send(g)), %s
			FROM generate_series(%d, %d) g, effectonce.operations o WHERE o.id = 1`, names(cols, ""), names(cols, "o."), done, min(done+chunk, n)-1))
	}
	execute(t, url, fmt.Sprintf(`INSERT INTO effectonce.events (operation, at, %s) SELECT o.id, e.at, %s
		FROM effectonce.operations o, effectonce.events e WHERE o.id > 1 AND e.operation = 1 ORDER BY o.id, e.seq`, names(eventColumns, ""), names(eventColumns, "e.")))
	execute(t, url, "VACUUM ANALYZE")
	execute(t, url, "CHECKPOINT")
}

func execute(t testing.TB, url, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func number(t testing.TB, url, sql string) (v float64) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	if err := c.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
