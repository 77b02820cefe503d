// Package clock estimates the store's time inside a process. Deadlines, leases and heartbeats are compared only with
// the store's clock. The clock of a node's machine may show any time and may be set at any time.
//
// A Sample compares the two clocks: the store read its time at some point between a question and its answer. An
// Estimate is derived from the samples and advances by the process's monotonic clock, so a step of the machine's clock
// has no effect. Its error is half of the round trip, and grows slowly until the next sample. Estimate is pure: it gets
// every time that it uses. Clock holds the latest estimate for all callers. A nil Clock, and one without a sample, uses
// the machine's clock.
//
// To learn whether a time of the store has come, ask Clock.Now. To wait for it, or to compare it many times, convert it
// once to a time of the process with Clock.Local. For the age of a row in the store, ask Clock.Since, which does not
// count the steps of the store's clock that this process saw.
//
// The package reads no store, decides nothing and logs nothing.
package clock
