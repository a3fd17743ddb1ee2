// Package egress guards what a provider's own client sends: a proxy whose address an official SDK gets as its base URL, and the same as an
// http.RoundTripper for Go programs (S14.4).
//
// A [Route] leads to one provider, and nowhere else. Requests without an effect pass through as they come, unread, without the store. A write is
// matched with an operation of the provider's contract, gets its intent from headers or from a tool policy, and goes through the guard: it is
// frozen, its key is put over the client's random one, it is sent once, and its answer is kept and given back byte for byte, to each repeat too.
// A write without an intent, or one that nobody described, is refused, or passed where the configuration says so; it is never silently
// unguarded.
//
// Bodies and credentials are in no log, metric or error of this package. The API is unstable.
package egress
