// Package twin is a provider to test against: a runnable simulator of a payment provider that refunds,
// with a ledger of what really happened, so that effects can be counted instead of guessed from answers.
//
// It has two layers. [Model] is the provider's state as plain values: no HTTP, no goroutine, no clock of its own,
// cheap to clone and to hash, for simulators that walk through many schedules. [Server] speaks HTTP in the manner
// of Stripe's API v1 on top of one Model, with printable fault plans ([Plan]) and a control plane under /_twin/ for
// which [Control] is the client.
//
// Three kinds of provider are played by the same endpoints, so that one client meets all of them:
//
//	keyed   remembers Idempotency-Key for Rules.Retention from its first receipt, and can be looked up
//	lookup  ignores the key; refunds carry their metadata and can be listed
//	none    ignores the key, drops the metadata, cannot be looked up
//
// # What is modelled, and from where
//
// From https://docs.stripe.com/api/idempotent_requests and https://docs.stripe.com/error-low-level: keys of up to 255
// characters on POST; the status and body of the first request are stored once its processing has begun, 500s and declines included,
// and replayed with Idempotent-Replayed and Original-Request; 401, 429, failed validation and a conflict with a request
// in flight come before that layer and are not stored; other parameters under a used key are an idempotency_error; a key older than 24
// hours may be forgotten, and then makes a new request. From https://docs.stripe.com/api/pagination,
// https://docs.stripe.com/search and https://docs.stripe.com/api/metadata: newest first, limit 1 to 100, has_more; a search index
// that lags; 50 metadata keys of 40 characters with values of 500. From https://docs.stripe.com/api/events: request.idempotency_key.
//
// Where it is not Stripe: refunds can be searched (Stripe searches charges, payment intents and others, not refunds); a
// charge ch_X and a payment intent pi_X are the same payment, captured with Rules.Captured unless a refund exceeds that;
// a payment whose name begins with pi_declined or ch_declined declines; a currency is accepted with every refund; a key is
// forgotten at exactly its retention; an exceeded amount is stored under the key like a decline; there is one account.
//
// A twin that was built from the same reading as its clients proves that they agree with that reading, not that
// the reading is right.
package twin
