package sqlite

import (
	"database/sql/driver"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectonce/effectonce"
)

// S17: what is asked all the time, or by people about the few operations that need them, walks over no settled operations.
func TestPlansDoNotGrow(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "effectonce.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	page := func(f effectonce.Filter) (string, []driver.Value) {
		where, args, err := conditions(f)
		if err != nil {
			t.Fatal(err)
		}
		return selectPage(where, 50), args
	}
	unresolved, unresolvedArgs := page(effectonce.Filter{States: []effectonce.State{effectonce.StateReview, effectonce.StateUnknown}, Tenant: "acme"})
	alarms, alarmArgs := page(effectonce.Filter{Alarmed: true})
	queues, queuesArgs, err := queuesQuery(effectonce.QueueFilter{Tenant: "acme"}, 50)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, query string
		args        []driver.Value
	}{
		{"load", selectOperation, []driver.Value{make([]byte, 32)}},
		{"due", selectDue, []driver.Value{int64(1), int64(1)}},
		{"twin", selectTwin, []driver.Value{make([]byte, 32), int64(1), "a", "b", "c", "step", "d", "e"}},
		{"waiting", selectWaiting, []driver.Value{"a", "b", int64(1), int64(1)}},
		{"purgeable", selectPurgeable, []driver.Value{int64(1), int64(1)}},
		{"forgettable", selectForgettable, []driver.Value{int64(1), int64(1), int64(1)}},
		{"old limits", selectOldLimits, []driver.Value{int64(1), int64(1), int64(1)}},
		{"holders", selectHolders, []driver.Value{int64(1), int64(1)}},
		{"decision", selectDecision, []driver.Value{"a", "b", "c"}},
		{"decisions", selectDecisions, []driver.Value{"a", "b"}},
		{"queue due", selectQueueDue, []driver.Value{int64(1)}},
		{"messages", selectMessages, []driver.Value{int64(1), int64(1)}},
		{"queues", queues, queuesArgs},
		{"delete old reservations", deleteOldReservations, []driver.Value{int64(1), int64(1), int64(1)}},
		{"delete reservations", deleteReservations, []driver.Value{int64(1)}},
		{"unresolved", unresolved, unresolvedArgs},
		{"alarms", alarms, alarmArgs},
	} {
		var plan []string
		err := s.readers.use(t.Context(), func(conn *conn) error {
			return conn.queryOnce(t.Context(), "EXPLAIN QUERY PLAN "+c.query, func(row []driver.Value) error {
				plan = append(plan, row[3].(string))
				return nil
			}, c.args...)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range plan {
			walks := strings.HasPrefix(step, "SCAN") && !strings.HasPrefix(step, "SCAN CONSTANT") && !strings.Contains(step, "USING INDEX") && !strings.Contains(step, "USING COVERING INDEX")
			if step == "SEARCH queues USING INDEX queues_subject (tenant=?)" {
				t.Errorf("%s walks over subjects in which nothing waits", c.name)
			}
			if walks || strings.Contains(step, "TEMP B-TREE") && c.name == "due" {
				t.Errorf("%s: %s", c.name, strings.Join(plan, "; "))
				break
			}
		}
		t.Logf("%s: %s", c.name, strings.Join(plan, "; "))
	}
}
