// Package chaos judges what is left of a run in which the node, its workers, its guardian and its callers' connections
// were taken away at random moments: from the callers' own log, the stored executions with their events, and the log
// of side effects that the actions wrote themselves, it says which promises were broken, with a minimal trace each.
// It is a pure function of these three and starts, reads and decides nothing else. Its tests show that every rule
// can fail; the suites beside it, in the test files, drive the real binary and hand it what they gathered.
//
// Its tests take long: even a reduced storm strikes whole nodes many times, and waits for their leases and for all work to end.
package chaos
