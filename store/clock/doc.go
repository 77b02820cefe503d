// Package clock estimates the store's time inside a process. The store's clock is the only one that deadlines, leases and
// heartbeats are compared with; the clock of the machine that a node runs on may stand anywhere and may be set at any time.
//
// A Sample compares the two clocks: the store told its time at some moment between a question and its answer. An Estimate
// is what the samples say, and goes on from there by the process's monotonic clock, so a step of the machine's clock means
// nothing. Its error is half of the round trip, and grows slowly while nothing is compared. Estimate is pure: it is given
// every time that it uses. Clock holds the latest estimate for all who compare; a nil Clock, and one that has compared
// nothing yet, takes the machine's clock for the store's.
//
// Whoever has a time of the store and wants to know whether it has come asks Clock.Now. Whoever waits for it, or compares it
// many times, turns it into a moment of the process once, with Clock.Local. Whoever wants the age of something in the store
// asks Clock.Since, which does not count the steps of the store's clock that this process saw.
//
// The package reads no store, decides nothing and logs nothing.
package clock
