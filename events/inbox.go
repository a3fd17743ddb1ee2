package events

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
)

// BodyBytesMax bounds the body of an event.
const BodyBytesMax = 1 << 20

// Waiter finds what a consumer could take up; a store does.
type Waiter interface {
	// Waiting returns operations of a tool that somebody could take up: pending, unknown, or under a lease that ran out.
	Waiting(ctx context.Context, tenant, tool string, limit int) ([]effectonce.Operation, error)
}

// Options configure an [Inbox]. Zero fields take their defaults.
type Options struct {
	// Logger gets what no sender is told. It is never given bodies or secrets.
	Logger *slog.Logger
	// Now is the clock by which signed timestamps are judged; time.Now.
	Now func() time.Time
	// Poll is how often a waiting consumer looks for events that other processes recorded; half a second.
	Poll time.Duration
	// Transport carries deliveries to consumers; nil means one of its own.
	Transport http.RoundTripper
}

// Inbox records incoming events and hands them to consumers. It is safe for concurrent use.
type Inbox struct {
	guard   *effectonce.Guard
	store   Waiter
	options Options
	readers map[string]reader
	post    poster

	mu      sync.Mutex
	arrived map[string]chan struct{}
}

// NewInbox makes an inbox of sources that have passed [Source.Check].
func NewInbox(guard *effectonce.Guard, store Waiter, sources []Source, o Options) *Inbox {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Poll == 0 {
		o.Poll = 500 * time.Millisecond
	}
	b := &Inbox{guard: guard, store: store, options: o, readers: map[string]reader{}, post: newPoster(o.Transport), arrived: map[string]chan struct{}{}}
	for _, s := range sources {
		b.readers[s.Name] = newReader(s.WithDefaults())
	}
	return b
}

// Receipt is what a sender is told about a delivery.
type Receipt struct {
	Event Event
	// Outcome is the operation of the event. Its Replayed is true for a repeat.
	Outcome effectonce.Outcome
	// Ignored says that the source does not take events of this type: nothing was stored.
	Ignored bool
}

// ErrUnsigned says that a delivery is not proved to be its source's.
var ErrUnsigned = errUnsigned

// Signed reports whether deliveries of a source are verified.
func (b *Inbox) Signed(source string) bool {
	r, ok := b.readers[source]
	return ok && r.source.NATS == nil && r.source.Verify != VerifyNone
}

// Receive verifies and records a delivery over HTTP, and returns after the commit. The errors are [ErrUnsigned],
// [effectonce.ErrNotFound] for an unknown source, those of reading, which name the part of the event that is missing, and those of
// the store: then the sender has to send again.
func (b *Inbox) Receive(ctx context.Context, source string, header http.Header, body []byte) (Receipt, error) {
	r, err := b.reader(source)
	if err != nil {
		return Receipt{}, err
	}
	if r.source.NATS != nil {
		return Receipt{}, &effectonce.Error{Code: effectonce.CodeNotFound, Field: "source", Detail: "its events come from NATS, not over HTTP", Remedy: "publish them to its stream"}
	}
	if err := r.source.verify(ctx, header, body, b.options.Now()); err != nil {
		if errors.Is(err, errUnsigned) {
			return Receipt{}, err
		}
		b.options.Logger.Error("deliveries of a source cannot be verified", "source", source, "error", err)
		return Receipt{}, &effectonce.Error{Code: effectonce.CodeStoreUnavailable, Detail: "the delivery cannot be verified now", Remedy: "send it again later", Sent: effectonce.SentNo}
	}
	e, err := r.read(header, body)
	if errors.Is(err, errIgnored) {
		return Receipt{Event: e, Ignored: true}, nil
	}
	if err != nil {
		return Receipt{Event: e}, err
	}
	return b.record(ctx, r, e)
}

func (b *Inbox) reader(source string) (reader, error) {
	r, ok := b.readers[source]
	if !ok {
		return r, &effectonce.Error{Code: effectonce.CodeNotFound, Field: "source", Detail: "there is no such source", Remedy: "add it to the section inbox of the configuration"}
	}
	return r, nil
}

