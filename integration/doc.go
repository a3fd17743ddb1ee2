// Package integration holds the tests against software that others wrote: the npm package stripe-stateful-mock as provider,
// and Stripe's official Go client to create charges and to read back which refunds exist. It is a module of its own, so that
// what it needs stays out of the program.
//
// The double differs from Stripe: it has no 409 for a key in flight, forgets no key, answers one request at a time, and keeps a failed
// validation under the key. So it proves nothing about those; the twin's tests do.
package integration
