package events

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/effectonce/effectonce"
)

// Brokers keeps one connection for each NATS address. A connection that is lost comes back by itself, and one that cannot be made is
// tried again; both are logged. It is safe for concurrent use.
type Brokers struct {
	log *slog.Logger

	mu    sync.Mutex
	conns map[access]*nats.Conn
}

// access is an address with the digest of what opens it: a rotated credential makes a connection of its own.
type access struct {
	url    string
	secret [sha256.Size]byte
}

// NewBrokers makes an empty set of connections.
func NewBrokers(log *slog.Logger) *Brokers {
	return &Brokers{log: log, conns: map[access]*nats.Conn{}}
}

// natsTimeout bounds one try to connect.
const natsTimeout = 5 * time.Second

// connect returns the connection of an address. It may not be up yet.
func (b *Brokers) connect(ctx context.Context, url string, credentials Secret) (*nats.Conn, error) {
	secret := ""
	if credentials != nil {
		var err error
		if secret, err = credentials(ctx); err != nil {
			return nil, fmt.Errorf("the credentials of %s: %w", url, err)
		}
	}
	at := access{url, sha256.Sum256([]byte(secret))}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.conns[at]; c != nil && !c.IsClosed() {
		return c, nil
	}
	log := b.log.With("nats", url)
	options := []nats.Option{
		nats.Name("effectonce"), nats.Timeout(natsTimeout), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second),
		// What was published while the connection is down must fail visibly, and not be sent whenever it comes back.
		nats.ReconnectBufSize(-1),
		nats.ConnectHandler(func(*nats.Conn) { log.Info("connected to NATS") }),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("connected to NATS again") }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("the connection to NATS is lost; it is tried again", "error", err)
			}
		}),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { log.Warn("NATS cannot be reached; it is tried again", "error", err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { log.Warn("NATS reports an error", "error", err) }),
	}
	switch {
	case strings.Contains(secret, "-----BEGIN"):
		options = append(options, nats.UserCredentialBytes([]byte(secret)))
	case secret != "":
		options = append(options, nats.Token(secret))
	}
	c, err := nats.Connect(url, options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", url, err)
	}
	if !c.IsConnected() {
		log.Warn("NATS cannot be reached yet; it is tried again")
	}
	b.conns[at] = c
	return c, nil
}

// Down lists the addresses that are not connected at present.
func (b *Brokers) Down() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var down []string
	for at, c := range b.conns {
		switch {
		case c.IsClosed():
			// Its credentials were refused, or it was closed here; whoever still needs it connects again.
			delete(b.conns, at)
		case !c.IsConnected() && !slices.Contains(down, at.url):
			down = append(down, at.url)
		}
	}
	slices.Sort(down)
	return down
}

// Close closes all connections.
func (b *Brokers) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.Close()
	}
	clear(b.conns)
}

// stream is the target of a route over JetStream.
type stream struct {
	to      Publisher
	brokers *Brokers
}

func (s stream) send(ctx context.Context, m effectonce.Message) error {
	if detail := wrongPattern(m.Subject); detail != "" || strings.ContainsAny(m.Subject, "*>") {
		return &undeliverable{"the subject is none of NATS: empty parts, white space or wildcards"}
	}
	c, err := s.brokers.connect(ctx, s.to.URL, s.to.Credentials)
	if err != nil {
		return err
	}
	js, err := jetstream.New(c)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(m.Subject)
	msg.Data = m.Data
	msg.Header.Set("Content-Type", headerSafe(m.ContentType))
	describe(m, func(name, value string) { msg.Header.Set(name, headerSafe(value)) })
	msg.Header.Set(jetstream.MsgIDHeader, headerSafe(m.ID))
	if _, err := js.PublishMsg(ctx, msg); err != nil {
		if errors.Is(err, jetstream.ErrNoStreamResponse) {
			return errors.New("no stream of JetStream takes the subject")
		}
		return err
	}
	return nil
}

// Subscriber takes the events of one source from JetStream and records each before it acknowledges it.
type Subscriber struct {
	inbox   *Inbox
	reader  reader
	brokers *Brokers
	log     *slog.Logger
}

// Subscribers makes a subscriber for each source of the inbox that is on NATS.
func (b *Inbox) Subscribers(brokers *Brokers) []*Subscriber {
	var all []*Subscriber
	for name, r := range b.readers {
		if r.source.NATS != nil {
			all = append(all, &Subscriber{inbox: b, reader: r, brokers: brokers, log: b.options.Logger.With("source", name)})
		}
	}
	return all
}

