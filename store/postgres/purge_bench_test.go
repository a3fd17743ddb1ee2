package postgres

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// BenchmarkPurgeUnderLoad measures claims and records by 32 callers without and with a purge beside them, in turns on one server
// (S13.3): in the worker's way, a hundred operations and then a tenth of a second's pause, and without any pause, which nobody does.
// of-alone is the ratio of the rate with the purge to the one without it.
//
//	go test ./store/postgres -run '^$' -bench PurgeUnderLoad -benchtime 3x -timeout 0
//
// EFFECTONCE_BENCH_ROWS asks for other numbers of stored operations than 10,000, as for [BenchmarkClaimRecord].
func BenchmarkPurgeUnderLoad(b *testing.B) {
	pgtest.NeedCluster(b)
	const callers = 32
	for _, rows := range benchRows(b) {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			cluster := pgtest.Start(b)
			url := cluster.Database(b)
			begun := time.Now()
			stock(b, url, rows)
			made := fmt.Sprintf("%d stored operations took %s to make and %.0f MB of disk", rows, time.Since(begun).Round(time.Second), number(b, url, "SELECT pg_database_size(current_database())::float8 / 1e6"))
			run := &benchRun{cluster: cluster, url: url}
			run.seq.Store(1 << 40)
			for _, way := range []struct {
				name  string
				pause time.Duration
			}{{"as-the-worker", 100 * time.Millisecond}, {"without-pause", 0}} {
				b.Run(way.name, func(b *testing.B) {
					s := opened(b, url, Options{Connections: 16})
					guard := effectonce.New(s, effectonce.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
					run.turn(b, s, callers, 200*time.Millisecond)
					var alone, beside, purged float64
					n := 0
					for b.Loop() {
						rate, _ := run.turn(b, s, callers, benchTurn)
						alone += rate
						// Half of them are forgotten afterwards, the rest keep their identity.
						execute(b, url, `UPDATE effectonce.operations SET purge_at = 1, forget_at = CASE WHEN id % 2 = 0 THEN 1 END
							WHERE id IN (SELECT id FROM effectonce.operations WHERE purge_at IS NULL AND settled_at IS NOT NULL ORDER BY id LIMIT 20000)`)
						ctx, cancel := context.WithCancel(b.Context())
						done := make(chan int)
						go func() { done <- purgeUntil(ctx, guard, way.pause) }()
						rate, _ = run.turn(b, s, callers, benchTurn)
						beside += rate
						cancel()
						purged += float64(<-done) / benchTurn.Seconds()
						n++
					}
					b.Log(made)
					b.ReportMetric(alone/float64(n), "pairs/s")
					b.ReportMetric(beside/float64(n), "pairs/s-while-purging")
					b.ReportMetric(beside/alone, "of-alone")
					b.ReportMetric(purged/float64(n), "purged/s")
					b.ReportMetric(0, "ns/op")
				})
			}
		})
	}
}

// purgeUntil purges in pieces as large as the worker's, and returns how many operations it purged or forgot.
func purgeUntil(ctx context.Context, guard *effectonce.Guard, pause time.Duration) (total int) {
	for ctx.Err() == nil {
		purged, forgotten, err := guard.Purge(ctx, 100)
		if err != nil {
			return total
		}
		total += purged + forgotten
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return total
}
