// Package fault is the fault kit (S14.7, S16): crash points and lost answers that are put around a store, a provider or an
// HTTP transport from outside, by a [Plan] that prints and parses as one line:
//
//	crash after create; error before apply:attempt_ended#1-2; pause 5s before call#1; stop after call; error after send:POST
//
// The code under test knows nothing of it: [Store], [Provider] and [Transport] decorate the ports. A crash is a real
// SIGKILL to the process, a stop a real SIGSTOP, unless [Actions] say otherwise.
//
// [RunProbe] tries every crash window on a user's own tool, without the guard and with it, in child processes that
// really die, and counts what happened at the tool.
//
// The sub-package twin is a provider to test against. Production code never imports this package.
package fault
