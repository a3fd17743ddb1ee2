package effectonce

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// This file is S7.9: when unknown outcomes of one provider jump, new calls to it pause instead of filling the review queue.

// Breaker watches how attempts end, and holds new ones back from a provider whose outcomes are suddenly unknown. What is held back is
// pending, visibly, and runs when the pause is over: first one call, whose end decides whether the others follow. It is safe for
// concurrent use; each process has its own.
type Breaker struct {
	o BreakerOptions

	mu       sync.Mutex
	circuits map[string]*circuit
}

// BreakerOptions say when a breaker opens. Zero fields take their defaults.
type BreakerOptions struct {
	// It opens when Unknown of the last Of attempts, none older than Within, ended unknown: 8 of 10 in two minutes.
	Unknown, Of int
	Within      time.Duration
	// Pause is how long it then stays open; each time that the call after it ends unknown too, twice as long, up to PauseMax: 30 seconds
	// and ten minutes.
	Pause, PauseMax time.Duration
	// Clock is the worker's clock; nil means [SystemClock].
	Clock Clock
	// Changed, if set, is told of every opening and closing, while a lock is held.
	Changed func(Circuit)
}

// Circuit is how a breaker stands towards one provider.
type Circuit struct {
	// Name is the scope of the provider's requests, or the tool where there is none.
	Name string
	// Open says that new calls are held back; Left for how long.
	Open bool
	Left time.Duration
	// Unknown of the last Of attempts ended unknown.
	Unknown, Of int
}

type circuit struct {
	ends  []ended
	pause time.Duration
	// until is the end of the pause, zero while closed; probing is until when a first call after it is waited for.
	until, probing time.Time
}

type ended struct {
	at      time.Time
	unknown bool
}

// NewBreaker makes a breaker that is closed.
func NewBreaker(o BreakerOptions) *Breaker {
	o.Unknown, o.Of = cmp.Or(o.Unknown, 8), cmp.Or(o.Of, 10)
	o.Within = cmp.Or(o.Within, 2*time.Minute)
	o.Pause, o.PauseMax = cmp.Or(o.Pause, 30*time.Second), cmp.Or(o.PauseMax, 10*time.Minute)
	if o.Clock == nil {
		o.Clock = SystemClock{}
	}
	return &Breaker{o: o, circuits: map[string]*circuit{}}
}

// Options returns the options with what they left out.
func (b *Breaker) Options() BreakerOptions { return b.o }

// wait is how long a new call has to be held back, 0 for not at all.
func (b *Breaker) wait(name string) time.Duration {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.circuits[name]
	if c == nil || c.until.IsZero() {
		return 0
	}
	now := b.o.Clock.Now()
	switch {
	case now.Before(c.until):
		return c.until.Sub(now)
	case now.Before(c.probing):
		return c.probing.Sub(now)
	}
	return 0
}

// started notes that a call begins. After a pause it is the one whose end is waited for; should it never be reported, another follows.
func (b *Breaker) started(name string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.circuits[name]; c != nil && !c.until.IsZero() {
		c.probing = b.o.Clock.Now().Add(c.pause)
	}
}

// report counts the end of an attempt. Ends that say nothing about the provider do not count.
func (b *Breaker) report(name string, v Verdict) {
	if b == nil || v == VerdictNotSent || v == VerdictThrottled || v == VerdictInFlight {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Clock.Now()
	c := b.circuits[name]
	if c == nil {
		c = &circuit{}
		b.circuits[name] = c
	}
	open := !c.until.IsZero()
	if open && v != VerdictUnknown {
		*c = circuit{}
		b.changed(name, c, now)
		return
	}
	c.ends = append(c.ends, ended{now, v == VerdictUnknown})
	c.ends = slices.DeleteFunc(c.ends, func(e ended) bool { return now.Sub(e.at) > b.o.Within })
	c.ends = c.ends[max(0, len(c.ends)-b.o.Of):]
	switch {
	case open && now.Before(c.until):
		// An attempt from before the pause.
	case open:
		c.pause = min(2*c.pause, b.o.PauseMax)
		c.until, c.probing = now.Add(c.pause), time.Time{}
		b.changed(name, c, now)
	case c.unknown() >= b.o.Unknown:
		c.pause = b.o.Pause
		c.until = now.Add(c.pause)
		b.changed(name, c, now)
	}
}

func (c *circuit) unknown() int {
	n := 0
	for _, e := range c.ends {
		if e.unknown {
			n++
		}
	}
	return n
}

func (b *Breaker) changed(name string, c *circuit, now time.Time) {
	if b.o.Changed != nil {
		b.o.Changed(c.describe(name, now))
	}
}

func (c *circuit) describe(name string, now time.Time) Circuit {
	d := Circuit{Name: name, Open: !c.until.IsZero(), Unknown: c.unknown(), Of: len(c.ends)}
	if d.Open {
		d.Left = max(0, c.until.Sub(now))
	}
	return d
}

// Circuits lists how the breaker stands, in the order of names.
func (b *Breaker) Circuits() []Circuit {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Clock.Now()
	var all []Circuit
	for name, c := range b.circuits {
		all = append(all, c.describe(name, now))
	}
	slices.SortFunc(all, func(a, b Circuit) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// circuit names the breaker's circuit of an operation: where its requests go, or its tool.
func (op Operation) circuit() string { return cmp.Or(op.RequestScope, op.Tool) }

// heldBack says why an operation that a breaker holds back is pending.
func heldBack(wait time.Duration) string {
	return fmt.Sprintf("the provider's outcomes are unknown at present: new calls pause, this one for %s", wait.Round(time.Second))
}
