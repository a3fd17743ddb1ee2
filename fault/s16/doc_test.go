// Package s16 holds the tests of the specification's table of faults (S16) with real processes: agents and background workers
// are processes of their own that share a SQLite file or a PostgreSQL database, are killed by SIGKILL at a named point or stopped by SIGSTOP, and call
// a provider twin in yet another process. What counts is the twin's ledger and the stored state, not what anybody answered.
//
// Rows 7 and 16 are tested where events arrive and agents run: events, cmd/effectonce and examples, row 20 here and there.
//
// All processes read one clock, the machine's plus an offset in a file. A test that needs a lease or a window to end moves
// the offset (and the twin's clock with it) instead of waiting.
package s16_test
