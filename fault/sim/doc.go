// Package sim is the seeded simulator: several workers, a provider, a store, a person and one virtual clock, driven through
// random or all schedules of crashes, delays, lost answers and pauses. What runs is the production guard over the production
// memory store; only the ports are decorated. No rule is written down here a second time: what is checked after each step is the
// provider's ledger, the messages that can still arrive, and the stored rows against them (S5.1, S16).
//
// [Run] walks random schedules from a seed; [Replay] repeats one from its one-line plan, and shrinks it on request with
// [Shrink]; [Enumerate] walks all schedules of a small setting.
//
//	go test ./fault/sim -run TestSimulator -sim.duration=60s            random schedules for a minute
//	go test ./fault/sim -run TestSimulator -sim.plan="kind=keyed | ..."  one plan again
//	go test ./fault/sim -run TestEnumerate -v                           all schedules of the small settings, with their number
//
// # What is simulated
//
// A worker is a process with one call under way at a time: a coroutine that hands control back before each store call, before and
// after each provider step and while it sleeps, so that a schedule can do anything in between. A crash unwinds the coroutine
// where it stands and forgets the guard; what it has sent stays on the way.
//
// The provider keeps its declared bounds: the first byte leaves at most Terms.Pause after the worker's last check of its deadline,
// arrives at most Terms.Transit later and is processed within Terms.Processing (S5.11). A schedule cannot move the clock past
// such a bound before the message is delivered, dropped or processed. A worker that is paused anywhere else may be paused for as
// long as the schedule likes. What goes beyond the declared bounds is outside what the guard promises, and is not simulated.
//
// The person tells the truth: confirms what is in the provider's ledger, and says absent where nothing is there at that moment,
// never accepting the risk of being early. Whether that moment is too early is for the guard to refuse.
//
// Time is counted in ticks of a minute, so that the guard's own real timers never fire within a run.
package sim
