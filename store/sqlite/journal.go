package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce"
)

const decisionColumns = `d.step, d.seq, d.at, d.tool, d.intent_id, d.arguments, d.finish, d.note, d.actor, d.operation`

const (
	selectDecision  = `SELECT ` + decisionColumns + ` FROM decisions d JOIN runs r ON r.id = d.run WHERE r.tenant = ? AND r.run = ? AND d.step = ?`
	selectDecisions = `SELECT ` + decisionColumns + ` FROM decisions d JOIN runs r ON r.id = d.run WHERE r.tenant = ? AND r.run = ? ORDER BY d.seq`
)

// Decide implements [effectonce.Journal]. It reads first, since what is decided is asked for again and again.
func (s *Store) Decide(ctx context.Context, d effectonce.Decision) (stored effectonce.Decision, first bool, err error) {
	found := false
	err = s.readers.use(ctx, func(c *conn) (err error) {
		stored, found, err = decisionOf(ctx, c, d.Tenant, d.Run, d.Step)
		return err
	})
	if err != nil || found {
		return stored, false, s.mapError(err)
	}
	err = s.w.write(ctx, func(b *batch) (err error) {
		stored, first, err = b.decide(d)
		return err
	})
	if err != nil {
		return effectonce.Decision{}, false, err
	}
	return stored, first, nil
}