// The paces of a subscriber.
const (
	fetchBatch = 64
	fetchWait  = 2 * time.Second
	// nakDelay is the pause before a message comes again that could not be stored.
	nakDelay = 2 * time.Second
	// ackWait is how long JetStream waits for an acknowledgement, for consumers that are made here.
	ackWait  = time.Minute
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// Run takes events until ctx is done and returns nil. What cannot be reached is tried again, visibly in the log.
func (s *Subscriber) Run(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := s.consume(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) > retryMax {
			failures = 0
		}
		pause := min(retryMin<<min(failures, 6), retryMax)
		failures++
		s.log.Warn("events cannot be taken from NATS; it is tried again", "stream", s.reader.source.NATS.Stream, "error", err, "again_in", pause.String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *Subscriber) consume(ctx context.Context) error {
	at := s.reader.source.NATS
	c, err := s.brokers.connect(ctx, at.URL, at.Credentials)
	if err != nil {
		return err
	}
	js, err := jetstream.New(c)
	if err != nil {
		return err
	}
	cctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	str, err := js.Stream(cctx, at.Stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", at.Stream, err)
	}
	consumer, err := str.Consumer(cctx, at.Consumer)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = str.CreateConsumer(cctx, jetstream.ConsumerConfig{Durable: at.Consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1})
	}
	if err != nil {
		return fmt.Errorf("consumer %s: %w", at.Consumer, err)
	}
	if n := consumer.CachedInfo().Config.MaxDeliver; n > 0 {
		s.log.Warn("the consumer gives up on a message after some deliveries: while the store is down for long, events could be lost", "max_deliver", n)
	}
	if consumer.CachedInfo().Config.AckPolicy != jetstream.AckExplicitPolicy {
		return fmt.Errorf("consumer %s does not acknowledge explicitly: events could be lost", at.Consumer)
	}
	// The creation of the stream is part of what identifies a message by its place: a stream made anew counts from 1 again.
	made := str.CachedInfo().Created.UTC().Format("20060102T150405.000000000Z")
	for ctx.Err() == nil {
		batch, err := consumer.Fetch(fetchBatch, jetstream.FetchMaxWait(fetchWait))
		if err != nil {
			return err
		}
		var storing sync.WaitGroup
		for msg := range batch.Messages() {
			// Together, so that the store can commit them together.
			storing.Go(func() { s.take(ctx, msg, made) })
		}
		storing.Wait()
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return err
		}
	}
	return nil
}

// take records a message and acknowledges it after the commit. A message that cannot be read is recorded too, held for a person:
// JetStream would deliver it for ever, or forget it.
func (s *Subscriber) take(ctx context.Context, msg jetstream.Msg, made string) {
	meta, err := msg.Metadata()
	if err != nil {
		s.log.Error("a message without JetStream's metadata is left", "subject", msg.Subject(), "error", err)
		return
	}
	e, err := s.read(msg, meta, made)
	if errors.Is(err, errIgnored) {
		s.acked(msg.Ack())
		return
	}
	poison := err != nil
	if poison {
		e = s.unreadable(e, meta, made, err)
	}
	// A shutdown lets the commit end.
	_, err = s.inbox.record(context.WithoutCancel(ctx), s.reader, e)
	if err != nil && !poison && permanent(err) {
		poison = true
		e = s.unreadable(e, meta, made, err)
		_, err = s.inbox.record(context.WithoutCancel(ctx), s.reader, e)
	}
	switch {
	case err != nil:
		s.log.Warn("an event could not be stored; it will come again", "sequence", meta.Sequence.Stream, "error", err)
		s.acked(msg.NakWithDelay(nakDelay))
	case poison:
		s.log.Error("an event cannot be read; it is held for a person", "sequence", meta.Sequence.Stream, "intent_id", e.ID, "problem", e.Problem)
		s.acked(msg.TermWithReason("unreadable: recorded as " + e.ID))
	default:
		s.acked(msg.Ack())
	}
}

// permanent reports whether recording the same event again would fail again.
func permanent(err error) bool {
	switch effectonce.CodeOf(err) {
	case effectonce.CodeInvalid, effectonce.CodeNotCanonical, effectonce.CodeIntentIncomplete, effectonce.CodeTooLarge:
		return true
	}
	return false
}

// acked logs an acknowledgement that did not go out: the message comes again and is recognised.
func (s *Subscriber) acked(err error) {
	if err != nil {
		s.log.Warn("an event was not acknowledged; it will come again", "error", err)
	}
}

func (s *Subscriber) read(msg jetstream.Msg, meta *jetstream.MsgMetadata, made string) (Event, error) {
	header := http.Header{}
	for name, values := range msg.Headers() {
		key := http.CanonicalHeaderKey(name)
		header[key] = append(header[key], values...)
	}
	if len(msg.Data()) > BodyBytesMax {
		return Event{Source: s.reader.source.Name, Type: msg.Subject()}, &effectonce.Error{Code: effectonce.CodeTooLarge, Field: "body", Detail: "the body is larger than 1 MiB"}
	}
	e, err := s.reader.read(header, msg.Data())
	if err != nil {
		return e, err
	}
	if e.Type == "" {
		e.Type = msg.Subject()
		if only := s.reader.source.Only; len(only) > 0 && !slices.Contains(only, e.Type) {
			return e, errIgnored
		}
	}
	if e.ID == "" {
		id := header.Get(jetstream.MsgIDHeader)
		if id == "" {
			// No escaped header has a % that two hex digits do not follow.
			e.ID = fmt.Sprintf("%s%%seq:%s.%d", meta.Stream, made, meta.Sequence.Stream)
		} else {
			e.ID = escape(id, "")
		}
	}
	return e, nil
}

// unreadable is the event that stands for a message without an id of its own: held, with its body, until a person decides.
func (s *Subscriber) unreadable(e Event, meta *jetstream.MsgMetadata, made string, why error) Event {
	e.ID = fmt.Sprintf("%s%%unreadable:%s.%d", meta.Stream, made, meta.Sequence.Stream)
	e.Run = ""
	e.Problem = why.Error()
	return e
}
