// Package general plays any provider that a contract describes: a runnable simulator whose operations, key places, scopes, windows,
// comparisons, replays and look-ups are those of a contract file, and whose resources and error bodies come from a small behaviour file,
// or where that says nothing from the contract's own examples. What really happened is counted in a ledger under /_twin/.
//
// Most of a behaviour file can be left out: a created resource is the request's body with id, stamp and key where the contract
// says that a resource shows them; a list holds its items where the contract's look-up reads them; an error is the example of the
// contract that has its meaning. See [Behaviour].
//
// A twin that is made from a contract shows what happens if the contract is right, and with [Config.Breaks] what happens if the
// provider does not keep it. It cannot show that the contract is right: it was read from the same file.
//
// It knows contracts and nothing else of the project: no store, no guard, no adapter.
package general
