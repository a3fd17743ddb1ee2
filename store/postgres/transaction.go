package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/effectonce/effectonce"
)

// transaction runs f in a transaction and commits it. It is known at the end what became of it: f is run again after what others
// caused; and every transaction stores a number of its own first, so that one whose commit's answer was lost finds it, once the first
// try has ended at the server (S16.14). f's results then are those of the run that took place. An error of f that is the project's
// is returned as it is, and undoes what f did.
func (s *Store) transaction(ctx context.Context, f func(ctx context.Context, q queryer) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	// These are no more urgent than reads: some connections are left to claims.
	select {
	case s.readers <- struct{}{}:
	case <-ctx.Done():
		return s.place.mapError(ctx.Err())
	}
	defer func() { <-s.readers }()
	id, err := s.writeID()
	if err != nil {
		return err
	}
	giveUp := time.Now().Add(s.patience)
	doubt := false
	for try := 1; ; try++ {
		err := s.transactionOnce(ctx, id, &doubt, f)
		switch {
		case err == nil:
			return nil
		case ours(err), ctx.Err() != nil && !doubt:
			return s.place.mapError(err)
		case errors.Is(err, errClockMoved) && time.Now().Before(giveUp):
			pause(try)
			continue
		case contended(err), forgotten(err):
			if try < contendedTries {
				pause(try)
				continue
			}
		case doubt, lost(err), staleConnection(err):
			if time.Now().Before(giveUp) && ctx.Err() == nil {
				pause(try)
				continue
			}
		}
		return s.inDoubt(err, doubt)
	}
}

// transactionOnce is one run. doubt says that an earlier one may have taken place, or afterwards that this one may.
func (s *Store) transactionOnce(ctx context.Context, id int64, doubt *bool, f func(ctx context.Context, q queryer) error) error {
	return s.with(ctx, func(c *pgxpool.Conn) error {
		// Whatever became of the caller, what was decided is committed or undone (S6.6).
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementPatience)
		defer cancel()
		results, err := c.Conn().PgConn().Exec(ctx, beginNumbered(id)).ReadAll()
		if err != nil {
			return err
		}
		if n := len(results); *doubt && n > 0 && results[n-1].CommandTag.RowsAffected() == 0 {
			// It took place. Nothing is written to what f found out then.
			_ = plain(dctx, c, "ROLLBACK")
			return nil
		}
		*doubt = false
		if err := f(ctx, pooled{s, c}); err != nil {
			// A connection that is gone has rolled back by itself.
			_ = plain(dctx, c, "ROLLBACK")
			return err
		}
		err = plain(dctx, c, "COMMIT")
		*doubt = err != nil && !harmless(err)
		return err
	})
}

// beginNumbered begins a transaction with a number. It is sent as one command, without parameters.
func beginNumbered(id int64) string {
	return fmt.Sprintf("%s; INSERT INTO effectonce.writes (id, at) VALUES (%d, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) ON CONFLICT (id) DO NOTHING", begin, id)
}

// writeID is a new random number for a write.
func (s *Store) writeID() (int64, error) {
	var id [8]byte
	if _, err := io.ReadFull(s.rand, id[:]); err != nil {
		return 0, &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "no randomness for a write's number", Cause: err}
	}
	return int64(binary.BigEndian.Uint64(id[:])), nil
}

var clockStatement = newStatement(`SELECT c.now, c.behind, c.high FROM (` + clockSQL + `) c`)

// moment is the store's time in a transaction.
func (s *Store) moment(ctx context.Context, q queryer) (moment, error) {
	var at moment
	err := q.query(ctx, clockStatement, s.clockArgs(), func(r *scanner) error {
		at = scanMoment(r)
		return nil
	})
	if err == nil {
		err = s.check(at)
	}
	if err == nil {
		s.advance(at)
	}
	return at, err
}
