package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/effectonce/effectonce"
)

// List implements [effectonce.Store]. Pages follow the rowid, which is the order of creation. The errors are also
// [effectonce.ErrInvalid] for a limit or cursor that is none.
func (s *Store) List(ctx context.Context, f effectonce.Filter) (effectonce.Page, error) {
	limit, err := pageSize(f.Limit)
	if err != nil {
		return effectonce.Page{}, err
	}
	where, args, err := conditions(f)
	if err != nil {
		return effectonce.Page{}, err
	}
	var page effectonce.Page
	err = s.readers.use(ctx, func(c *conn) error {
		high, err := highMark(c)
		if err != nil {
			return err
		}
		// A list decides nothing: a clock that stepped back does not take it away from people.
		now := effectonce.StoredTime(s.now())
		if now.Before(high) {
			now = high
		}
		ids, err := c.page(ctx, where, limit+1, args)
		if err != nil || len(ids) == 0 {
			return err
		}
		if len(ids) > limit {
			ids = ids[:limit]
			page.Next = strconv.FormatInt(ids[limit-1], 10)
		}
		list := make([]string, len(ids))
		for i, id := range ids {
			list[i] = strconv.FormatInt(id, 10)
		}
		page.Operations, err = s.operations(ctx, c, now, `SELECT `+identityColumns+`, `+lifeColumns+` FROM operations
			WHERE id IN (`+strings.Join(list, ",")+`) ORDER BY id DESC`)
		return err
	})
	if err != nil {
		return effectonce.Page{}, s.mapError(err)
	}
	return page, nil
}

func selectPage(where string, limit int) string {
	return `SELECT id FROM operations WHERE ` + where + ` ORDER BY id DESC LIMIT ` + strconv.Itoa(limit)
}

// page returns the ids of a page's operations; narrow, so that what the filter passes over is not read whole.
func (c *conn) page(ctx context.Context, where string, limit int, args []driver.Value) ([]int64, error) {
	var ids []int64
	err := c.queryOnce(ctx, selectPage(where, limit), func(row []driver.Value) error {
		r := scanner{row: row}
		ids = append(ids, r.integer())
		return r.err
	}, args...)
	return ids, err
}

// rare selects from the narrow indexes a superset of the operations in the given states, none of which is succeeded.
func rare(states []effectonce.State) string {
	var notable []string
	waiting := false
	for _, s := range states {
		switch s {
		case effectonce.StateReview, effectonce.StateFailed, effectonce.StateAbandoned:
			notable = append(notable, "'"+string(s)+"'")
		default:
			waiting = true
		}
	}
	var from []string
	if waiting {
		from = append(from, "SELECT id FROM operations INDEXED BY operations_due WHERE due_at IS NOT NULL")
	}
	if len(notable) > 0 {
		from = append(from, "SELECT id FROM operations INDEXED BY operations_notable WHERE (state = 'review' OR state = 'failed' OR state = 'abandoned') AND state IN ("+strings.Join(notable, ", ")+")")
	}
	return strings.Join(from, " UNION ALL ")
}

// conditions turns a filter into a WHERE. The rare states come from narrow indexes instead of a walk over everything.
func conditions(f effectonce.Filter) (string, []driver.Value, error) {
	all := []string{"state <> '" + stateAlias + "'"}
	var args []driver.Value
	add := func(cond string, values ...driver.Value) {
		all, args = append(all, cond), append(args, values...)
	}
	if f.After != "" {
		n, err := strconv.ParseInt(f.After, 10, 64)
		if err != nil || n < 1 {
			return "", nil, badCursor()
		}
		add("id < ?", n)
	}
	if len(f.States) > 0 {
		states := make([]driver.Value, len(f.States))
		for i, s := range f.States {
			states[i] = string(s)
		}
		add("state IN (?"+strings.Repeat(",?", len(states)-1)+")", states...)
		if !slices.Contains(f.States, effectonce.StateSucceeded) {
			add("id IN (" + rare(f.States) + ")")
		}
	}
	if f.Alarmed {
		add("id IN (SELECT id FROM operations INDEXED BY operations_alarm WHERE alarm IS NOT NULL)")
	}
	for _, e := range [][2]string{{"tenant", f.Tenant}, {"tool", f.Tool}, {"intent_id", f.IntentID}, {"run", f.Run}, {"step", f.Step}} {
		if e[1] != "" {
			add(e[0]+" = ?", e[1])
		}
	}
	if f.Text != "" {
		any := []string{"instr(lower(hex(key)), lower(?)) > 0"}
		values := []driver.Value{f.Text}
		for _, column := range []string{"intent_id", "run", "step", "reference", "resource"} {
			any = append(any, "instr(lower("+column+"), lower(?)) > 0")
			values = append(values, f.Text)
		}
		add("("+strings.Join(any, " OR ")+")", values...)
	}
	return strings.Join(all, " AND "), args, nil
}

// pageSize checks the size of a page.
func pageSize(limit int) (int, error) {
	n := cmp.Or(limit, 50)
	if n < 1 || n > effectonce.ListLimitMax {
		return 0, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "limit", Detail: fmt.Sprintf("%d is not between 1 and %d", limit, effectonce.ListLimitMax)}
	}
	return n, nil
}

func badCursor() error {
	return &effectonce.Error{Code: effectonce.CodeInvalid, Field: "after", Detail: "is not the end of a page", Remedy: "use the next of the page before"}
}
