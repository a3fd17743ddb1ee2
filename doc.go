// Package effectonce makes every authorised intent take effect once, however often it is delivered,
// re-decided, replayed or raced; where nobody can know, it says so and stops, and a person decides.
//
// This package is the core: the vocabulary of the specification, its rules as pure functions, and the
// protocol that ties them to a store and a provider. Read it top-down:
//
//   - [Intent], [Key]: what somebody authorised, and its identity (S3)
//   - [Operation], [State], [Terms]: the durable row an intent becomes, and the rules fixed for it (S5, S3.11)
//   - [Next]: every change of an operation, as a pure function (S5)
//   - [Reconcile]: what to do with an operation whose outcome is not known, as a pure table (S7.3)
//   - [Guard]: claim, attempt, record, reconcile (S3 to S7)
//   - [Store], [Provider]: the two ports
//
// The core imports neither SQL, HTTP nor MCP. Time comes in through [Clock] and the store's own clock.
package effectonce