// decide numbers a step under the write lock; a run that has its last step takes no more (S10.1).
func (b *batch) decide(d effectonce.Decision) (effectonce.Decision, bool, error) {
	ctx := context.Background()
	now, err := b.clock()
	if err != nil {
		return effectonce.Decision{}, false, err
	}
	if stored, found, err := decisionOf(ctx, b, d.Tenant, d.Run, d.Step); err != nil || found {
		return stored, false, err
	}
	var run, steps int64
	var finished bool
	err = b.query(ctx, "SELECT id, steps, finished FROM runs WHERE tenant = ? AND run = ?", func(row []driver.Value) error {
		r := scanner{row: row}
		run, steps, finished = r.integer(), r.integer(), r.flag()
		return r.err
	}, d.Tenant, d.Run)
	if err != nil {
		return effectonce.Decision{}, false, err
	}
	if finished {
		return effectonce.Decision{}, false, b.runFinished(run, d.Run)
	}
	d.Seq, d.At = steps+1, now
	b.dirty = true
	if run == 0 {
		run, err = inserted(b, "INSERT INTO runs (tenant, run, steps, finished, began_at, last_at) VALUES (?, ?, 1, ?, ?, ?)",
			d.Tenant, d.Run, flag(d.Finish), now.UnixMicro(), now.UnixMicro())
	} else {
		_, err = b.exec("UPDATE runs SET steps = ?, finished = ?, last_at = ? WHERE id = ?", d.Seq, flag(d.Finish), now.UnixMicro(), run)
	}
	if err != nil {
		return effectonce.Decision{}, false, err
	}
	_, err = b.exec(`INSERT INTO decisions (run, step, seq, at, tool, intent_id, arguments, finish, note, actor, operation)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, run, d.Step, d.Seq, now.UnixMicro(), text(d.Tool), text(d.IntentID), blob(d.Arguments),
		flag(d.Finish), text(d.Note), text(d.Actor), hash(d.Operation))
	return d, err == nil, err
}

// runFinished names the step that was the run's last one.
func (b *batch) runFinished(id int64, run string) error {
	last := ""
	err := b.query(context.Background(), "SELECT step FROM decisions WHERE run = ? ORDER BY seq DESC LIMIT 1", func(row []driver.Value) error {
		r := scanner{row: row}
		last = r.text()
		return r.err
	}, id)
	if err != nil {
		return err
	}
	return effectonce.RunFinished(run, last)
}

func decisionOf(ctx context.Context, q querier, tenant, run, step string) (effectonce.Decision, bool, error) {
	all, err := decisions(ctx, q, tenant, run, selectDecision, tenant, run, step)
	if err != nil || len(all) == 0 {
		return effectonce.Decision{}, false, err
	}
	return all[0], true, nil
}

func decisions(ctx context.Context, q querier, tenant, run, query string, args ...driver.Value) ([]effectonce.Decision, error) {
	var all []effectonce.Decision
	err := q.query(ctx, query, func(row []driver.Value) error {
		r := scanner{row: row}
		d := effectonce.Decision{Tenant: tenant, Run: run}
		d.Step, d.Seq, d.At, d.Tool, d.IntentID = r.text(), r.integer(), r.at(), r.text(), r.text()
		d.Arguments, d.Finish, d.Note, d.Actor, d.Operation = r.blob(), r.flag(), r.text(), r.text(), effectonce.Key(r.hash())
		all = append(all, d)
		return r.err
	}, args...)
	return all, err
}

// Decision implements [effectonce.Journal].
func (s *Store) Decision(ctx context.Context, tenant, run, step string) (effectonce.Decision, error) {
	var d effectonce.Decision
	err := s.readers.use(ctx, func(c *conn) error {
		var found bool
		var err error
		d, found, err = decisionOf(ctx, c, tenant, run, step)
		if err == nil && !found {
			err = &effectonce.Error{Code: effectonce.CodeNotFound, Detail: fmt.Sprintf("no decision is recorded for step %q of run %q", step, run)}
		}
		return err
	})
	return d, s.mapError(err)
}

// Decisions implements [effectonce.Journal].
func (s *Store) Decisions(ctx context.Context, tenant, run string) ([]effectonce.Decision, error) {
	var all []effectonce.Decision
	err := s.readers.use(ctx, func(c *conn) (err error) {
		all, err = decisions(ctx, c, tenant, run, selectDecisions, tenant, run)
		return err
	})
	return all, s.mapError(err)
}

// Runs implements [effectonce.Journal]. Pages follow the rowid, which is the order in which runs began. The errors are also
// [effectonce.ErrInvalid] for a limit or cursor that is none.
func (s *Store) Runs(ctx context.Context, f effectonce.RunFilter) (effectonce.RunPage, error) {
	limit, err := pageSize(f.Limit)
	if err != nil {
		return effectonce.RunPage{}, err
	}
	where := []string{"TRUE"}
	var args []driver.Value
	if f.After != "" {
		n, err := strconv.ParseInt(f.After, 10, 64)
		if err != nil || n < 1 {
			return effectonce.RunPage{}, badCursor()
		}
		where, args = append(where, "id < ?"), append(args, n)
	}
	if f.Tenant != "" {
		where, args = append(where, "tenant = ?"), append(args, f.Tenant)
	}
	if f.Unfinished {
		where = append(where, "finished = 0")
	}
	if f.Text != "" {
		where, args = append(where, "instr(lower(run), lower(?)) > 0"), append(args, f.Text)
	}
	var page effectonce.RunPage
	err = s.readers.use(ctx, func(c *conn) error {
		var last int64
		return c.queryOnce(ctx, "SELECT id, tenant, run, steps, finished, began_at, last_at FROM runs WHERE "+strings.Join(where, " AND ")+
			" ORDER BY id DESC LIMIT ?", func(row []driver.Value) error {
			if len(page.Runs) == limit {
				page.Next = strconv.FormatInt(last, 10)
				return nil
			}
			r := scanner{row: row}
			last = r.integer()
			page.Runs = append(page.Runs, effectonce.Run{Tenant: r.text(), Run: r.text(), Steps: int(r.integer()), Finished: r.flag(), BeganAt: r.at(), LastAt: r.at()})
			return r.err
		}, append(args, int64(limit)+1)...)
	})
	if err != nil {
		return effectonce.RunPage{}, s.mapError(err)
	}
	return page, nil
}
