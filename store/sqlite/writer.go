package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
)

// batchMax bounds how many writes share a transaction.
const batchMax = 256

// writer is the one goroutine that writes. It takes what is waiting (there is no timer), decides each request in turn under
// the file's write lock, commits once, and answers everybody after the commit.
type writer struct {
	s *Store
	c *conn

	mu     sync.Mutex
	wake   sync.Cond
	queue  []*request
	closed bool
	done   chan struct{}

	// last is how many requests the last transaction had.
	last int
	// mark is the high-water mark as this process last knew it; a transaction that finds another one shares the file with
	// another process. shared is when that was last seen.
	mark   time.Time
	shared time.Time
}

// request is one caller's write. do runs inside the transaction, and again if the transaction had to be repeated: it must set
// its results anew each time. It either refuses, with an [effectonce.Error] and before it writes anything, or writes. Any
// other error undoes the whole transaction, after which each request gets a transaction of its own.
type request struct {
	do     func(b *batch) error
	err    error
	taken  bool
	answer chan struct{}
}

// batch is one transaction: of the writer, for many callers, or one call within a transaction of the caller's.
type batch struct {
	querier
	s *Store
	// high is the file's high-water mark when the transaction began; now is set once the clock was asked for.
	high  time.Time
	now   time.Time
	dirty bool
	// learnt are the terms that this transaction stored, to be remembered once it has committed.
	learnt []internedTerms
}

func newWriter(s *Store, c *conn) *writer {
	w := &writer{s: s, c: c, done: make(chan struct{})}
	w.wake.L = &w.mu
	go w.run()
	return w
}

// write hands a request to the writer and waits for the answer. A caller whose ctx ends before the request was taken withdraws
// it; afterwards it runs, and the caller waits for the commit.
func (w *writer) write(ctx context.Context, do func(b *batch) error) error {
	if err := ctx.Err(); err != nil {
		return w.s.mapError(err)
	}
	r := &request{do: do, answer: make(chan struct{})}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return w.s.errClosed()
	}
	w.queue = append(w.queue, r)
	w.wake.Signal()
	w.mu.Unlock()

	select {
	case <-r.answer:
		return w.s.mapError(r.err)
	case <-ctx.Done():
	}
	if w.withdraw(r) {
		return w.s.mapError(ctx.Err())
	}
	<-r.answer
	return w.s.mapError(r.err)
}

func (w *writer) withdraw(r *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.taken {
		return false
	}
	for i, q := range w.queue {
		if q == r {
			w.queue = append(w.queue[:i], w.queue[i+1:]...)
			return true
		}
	}
	return false
}

// take removes up to batchMax requests from the queue.
func (w *writer) take() []*request {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), batchMax)
	taken := append([]*request(nil), w.queue[:n]...)
	for _, r := range taken {
		r.taken = true
	}
	rest := copy(w.queue, w.queue[n:])
	clear(w.queue[rest:])
	w.queue = w.queue[:rest]
	return taken
}

// wait blocks until there is work; false means that the store is closed and the queue is drained.
func (w *writer) wait() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) == 0 && !w.closed {
		w.wake.Wait()
	}
	return len(w.queue) > 0
}

// gather lets callers that are ready to run come along before a transaction begins: whoever was answered by the last one is
// probably about to write again. It waits for nobody that is not ready.
func (w *writer) gather() {
	for n := 0; n < w.last; {
		runtime.Gosched()
		m := w.waiting()
		if m <= n {
			return
		}
		n = m
	}
}

func (w *writer) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// close lets the writer finish what is waiting, and waits for that.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Broadcast()
	w.mu.Unlock()
	<-w.done
}

