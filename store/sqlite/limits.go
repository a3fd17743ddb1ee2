package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/effectonce/effectonce"
)

// total is a limit in one period, with what an operation is about to take of it.
type total struct {
	effectonce.Limit
	tenant string
	// id is the row, 0 if there is none yet.
	id int64
	// per and period are as the row holds them.
	per, period int64
}

// totals finds the rows of an operation's limits, and refuses the operation if it would take more than is left (S8.3). It writes nothing,
// so that a refusal spoils nothing.
func (b *batch) totals(op *effectonce.Operation, now time.Time) ([]total, error) {
	var all []total
	for _, l := range op.Limits {
		t := total{Limit: l, tenant: op.Tenant, per: l.Per.Microseconds()}
		if start := l.Period(now); !start.IsZero() {
			t.period = start.UnixMicro()
		}
		var used int64
		err := b.query(context.Background(), "SELECT id, used FROM limits WHERE tenant = ? AND name = ? AND per = ? AND period = ?", func(row []driver.Value) error {
			r := scanner{row: row}
			t.id, used = r.integer(), r.integer()
			return r.err
		}, t.tenant, t.Name, t.per, t.period)
		if err != nil {
			return nil, err
		}
		if used+l.Amount > l.Max {
			holders, err := holders(b, t.id, effectonce.LimitHoldersMax)
			if err != nil {
				return nil, err
			}
			var keys []effectonce.Key
			for _, h := range holders {
				keys = append(keys, h.Key)
			}
			return nil, l.Exceeded(used, keys)
		}
		all = append(all, t)
	}
	return all, nil
}

// reserve takes what totals has found to be left.
func (b *batch) reserve(operation int64, totals []total) error {
	for _, t := range totals {
		var err error
		if t.id == 0 {
			t.id, err = inserted(b, "INSERT INTO limits (tenant, name, per, period, used, max) VALUES (?, ?, ?, ?, ?, ?)",
				t.tenant, t.Name, t.per, t.period, t.Amount, t.Max)
		} else {
			_, err = b.exec("UPDATE limits SET used = used + ?, max = ? WHERE id = ?", t.Amount, t.Max, t.id)
		}
		if err == nil {
			_, err = b.exec("INSERT INTO reservations (limit_id, operation, amount) VALUES (?, ?, ?)", t.id, operation, t.Amount)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// release gives back what an operation took.
func (b *batch) release(operation int64) error {
	_, err := b.exec(`UPDATE limits SET used = used - (SELECT r.amount FROM reservations r WHERE r.limit_id = limits.id AND r.operation = ?)
		WHERE id IN (SELECT limit_id FROM reservations WHERE operation = ?)`, operation, operation)
	if err == nil {
		_, err = b.exec(deleteReservations, operation)
	}
	return err
}

const deleteReservations = "DELETE FROM reservations WHERE operation = ?"

const selectHolders = `SELECT o.key, r.amount, o.state FROM reservations r JOIN operations o ON o.id = r.operation
	WHERE r.limit_id = ? ORDER BY r.operation DESC LIMIT ?`

// holders returns operations that hold a limit, newest first.
func holders(q querier, limit int64, n int) ([]effectonce.Holder, error) {
	var all []effectonce.Holder
	err := q.query(context.Background(), selectHolders, func(row []driver.Value) error {
		r := scanner{row: row}
		all = append(all, effectonce.Holder{Key: effectonce.Key(r.hash()), Amount: r.integer(), State: effectonce.State(r.text())})
		return r.err
	}, limit, int64(n))
	return all, err
}

// Limits implements [effectonce.Limits]. The errors are also [effectonce.ErrInvalid] for a limit that is none.
func (s *Store) Limits(ctx context.Context, f effectonce.LimitFilter) ([]effectonce.LimitUse, error) {
	limit, err := pageSize(f.Limit)
	if err != nil {
		return nil, err
	}
	held := cmp.Or(f.Holders, 20)
	if held < 1 || held > effectonce.ListLimitMax {
		return nil, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "holders", Detail: fmt.Sprintf("%d is not between 1 and %d", f.Holders, effectonce.ListLimitMax)}
	}
	where := []string{"used > 0"}
	var args []driver.Value
	if f.Tenant != "" {
		where, args = append(where, "tenant = ?"), append(args, f.Tenant)
	}
	if f.Name != "" {
		where, args = append(where, "name = ?"), append(args, f.Name)
	}
	if f.Text != "" {
		where, args = append(where, "instr(lower(name), lower(?)) > 0"), append(args, f.Text)
	}
	var uses []effectonce.LimitUse
	err = s.readers.use(ctx, func(c *conn) error {
		var ids []int64
		err := c.queryOnce(ctx, "SELECT id, tenant, name, per, period, used, max FROM limits WHERE "+strings.Join(where, " AND ")+
			" ORDER BY period DESC, tenant, name, per LIMIT ?", func(row []driver.Value) error {
			r := scanner{row: row}
			ids = append(ids, r.integer())
			u := effectonce.LimitUse{Tenant: r.text(), Name: r.text(), Per: time.Duration(r.integer()) * time.Microsecond}
			if from := r.integer(); u.Per > 0 {
				u.From = time.UnixMicro(from).UTC()
			}
			u.Used, u.Max = r.integer(), r.integer()
			uses = append(uses, u)
			return r.err
		}, append(args, int64(limit))...)
		for i := range ids {
			if err == nil {
				uses[i].Holders, err = holders(c, ids[i], held)
			}
		}
		return err
	})
	return uses, s.mapError(err)
}
