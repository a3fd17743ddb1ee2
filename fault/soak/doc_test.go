// Package soak kills daemons for as long as one likes: two real daemons share a store, several clients give them intents, decide steps
// of runs and run into limits, the provider's answers are faulty, and again and again one of the daemons, or both, gets SIGKILL or is
// stopped for longer than its leases, and comes back. In the end everything must have settled, and the provider's ledger must be
// exactly what the store says.
//
//	EFFECTONCE_SOAK=1000 go test ./fault/soak -v -timeout 0     a thousand kills on each store
//
// Without EFFECTONCE_SOAK there are a few kills. EFFECTONCE_SOAK_SEED repeats a run's choices, though not its timing.
package soak_test
