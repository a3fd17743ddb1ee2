// Package integration holds the tests against software that others wrote: the npm package stripe-stateful-mock as provider,
// and Stripe's official Go client to create charges and to read back which refunds exist. It is a module of its own, so that
// what it needs stays out of the program.
//
// The double differs from Stripe: it has no 409 for a key in flight, forgets no key, answers one request at a time, and keeps a failed
// validation under the key. So it proves nothing about those; the twin's tests do.
//
// The tests in sdk_*_test.go drive official SDKs through the egress proxy, against moto, the npm package emulate, and Effectonce's own twin of
// Square's contract, which nobody else plays. Each prints a table: effects without and with the proxy. moto checks no signatures, obeys no ClientToken and
// refuses to be asked by one; emulate's Slack and GitHub know no keys, as theirs do not.
package integration