// record stores the operation of an event, or finds it.
func (b *Inbox) record(ctx context.Context, r reader, e Event) (Receipt, error) {
	if e.Run == "" {
		e.Run = e.Source + ":" + e.ID
	}
	in, err := e.Intent()
	if err != nil {
		return Receipt{Event: e}, err
	}
	in.Terms.CallTimeout, in.Terms.Heartbeat, in.Terms.Attempts = r.source.Timeout, r.source.Lease, r.source.Attempts
	if d := r.source.Deliver; d != nil {
		in.Terms.Managed = true
		in.Terms.CallTimeout, in.Terms.Heartbeat = d.Timeout, 0
	}
	o, err := b.guard.Record(ctx, in)
	if err != nil {
		return Receipt{Event: e}, err
	}
	if !o.Replayed {
		b.wake(e.Source)
	} else if first := o.Operation.Run; first != e.Run {
		e.Run = first
	}
	return Receipt{Event: e, Outcome: o}, nil
}

// Handed is an event that a consumer owns until it reports how it went, with the claim's token.
type Handed struct {
	Event Event
	Claim effectonce.Claim
}

// handOut is how many operations are looked through for one that nobody owns; first a few, then many.
var handOut = []int{16, 256}

// Claim hands the next event of a source to a consumer, after at most wait; ok is false if there is none. An event whose consumer was
// lost, or that did not go well, is handed out again as a new attempt: the same event under the same run (S9.1).
func (b *Inbox) Claim(ctx context.Context, source, owner string, wait time.Duration) (h Handed, ok bool, err error) {
	if _, err := b.reader(source); err != nil {
		return Handed{}, false, err
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	poll := time.NewTicker(b.options.Poll)
	defer poll.Stop()
	for {
		arrived := b.subscribe(source)
		h, ok, err = b.next(ctx, source, owner)
		if ok || err != nil || wait <= 0 {
			return h, ok, err
		}
		select {
		case <-arrived:
		case <-poll.C:
		case <-deadline.C:
			return Handed{}, false, nil
		case <-ctx.Done():
			// A shutdown, or the consumer is gone: there is nothing for it.
			return Handed{}, false, nil
		}
	}
}

func (b *Inbox) next(ctx context.Context, source, owner string) (Handed, bool, error) {
	for _, limit := range handOut {
		ops, err := b.store.Waiting(ctx, effectonce.DefaultTenant, ToolPrefix+source, limit)
		if err != nil {
			return Handed{}, false, err
		}
		for _, op := range ops {
			if op.Terms.Managed || !dueNow(op) {
				continue
			}
			h, ok, err := b.take(ctx, op, owner)
			if ok || err != nil {
				return h, ok, err
			}
		}
		if len(ops) < limit {
			break
		}
	}
	return Handed{}, false, nil
}

// dueNow reports whether the pause after an attempt is over.
func dueNow(op effectonce.Operation) bool {
	at := op.DueAt
	if op.Parked {
		at = op.RetryAt
	}
	return !op.AsOf.Before(at)
}

// take claims one event; ok is false if somebody else was faster, or it is not due.
func (b *Inbox) take(ctx context.Context, op effectonce.Operation, owner string) (Handed, bool, error) {
	e, err := EventOf(op)
	if err != nil {
		return Handed{}, false, err
	}
	in, err := e.Intent()
	if err != nil {
		return Handed{}, false, err
	}
	in.Actor = owner
	c, err := b.guard.Claim(ctx, in)
	switch {
	case errors.Is(err, effectonce.ErrConflict):
		return Handed{}, false, nil
	case err != nil:
		return Handed{}, false, err
	}
	if c.Do == effectonce.TaskLookUp {
		// Whatever the attempt before did, a repeat is harmless: the run makes each of its steps once.
		c, err = b.guard.LookedUp(ctx, op.Key, c.Token, effectonce.Finding{Found: effectonce.FoundAbsent, Detail: "handed out again"})
		if errors.Is(err, effectonce.ErrStaleToken) {
			return Handed{}, false, nil
		}
		if err != nil {
			return Handed{}, false, err
		}
	}
	return Handed{Event: e, Claim: c}, c.Do == effectonce.TaskExecute, nil
}

// subscribe returns a channel that is closed when the next event of a source arrives in this process.
func (b *Inbox) subscribe(source string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch, ok := b.arrived[source]
	if !ok {
		ch = make(chan struct{})
		b.arrived[source] = ch
	}
	return ch
}

func (b *Inbox) wake(source string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ch, ok := b.arrived[source]; ok {
		close(ch)
		delete(b.arrived, source)
	}
}
