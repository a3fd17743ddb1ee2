package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// List implements [effectonce.Store]. Pages follow the id, which grows with creation. The errors are also
// [effectonce.ErrInvalid] for a limit or cursor that is none.
func (s *Store) List(ctx context.Context, f effectonce.Filter) (effectonce.Page, error) {
	if err := s.enter(ctx); err != nil {
		return effectonce.Page{}, err
	}
	defer s.leave()
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return effectonce.Page{}, err
	}
	q, err := selectPage(f, limit+1)
	if err != nil {
		return effectonce.Page{}, err
	}
	var page effectonce.Page
	err = s.read(ctx, func(c *pgxpool.Conn) error {
		var ids []int64
		page = effectonce.Page{}
		err := s.query(ctx, c, &statement{sql: q.sql, once: true}, q.params, func(r *scanner) error {
			ids = append(ids, r.integer())
			return nil
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		if len(ids) > limit {
			ids = ids[:limit]
			page.Next = strconv.FormatInt(ids[limit-1], 10)
		}
		list := newArrays(columns(typeInt, "id"), len(ids))
		for _, id := range ids {
			list.integer(id)
			list.endRow()
		}
		// A list decides nothing: a clock that stepped back does not take it away from people.
		page.Operations, err = s.operations(ctx, c, selectListed, append(s.clockParams(), list.params()[0]), true)
		return err
	})
	if err != nil {
		return effectonce.Page{}, s.place.mapError(err)
	}
	return page, nil
}

var selectListed = newStatement(`WITH c AS MATERIALIZED (` + clockSQL + `)
SELECT c.now, c.behind, c.high, ` + selectColumns + ` FROM effectonce.operations o CROSS JOIN c WHERE o.id = ANY($3::bigint[]) ORDER BY o.id DESC`)

// pageQuery is a query for the ids of a page; narrow, so that what the filter passes over is not read whole.
type pageQuery struct {
	sql    string
	params [][]byte
}

// selectPage turns a filter into a query. The rare states come from narrow indexes instead of a walk over everything.
func selectPage(f effectonce.Filter, limit int) (pageQuery, error) {
	all := []string{"alias_of IS NULL"}
	var q pageQuery
	param := func(v []byte) string {
		q.params = append(q.params, v)
		return "$" + strconv.Itoa(len(q.params))
	}
	n, err := pageStart(f.After)
	if err != nil {
		return q, err
	}
	if n > 0 {
		all = append(all, "id < "+param(int8Bytes(n))+"::bigint")
	}
	if len(f.States) > 0 {
		states := make([]string, len(f.States))
		for i, s := range f.States {
			states[i] = param([]byte(storable(string(s)))) + "::text"
		}
		all = append(all, "state IN ("+strings.Join(states, ", ")+")")
		if !slices.Contains(f.States, effectonce.StateSucceeded) {
			all = append(all, "id IN ("+rare(f.States)+")")
		}
	}
	if f.Alarmed {
		all = append(all, "alarm IS NOT NULL")
	}
	for _, e := range [][2]string{{"tenant", f.Tenant}, {"tool", f.Tool}, {"intent_id", f.IntentID}, {"run", f.Run}, {"step", f.Step}} {
		if e[1] != "" {
			all = append(all, e[0]+" = "+param([]byte(storable(e[1])))+"::text")
		}
	}
	if f.Text != "" {
		text := param([]byte(storable(f.Text))) + "::text"
		any := []string{"position(lower(" + text + ") IN encode(key, 'hex')) > 0"}
		for _, column := range []string{"intent_id", "run", "step", "reference", "resource"} {
			any = append(any, "position(lower("+text+") IN lower("+column+")) > 0")
		}
		all = append(all, "("+strings.Join(any, " OR ")+")")
	}
	q.sql = "SELECT id FROM effectonce.operations WHERE " + strings.Join(all, " AND ") + " ORDER BY id DESC LIMIT " + strconv.Itoa(limit)
	return q, nil
}

// rare selects from the narrow indexes a superset of the operations in the given states, none of which is succeeded.
func rare(states []effectonce.State) string {
	var from []string
	for _, s := range states {
		switch s {
		case effectonce.StateReview, effectonce.StateFailed, effectonce.StateAbandoned:
			from = append(from, "SELECT id FROM effectonce.operations WHERE state IN ('review', 'failed', 'abandoned')")
		default:
			from = append(from, "SELECT id FROM effectonce.operations WHERE due_at IS NOT NULL")
		}
	}
	slices.Sort(from)
	return strings.Join(slices.Compact(from), " UNION ALL ")
}

// pageLimit is the size of a page, 50 where none is asked for.
func pageLimit(asked int) (int, error) {
	limit := cmp.Or(asked, 50)
	if limit < 1 || limit > effectonce.ListLimitMax {
		return 0, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "limit", Detail: fmt.Sprintf("%d is not between 1 and %d", asked, effectonce.ListLimitMax)}
	}
	return limit, nil
}

// pageStart is the id before which a page begins, 0 for the first one.
func pageStart(after string) (int64, error) {
	if after == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(after, 10, 64)
	if err != nil || n < 1 {
		return 0, &effectonce.Error{Code: effectonce.CodeInvalid, Field: "after", Detail: "is not the end of a page", Remedy: "use the next of the page before"}
	}
	return n, nil
}
