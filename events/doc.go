// Package events takes events in and sends events out: sources whose senders are verified, consumers, and the relay of the outbox to
// webhooks and NATS JetStream (S9).
//
// [Source] and [Route] are its settings, as plain data: whoever reads a configuration makes them.
//
// The API is unstable.
package events
