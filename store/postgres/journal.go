package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

const decisionColumns = `d.seq, d.at, d.finish, d.step, d.tool, d.intent_id, d.note, d.actor, d.arguments, d.operation`

var (
	selectDecision = newStatement(`SELECT ` + decisionColumns + ` FROM effectonce.runs r JOIN effectonce.decisions d ON d.run = r.id
	WHERE r.run = $1::text AND r.tenant = $2::text AND d.step = $3::text`)
	selectDecisions = newStatement(`SELECT ` + decisionColumns + ` FROM effectonce.runs r JOIN effectonce.decisions d ON d.run = r.id
	WHERE r.run = $1::text AND r.tenant = $2::text ORDER BY d.seq`)
	// lockRun makes a run, or finds it, and locks its row, whose lock numbers the steps in the order of commits.
	lockRun = newStatement(`INSERT INTO effectonce.runs AS r (tenant, run, steps, began_at, last_at) VALUES ($1::text, $2::text, 0, $3::bigint, $3::bigint)
	ON CONFLICT (run, tenant) DO UPDATE SET steps = r.steps RETURNING r.id, r.steps, r.finished`)
	insertDecision = newStatement(`WITH d AS (
		INSERT INTO effectonce.decisions (run, seq, at, finish, step, tool, intent_id, note, actor, arguments, operation)
		VALUES ($1::bigint, $2::bigint, $3::bigint, $4::boolean, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea, $11::bytea)
	)
	UPDATE effectonce.runs SET steps = $2::bigint, last_at = $3::bigint, finished = CASE WHEN $4::boolean THEN $5::text END WHERE id = $1::bigint`)
)

// Decide implements [effectonce.Journal]. A step that is decided is answered by one read.
func (s *Store) Decide(ctx context.Context, d effectonce.Decision) (stored effectonce.Decision, first bool, err error) {
	stored, found, err := s.decision(ctx, d)
	if err != nil || found {
		return stored, false, err
	}
	err = s.transaction(ctx, func(ctx context.Context, q queryer) (err error) {
		stored, first, err = s.decide(ctx, q, d)
		return err
	})
	if err != nil {
		return effectonce.Decision{}, false, err
	}
	return stored, first, nil
}

func (s *Store) decide(ctx context.Context, q queryer, d effectonce.Decision) (effectonce.Decision, bool, error) {
	none := effectonce.Decision{}
	at, err := s.moment(ctx, q)
	if err != nil {
		return none, false, err
	}
	var run, steps int64
	var last string
	err = q.query(ctx, lockRun, []any{storable(d.Tenant), storable(d.Run), at.micros}, func(r *scanner) error {
		run, steps, last = r.integer(), r.integer(), r.text()
		return nil
	})
	if err != nil {
		return none, false, err
	}
	// Now nobody else is at the run, and what others committed is seen.
	stored, found, err := findDecision(ctx, q, d)
	switch {
	case err != nil:
		return none, false, err
	case found:
		return stored, false, nil
	case last != "":
		return none, false, effectonce.RunFinished(d.Run, last)
	}
	// The lock may have been waited for.
	if at, err = s.moment(ctx, q); err != nil {
		return none, false, err
	}
	d.Seq, d.At = steps+1, at.now
	var operation any
	if !d.Operation.IsZero() {
		operation = d.Operation[:]
	}
	err = q.query(ctx, insertDecision, []any{run, d.Seq, at.micros, d.Finish, storable(d.Step), orNull(d.Tool), orNull(d.IntentID), orNull(d.Note),
		orNull(d.Actor), bytesOrNull(d.Arguments), operation}, nothing)
	return d, true, err
}

func findDecision(ctx context.Context, q queryer, d effectonce.Decision) (stored effectonce.Decision, found bool, err error) {
	err = q.query(ctx, selectDecision, []any{storable(d.Run), storable(d.Tenant), storable(d.Step)}, func(r *scanner) error {
		stored, found = scanDecision(r, d.Tenant, d.Run), true
		return nil
	})
	return stored, found, err
}

