package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/effectonce/effectonce"
)

const (
	// statementPatience bounds one try of a statement, so that callers of a server that does not answer get an error.
	statementPatience = 30 * time.Second
	// batchPatience bounds the first try of a batch: longer it takes only where the server is very slow, or one of its rows, or a
	// limit, waits for the end of a caller's transaction (S8.1), of which the others have to know nothing.
	batchPatience = 5 * time.Second
	// stragglersMax bounds the statements that are on their way for what took longer.
	stragglersMax = 3
	// contendedTries is how often a batch is tried again that met others at the same rows.
	contendedTries = 5
)

// attempt tries a batch once. On an error it says nothing about any write; else it has answered all.
type attempt func(ctx context.Context, batch []*write, doubt bool) error

// settle runs a batch until it is known what became of every write in it.
//
// Every write has a number of its own, which its event bears. So a try whose answer was lost is simply made again: a write that
// took place is found by its number, and one that did not takes place now or meets whoever was faster. If the first try is still
// on its way at the server, the second one waits for it at the same row. Nothing is assumed (S16.14).
//
// doubt says that an earlier try may have taken place. An error that one row may have caused gives each write a statement of its
// own.
func (s *Store) settle(batch []*write, doubt bool, once attempt) {
	// Callers come and go, and what is recorded must not depend on them (S6.6).
	giveUp := time.Now().Add(s.patience)
	for try := 1; ; try++ {
		patience, detached := s.batchPatience, batch[0].detached
		if detached {
			patience = statementPatience
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := once(ctx, batch, doubt)
		slow := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			return
		case slow && !detached:
			s.detach(batch, once)
			return
		case ours(err):
		case contended(err) && try < contendedTries:
			if try == 1 && len(batch) > 1 {
				s.apart(batch, doubt, once)
				return
			}
			pause(try)
			continue
		case ofTheRows(err) && len(batch) > 1:
			s.apart(batch, doubt, once)
			return
		case forgotten(err) && try < contendedTries:
			continue
		case !harmless(err):
			doubt = true
			if time.Now().Before(giveUp) {
				pause(try)
				continue
			}
		case doubt || staleConnection(err):
			if time.Now().Before(giveUp) {
				pause(try)
				continue
			}
		}
		fail(batch, s.inDoubt(err, doubt))
		return
	}
}

// staleConnection reports whether nothing was sent because the connection had died meanwhile.
func staleConnection(err error) bool { return !answered(err) && !unsentError(err) }

// inDoubt says in the error that the write may have taken place.
func (s *Store) inDoubt(err error, doubt bool) error {
	err = s.place.mapError(err)
	var e *effectonce.Error
	if doubt && errors.As(err, &e) && e.Code == effectonce.CodeStoreUnavailable {
		in := *e
		in.Detail += "; whether the last write took place is not known"
		in.Remedy = "try again with the same intent: what was recorded is found"
		return &in
	}
	return err
}

// apart gives each write a statement of its own.
func (s *Store) apart(batch []*write, doubt bool, once attempt) {
	for _, w := range batch {
		s.settle([]*write{w}, doubt, once)
	}
}

// detach gives each write a statement of its own, and nobody waits for it but its caller. The first try may yet take place.
func (s *Store) detach(batch []*write, once attempt) {
	for _, w := range batch {
		w.detached = true
		go func() {
			s.stragglers <- struct{}{}
			s.settle([]*write{w}, true, once)
			<-s.stragglers
			w.finish()
		}()
	}
}

func fail(batch []*write, err error) {
	for _, w := range batch {
		w.op, w.created, w.err = effectonce.Operation{}, false, err
	}
}

// pause is short and random at first, so that two that got in each other's way do not meet again, and longer while the server is
// away.
func pause(try int) {
	d := min(time.Millisecond<<min(try, 8), 200*time.Millisecond)
	time.Sleep(d/2 + rand.N(d))
}
