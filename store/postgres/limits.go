package postgres

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// reservation is what an operation takes of a limit.
type reservation struct {
	limit, amount int64
}

var (
	// reserveStatement takes $5 of a limit, if $6 allows it, and returns the limit's id. The row stays locked in any case.
	reserveStatement = newStatement(`INSERT INTO effectonce.limits AS l (tenant, name, per, period, used, max)
	SELECT $1::text, $2::text, $3::bigint, $4::bigint, $5::bigint, $6::bigint WHERE $5::bigint <= $6::bigint
	ON CONFLICT (tenant, name, per, period) DO UPDATE SET used = l.used + excluded.used, max = excluded.max WHERE l.used + excluded.used <= excluded.max
	RETURNING l.id`)
	usedStatement = newStatement(`SELECT l.id, l.used FROM effectonce.limits l
	WHERE l.tenant = $1::text AND l.name = $2::text AND l.per = $3::bigint AND l.period = $4::bigint`)
	// mendStatement gives back what failed operations still hold: a program of the version before failed them, which knows no limits.
	mendStatement = newStatement(`WITH d AS (
		DELETE FROM effectonce.reservations r USING effectonce.operations o
		WHERE r.limit_id = $1::bigint AND o.id = r.operation AND o.state = 'failed' RETURNING r.amount
	)
	UPDATE effectonce.limits l SET used = l.used - (SELECT sum(d.amount) FROM d) WHERE l.id = $1::bigint AND EXISTS (SELECT FROM d) RETURNING l.used`)
	holdersStatement = newStatement(`SELECT o.key, r.amount, o.state FROM effectonce.reservations r JOIN effectonce.operations o ON o.id = r.operation
	WHERE r.limit_id = $1::bigint ORDER BY r.operation DESC LIMIT $2::bigint`)
	holdStatement = newStatement(`INSERT INTO effectonce.reservations (operation, limit_id, amount) VALUES ($1::bigint, $2::bigint, $3::bigint)`)
)

// reserve takes what an operation counts against, in the order of the limits' names, in which everybody does (S8.3). The error is
// that of [effectonce.Limit.Exceeded]; what was taken until then has to be undone.
func (s *Store) reserve(ctx context.Context, q queryer, op *effectonce.Operation, at moment) ([]reservation, error) {
	limits := slices.Clone(op.Limits)
	slices.SortFunc(limits, func(a, b effectonce.Limit) int {
		return cmp.Or(bytes.Compare([]byte(storable(a.Name)), []byte(storable(b.Name))), cmp.Compare(a.Per, b.Per))
	})
	var taken []reservation
	for _, l := range limits {
		id, err := s.take(ctx, q, op.Tenant, l, at)
		if err != nil {
			return nil, err
		}
		taken = append(taken, reservation{id, l.Amount})
	}
	return taken, nil
}

func (s *Store) take(ctx context.Context, q queryer, tenant string, l effectonce.Limit, at moment) (int64, error) {
	period := int64(0)
	if from := l.Period(at.now); !from.IsZero() {
		period = from.UnixMicro()
	}
	name := []any{storable(tenant), storable(l.Name), l.Per.Microseconds(), period}
	id, ok, err := numberOf(ctx, q, reserveStatement, append(name, l.Amount, l.Max)...)
	if err != nil || ok {
		return id, err
	}
	var used int64
	err = q.query(ctx, usedStatement, name, func(r *scanner) error {
		id, used = r.integer(), r.integer()
		return nil
	})
	if err != nil {
		return 0, err
	}
	left, mended, err := numberOf(ctx, q, mendStatement, id)
	if err != nil {
		return 0, err
	}
	if mended {
		if id, ok, err = numberOf(ctx, q, reserveStatement, append(name, l.Amount, l.Max)...); err != nil || ok {
			return id, err
		}
		used = left
	}
	holders, err := s.holders(ctx, q, id, effectonce.LimitHoldersMax)
	if err != nil {
		return 0, err
	}
	var keys []effectonce.Key
	for _, h := range holders {
		keys = append(keys, h.Key)
	}
	return 0, l.Exceeded(used, keys)
}

// hold makes reservations an operation's.
func hold(ctx context.Context, q queryer, operation int64, taken []reservation) error {
	for _, r := range taken {
		if err := q.query(ctx, holdStatement, []any{operation, r.limit, r.amount}, nothing); err != nil {
			return err
		}
	}
	return nil
}