func scanDecision(r *scanner, tenant, run string) effectonce.Decision {
	d := effectonce.Decision{Tenant: tenant, Run: run, Seq: r.integer(), At: r.at()}
	d.Finish, d.Step, d.Tool, d.IntentID, d.Note, d.Actor = r.flag(), r.text(), r.text(), r.text(), r.text(), r.text()
	d.Arguments, d.Operation = r.blob(), effectonce.Key(r.hash())
	return d
}

// decision reads a step's decision by a connection of its own.
func (s *Store) decision(ctx context.Context, d effectonce.Decision) (stored effectonce.Decision, found bool, err error) {
	if err := s.enter(ctx); err != nil {
		return stored, false, err
	}
	defer s.leave()
	err = s.read(ctx, func(c *pgxpool.Conn) (err error) {
		stored, found, err = findDecision(ctx, pooled{s, c}, d)
		return err
	})
	return stored, found, s.place.mapError(err)
}

// Decision implements [effectonce.Journal].
func (s *Store) Decision(ctx context.Context, tenant, run, step string) (effectonce.Decision, error) {
	d, found, err := s.decision(ctx, effectonce.Decision{Tenant: tenant, Run: run, Step: step})
	if err == nil && !found {
		err = &effectonce.Error{Code: effectonce.CodeNotFound, Detail: fmt.Sprintf("no decision is recorded for step %q of run %q", step, run)}
	}
	return d, err
}

// Decisions implements [effectonce.Journal].
func (s *Store) Decisions(ctx context.Context, tenant, run string) ([]effectonce.Decision, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	var all []effectonce.Decision
	err := s.read(ctx, func(c *pgxpool.Conn) error {
		all = nil
		return pooled{s, c}.query(ctx, selectDecisions, []any{storable(run), storable(tenant)}, func(r *scanner) error {
			all = append(all, scanDecision(r, tenant, run))
			return nil
		})
	})
	return all, s.place.mapError(err)
}

// Runs implements [effectonce.Journal]. Pages follow the id, which grows with the beginning of runs.
func (s *Store) Runs(ctx context.Context, f effectonce.RunFilter) (effectonce.RunPage, error) {
	limit, err := pageLimit(f.Limit)
	if err != nil {
		return effectonce.RunPage{}, err
	}
	before, err := pageStart(f.After)
	if err != nil {
		return effectonce.RunPage{}, err
	}
	if err := s.enter(ctx); err != nil {
		return effectonce.RunPage{}, err
	}
	defer s.leave()
	var where filter
	where.equal("tenant", f.Tenant)
	where.contains("run", f.Text)
	if f.Unfinished {
		where.all = append(where.all, "finished IS NULL")
	}
	if before > 0 {
		where.all = append(where.all, "id < "+where.param(before)+"::bigint")
	}
	st := &statement{once: true, sql: `SELECT id, tenant, run, steps, finished IS NOT NULL, began_at, last_at FROM effectonce.runs` + where.sql() +
		` ORDER BY id DESC LIMIT ` + strconv.Itoa(limit+1)}
	var page effectonce.RunPage
	err = s.read(ctx, func(c *pgxpool.Conn) error {
		page = effectonce.RunPage{}
		last := int64(0)
		return pooled{s, c}.query(ctx, st, where.args, func(r *scanner) error {
			id := r.integer()
			if len(page.Runs) == limit {
				page.Next = strconv.FormatInt(last, 10)
				return nil
			}
			last = id
			page.Runs = append(page.Runs, effectonce.Run{Tenant: r.text(), Run: r.text(), Steps: r.number(), Finished: r.flag(), BeganAt: r.at(), LastAt: r.at()})
			return nil
		})
	})
	return page, s.place.mapError(err)
}
