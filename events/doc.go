// Package events brings events in and out (S9).
//
// Coming in, an event is an operation: (tenant, source, event id) is an intent, so that a redelivered, reordered or concurrent
// delivery is the same operation, with one run (S9.1). [Inbox] checks and records deliveries over HTTP and hands events to
// consumers, [Subscriber] takes them from NATS JetStream, [ReceiveTx] is the form inside the caller's own transaction.
//
// Going out, [Relay] delivers what transactions appended to the outbox: at least once, in the order of each subject, under a stable
// id; what cannot be delivered is parked, visibly, and its subject waits (S9.2).
//
// The package is not part of the project's API promise, except for [Event] and [ReceiveTx].
package events