// holders are the operations that hold a limit, newest first.
func (s *Store) holders(ctx context.Context, q queryer, limit int64, count int) ([]effectonce.Holder, error) {
	var holders []effectonce.Holder
	err := q.query(ctx, holdersStatement, []any{limit, int64(count)}, func(r *scanner) error {
		holders = append(holders, effectonce.Holder{Key: effectonce.Key(r.hash()), Amount: r.integer(), State: effectonce.State(r.text())})
		return nil
	})
	return holders, err
}

// released stores a transition that gives reservations back, in a transaction.
func (s *Store) released(ctx context.Context, batch []*write, doubt bool) error {
	return s.with(ctx, func(c *pgxpool.Conn) error {
		if err := plain(ctx, c, begin); err != nil {
			return err
		}
		if err := s.applyOne(ctx, pooled{s, c}, batch[0], doubt); err != nil {
			_ = plain(ctx, c, "ROLLBACK")
			return err
		}
		return plain(ctx, c, "COMMIT")
	})
}

// lockLimits locks the limits of which an operation holds something, in the order in which they are taken.
var lockLimits = newStatement(`SELECT l.id FROM effectonce.operations o
	JOIN effectonce.reservations r ON r.operation = o.id AND r.limit_id % 1 = 0 JOIN effectonce.limits l ON l.id = r.limit_id
	WHERE o.key = $1::bytea ORDER BY l.name, l.per, l.period FOR UPDATE OF l`)

// applyOne stores one transition in a transaction.
func (s *Store) applyOne(ctx context.Context, q queryer, w *write, doubt bool) error {
	w.op, w.err = effectonce.Operation{}, nil
	releases := w.t.Releases()
	if releases {
		if err := q.query(ctx, lockLimits, []any{w.t.From.Key[:]}, nothing); err != nil {
			return err
		}
	}
	row := newArrays(oneUpdateColumns, 1)
	kept, err := row.fenced(w)
	if err != nil {
		return err
	}
	row.kept(&w.t, kept)
	row.flag(releases)
	row.endRow()
	var at moment
	fitted := false
	err = q.query(ctx, applyOneStatement, append(s.clockArgs(), row.plain()...), func(r *scanner) error {
		at = scanMoment(r)
		fitted = !r.null()
		return nil
	})
	if err == nil {
		err = s.check(at)
	}
	if err != nil {
		return err
	}
	s.advance(at)
	if fitted {
		w.op = stamp(w.t, at.now).To
		return nil
	}
	return s.refused(ctx, q, w, doubt)
}

// Limits implements [effectonce.Limits].
func (s *Store) Limits(ctx context.Context, f effectonce.LimitFilter) ([]effectonce.LimitUse, error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return nil, err
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	where := filter{all: []string{"used > 0"}}
	where.equal("tenant", f.Tenant)
	where.equal("name", f.Name)
	where.contains("name", f.Text)
	st := &statement{once: true, sql: `SELECT id, tenant, name, per, period, used, max FROM effectonce.limits` + where.sql() +
		` ORDER BY period DESC, tenant, name, per LIMIT ` + strconv.Itoa(limit)}
	var uses []effectonce.LimitUse
	err = s.read(ctx, func(c *pgxpool.Conn) error {
		uses = nil
		var ids []int64
		err := pooled{s, c}.query(ctx, st, where.args, func(r *scanner) error {
			ids = append(ids, r.integer())
			use := effectonce.LimitUse{Tenant: r.text(), Name: r.text(), Per: time.Duration(r.integer()) * time.Microsecond}
			if from := r.integer(); use.Per > 0 {
				use.From = time.UnixMicro(from).UTC()
			}
			use.Used, use.Max = r.integer(), r.integer()
			uses = append(uses, use)
			return nil
		})
		for i := range uses {
			if err == nil {
				uses[i].Holders, err = s.holders(ctx, pooled{s, c}, ids[i], cmp.Or(f.Holders, 20))
			}
		}
		return err
	})
	return uses, s.place.mapError(err)
}

// filter collects the conditions of a query for people.
type filter struct {
	all  []string
	args []any
}

// param adds an argument and returns its place in the statement.
func (f *filter) param(v any) string {
	f.args = append(f.args, v)
	return "$" + strconv.Itoa(len(f.args))
}

func (f *filter) equal(column, v string) {
	if v != "" {
		f.all = append(f.all, column+" = "+f.param(storable(v))+"::text")
	}
}

// contains folds the letters of both.
func (f *filter) contains(column, v string) {
	if v != "" {
		f.all = append(f.all, "position(lower("+f.param(storable(v))+"::text) IN lower("+column+")) > 0")
	}
}

func (f *filter) sql() string {
	if len(f.all) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(f.all, " AND ")
}
