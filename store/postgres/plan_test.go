package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// S17: nothing that is asked all the time walks over the operations, not even while PostgreSQL has no statistics of the tables and
// with plans that it keeps; and no statement compares all rows of a batch with all others.
func TestPlansOfTheHotPathDoNotGrow(t *testing.T) {
	t.Parallel()
	s := opened(t, pgtest.URL(t), Options{})
	for _, c := range []struct{ name, sql string }{
		{"create", createStatement.sql},
		{"apply", applyStatements[0][0].sql},
		{"apply what is kept for a time", applyStatements[0][1].sql},
		{"apply an alarm", applyStatements[1][0].sql},
		{"record with care", recordStatement.sql},
		{"apply with care", applyOneStatement.sql},
		{"lock what is released", lockLimits.sql},
		{"reserve", reserveStatement.sql},
		{"what is to be purged", selectPurgeable.sql},
		{"extend", extendStatement.sql},
		{"load", selectOperation.sql},
		{"due", selectDue.sql},
		{"what a twin asks", considerStatement.sql},
		{"events", selectEvents.sql},
		{"a write of one's own", selectWrite.sql},
	} {
		plan := planOf(t, s, c.sql, 0)
		for _, walk := range []string{"Seq Scan on operations", "Seq Scan on events", "Hash Join", "Merge Join", "Join Filter: (n.", "Join Filter: (e.", "Join Filter: (u."} {
			if strings.Contains(plan, walk) {
				t.Errorf("%s: %s\n%s", c.name, walk, plan)
			}
		}
	}
}

// S17: what people ask about the few operations that need them comes from narrow indexes.
func TestPlansOfListsDoNotGrow(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	stock(t, url, 20_000)
	s := opened(t, url, Options{})
	for name, sql := range map[string]string{"waiting": selectWaiting.sql, "forget": forgetStatement.sql, "the end of limits": endLimits.sql, "a queue": takeQueue.sql} {
		if plan := planOf(t, s, sql, 0); strings.Contains(plan, "Seq Scan on operations") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
	for name, f := range map[string]effectonce.Filter{
		"unresolved": {States: []effectonce.State{effectonce.StateReview, effectonce.StateUnknown}, Tenant: "acme"},
		"alarms":     {Alarmed: true},
		"a page":     {After: "10000"},
	} {
		q, err := selectPage(f, 50)
		if err != nil {
			t.Fatal(err)
		}
		if plan := planOf(t, s, q.sql, len(q.params)); strings.Contains(plan, "Seq Scan on operations") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

// planOf is the plan that is kept for a statement whatever its parameters are.
func planOf(t *testing.T, s *Store, sql string, params int) string {
	t.Helper()
	for params == 0 && strings.Contains(sql, "$1") || params > 0 && strings.Contains(sql, fmt.Sprintf("$%d", params+1)) {
		params++
	}
	var plan []string
	err := s.with(t.Context(), func(c *pgxpool.Conn) error {
		args := ""
		if params > 0 {
			args = "(" + strings.TrimSuffix(strings.Repeat("NULL,", params), ",") + ")"
		}
		for _, q := range []string{"SET plan_cache_mode = force_generic_plan", "PREPARE p AS " + sql} {
			if err := plain(t.Context(), c, q); err != nil {
				return err
			}
		}
		results, err := c.Conn().PgConn().Exec(t.Context(), "EXPLAIN EXECUTE p"+args).ReadAll()
		if err != nil {
			return err
		}
		for _, row := range results[0].Rows {
			plan = append(plan, string(row[0]))
		}
		return plain(t.Context(), c, "DEALLOCATE p; RESET plan_cache_mode")
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}