func (w *writer) run() {
	defer close(w.done)
	for w.wait() {
		w.gather()
		// The write lock comes first and the requests second, so that what arrives meanwhile is in the same transaction.
		b, err := w.begin(func() bool { return w.waiting() > 0 })
		if err == nil && b == nil {
			continue
		}
		taken := w.take()
		w.last = len(taken)
		if err == nil {
			err = w.attempt(b, taken)
		}
		if err != nil && b != nil && len(taken) > 1 && !errors.Is(err, errCommit) {
			w.apart(taken)
			continue
		}
		answer(taken, err)
		w.yield()
	}
}

// errCommit marks an error after which a transaction may be durable or not; it is not repeated.
var errCommit = errors.New("commit failed")

// attempt runs the requests in the transaction and commits it. On an error nothing of it counts.
func (w *writer) attempt(b *batch, taken []*request) error {
	for _, r := range taken {
		r.err = r.do(b)
		if refused := (*effectonce.Error)(nil); r.err != nil && !errors.As(r.err, &refused) {
			w.rollback()
			return r.err
		}
	}
	if !b.dirty {
		w.rollback()
		return nil
	}
	if err := b.raiseMark(); err != nil {
		w.rollback()
		return err
	}
	if _, err := b.exec("COMMIT"); err != nil {
		w.rollback()
		return errors.Join(errCommit, err)
	}
	if b.now.After(w.mark) {
		w.mark = b.now
	}
	w.s.terms.add(b.learnt)
	return nil
}

// apart gives each request a transaction of its own, after one of them spoilt the common one.
func (w *writer) apart(taken []*request) {
	for _, r := range taken {
		b, err := w.begin(func() bool { return true })
		if err == nil {
			err = w.attempt(b, []*request{r})
		}
		answer([]*request{r}, err)
	}
}

func answer(taken []*request, err error) {
	for _, r := range taken {
		if err != nil {
			r.err = err
		}
		close(r.answer)
	}
}

// begin takes the write lock. Both results are nil if nobody waits any more.
func (w *writer) begin(waiting func() bool) (*batch, error) {
	deadline := time.Now().Add(w.s.busyTimeout)
	for try := 0; ; try++ {
		_, err := w.c.exec("BEGIN IMMEDIATE")
		if err == nil {
			break
		}
		if !busy(err) || time.Now().After(deadline) {
			return nil, err
		}
		if !waiting() {
			return nil, nil
		}
		// Short random pauses: long ones lose against a process that writes without a break.
		pause := 300*time.Microsecond + rand.N(time.Millisecond)
		if try > 100 {
			pause *= 4
		}
		time.Sleep(pause)
	}
	high, err := highMark(w.c)
	if err == nil {
		err = w.s.inPlace()
	}
	if err != nil {
		w.rollback()
		return nil, err
	}
	b := &batch{querier: w.c, s: w.s, high: high}
	if b.high.After(w.mark) {
		if !w.mark.IsZero() {
			w.shared = time.Now()
		}
		w.mark = b.high
	}
	return b, nil
}

// yield leaves the lock alone for a moment if another process has written lately: it can only poll for it.
func (w *writer) yield() {
	if !w.shared.IsZero() && time.Since(w.shared) < 100*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
}

func (w *writer) rollback() {
	// It fails where SQLite has rolled back by itself, which is just as well.
	_, _ = w.c.exec("ROLLBACK")
}

// clock returns the moment of this transaction (S5.4), or an [effectonce.ErrClockStepped].
func (b *batch) clock() (time.Time, error) {
	if !b.now.IsZero() {
		return b.now, nil
	}
	now, err := effectonce.StoreClock(b.s.now(), b.high)
	if err != nil {
		return time.Time{}, err
	}
	b.now = now
	return now, nil
}

// raiseMark records that something was decided by the clock.
func (b *batch) raiseMark() error {
	if !b.dirty || !b.now.After(b.high) {
		return nil
	}
	_, err := b.exec("UPDATE clock SET high = ?", b.now.UnixMicro())
	return err
}

func (b *batch) integer(query string, args ...driver.Value) (int64, bool, error) {
	return integer(b, query, args...)
}
