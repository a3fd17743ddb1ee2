package postgres

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
)

// Limits of batching, measured: see bench_test.go.
const (
	// batchMax bounds the rows of a statement, batchBytesMax what they carry.
	batchMax      = 256
	batchBytesMax = 4 << 20
	// writersMax bounds the statements of a kind that are on their way at the same time: more of them are smaller ones.
	writersMax = 2
	// carefulMax bounds the transactions that look at other operations first.
	carefulMax = 4
)

// write is one caller's write.
type write struct {
	t effectonce.Transition
	// lock is what no other write under way may have: the key, or what serialises twins.
	lock  effectonce.Key
	terms int64
	// id is the write's own number, random: the event that it stores bears it.
	id   int64
	size int

	op      effectonce.Operation
	created bool
	err     error

	taken bool
	done  chan struct{}
	// detached says that the write goes on without its batch; finish ends it.
	detached bool
	finish   func()
	// followers are writes of the same operation, which are answered with what becomes of this one.
	followers []*write
}

// batcher collects writes of one kind. A write that finds fewer than writers batches under way starts one at once; one that does
// not waits for the end of one of them, and shares the next with everybody who waits. No two writes under way have one lock.
type batcher struct {
	run     func(batch []*write)
	rows    int
	writers int
	// follow says that a second write of one operation in a batch is the first one's repeat: it is for creates.
	follow bool

	mu      sync.Mutex
	waiting []*write
	busy    map[effectonce.Key]struct{}
	running int
}

func newBatcher(run func([]*write), rows, writers int) *batcher {
	return &batcher{run: run, rows: rows, writers: writers, busy: map[effectonce.Key]struct{}{}}
}

// answerPatience is how much longer a caller waits for the answer to a write that is on its way when the caller's time is over: as
// a rule it is there at once, and spares a reconciliation.
const answerPatience = 2 * time.Second

// do carries out a write. A caller whose ctx ends before the write was taken withdraws it and gets the context's error. If it is on
// its way, the caller waits a little for the answer; without one the write may take place or not.
func (b *batcher) do(ctx context.Context, w *write) error {
	w.done = make(chan struct{})
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	start := b.running < b.writers
	if start {
		b.running++
	}
	b.mu.Unlock()
	if start {
		go b.loop()
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	if b.withdraw(w) {
		return ctx.Err()
	}
	timer := time.NewTimer(answerPatience)
	defer timer.Stop()
	select {
	case <-w.done:
		return w.err
	case <-timer.C:
		return fmt.Errorf("the write is on its way, and whether it takes place is not known: %w", ctx.Err())
	}
}

func (b *batcher) withdraw(w *write) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.taken {
		return false
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(other *write) bool { return other == w })
	return true
}

// loop runs batches until nothing is left that it may take. What it may not take has the lock of a batch under way, whose own loop
// looks again afterwards.
func (b *batcher) loop() {
	last := 0
	for {
		b.gather(last)
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		last = len(batch)
		b.run(batch)
		batch = slices.DeleteFunc(batch, func(w *write) bool { return w.detached })
		b.release(batch)
		for _, w := range batch {
			w.answer()
		}
	}
}

// end ends a write that went on without its batch, and looks for what waited for its lock.
func (b *batcher) end(w *write) {
	b.release([]*write{w})
	w.answer()
	b.mu.Lock()
	start := len(b.waiting) > 0 && b.running < b.writers
	if start {
		b.running++
	}
	b.mu.Unlock()
	if start {
		b.loop()
	}
}

// answer lets the callers go. Whoever followed finds the operation there.
func (w *write) answer() {
	for _, f := range w.followers {
		f.op, f.created, f.err = w.op, false, w.err
		close(f.done)
	}
	close(w.done)
}

// gather lets callers that are ready to run come along: whoever was answered by the last batch is probably about to write again.
// It waits for nobody that is not ready.
func (b *batcher) gather(last int) {
	for n := 0; n < last; {
		runtime.Gosched()
		m := b.length()
		if m <= n {
			return
		}
		n = m
	}
}

func (b *batcher) length() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// take removes the next batch from what is waiting, in the order of keys. None left ends the loop that asked.
func (b *batcher) take() []*write {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch []*write
	leaders := map[effectonce.Key]*write{}
	size := 0
	rest := b.waiting[:0]
	for i, w := range b.waiting {
		if len(batch) == b.rows || size > batchBytesMax {
			rest = append(rest, b.waiting[i:]...)
			break
		}
		if leader := leaders[w.lock]; leader != nil && b.follow {
			w.taken = true
			leader.followers = append(leader.followers, w)
			continue
		}
		if _, busy := b.busy[w.lock]; busy {
			rest = append(rest, w)
			continue
		}
		b.busy[w.lock] = struct{}{}
		leaders[w.lock] = w
		w.taken = true
		w.finish = func() { b.end(w) }
		size += w.size
		batch = append(batch, w)
	}
	clear(b.waiting[len(rest):])
	b.waiting = rest
	if len(batch) == 0 {
		b.running--
	}
	slices.SortFunc(batch, func(v, w *write) int { return bytes.Compare(v.t.To.Key[:], w.t.To.Key[:]) })
	return batch
}

func (b *batcher) release(batch []*write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range batch {
		delete(b.busy, w.lock)
	}
}
