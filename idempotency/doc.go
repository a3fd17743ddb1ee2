// Package idempotency is net/http middleware for tool servers: a request with an Idempotency-Key takes effect once, however often
// it is sent, and is answered with the stored answer (S12.1). It implements draft-ietf-httpapi-idempotency-key-header-07 over the
// guard: each request is an operation whose intent id is the client's key.
//
// Wrap a handler in one of two ways:
//
//   - plain: the handler runs once, under a claim that is kept by a heartbeat. Where its end is not known (the process died, the
//     handler panicked), the key answers 409 until a look-up or a person tells; the handler does not run again by itself.
//   - in a transaction (Options.Begin): what the handler changes through [Tx] and its answer become real together. A crash leaves
//     nothing, and a retry runs it again.
//
// What a client sees is recorded before: an answer is held until it is on record. One that is flushed or larger than what is held
// streams, but its end is sent only after the record; where that fails the connection is cut, so that nobody takes it for whole.
//
// Put authentication, rate limits and whatever else refuses requests before the middleware: what the handler behind it answers is
// stored and replayed, refusals included.
package idempotency
