package postgres

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce"
	"github.com/effectonce/effectonce/store/postgres/pgtest"
)

// S8.1, S5.7: an intent that a program has recorded in a transaction which stays open keeps nobody waiting but who records the same one,
// and who does learns what became of it.
func TestAnOpenTransactionHoldsUpItsOwnIntentOnly(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{true, false} {
		t.Run("kept "+strconv.FormatBool(keep), func(t *testing.T) {
			t.Parallel()
			at := pgtest.URL(t)
			s, other := opened(t, at, Options{}), opened(t, at, Options{})
			s.batchPatience = 200 * time.Millisecond
			c, err := pgx.Connect(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close(t.Context()) }()
			tx, err := c.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			guard := effectonce.New(s, effectonce.Options{})
			intent := func(i int) effectonce.Intent {
				return effectonce.Intent{Tool: "t", ID: "i" + strconv.Itoa(i), Arguments: effectonce.Arguments(map[string]any{"a": 1})}
			}
			first, err := effectonce.New(other, effectonce.Options{}).RecordTx(t.Context(), other.PgxTx(tx), intent(0))
			if err != nil {
				t.Fatal(err)
			}

			const callers = 40
			var others, same sync.WaitGroup
			for i := range callers {
				record := func() {
					out, err := guard.Record(t.Context(), intent(i%(callers/2)))
					if err == nil && i%(callers/2) == 0 && (out.Operation.Version != 1 || keep && !out.Operation.CreatedAt.Equal(first.Operation.CreatedAt)) {
						err = errors.New("another operation than the recorded one")
					}
					if err != nil {
						t.Errorf("%d: %v", i, err)
					}
				}
				if i%(callers/2) == 0 {
					same.Go(record)
				} else {
					others.Go(record)
				}
			}
			others.Wait()
			if keep {
				err = tx.Commit(t.Context())
			} else {
				err = tx.Rollback(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			same.Wait()
			var operations, events int
			if err := c.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM effectonce.operations), (SELECT count(*) FROM effectonce.events)").Scan(&operations, &events); err != nil {
				t.Fatal(err)
			}
			if operations != callers/2 || events != callers/2 {
				t.Errorf("%d operations with %d events", operations, events)
			}
		})
	}
}

// S8.3: a limit of which a transaction that stays open has taken holds up only who takes of it, too.
func TestAnOpenTransactionHoldsUpItsOwnLimitsOnly(t *testing.T) {
	t.Parallel()
	at := pgtest.URL(t)
	s, other := opened(t, at, Options{}), opened(t, at, Options{})
	s.batchPatience = 200 * time.Millisecond
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(t.Context()) }()
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	guard := effectonce.New(s, effectonce.Options{})
	intent := func(id, limit string) effectonce.Intent {
		return effectonce.Intent{Tool: "t", ID: id, Arguments: effectonce.Arguments(map[string]any{"a": 1}), Limits: []effectonce.Limit{{Name: limit, Amount: 1, Max: 20}}}
	}
	if _, err := effectonce.New(other, effectonce.Options{}).RecordTx(t.Context(), other.PgxTx(tx), intent("first", "held")); err != nil {
		t.Fatal(err)
	}
	var others, same sync.WaitGroup
	for i := range 16 {
		same.Go(func() {
			if _, err := guard.Record(t.Context(), intent("same"+strconv.Itoa(i), "held")); err != nil {
				t.Error(err)
			}
		})
		others.Go(func() {
			if _, err := guard.Record(t.Context(), intent("other"+strconv.Itoa(i), "free")); err != nil {
				t.Error(err)
			}
		})
	}
	others.Wait()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	same.Wait()
	for name, want := range map[string]int64{"held": 17, "free": 16} {
		uses, err := s.Limits(t.Context(), effectonce.LimitFilter{Name: name})
		if err != nil || len(uses) != 1 || uses[0].Used != want {
			t.Errorf("%s: %+v, %v; want %d taken", name, uses, err, want)
		}
	}
}
