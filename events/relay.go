package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/effectonce/effectonce"
)

// RelayOptions configure a [Relay]. Zero fields take their defaults.
type RelayOptions struct {
	Logger *slog.Logger
	Clock  effectonce.Clock
	// Every is the pause between two looks at the outbox when nothing is due; half a second.
	Every time.Duration
	// Parallel is how many subjects are delivered at the same time, so that a slow target does not stop others; 16.
	Parallel int
	// Batch is how many messages of a subject are taken at once; 32.
	Batch int
	// Jitter returns a number from 0 to 1 for the back-off; a random one.
	Jitter func() float64
	// Transport carries webhooks; nil means one of its own.
	Transport http.RoundTripper
	// Brokers connects to NATS; nil means [NewBrokers].
	Brokers *Brokers
}

// Relay delivers the messages of an outbox (S9.2). Any number of relays may share a store.
type Relay struct {
	outbox  effectonce.Outbox
	routes  []route
	lease   time.Duration
	options RelayOptions
}

// route is a Route with its target.
type route struct {
	Route
	send func(ctx context.Context, m effectonce.Message) error
}

// leaseMargin is what remains of a lease after the last call may have ended, for recording.
const leaseMargin = 10 * time.Second

// NewRelay makes a relay of routes that have passed [Route.Check].
func NewRelay(outbox effectonce.Outbox, routes []Route, o RelayOptions) *Relay {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = effectonce.SystemClock{}
	}
	if o.Every == 0 {
		o.Every = 500 * time.Millisecond
	}
	if o.Parallel == 0 {
		o.Parallel = 16
	}
	if o.Batch == 0 {
		o.Batch = 32
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	if o.Brokers == nil {
		o.Brokers = NewBrokers(o.Logger)
	}
	r := &Relay{outbox: outbox, options: o}
	post := newPoster(o.Transport)
	longest := time.Duration(0)
	for _, rt := range routes {
		rt = rt.WithDefaults()
		longest = max(longest, rt.Timeout)
		next := route{Route: rt}
		if rt.Webhook != nil {
			next.send = webhook{to: *rt.Webhook, post: post, now: o.Clock.Now}.send
		} else {
			next.send = stream{to: *rt.NATS, brokers: o.Brokers}.send
		}
		r.routes = append(r.routes, next)
	}
	// Room for two calls: a batch is cut where the next call might outlast the lease.
	r.lease = 2*longest + leaseMargin
	return r
}

// Run delivers until ctx is done, then lets running calls end, returns what it took, and returns nil. Errors of the store are logged
// and tried again. A relay that is killed loses nothing: its lease runs out, and what it may have delivered is delivered again.
func (r *Relay) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, r.options.Parallel)
	failures := 0
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		// The lease counts from before the call.
		taken := r.options.Clock.Now()
		q, messages, err := r.outbox.TakeQueue(ctx, r.lease, r.options.Batch)
		if err == nil {
			failures = 0
			running.Go(func() {
				defer func() { <-slots }()
				r.relay(ctx, q, messages, taken)
			})
			continue
		}
		<-slots
		if ctx.Err() != nil {
			return nil
		}
		pause := r.options.Every
		if !errors.Is(err, effectonce.ErrNotFound) {
			failures++
			pause = min(pause<<min(failures, 6), 30*time.Second)
			r.options.Logger.Warn("the store cannot say what waits in the outbox", "error", err, "again_in", pause.String())
		}
		if r.options.Clock.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// relay delivers what was taken of one subject, and returns it.
func (r *Relay) relay(ctx context.Context, q effectonce.Queue, messages []effectonce.Message, taken time.Time) {
	done := r.deliver(ctx, q, messages, taken)
	log := r.options.Logger.With("subject", q.Subject)
	rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseMargin/2)
	defer cancel()
	err := r.outbox.ReturnQueue(rctx, q, done)
	switch {
	case err != nil:
		log.Warn("what was delivered could not be recorded; it will be delivered again", "delivered", done.Delivered, "error", err)
	case done.Park:
		log.Error("a message is parked and its subject waits: people must look", "head", messages[done.Delivered].ID, "reason", done.Reason)
	case done.Reason != "":
		log.Warn("a message could not be delivered", "message", messages[done.Delivered].ID, "reason", done.Reason, "again_in", done.Again.String())
	}
}

func (r *Relay) deliver(ctx context.Context, q effectonce.Queue, messages []effectonce.Message, taken time.Time) effectonce.Relayed {
	rt, ok := r.routeOf(q.Subject)
	if len(messages) == 0 {
		return effectonce.Relayed{}
	}
	if !ok {
		return effectonce.Relayed{Reason: "no route", Park: true}
	}
	var done effectonce.Relayed
	for _, m := range messages {
		if late := r.options.Clock.Now().Sub(taken)+rt.Timeout > r.lease-leaseMargin; late || ctx.Err() != nil {
			return done
		}
		// A shutdown lets the call end, so that its end is known.
		cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rt.Timeout)
		err := rt.send(cctx, m)
		cancel()
		if err == nil {
			done.Delivered++
			continue
		}
		failed := 1
		if done.Delivered == 0 {
			failed += q.Attempts
		}
		var never *undeliverable
		done.Reason = plainError(err)
		done.Again = r.backoff(rt.Route, failed, err)
		done.Park = failed >= rt.Attempts || errors.As(err, &never)
		return done
	}
	return done
}

func (r *Relay) routeOf(subject string) (route, bool) {
	for _, rt := range r.routes {
		if rt.Matches(subject) {
			return rt, true
		}
	}
	return route{}, false
}

// backoff is the pause after the nth failure: exponential, with jitter between half and whole, and at least what the target asked for.
func (r *Relay) backoff(rt Route, n int, err error) time.Duration {
	d := rt.Backoff
	for i := 1; i < n && d < rt.BackoffMax; i++ {
		d *= 2
	}
	d = min(d, rt.BackoffMax)
	d = d/2 + time.Duration(float64(d/2)*r.options.Jitter())
	var refused *refusal
	if errors.As(err, &refused) {
		d = max(d, refused.after)
	}
	return max(d, time.Millisecond)
}

// undeliverable is a failure that no further attempt can mend.
type undeliverable struct{ why string }

func (u *undeliverable) Error() string { return u.why }

// webhook is the target of a route over HTTP.
type webhook struct {
	to   Webhook
	post poster
	now  func() time.Time
}

func (w webhook) send(ctx context.Context, m effectonce.Message) error {
	h := http.Header{}
	h.Set("Content-Type", headerSafe(m.ContentType))
	describe(m, func(name, value string) { h.Set(name, headerSafe(value)) })
	h.Set(headerID, webhookID(m.ID))
	h.Set(headerEvent, headerSafe(m.ID))
	if w.to.Secret != nil {
		secret, err := w.to.Secret(ctx)
		if err == nil {
			err = signStandard(h, secret, webhookID(m.ID), m.Data, w.now())
		}
		if err != nil {
			return fmt.Errorf("it could not be signed: %w", err)
		}
	}
	_, err := w.post.post(ctx, w.to.URL, h, m.Data)
	return err
}

// describe names the headers that every target gets.
func describe(m effectonce.Message, set func(name, value string)) {
	set(headerSubject, m.Subject)
	set(headerSeq, fmt.Sprint(m.Seq))
	if m.Type != "" {
		set(headerType, m.Type)
	}
}
